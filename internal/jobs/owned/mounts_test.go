// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const mounted = "GPUFABRIC_TEST_MOUNTED"

// Below the folder of the site, a file system that a user mounted is neither read nor waited for: here FUSE,
// whose program answers nothing. One of this machine is read. The test runs in user and mount namespaces of
// its own.
func TestMounts(t *testing.T) {
	if dir := os.Getenv(mounted); dir != "" {
		inNamespace(t, dir)
		return
	}
	ctx := t.Context()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMounts$", "-test.v", "-test.timeout=30s")
	cmd.Env = append(os.Environ(), mounted+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM):
		t.Skip("no user namespace can be made here: ", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func inNamespace(t *testing.T, dir string) {
	for _, name := range []string{"local", "fuse"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	plant(t, filepath.Join(dir, "plain/rank.log"))
	plant(t, filepath.Join(dir, "file.log"))
	if err := unix.Mount("none", dir+"/local", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	plant(t, filepath.Join(dir, "local/rank.log"))
	want := []string{"file.log", "local/rank.log", "plain/rank.log"}
	refused := 0
	if fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		t.Log("without FUSE: ", err)
	} else {
		options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fuse)
		if err := unix.Mount("silent", dir+"/fuse", "fuse", 0, options); err != nil {
			t.Fatal(err)
		}
		options = fmt.Sprintf("fd=%d,rootmode=100644,user_id=0,group_id=0,allow_other", opened(t))
		if err := unix.Mount("silent", dir+"/file.log", "fuse", 0, options); err != nil {
			t.Fatal(err)
		}
		want, refused = want[1:], 2
	}
	begun := time.Now()
	f := New(everything(dir, ".log"), nil)
	for range 2 {
		found := look(t, f)
		if list := paths(all(&found)); !slices.Equal(list, want) || found.Refused[fabric.RefusedUnreadable] != refused {
			t.Errorf("%v, refused %v, expected %v and %d", list, found.Refused, want, refused)
		}
		for _, file := range found.Files {
			in, err := file.Open()
			if err != nil {
				t.Fatal(err)
			}
			_ = in.Close()
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	// It is mounted between the look and the opening.
	found := look(t, f)
	for _, file := range found.Files {
		if !strings.HasPrefix(file.Path(), "plain/") || refused == 0 {
			continue
		}
		options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", opened(t))
		if err := unix.Mount("silent", dir+"/plain", "fuse", 0, options); err != nil {
			t.Fatal(err)
		}
		if in, err := file.Open(); !errors.Is(err, errElsewhere) {
			t.Errorf("%v, %v", in, err)
		}
	}
}

func opened(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
