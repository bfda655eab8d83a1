// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is a user that no test runs as.
const stranger = 4711

// lay makes a file below a new root, with what is to be wrong with it.
func lay(t *testing.T, change func(root string)) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"etc/site", "home/u", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(root, "etc/site/conf"))
	change(root)
	return root
}

func put(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, file string, mode uint32) {
	t.Helper()
	if err := unix.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, at string) {
	t.Helper()
	if err := os.Symlink(target, at); err != nil {
		t.Fatal(err)
	}
}

// Every way in which another user decides what a privileged process reads, and the layouts of real hosts that are none.
func TestOthers(t *testing.T) {
	const conf = "/etc/site/conf"
	for _, c := range []struct {
		name   string
		path   string
		root   bool // only root can lay it out
		others bool
		absent bool
		change func(root string)
	}{
		{name: "a file of ours", path: conf, change: func(string) {}},
		{name: "relative, with dots", path: "./etc/../etc//site/conf/", change: func(string) {}},
		{name: "link to a file of ours", path: "/tmp/link", change: func(r string) { link(t, conf, r+"/tmp/link") }},
		{name: "file writable for all", path: conf, others: true, change: func(r string) { chmod(t, r+conf, 0o646) }},
		{name: "folder writable for all", path: conf, others: true, change: func(r string) { chmod(t, r+"/etc/site", 0o757) }},
		{name: "folder above writable for all", path: conf, others: true, change: func(r string) { chmod(t, r+"/etc", 0o757) }},
		{name: "root writable for all", path: conf, others: true, change: func(r string) { chmod(t, r, 0o757) }},
		{name: "link into a folder writable for all", path: conf, others: true, change: func(r string) {
			put(t, r+"/home/u/conf")
			chmod(t, r+"/home/u", 0o777)
			if err := os.Remove(r + conf); err != nil {
				t.Fatal(err)
			}
			link(t, "../../home/u/conf", r+conf)
		}},
		{name: "link in a folder writable for all", path: "/home/u/link", others: true, change: func(r string) {
			chmod(t, r+"/home/u", 0o777)
			link(t, conf, r+"/home/u/link")
		}},
		{name: "back out of a folder writable for all", path: "/home/u/../../etc/site/conf", others: true, change: func(r string) { chmod(t, r+"/home/u", 0o777) }},
		{name: "ours in a sticky folder", path: "/tmp/conf", change: func(r string) {
			chmod(t, r+"/tmp", 0o1777)
			put(t, r+"/tmp/conf")
		}},
		{name: "absent", path: "/etc/site/none", absent: true, change: func(string) {}},
		{name: "absent in a folder writable for all", path: "/home/u/none", others: true, change: func(r string) { chmod(t, r+"/home/u", 0o777) }},
		{name: "absent in a sticky folder", path: "/tmp/none", others: true, change: func(r string) { chmod(t, r+"/tmp", 0o1777) }},
		{name: "a sticky folder itself", path: "/tmp", others: true, change: func(r string) { chmod(t, r+"/tmp", 0o1777) }},
		{name: "a sticky folder by its child", path: "/tmp/d/..", others: true, change: func(r string) {
			chmod(t, r+"/tmp", 0o1777)
			if err := os.Mkdir(r+"/tmp/d", 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "another's file", path: conf, root: true, others: true, change: func(r string) { chown(t, r+conf, stranger, 0) }},
		{name: "another's folder", path: conf, root: true, others: true, change: func(r string) { chown(t, r+"/etc/site", stranger, 0) }},
		{name: "another's file in a sticky folder", path: "/tmp/conf", root: true, others: true, change: func(r string) {
			chmod(t, r+"/tmp", 0o1777)
			put(t, r+"/tmp/conf")
			chown(t, r+"/tmp/conf", stranger, stranger)
		}},
		{name: "another's link in a sticky folder", path: "/tmp/link", root: true, others: true, change: func(r string) {
			chmod(t, r+"/tmp", 0o1777)
			link(t, conf, r+"/tmp/link")
			if err := os.Lchown(r+"/tmp/link", stranger, stranger); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "writable for another's group", path: conf, root: true, others: true, change: func(r string) {
			chown(t, r+conf, 0, stranger)
			chmod(t, r+conf, 0o664)
		}},
		{name: "writable for root's group", path: conf, root: true, change: func(r string) { chmod(t, r+conf, 0o664) }},
		{name: "writable by an ACL", path: conf, root: true, others: true, change: func(r string) {
			// version 2; the owner rw-, user 4711 rw-, the group r--, the mask rw-, others r--
			const none = "\xff\xff\xff\xff"
			acl := "\x02\x00\x00\x00" + "\x01\x00\x06\x00" + none + "\x02\x00\x06\x00\x67\x12\x00\x00" + "\x04\x00\x04\x00" + none + "\x10\x00\x06\x00" + none + "\x20\x00\x04\x00" + none
			if err := unix.Setxattr(r+conf, "system.posix_acl_access", []byte(acl), 0); err != nil {
				t.Skipf("no ACLs here: %v", err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			root := lay(t, c.change)
			_, err := Check(root, c.path)
			if errors.Is(err, fs.ErrPermission) != c.others || errors.Is(err, fs.ErrNotExist) != c.absent || (err != nil) != (c.others || c.absent) {
				t.Errorf("Check: %v", err)
			}
			f, err := Open(root, c.path)
			if err == nil {
				defer f.File.Close()
			}
			if (f.Others != nil) != c.others {
				t.Errorf("Open: %v, %v", f.Others, err)
			}
		})
	}
}

func chown(t *testing.T, file string, uid, gid int) {
	t.Helper()
	if err := os.Chown(file, uid, gid); err != nil {
		t.Fatal(err)
	}
}

// What is judged is what is read: a link that is swapped all the time never gives the content of one file and
// the verdict on another.
func TestSwap(t *testing.T) {
	root := lay(t, func(string) {})
	bad, conf := filepath.Join(root, "home/u/conf"), filepath.Join(root, "etc/site/conf")
	if err := os.WriteFile(bad, []byte("evil"), 0o666); err != nil {
		t.Fatal(err)
	}
	chmod(t, bad, 0o666)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			target := []string{"../home/u/conf", "site/conf"}[i%2]
			at := filepath.Join(root, "etc/new")
			_ = os.Symlink(target, at)
			_ = os.Rename(at, filepath.Join(root, "etc/link"))
		}
	}()
	defer func() { close(stop); <-done }()
	seen := map[string]int{}
	for i := 0; i < 200_000 && (i < 2000 || len(seen) < 2); i++ {
		f, err := Open(root, "etc/link")
		if err != nil {
			continue // between two links
		}
		text, err := io.ReadAll(f.File)
		f.File.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen[string(text)]++
		if (string(text) == "evil") != (f.Others != nil) {
			t.Fatalf("%q: %v", text, f.Others)
		}
	}
	if len(seen) != 2 {
		t.Fatalf("saw %v of %s and %s", seen, bad, conf)
	}
}

// FIFOs and devices are neither waited for nor opened, which others could notice.
func TestOpenIsForFiles(t *testing.T) {
	root := lay(t, func(r string) {
		if err := syscall.Mkfifo(r+"/etc/fifo", 0o644); err != nil {
			t.Fatal(err)
		}
		link(t, "loop", r+"/etc/loop")
	})
	for path, want := range map[string]error{
		"/etc/fifo": ErrNotRegular, "/etc": ErrNotRegular, "/": ErrNotRegular, "": ErrNotRegular,
		"/etc/loop": syscall.ELOOP, "/etc/site/conf/x": syscall.ENOTDIR, "/none": fs.ErrNotExist,
		"/" + strings.Repeat("x", 300): syscall.ENAMETOOLONG,
	} {
		if f, err := Open(root, path); !errors.Is(err, want) || f.File != nil {
			t.Errorf("%s: %v, expected %v", path, err, want)
		}
	}
	before := descriptors(t)
	for range 50 {
		_, _ = Open(root, "/etc/loop")
		_, _ = Check(root, "/etc/../etc/site/conf")
		_, _ = Open(root, "/etc/site")
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestPublic(t *testing.T) {
	for name, c := range map[string]struct {
		change func(root string)
		want   bool
	}{
		"all may read":          {func(string) {}, true},
		"a file of mode 0640":   {func(r string) { chmod(t, r+"/etc/site/conf", 0o640) }, false},
		"a folder of mode 0750": {func(r string) { chmod(t, r+"/etc/site", 0o750) }, false},
		"a folder not to list":  {func(r string) { chmod(t, r+"/etc/site", 0o711) }, true},
		"the root of mode 0700": {func(r string) { chmod(t, r, 0o700) }, false},
	} {
		root := lay(t, c.change)
		if f, err := Check(root, "/etc/site/conf"); err != nil || f.Public != c.want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}
