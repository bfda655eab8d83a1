// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// architectures are those of a release.
var architectures = []string{"amd64", "arm64"}

// emulator runs programs for arm64. It needs no library, so that it runs in a container.
const emulator = "/usr/bin/qemu-aarch64-static"

// base makes an image of a folder.
func (p podman) base(t *testing.T, folder, name string, flags ...string) {
	t.Helper()
	archive := folder + ".tar"
	command(t, "tar", "-C", folder, "--numeric-owner", "-cf", archive, ".")
	p.do(t, append(append([]string{"import"}, flags...), archive, name)...)
	_ = os.Remove(archive)
}

// pinned returns an image as make pin writes it.
func (p podman) pinned(t *testing.T, name string) string {
	t.Helper()
	return name + "@" + strings.TrimSpace(p.do(t, "images", "--no-trunc", "--format={{.Digest}}", name))
}

// of returns the image of a list for an architecture.
func (p podman) of(t *testing.T, list, arch string) string {
	t.Helper()
	var content struct {
		Manifests []struct {
			Digest   string
			Platform struct{ Architecture string }
		}
	}
	if err := json.Unmarshal([]byte(p.do(t, "manifest", "inspect", list)), &content); err != nil {
		t.Fatal(err)
	}
	for _, m := range content.Manifests {
		if m.Platform.Architecture == arch {
			return list + "@" + m.Digest
		}
	}
	t.Fatalf("no image for %s: %+v", arch, content)
	return ""
}

// bases makes the images that the Dockerfile starts from: Debian with a compiler and this Go, and for each
// architecture the files of glibc alone.
func (p podman) bases(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "build")
	command(t, "debootstrap", "--variant=minbase", "--include=gcc,libc6-dev,make,ca-certificates,curl", "bookworm", root)
	command(t, "cp", "-a", command(t, "go", "env", "GOROOT"), filepath.Join(root, "usr/local/go"))
	p.base(t, root, "localhost/build", "--change=ENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"--change=ENV GOPROXY=file:///proxy", "--change=ENV GOSUMDB=off", "--change=ENV GOTOOLCHAIN=local")
	for _, arch := range architectures {
		packages, glibc := filepath.Join(dir, "packages-"+arch), filepath.Join(dir, "glibc-"+arch)
		command(t, "debootstrap", "--variant=minbase", "--download-only", "--arch="+arch, "bookworm", packages)
		deb, err := filepath.Glob(filepath.Join(packages, "var/cache/apt/archives/libc6_*.deb"))
		if err != nil || len(deb) != 1 {
			t.Fatalf("packages of glibc for %s: %q, %v", arch, deb, err)
		}
		command(t, "dpkg-deb", "--extract", deb[0], glibc)
		p.base(t, glibc, "localhost/glibc-"+arch, "--os=linux", "--arch="+arch)
	}
}

// built is the time in the image.
const built = "1795468957"

// build builds the image for all architectures as make image does, with the modules and the compiled packages
// of this user's caches.
func (p podman) build(t *testing.T) {
	t.Helper()
	p.bases(t)
	command(t, "go", "mod", "download", "-C", "../../tools/release")
	for _, arch := range architectures { // not at once: Podman 4.3 takes the first image of a list that is in its own store, whatever it is for
		p.buildFrom(t, "../..", "localhost/exporter", arch, command(t, "go", "env", "GOCACHE"))
		size := func(image string) string {
			return strings.TrimSpace(p.do(t, "image", "inspect", "--format={{.Size}}", image))
		}
		t.Logf("the image for %s has %s bytes, of which %s are its base", arch, size(p.of(t, "localhost/exporter", arch)), size("localhost/glibc-"+arch))
	}
}

// buildFrom builds the image for an architecture from the source in a folder.
func (p podman) buildFrom(t *testing.T, folder, name, arch, cache string) {
	t.Helper()
	builder, err := filepath.Abs("builder.sh")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), folder+"/packaging/image.sh", name, revision, arch)
	c.Env = append(os.Environ(), "IMAGE_BUILDER="+builder, "BUILD_IMAGE="+p.pinned(t, "localhost/build"), "RUNTIME_IMAGE="+p.pinned(t, "localhost/glibc-"+arch),
		"STORE="+p.store, "MODULES="+filepath.Join(command(t, "go", "env", "GOMODCACHE"), "cache/download"), "CACHE="+cache, "SOURCE_DATE_EPOCH="+built)
	c.Stdin = strings.NewReader("")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// testReproduced builds the image again, from another folder whose files have other times and without what
// was compiled: it is the same image.
func (p podman) testReproduced(t *testing.T) {
	dir := t.TempDir()
	command(t, "sh", "-c", `git -C ../.. ls-files -z | tar -C ../.. --null -T - -cf - | tar --touch -xf - -C "$0"`, dir)
	const name, again = "localhost/exporter", "localhost/again"
	p.buildFrom(t, dir, again, "amd64", t.TempDir())
	digest := p.of(t, name, "amd64")
	t.Log("the image for amd64 is ", digest)
	if got, want := strings.TrimPrefix(p.of(t, again, "amd64"), again), strings.TrimPrefix(digest, name); got != want {
		const what = "{{.Created}} {{.Config}} {{.RootFS.Layers}} {{.History}}"
		t.Errorf("it is %s, and then %s:\n%s\n%s", want, got, p.do(t, "image", "inspect", "--format="+what, name+want), p.do(t, "image", "inspect", "--format="+what, again+got))
	}
}

// testARM64 runs the image for arm64 by emulation.
func (p podman) testARM64(t *testing.T) {
	if _, err := os.Stat(emulator); err != nil {
		t.Skipf("the image for arm64 is built and not run: %v (Debian: apt-get install qemu-user-static)", err)
	}
	emulated := []string{"--volume=" + emulator + ":/emulator:ro", "--entrypoint=/emulator"}
	arm := podman{p.store, p.of(t, "localhost/exporter", "arm64"), []string{"/emulator", "/bin/gpufabric_exporter"}}
	out, err := arm.run(t, append(emulated, "--network=none"), "/bin/gpufabric_exporter", "--version")
	if err != nil || !strings.Contains(out, "linux/arm64") || !strings.Contains(out, "revision: "+revision) {
		t.Errorf("%v, %q", err, out)
	}
	contains(t, arm.serve(t, "arm64", emulated, "/bin/gpufabric_exporter"), "gpufabric_exporter_build_info{", `revision="`+revision+`"`, "gpufabric_node_info{")
}
