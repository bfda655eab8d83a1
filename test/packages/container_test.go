// SPDX-License-Identifier: Apache-2.0

//go:build packages

// Package packages tests what make packages and make archive wrote to bin/packages: it installs, upgrades and removes the packages
// under the real systemd of Debian 12, in containers of systemd-nspawn. It needs root and debootstrap, and changes nothing outside
// of containers and the cache of the user.
package packages

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
	unit    = "gpufabric_exporter.service"
	config  = "/etc/gpufabric_exporter/config.yml"
	options = "/etc/default/gpufabric_exporter"
	state   = "/var/lib/gpufabric_exporter"
	program = "/usr/bin/gpufabric_exporter"

	patience = 2 * time.Minute
)

// base returns a folder with Debian 12, systemd and rpm. It is made once.
func base(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
	for name, from := range map[string]string{"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap", "nsenter": "util-linux", "curl": "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install %s)", name, from)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "gpufabric-packages", "bookworm-1") // another number where what it has in it changes
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
	out, err := exec.CommandContext(t.Context(), "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,rpm", "bookworm", made).CombinedOutput()
	if err != nil {
		t.Skipf("debootstrap: %v: %s", err, lastLine(out))
	}
	if err := os.Rename(made, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// container is a copy of the base.
type container struct {
	t      *testing.T
	root   string
	leader string // PID of its systemd; empty: it is not booted
}

// unbooted returns a container without processes, as an image is while it is built.
func unbooted(t *testing.T) *container {
	t.Helper()
	c := &container{t: t, root: filepath.Join(t.TempDir(), "root")}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", "-x", "--reflink=auto", base(t), c.root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return c
}

// booted returns one with a running systemd.
func booted(t *testing.T) *container {
	t.Helper()
	c := unbooted(t)
	nspawn := exec.Command("systemd-nspawn", "-q", "-D", c.root, "--register=no", "--keep-unit", fmt.Sprintf("--machine=packages-%d", os.Getpid()), "--private-network", "--console=pipe", "--boot")
	var said strings.Builder
	nspawn.Stdin, nspawn.Stdout, nspawn.Stderr = strings.NewReader(""), &said, &said // no device of the host
	if err := nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- nspawn.Wait() }()
	t.Cleanup(func() {
		if c.leader != "" {
			_ = exec.Command("kill", "-KILL", c.leader).Run() // and with it all processes of the container
		}
		_ = nspawn.Process.Kill()
		<-ended
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
			c.leader = pids[0]
			if _, err := c.try("systemctl", "is-active", "multi-user.target"); err == nil {
				return c
			}
		}
	}
}

// try runs a command in the container.
func (c *container) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	enter := []string{"chroot", c.root}
	if c.leader != "" {
		enter = []string{"nsenter", "-t", c.leader, "-a", "--"}
	}
	args = append(append(enter, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"), args...)
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must runs a command that has to succeed, and returns what it prints.
func (c *container) must(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		log, _ := c.try("journalctl", "--no-pager", "-n", "30", "-u", unit)
		c.t.Fatalf("%v: %v\n%s\n%s", args, err, out, log)
	}
	return out
}

// put copies a file into the container, and returns its name there.
func (c *container) put(file string) string {
	c.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	name := "/root/" + filepath.Base(file)
	c.write(name, string(text))
	return name
}

func (c *container) write(path, text string) {
	c.t.Helper()
	file := filepath.Join(c.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) read(path string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.root, path))
	if err != nil {
		c.t.Error(err)
	}
	return string(text)
}

func (c *container) has(path string) bool {
	_, err := os.Lstat(filepath.Join(c.root, path))
	return err == nil
}

// pid is the process of the service; "0": it does not run.
func (c *container) pid() string {
	c.t.Helper()
	return c.must("systemctl", "show", "--value", "-p", "MainPID", unit)
}

// serves fails the test unless the service runs without root and answers scrapes.
func (c *container) serves() {
	c.t.Helper()
	c.must("systemctl", "is-active", unit)
	if user := c.must("stat", "-c", "%U", "/proc/"+c.pid()); user != "root" && user != "gpufabric_exporter" { // root: undumpable
		c.t.Errorf("/proc of the service belongs to %s", user)
	}
	if status := c.must("grep", "-E", "^(Uid|CapEff)", "/proc/"+c.pid()+"/status"); strings.Contains(status, "Uid:\t0") || !strings.Contains(status, "CapEff:\t0000000000000000") {
		c.t.Errorf("the service is privileged: %s", status)
	}
	out, err := exec.CommandContext(c.t.Context(), "nsenter", "-t", c.leader, "-n", "curl", "-sS", "--fail", "--max-time", "60", "http://127.0.0.1:10791/metrics").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\ngpufabric_exporter_build_info{") {
		c.t.Errorf("the service does not answer scrapes: %v\n%.500s", err, out)
	}
}

// left returns the files of the product that are in the container, but for those that were put there.
func (c *container) left() []string {
	c.t.Helper()
	out := c.must("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/root", "-o", "-path", "/run", ")", "-prune", "-o", "-iname", "*gpufabric*", "-print")
	return strings.Fields(out)
}
