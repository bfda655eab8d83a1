// SPDX-License-Identifier: Apache-2.0

// Package machine boots Debian 12 with systemd in containers of systemd-nspawn, for tests of packages and
// units. Only tests import it. It needs root and debootstrap, and changes nothing outside of containers and
// the cache of the user.
//
// A Machine belongs to the goroutine of its test, which ends if a required step fails.
package machine

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

// Unit is the service under test.
const Unit = "gpufabric_exporter.service"

// patience is how long a command, the boot and what is waited for may take.
const patience = 2 * time.Minute

// base returns a folder with Debian 12. It is made once.
func base(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
	for name, from := range map[string]string{
		"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap",
		"nsenter": "util-linux",
	} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install %s)", name, from)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "gpufabric-packages", "bookworm-3") // another number where what it has in it changes
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "new")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(made)
	if err := os.Chmod(made, 0o755); err != nil { //nolint:gosec // the root of a container
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "debootstrap", "--variant=minbase",
		"--include=systemd,systemd-sysv,dbus,rpm,dnf,curl", "bookworm", made).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("debootstrap: %v: %s", err, lines[len(lines)-1])
	}
	if err := os.Rename(made, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Machine is a container, a copy of the base.
type Machine struct {
	Root string // its /
	t    *testing.T
	pid  string // of its systemd; empty: it is not booted
}

// Unbooted returns a machine without processes, as an image is while it is built.
func Unbooted(t *testing.T) *Machine {
	t.Helper()
	m := &Machine{t: t, Root: filepath.Join(t.TempDir(), "root")}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", "-x", "--reflink=auto", base(t),
		m.Root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return m
}

// Booted returns a machine with a running systemd and a network of its own, until the test ends.
func Booted(t *testing.T) *Machine {
	t.Helper()
	m := Unbooted(t)
	nspawn := exec.Command("systemd-nspawn", "-q", "-D", m.Root, "--register=no", "--keep-unit",
		fmt.Sprintf("--machine=gpufabric-%d", os.Getpid()), "--private-network", "--console=pipe", "--boot",
		"--capability=CAP_BPF,CAP_SYSLOG", "--system-call-filter=bpf") // for DeviceAllow, and for the tier kernel
	// systemd denies devices by programs of control groups v2
	nspawn.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	var said strings.Builder
	nspawn.Stdin, nspawn.Stdout, nspawn.Stderr = strings.NewReader(""), &said, &said // no device of the host
	if err := nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- nspawn.Wait() }()
	t.Cleanup(func() {
		if m.pid != "" {
			_ = exec.Command("kill", "-KILL", m.pid).Run() // and with it all processes of the container
		}
		_ = nspawn.Process.Kill()
		<-ended //nolint:errcheck // it was killed
	})
	for deadline := time.After(patience); ; {
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
			m.pid = pids[0]
			if _, err := m.Try("systemctl", "is-active", "multi-user.target"); err == nil {
				return m
			}
		}
	}
}

// For returns the same machine for a test within the one that it was made for.
func (m *Machine) For(t *testing.T) *Machine {
	here := *m
	here.t = t
	return &here
}

// Run runs a command with some input, and returns what it prints.
func (m *Machine) Run(input string, args ...string) (string, error) {
	// also for what a test undoes at its end
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), patience)
	defer cancel()
	enter := []string{"chroot", m.Root}
	if m.pid != "" {
		enter = []string{"nsenter", "-t", m.pid, "-a", "--"}
	}
	args = append(append(enter, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
		"DEBIAN_FRONTEND=noninteractive"), args...)
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdin = strings.NewReader(input) // a pipe, and no device of the host
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Try runs a command that may fail.
func (m *Machine) Try(args ...string) (string, error) { return m.Run("", args...) }

// Must runs a command that has to succeed.
func (m *Machine) Must(args ...string) string {
	m.t.Helper()
	out, err := m.Try(args...)
	if err != nil {
		m.t.Fatalf("%v: %v\n%s\n%s", args, err, out, m.Log())
	}
	return out
}

// Log is what the service logged last.
func (m *Machine) Log() string {
	out, _ := m.Try("journalctl", "--no-pager", "-o", "cat", "-n", "30", "-u", Unit)
	return out
}

// Property is one of the service's.
func (m *Machine) Property(name string) string {
	m.t.Helper()
	return m.Must("systemctl", "show", "--value", "-p", name, Unit)
}

// PID is the process of the service; "0": it does not run.
func (m *Machine) PID() string {
	m.t.Helper()
	return m.Property("MainPID")
}

// Scrape returns the metrics, as Prometheus gets them once the service is started.
func (m *Machine) Scrape() string {
	m.t.Helper()
	return m.Must("curl", "-sS", "--fail", "--max-time", "60", "http://localhost:10791/metrics")
}

// Until waits for something that happens at some time.
func (m *Machine) Until(what string, done func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: it does not happen\n%s", what, m.Log())
		}
	}
}

// Write writes a file, outside of what the machine mounts.
func (m *Machine) Write(path, text string) {
	m.t.Helper()
	file := filepath.Join(m.Root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// Put copies a file to /root, and returns its name there.
func (m *Machine) Put(file string) string {
	m.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	name := "/root/" + filepath.Base(file)
	m.Write(name, string(text))
	return name
}

// Read returns the text of a file, outside of what the machine mounts.
func (m *Machine) Read(path string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Root, path))
	if err != nil {
		m.t.Error(err)
	}
	return string(text)
}

// Has reports whether there is such a file.
func (m *Machine) Has(path string) bool {
	_, err := os.Lstat(filepath.Join(m.Root, path))
	return err == nil
}
