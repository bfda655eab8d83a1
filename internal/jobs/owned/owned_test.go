// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// everything takes all files that end so, in the folder itself and those in it.
func everything(folder, end string) []Tree {
	return []Tree{{
		Folder: folder,
		Enter:  func(depth int, _ string) bool { return depth < 2 },
		Take:   func(_ int, name string) bool { return strings.HasSuffix(name, end) },
	}}
}

func plant(t testing.TB, file string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func look(t testing.TB, f *Finder) Found {
	t.Helper()
	found, err := f.Look()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func paths(files []File) []string {
	var list []string
	for i := range files {
		list = append(list, files[i].Path())
	}
	slices.Sort(list)
	return list
}

func all(found *Found) []File {
	var list []File
	for _, f := range found.Files {
		list = append(list, f)
	}
	return list
}

// A folder with more names than one owner may have takes nothing from others, whatever its name, and its
// owner is named.
func TestManyNames(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the files of several users")
	}
	dir := t.TempDir()
	for i := range maxNames + 200 {
		plant(t, fmt.Sprintf("%s/aaa/%d.log", dir, i))
	}
	for _, name := range []string{"job", "zzz"} {
		plant(t, filepath.Join(dir, name, "rank0.log"))
	}
	for name, uid := range map[string]int{"aaa": 1001, "job": 1002} {
		if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	f := New(everything(dir, ".log"), nil)
	for range 3 {
		found := look(t, f)
		if list := paths(all(&found)); !slices.Contains(list, "job/rank0.log") || !slices.Contains(list, "zzz/rank0.log") {
			t.Errorf("found %d files, not those of others", len(list))
		}
		s := fabric.ShortageOf(found.Lost)
		if s.Owners != 1 || s.Most != (fabric.FileOwner{UID: 1001}) || found.Whole || found.Refused[fabric.RefusedTooMany] == 0 {
			t.Errorf("%+v, %v", s, found.Refused)
		}
	}
	found := look(t, f)
	owners := map[string]fabric.FileOwner{}
	for _, file := range found.Files {
		owners[file.Path()] = file.Owner
	}
	if owners["job/rank0.log"] != (fabric.FileOwner{UID: 1002}) || owners["zzz/rank0.log"] != (fabric.FileOwner{Folder: "zzz"}) {
		t.Errorf("%v, %v", owners["job/rank0.log"], owners["zzz/rank0.log"])
	}
}

// In a folder that all write to, one who fills it delays others by a few looks at most: a look goes on where
// the last one stopped, and what was found is not forgotten.
func TestFilledFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o1777); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		plant(t, fmt.Sprintf("%s/%d.other", dir, i))
	}
	for i := range 40 {
		plant(t, fmt.Sprintf("%s/rank%d.log", dir, i))
	}
	f := New(everything(dir, ".log"), nil)
	now := time.Duration(0)
	f.spent = func() time.Duration { now += ownTime / 60; return now }
	f.piece = 1 << 10
	if found := look(t, f); found.Whole || len(found.Files) == 40 {
		t.Fatalf("%d files in the first look, which should have stopped before", len(found.Files))
	}
	before := 0
	for looks := 2; ; looks++ {
		found := look(t, f)
		if len(found.Files) < before {
			t.Fatalf("look %d forgets: %d files after %d", looks, len(found.Files), before)
		}
		if before = len(found.Files); before == 40 {
			break
		}
		if looks == 30 {
			t.Fatalf("%d files after %d looks", before, looks)
		}
	}
	if err := os.Remove(dir + "/rank7.log"); err != nil {
		t.Fatal(err)
	}
	if found := look(t, f); len(found.Files) != 39 {
		t.Errorf("%d files after one is gone", len(found.Files))
	}
}

// Time that one owner takes is not that of others.
func TestTimeOfAnOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the files of several users")
	}
	dir := t.TempDir()
	for i := range 300 {
		plant(t, fmt.Sprintf("%s/aaa/%d/rank.log", dir, i))
	}
	for i := range 30 {
		plant(t, fmt.Sprintf("%s/job%d/rank.log", dir, i))
	}
	f := New(everything(dir, ".log"), nil)
	now := time.Duration(0)
	f.spent = func() time.Duration { now += time.Millisecond / 2; return now }
	found := look(t, f)
	others := 0
	for _, file := range found.Files {
		if !strings.HasPrefix(file.Path(), "aaa/") {
			others++
		}
	}
	if s := fabric.ShortageOf(found.Lost); others != 30 || s.Most.Folder != "aaa" {
		t.Errorf("%d files of others, %+v", others, s)
	}
}

// Of many files each owner has one in turn; dates in the future are worth nothing.
func TestChoose(t *testing.T) {
	now := time.Now()
	file := func(uid uint32, inode uint64, age time.Duration) File {
		return File{Identity: Identity{1, inode}, Name: strconv.FormatUint(inode, 10), Owner: fabric.FileOwner{UID: uid}, Changed: now.Add(-age)}
	}
	var files []File
	for i := range 100 {
		files = append(files, file(1, uint64(1000+i), -time.Hour), file(2, uint64(2000+i), time.Duration(i)*time.Second))
	}
	files = append(files, file(3, 3, time.Minute), file(1, 1, time.Minute))
	found := Found{Refused: map[fabric.Refusal]int{}, Lost: map[fabric.FileOwner]int{}}
	chosen := found.Choose(files, now, 64)
	of := map[uint32]int{}
	for _, f := range chosen {
		of[f.Owner.UID]++
	}
	if len(chosen) != 64 || of[3] != 1 || of[1] < 31 || of[2] < 31 {
		t.Errorf("%v of %d", of, len(chosen))
	}
	if !slices.ContainsFunc(chosen, func(f File) bool { return f.Inode == 1 }) || slices.ContainsFunc(chosen, func(f File) bool { return f.Inode == 2090 }) {
		t.Error("not the newest that can be believed")
	}
	if found.Refused[fabric.RefusedTooMany] != 202-64 || found.Lost[fabric.FileOwner{UID: 3}] != 0 || found.Lost[fabric.FileOwner{UID: 1}] < 60 {
		t.Errorf("%v, %v", found.Refused, found.Lost)
	}
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		total         int64
		demands, want []int64
	}{
		{100, []int64{10, 20}, []int64{10, 20}},
		{100, []int64{1000, 20}, []int64{80, 20}},
		{100, []int64{1000, 1000, 20, 0}, []int64{40, 40, 20, 0}},
		{100, nil, []int64{}},
		{0, []int64{5}, []int64{0}},
	} {
		if got := Divide(c.total, c.demands); !slices.Equal(got, c.want) {
			t.Errorf("%d among %v: %v, expected %v", c.total, c.demands, got, c.want)
		}
	}
}

// Only a regular file that is the one that was found is opened, and nothing is waited for.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		swap func(file string) error
		want error
	}{
		"the same":      {func(string) error { return nil }, nil},
		"gone":          {os.Remove, fs.ErrNotExist},
		"another":       {func(file string) error { return errors.Join(os.Rename(file, file+"1"), os.WriteFile(file, nil, 0o600)) }, fs.ErrNotExist},
		"FIFO":          {func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }, fs.ErrNotExist},
		"link":          {func(file string) error { return errors.Join(os.Rename(file, file+"1"), os.Symlink(file+"1", file)) }, unix.ELOOP},
		"several names": {func(file string) error { return os.Link(file, file+"1") }, fs.ErrNotExist},
		"linked folder": {func(file string) error {
			dir := filepath.Dir(file)
			return errors.Join(os.Rename(dir, dir+"1"), os.Symlink(dir+"1", dir))
		}, unix.ELOOP},
		"lease": {lease, unix.EAGAIN},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, filepath.Join(dir, "job/rank.log"))
			found := look(t, New(everything(dir, "rank.log"), nil))
			if len(found.Files) != 1 {
				t.Fatal(found)
			}
			file := all(&found)[0]
			if err := c.swap(filepath.Join(dir, "job/rank.log")); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			f, err := file.Open()
			if err == nil {
				_ = f.Close()
			}
			if !errors.Is(err, c.want) || time.Since(begun) > 5*time.Second {
				t.Errorf("%v in %s, expected %v", err, time.Since(begun), c.want)
			}
		})
	}
}

// lease has the holder of a lease asked before another opens the file, for as long as
// /proc/sys/fs/lease-break-time: 45 s.
func lease(file string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return err // the descriptor stays open, and the lease with it, until the test process ends
}

// What is no file of a job is counted.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir+"/a.log")
	plant(t, dir+"/twice")
	if err := errors.Join(os.Symlink(dir+"/a.log", dir+"/link.log"), syscall.Mkfifo(dir+"/fifo.log", 0o600), os.Link(dir+"/twice", dir+"/b.log"), os.Mkdir(dir+"/c.log", 0o700)); err != nil {
		t.Fatal(err)
	}
	if found := look(t, New(everything(dir, ".log"), nil)); len(found.Files) != 1 || found.Refused[fabric.RefusedNotRegular] != 3 || len(found.Refused) != 1 || !found.Whole {
		t.Errorf("%v, %v", paths(all(&found)), found.Refused)
	}
	if _, err := New(everything(dir+"/a.log", ""), nil).Look(); err == nil {
		t.Error("a file instead of a folder is no error")
	}
	if found, err := New(everything(dir+"/missing", ""), nil).Look(); err != nil || len(found.Files) > 0 {
		t.Error(err)
	}
}

// FuzzParseMount: mountinfo has paths that users choose.
func FuzzParseMount(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue")
	f.Add("36 35 0:52 / /home/x rw - fuse.sshfs x rw,user_id=1000 - ext4 y")
	f.Fuzz(func(t *testing.T, line string) {
		if _, kind, err := parseMount(line); err == nil && (kind == "" || strings.Contains(kind, " ")) {
			t.Errorf("%q", kind)
		}
	})
}
