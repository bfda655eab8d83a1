// SPDX-License-Identifier: Apache-2.0

// Package packaging_test tests the scripts in this folder that no other test runs.
package packaging_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A release image is built on bases that are pinned by digest, and on no others.
func TestImageIsPinned(t *testing.T) {
	build := func(env ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "./image.sh", "exporter:1", "abc1234")
		c.Env = append(os.Environ(), append(env, "IMAGE_BUILDER=echo")...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	golang, base := "example.com/golang:1.26"+digest, "example.com/base"+digest
	for _, wrong := range []string{"example.com/base:nonroot", "example.com/base@sha256:0123", "example.com/base" + digest + "0", "a b" + digest} {
		for _, env := range [][]string{{"BUILD_IMAGE=" + golang, "RUNTIME_IMAGE=" + wrong}, {"BUILD_IMAGE=" + wrong, "RUNTIME_IMAGE=" + base}} {
			if out, err := build(env...); err == nil || !strings.Contains(out, "is '"+wrong+"', expected NAME@sha256:DIGEST: write the digest into packaging/images") || strings.Contains(out, "--build-arg") {
				t.Errorf("%v: %v\n%s", env, err, out)
			}
		}
	}
	out, err := build("BUILD_IMAGE="+golang, "RUNTIME_IMAGE="+base)
	if want := "build --build-arg BUILD_IMAGE=" + golang + " --build-arg RUNTIME_IMAGE=" + base + " --build-arg REVISION=abc1234 --tag exporter:1 .\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// The file names the images that the Dockerfile builds on for itself.
func TestImagesAreThoseOfTheDockerfile(t *testing.T) {
	images, err := os.ReadFile("images")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"BUILD_IMAGE", "RUNTIME_IMAGE"} {
		_, value, found := strings.Cut(string(images), "\n"+name+"=")
		value, _, _ = strings.Cut(value, "\n")
		value, _, _ = strings.Cut(value, "@")
		if !found || !strings.Contains(string(dockerfile), "\nARG "+name+"="+value+"\n") {
			t.Errorf("%s is %q in packaging/images, and another in the Dockerfile", name, value)
		}
	}
}
