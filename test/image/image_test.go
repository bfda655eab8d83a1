// SPDX-License-Identifier: Apache-2.0

//go:build image

// Package image builds the image of the Dockerfile on bases that debootstrap makes, because registries cannot
// be reached everywhere, and runs it in containers (make image-test). It needs root, debootstrap, podman,
// buildah and crun.
package image

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
	"gpufabric_exporter/ncclprobe/ncclprobetest"
)

// revision is what the image is built as.
const revision = "abc1234"

// podman is a store of images and containers that lasts as long as a test.
type podman struct {
	store   string
	image   string   // that is run
	program []string // by which it is started in a container
}

// confined is how containers run: as Kubernetes runs those that `restricted` allows. Limits above those of
// the caller need CAP_SYS_RESOURCE.
var confined = []string{
	"run", "--rm", "--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096",
	"--no-healthcheck", // whose timers are systemd's
	"--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges",
}

func (p podman) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "./container.sh", append([]string{p.store}, args...)...)
	cmd.Stdin = strings.NewReader("") // a pipe: crun gives the standard input to the user of the container, and /dev/null is the host's
	return cmd
}

// try returns what podman writes to both of its streams.
func (p podman) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := p.command(t.Context(), args...).CombinedOutput()
	return string(out), err
}

func (p podman) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.try(t, args...)
	if err != nil {
		t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// run runs the image, confined.
func (p podman) run(t *testing.T, flags []string, args ...string) (string, error) {
	t.Helper()
	return p.try(t, p.args(flags, args...)...)
}

func (p podman) args(flags []string, args ...string) []string {
	all := append(append([]string{}, confined...), flags...)
	return append(append(all, p.image), args...)
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestImage builds the image once and runs it in all the ways that docs/KUBERNETES.md names.
func TestImage(t *testing.T) {
	p := podman{t.TempDir(), "localhost/exporter", []string{"/bin/gpufabric_exporter"}}
	owner := command(t, "stat", "-c", "%u:%g", "/dev/null")
	t.Cleanup(func() {
		if now := command(t, "stat", "-c", "%u:%g", "/dev/null"); now != owner {
			t.Errorf("/dev/null of the host belongs to %s, and did to %s before: set it back", now, owner)
		}
	})
	p.build(t)
	t.Run("build", p.testBuild)
	t.Run("reproduced", p.testReproduced)
	t.Run("arm64", p.testARM64)
	t.Run("serves", p.testServes)
	t.Run("namespaces", p.testNamespaces)
	t.Run("gpus", p.testGPUs)
	t.Run("nccl", p.testNCCL)
}

// testBuild wants the program to know what it is, although .git is not in the context, and nothing beside it.
func (p podman) testBuild(t *testing.T) {
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	want := "version " + strings.TrimSpace(string(version)) + " (branch: , revision: " + revision + ")"
	if out, err := p.run(t, []string{"--network=none"}, "--version"); err != nil || !strings.Contains(out, want) {
		t.Errorf("%v, expected %q in %q", err, want, out)
	}
	for format, want := range map[string]string{
		"{{.Config.User}}": "65534:65534",
		`{{index .Config.Labels "org.opencontainers.image.revision"}}`: revision,
		"{{.Config.Entrypoint}}":   "[/bin/gpufabric_exporter]",
		"{{.Config.ExposedPorts}}": "map[10791/tcp:{}]",
	} {
		if got := strings.TrimSpace(p.do(t, "image", "inspect", "--format="+format, "localhost/exporter")); got != want {
			t.Errorf("%s is %s, expected %s", format, got, want)
		}
	}
	if out, err := p.run(t, []string{"--network=none", "--entrypoint=/bin/sh"}, "-c", "true"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("the image has a shell: %v %s", err, out)
	}
}

// serve starts the exporter in a container with a name and returns its metrics, which it waits for.
func (p podman) serve(t *testing.T, name string, flags []string, args ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var said strings.Builder
	c := p.command(context.WithoutCancel(t.Context()), p.args(append(flags, "--name="+name, "--network=host"), append(args, "--web.listen-address="+address)...)...)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_, _ = p.command(context.Background(), "stop", "--time=5", name).CombinedOutput() // which removes it
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	})
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("it ended: %v", err)
		default:
		}
		if r, err := http.Get("http://" + address + "/-/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				continue
			}
			check := append(append([]string{"exec", name}, p.program...), "healthcheck", "--url=http://"+address+"/-/ready")
			if out, err := p.try(t, check...); err != nil || out != "ready\n" {
				t.Errorf("healthcheck: %v, %q", err, out)
			}
			r, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatalf("%v, %s", err, r.Status)
			}
			return string(body)
		}
	}
	t.Fatal("it was never ready")
	return ""
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("expected %q", p)
		}
	}
}

// documented returns the options of docs/INSTALL.md that all containers of this test do not have, with an
// empty folder for its volume.
func documented(t *testing.T) (more []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", ""), "\n    podman run --detach --name=gpufabric_exporter ")
	command, _, _ = strings.Cut(command, "\n")
	flags, image := strings.Fields(command), "registry.example.com/gpufabric_exporter:VERSION"
	if !found || len(flags) < 2 || flags[len(flags)-1] != image {
		t.Fatalf("docs/INSTALL.md does not run %s: %q", image, command)
	}
	for _, f := range flags[:len(flags)-1] {
		if folder, rest, _ := strings.Cut(f, ":"); folder == "--volume=/etc/gpufabric_exporter" {
			more = append(more, "--volume="+shared(t)+":"+rest)
		} else if f != "--network=host" && !slices.Contains(confined, f) {
			t.Errorf("docs/INSTALL.md has %s, with which this test runs no container", f)
		}
	}
	return more
}

// testServes runs it as docs/INSTALL.md does, with no capability, no writable file and no network of its own,
// as user 65534.
func (p podman) testServes(t *testing.T) {
	metrics := p.serve(t, "plain", documented(t))
	contains(t, metrics, "gpufabric_exporter_build_info{", `revision="`+revision+`"`, "gpufabric_node_info{")
	if out, err := p.try(t, "exec", "plain", "/bin/gpufabric_exporter", "healthcheck", "--url=http://127.0.0.1:1/-/healthy"); err == nil || !strings.Contains(out, "connection refused") {
		t.Errorf("healthcheck of nothing: %v, %q", err, out)
	}
}

// testNamespaces holds what the chart says: with the network namespace of the host, /sys of the container shows the
// interfaces of the host, and no mount of the host's /sys is needed. Without it, both are needed and not
// enough: sockets ask the container's own namespace.
func (p podman) testNamespaces(t *testing.T) {
	host, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, e := range host {
		if plain := strings.TrimRight(e.Name(), "0123456789"); plain == "eth" || plain == "ens" || plain == "eno" { // captures replace others
			name = e.Name()
		}
	}
	if name == "" {
		t.Skip("this machine has no network interface with a plain name such as eth0")
	}
	for _, c := range []struct {
		what  string
		flags []string
		path  string
		seen  bool
	}{
		{"host network, own /sys", []string{"--network=host"}, "/sys", true},
		{"own network, own /sys", []string{"--network=none"}, "/sys", false},
		{"own network, /sys of the host", []string{"--network=none", "--volume=/sys:/host/sys:ro"}, "/host/sys", true},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "capture.tar.gz")
		out, err := p.run(t, append(c.flags, "--volume="+dir+":/out"), "capture", "--path.sysfs="+c.path, "--config.file=none", "--file=/out/"+filepath.Base(file))
		if err != nil {
			t.Errorf("%s: %v\n%s", c.what, err, out)
			continue
		}
		listing := command(t, "tar", "-tzf", file)
		if seen := strings.Contains(listing+"\n", "sys/class/net/"+name+"\n"); seen != c.seen {
			t.Errorf("%s: interface %s is seen: %v\n%s", c.what, name, seen, out)
		}
	}
}

// loaded is where the container toolkit of NVIDIA mounts the libraries of the driver.
const loaded = "/usr/lib/x86_64-linux-gnu/"

// mounts are flags that mount files of a folder in another.
func mounts(from, to string, names ...string) (flags []string) {
	for _, name := range names {
		flags = append(flags, "--volume="+filepath.Join(from, name)+":"+filepath.Join(to, name)+":ro")
	}
	return flags
}

// driver is flags that mount a stand-in for NVML, and a procfs in which the driver is loaded.
func driver(t *testing.T) []string {
	t.Helper()
	dir := shared(t)
	library := nvmltest.Build(t, dir)
	nvmltest.Describe(t, library, "gpus 2", "processes 0")
	return append(mounts(dir, loaded, filepath.Base(library), filepath.Base(library)+".machine"), "--volume="+procfs(t)+":/host/proc:ro")
}

// testGPUs runs it as the runtime class of NVIDIA does, which mounts the library of the driver.
func (p podman) testGPUs(t *testing.T) {
	contains(t, p.serve(t, "gpus", driver(t), "--path.procfs=/host/proc"), "gpufabric_gpu_info{", `index="1"`)
	metrics := p.serve(t, "passive", []string{"--volume=" + procfs(t) + ":/host/proc:ro"}, "--path.procfs=/host/proc")
	contains(t, metrics, "\ngpufabric_gpu_driver_loaded 1\n", "\n"+`gpufabric_scrape_collector_supported{collector="gpu"} 0`, "\n"+`gpufabric_exporter_facts_unknown{device="",reason="missing",uuid=""} `)
	if strings.Contains(metrics, "gpufabric_gpu_info{") {
		t.Error("GPUs are known without the library of the driver")
	}
}

// testNCCL probes with NCCL in an image like those of jobs: with a Python package or a library that the loader finds.
func (p podman) testNCCL(t *testing.T) {
	dir := shared(t)
	ncclprobetest.Build(t, dir, "2.27.3")
	ncclprobetest.Describe(t, dir, "gpus 2")
	for what, at := range map[string]string{"package": "/usr/local/lib/python3.12/site-packages/nvidia/nccl/lib", "loader": loaded} {
		flags := append(driver(t), mounts(dir, loaded, ncclprobetest.CUDA)...)
		flags = append(flags, mounts(dir, at, ncclprobetest.NCCL, "machine")...)
		if at != loaded {
			flags = append(flags, mounts(dir, loaded, "machine")...)
		}
		// As the tier probes of the chart: a root that can become another user.
		flags = append(flags, "--network=host", "--tmpfs=/run:rw,mode=0755", "--user=0:0", "--cap-add="+capabilities(t, "probes"))
		out, err := p.run(t, flags, "probe", "transport", "--even-if-busy", "--path.procfs=/host/proc", "--log.level=debug")
		if err != nil || !strings.Contains(out, "2.27.3") || strings.Contains(out, "run as root") || strings.Contains(out, "runs as root") {
			t.Errorf("%s: %v", what, err)
		}
		t.Log(out)
	}
}

// shared is a folder whose files containers may read.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(fmt.Errorf("folder of libraries: %w", err))
		}
	}
	return dir
}

// capabilities are those that the chart adds in a tier.
func capabilities(t *testing.T, tier string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/" + tier + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "add: [")
	list, _, ended := strings.Cut(list, "]")
	if !found || !ended {
		t.Fatalf("the manifest of the tier %s adds no capabilities", tier)
	}
	return strings.ReplaceAll(list, `"`, "")
}

// procfs is a folder in which procfs shows that the driver is loaded.
func procfs(t *testing.T) string {
	t.Helper()
	dir := shared(t)
	file := filepath.Join(dir, "driver/nvidia/version")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n"
	if err := os.WriteFile(file, []byte(version), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
