// SPDX-License-Identifier: Apache-2.0

//go:build systemd

// Package systemd_test follows docs/INSTALL.md and starts the units of packaging/systemd under the real systemd, in a container of
// systemd-nspawn with the /usr of this machine. It needs root, and changes nothing on this machine.
package systemd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	repository = "../.."
	unit       = "gpufabric_exporter"
	runtime    = "/run/systemd/system/" + unit + ".service.d/" // where the tests put drop-ins
	eventually = 2 * time.Minute
)

// machine is a booted container.
type machine struct {
	t      *testing.T
	root   string // its / but for /usr
	leader string // PID of its systemd
}

// archive is what a release has for hosts without packages; docs/INSTALL.md installs it.
const archive = "gpufabric_exporter-VERSION.linux-amd64"

// boot starts a container. What it mounts is in a mount namespace of its own, and gone with it.
func boot(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers of systemd-nspawn need root")
	}
	for program, from := range map[string]string{"systemd-nspawn": "systemd-container", "nsenter": "util-linux", "curl": "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install %s)", program, from)
		}
	}
	source, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &machine{t: t, root: filepath.Join(dir, "root")}
	for _, name := range []string{"usr", "etc", "var", "run", "tmp", "proc", "sys", "dev", "root", "home"} {
		if err := os.MkdirAll(filepath.Join(m.root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(m.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n") // else every unit of this machine is enabled at the first boot
	m.write("/etc/systemd/system/lab.target", "[Unit]\nRequires=sysinit.target\nAfter=sysinit.target\nWants=systemd-journald.service\n")

	script := []string{
		"set -e", "cd " + source, "root=" + m.root, "upper=" + dir + "/upper", "mkdir $upper", "mount -t tmpfs none $upper", "mkdir $upper/files $upper/work",
		"mount -t overlay overlay -o lowerdir=/usr,upperdir=$upper/files,workdir=$upper/work $root/usr",
	}
	script = append(script, "tar -czf $root/root/"+archive+".tar.gz --transform=s,^,"+archive+"/, -C bin gpufabric_exporter -C ../packaging config.yml systemd")
	script = append(script, fmt.Sprintf(
		"exec systemd-nspawn -q -D $root --register=no --keep-unit -M gpufabric-%d --private-network --console=pipe --boot -- --unit=lab.target", os.Getpid()))
	nspawn := exec.Command("unshare", "--mount", "--propagation=private", "sh", "-c", strings.Join(script, "\n"))
	var said strings.Builder
	nspawn.Stdin, nspawn.Stdout, nspawn.Stderr = strings.NewReader(""), &said, &said // no device of the host
	if err := nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- nspawn.Wait() }()
	t.Cleanup(func() {
		if m.leader != "" {
			_ = exec.Command("kill", "-KILL", m.leader).Run() // and with it all processes of the container
		}
		_ = nspawn.Process.Kill()
		<-ended
	})
	deadline := time.After(eventually)
	for {
		select {
		case err := <-ended:
			ended <- err
			t.Skipf("no container can be started here: %v: %s", err, said.String())
		case <-deadline:
			t.Fatalf("the container does not boot: %s", said.String())
		case <-time.After(100 * time.Millisecond):
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", nspawn.Process.Pid))
		if pids := strings.Fields(string(children)); len(pids) == 1 {
			if m.leader = pids[0]; m.fails("systemctl", "is-active", "lab.target") == nil {
				m.mountSysfs()
				return m
			}
		}
	}
}

// mountSysfs replaces the parts of sysfs that nspawn shows in a tmpfs by all of it, read-only: the exporter tells this host from a
// copy by it.
func (m *machine) mountSysfs() {
	m.t.Helper()
	m.must("sh", "-ec", "mkdir /run/cgroup; mount --rbind /sys/fs/cgroup /run/cgroup; mount -t sysfs -o ro sysfs /sys; mount --rbind /run/cgroup /sys/fs/cgroup")
}

// write writes a file of the container, outside of /usr and of what it mounts.
func (m *machine) write(path, text string) {
	m.t.Helper()
	file := filepath.Join(m.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// run runs a command in the container, with some input.
func (m *machine) run(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), eventually)
	defer cancel()
	c := exec.CommandContext(ctx, "nsenter", append([]string{"-t", m.leader, "-a", "--"}, args...)...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	return string(out), err
}

// must runs a command that has to succeed, and returns what it prints.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	out, err := m.run("", args...)
	if err != nil {
		m.t.Fatalf("%v: %v\n%s\n%s", args, err, out, m.log())
	}
	return strings.TrimSpace(out)
}

// fails runs a command, and returns why it did not succeed.
func (m *machine) fails(args ...string) error {
	_, err := m.run("", args...)
	return err
}

// dropIn sets lines of the unit besides those that are installed; none: no others.
func (m *machine) dropIn(lines ...string) {
	m.t.Helper()
	m.must("mkdir", "-p", runtime)
	if out, err := m.run("[Service]\n"+strings.Join(lines, "\n")+"\n", "sh", "-c", "cat >"+runtime+"50-test.conf"); err != nil {
		m.t.Fatal(err, out)
	}
	m.must("systemctl", "daemon-reload")
}

// tiers enables tiers and no others, as docs/INSTALL.md says.
func (m *machine) tiers(names ...string) {
	m.t.Helper()
	m.must("rm", "-rf", "/etc/systemd/system/"+unit+".service.d")
	m.must("mkdir", "-p", "/etc/systemd/system/"+unit+".service.d")
	for _, name := range names {
		m.must("ln", "-s", "/usr/share/gpufabric_exporter/tiers/"+name+".conf", "/etc/systemd/system/"+unit+".service.d/")
	}
	m.must("systemctl", "daemon-reload")
}

// log is what the unit logged last.
func (m *machine) log() string {
	out, _ := m.run("", "journalctl", "--no-pager", "-o", "cat", "-n", "30", "-u", unit)
	return out
}

// property is one of the unit's.
func (m *machine) property(name string) string {
	m.t.Helper()
	return m.must("systemctl", "show", "--value", "-p", name, unit)
}

// scrape returns the metrics, as Prometheus gets them once the unit is started.
func (m *machine) scrape() string {
	m.t.Helper()
	return m.must("curl", "-sS", "--fail", "--max-time", "60", "http://localhost:10791/metrics")
}

// until waits for something that happens at some time.
func (m *machine) until(what string, done func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(eventually); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: it does not happen\n%s", what, m.log())
		}
	}
}
