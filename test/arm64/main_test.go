// SPDX-License-Identifier: Apache-2.0

//go:build qemu

package arm64

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const (
	stage   = "GPUFABRIC_ARM64_STAGE" // what this program is: empty for the tests
	emulate = "/usr/bin/qemu-aarch64-static"
	// libraries are those of Debian's cross compiler: the loader, the C library.
	libraries = "/usr/aarch64-linux-gnu/lib"
	// format is how the kernel knows programs for arm64: ELF, 64 bit, little endian, executable or
	// position-independent, machine 183.
	format = `:arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:` +
		`\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:` + emulate + `:PF`
)

// TestMain is also what go test starts programs for arm64 by. It runs them, and what they start, where the
// kernel starts such programs by qemu: in a user namespace, which has formats of programs of its own (Linux
// 6.7). This machine does not change.
func TestMain(m *testing.M) {
	switch os.Getenv(stage) {
	case "":
		os.Exit(m.Run())
	case "outside":
		os.Exit(enter(os.Args[1:]))
	case "inside":
		code, err := inside(os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "no program for arm64 can be started:", err)
		}
		os.Exit(code)
	}
}

// enter runs a program inside and returns its exit code.
func enter(args []string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	all := []syscall.SysProcIDMap{{Size: 1 << 16}} // other users, too: workers are run as one
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), stage+"=inside")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
		Pdeathsig: syscall.SIGKILL,
	}
	err = c.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		return ended.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
}

// inside runs a program as the first process of a PID namespace, which ends all others with itself.
func inside(args []string) (code int, err error) {
	program, err := surroundings(args[0])
	if err != nil {
		return 1, err
	}
	child, err := syscall.ForkExec(program, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 1, err
	}
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, err
		case pid == child && status.Signaled():
			return 1, errors.New(status.Signal().String())
		case pid == child:
			return status.ExitStatus(), nil
		}
	}
}

// surroundings makes what a program for arm64 needs, and returns where it then is.
func surroundings(program string) (string, error) {
	own, err := os.MkdirTemp("", "arm64")
	if err != nil {
		return "", err
	}
	if err := syscall.Mount("none", own, "tmpfs", 0, ""); err != nil {
		return "", fmt.Errorf("tmpfs: %w", err)
	}
	for _, name := range []string{"formats", "bin", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(own, name), 0o755); err != nil {
			return "", err
		}
	}
	formats := filepath.Join(own, "formats")
	if err := syscall.Mount("none", formats, "binfmt_misc", 0, ""); err != nil {
		return "", fmt.Errorf("binfmt_misc in a user namespace, as since Linux 6.7: %w", err)
	}
	if err := os.WriteFile(filepath.Join(formats, "register"), []byte(format), 0); err != nil {
		return "", err
	}
	if err := syscall.Mount("none", "/proc", "proc", 0, ""); err != nil {
		return "", fmt.Errorf("proc: %w", err)
	}
	// Where the loader of arm64 is expected. No library of this machine has the name of one there.
	layers := fmt.Sprintf("lowerdir=%s:/usr/lib,upperdir=%s/upper,workdir=%[2]s/work", libraries, own)
	if err := syscall.Mount("overlay", "/usr/lib", "overlay", 0, layers); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	// Stand-ins for libraries are compiled by tests.
	cross, err := exec.LookPath("aarch64-linux-gnu-gcc")
	if err != nil {
		return "", err
	}
	if err := os.Symlink(cross, filepath.Join(own, "bin", "gcc")); err != nil {
		return "", err
	}
	// Workers that run as another user start it again. They may not look into the folder of go test.
	here := filepath.Join(own, "bin", filepath.Base(program))
	if err := os.WriteFile(here, nil, 0o755); err != nil {
		return "", err
	}
	if err := syscall.Mount(program, here, "", syscall.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return here, errors.Join(os.Chmod(own, 0o755), os.Setenv("PATH", filepath.Join(own, "bin")+":"+os.Getenv("PATH")), os.Unsetenv(stage))
}
