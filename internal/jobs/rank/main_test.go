// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// helper is the environment variable that makes this program a process to look at.
const helper = "GPUFABRIC_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) != "" {
		runtime.LockOSThread() // others run in other threads
		if err := help(); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// help runs in a process of its own: it puts devices into a /dev that no other process sees, opens and maps what the
// variables say, and waits for its standard input to end. With SCRIPT a shell goes on with what is open.
func help() error {
	if pid := os.Getenv("LOOK"); pid != "" {
		return lookAs(pid)
	}
	if node := os.Getenv("CONTEXT"); node != "" {
		if err := verbsContext(node); err != nil {
			return err
		}
	}
	if os.Getenv("OWN_DEV") != "" {
		if err := ownDev(strings.Fields(os.Getenv("NODES"))); err != nil {
			return err
		}
	}
	for name := range strings.FieldsSeq(os.Getenv("FIFO")) {
		if err := unix.Mkfifo(name, 0o666); err != nil {
			return err
		}
	}
	if name, target, ok := strings.Cut(os.Getenv("LINK"), " "); ok {
		if err := os.Symlink(target, name); err != nil {
			return err
		}
	}
	for name := range strings.FieldsSeq(os.Getenv("OPEN")) {
		fd, err := unix.Open(name, unix.O_RDWR, 0)
		if err == nil { // scripts use the numbers below 10; it stays open over execve(2), as not all are closed by programs
			_, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 20)
			err = errors.Join(err, unix.Close(fd))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name := range strings.FieldsSeq(os.Getenv("MAP")) {
		if err := mapFile(name); err != nil {
			return err
		}
	}
	if folder := os.Getenv("MAPS"); folder != "" {
		if err := mapOften(folder); err != nil {
			return err
		}
	}
	if script := os.Getenv("SCRIPT"); script != "" {
		return unix.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// verbsContext opens a context of verbs in a thread that is not the first of the process, and lives as long as it does.
func verbsContext(node string) error {
	fd, err := unix.Open(node, unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", node, err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		response := make([]byte, 8) // struct ib_uverbs_get_context_resp
		var p runtime.Pinner
		p.Pin(&response[0])
		defer p.Unpin()
		// struct ib_uverbs_cmd_hdr of IB_USER_VERBS_CMD_GET_CONTEXT: 4 words in, 2 out; then where the response goes.
		b := binary.NativeEndian.AppendUint32(nil, 0)
		b = binary.NativeEndian.AppendUint16(b, 4)
		b = binary.NativeEndian.AppendUint16(b, 2)
		b = binary.NativeEndian.AppendUint64(b, uint64(uintptr(unsafe.Pointer(&response[0]))))
		_, err := unix.Write(fd, b)
		if err == nil && unix.Gettid() == os.Getpid() {
			err = errors.New("this is the first thread")
		}
		done <- err
		select {}
	}()
	return <-done
}

// ownDev mounts a /dev of its own: that of the machine stays as it is.
func ownDev(nodes []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}
	if err := os.MkdirAll("/dev/shm", 0o755); err != nil {
		return err
	}
	null := int(unix.Mkdev(1, 3))
	for _, name := range append([]string{"/dev/null"}, nodes...) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(name, unix.S_IFCHR|0o666, null); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.Chmod(name, 0o666); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}

func mapFile(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return err
	}
	_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// mapOften makes as many mappings of a file with as long a path as the kernel lets a user have.
func mapOften(folder string) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	name := strings.Repeat("a", 250)
	for range 15 {
		if err := errors.Join(os.Mkdir(name, 0o700), os.Chdir(name)); err != nil {
			return err
		}
	}
	f, err := os.Create("file")
	if err != nil {
		return err
	}
	for i := range 60_000 {
		if _, err := unix.Mmap(int(f.Fd()), 0, 4096, i%2*unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
			return fmt.Errorf("%d mappings: %w", i, err)
		}
	}
	return nil
}

// needRoot skips where no mount namespace can be made.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: a /dev of its own needs a mount namespace")
	}
}

// spawned is a running helper.
type spawned struct {
	*exec.Cmd
	lines *bufio.Reader
	input io.WriteCloser
}

// spawn starts a helper with these variables and waits until it is ready.
func spawn(t testing.TB, attr *syscall.SysProcAttr, files []*os.File, env ...string) *spawned {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append([]string{helper + "=1"}, env...)
	cmd.ExtraFiles = files
	cmd.SysProcAttr = attr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Skipf("no process with namespaces of its own: %v", err)
	}
	s := &spawned{cmd, bufio.NewReader(output), input}
	t.Cleanup(func() { input.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line := s.line(t); line != "ready" {
		t.Fatalf("helper says %q", line)
	}
	return s
}

func (s *spawned) line(t testing.TB) string {
	t.Helper()
	line, err := s.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("helper: %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// inDev are the attributes and variables of a process with a /dev of its own.
func inDev() *syscall.SysProcAttr { return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS} }
