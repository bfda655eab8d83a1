// SPDX-License-Identifier: Apache-2.0

// Package packaging_test tests the scripts in this folder that no other test runs.
package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// A release image is built on bases that are pinned by digest, and on no others, with the time of the commit.
func TestImageIsPinned(t *testing.T) {
	builder := filepath.Join(t.TempDir(), "podman")
	if err := os.WriteFile(builder, []byte("#!/bin/sh\necho \"$*${SOURCE_DATE_EPOCH+, and SOURCE_DATE_EPOCH}\"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	build := func(env ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "./image.sh", "exporter:1", "abc1234", "amd64", "arm64")
		c.Env = append(os.Environ(), append([]string{"SOURCE_DATE_EPOCH=1795468957", "IMAGE_BUILDER=" + builder}, env...)...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	golang, base := "example.com/golang:1.26"+digest, "example.com/base"+digest
	for _, wrong := range []string{"example.com/base:nonroot", "example.com/base@sha256:0123", "example.com/base" + digest + "0", "a b" + digest} {
		for _, env := range [][]string{{"BUILD_IMAGE=" + golang, "RUNTIME_IMAGE=" + wrong}, {"BUILD_IMAGE=" + wrong, "RUNTIME_IMAGE=" + base}} {
			if out, err := build(env...); err == nil || !strings.Contains(out, "is '"+wrong+"', expected NAME@sha256:DIGEST: run make pin, and commit packaging/images") || strings.Contains(out, "--build-arg") {
				t.Errorf("%v: %v\n%s", env, err, out)
			}
		}
	}
	if out, err := build("BUILD_IMAGE="+golang, "RUNTIME_IMAGE="+base, "SOURCE_DATE_EPOCH="); err == nil || !strings.Contains(out, "expected the time of the commit") {
		t.Errorf("without the time of the commit: %v\n%s", err, out)
	}
	out, err := build("BUILD_IMAGE="+golang, "RUNTIME_IMAGE="+base)
	if want := "build --format oci --timestamp 1795468957 --platform linux/amd64,linux/arm64 --build-arg BUILDPLATFORM=linux/" + runtime.GOARCH + " --build-arg BUILD_IMAGE=" + golang +
		" --build-arg RUNTIME_IMAGE=" + base + " --build-arg REVISION=abc1234 --manifest exporter:1 .\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// make pin writes the digests that a registry returns, keeps everything else, and can be repeated. If one of them is
// missing, it writes nothing.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	file, skopeo := filepath.Join(dir, "images"), filepath.Join(dir, "skopeo")
	original, err := os.ReadFile("images")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // one is a program
			t.Fatal(err)
		}
	}
	pin := func(golang, base string) (text, said string, err error) {
		t.Helper()
		write(skopeo, `#!/bin/sh
[ "$1 $2 $3" = 'inspect --format {{.Digest}}' ] || exit 9
case $4 in
docker://docker.io/library/golang:*) echo '`+golang+`' ;;
docker://gcr.io/distroless/*@*) exit 8 ;;
docker://gcr.io/distroless/*) echo '`+base+`' ;;
*) exit 7 ;;
esac
`)
		c := exec.CommandContext(t.Context(), "./pin.sh", file)
		c.Env = append(os.Environ(), "SKOPEO="+skopeo)
		out, err := c.CombinedOutput()
		got, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatal(readErr)
		}
		return string(got), string(out), err
	}
	digest := func(of string) string { return "sha256:" + strings.Repeat(of, 64) }
	unpinned := regexp.MustCompile("@sha256:[0-9a-f]+").ReplaceAllString(string(original), "")
	write(file, unpinned)
	for _, wrong := range []string{"", "latest", "sha256:0123"} {
		if text, said, err := pin(digest("a"), wrong); err == nil || text != unpinned || !strings.Contains(said, "the digest is '"+wrong+"', expected sha256:") {
			t.Errorf("%q: %v, %s\n%s", wrong, err, said, text)
		}
	}
	for _, of := range []string{"a", "b"} {
		text, said, err := pin(digest(of), digest("c"))
		if err != nil || said != "" || strings.ReplaceAll(strings.ReplaceAll(text, "@"+digest(of), ""), "@"+digest("c"), "") != unpinned {
			t.Fatalf("%v, %s\n%s", err, said, text)
		}
		c := exec.CommandContext(t.Context(), "sh", "-c", ". "+file+`; SOURCE_DATE_EPOCH=1 IMAGE_BUILDER=echo BUILD_IMAGE="$BUILD_IMAGE" RUNTIME_IMAGE="$RUNTIME_IMAGE" ./image.sh exporter:1 abc1234 amd64`)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "golang:") || !strings.Contains(string(out), "@"+digest(of)+" ") || !strings.Contains(string(out), "@"+digest("c")+" ") {
			t.Errorf("make image does not take what is pinned: %v: %s", err, out)
		}
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
