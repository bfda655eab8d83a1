// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

func sum256(s string) [32]byte { return sha256.Sum256([]byte(s)) }

// numbered is a state file of some size that knows its number.
func numbered(n int) []byte {
	m := lived()
	m.Records[probes.Key{Kind: probes.Node}].Cost = time.Duration(n)
	for i := range 20 {
		b := m.Record(probes.Key{Kind: probes.Rail, Device: fmt.Sprint("mlx5_", i), Port: 1}).Baselines.of("x", probestest.Origin)
		for range windowSize {
			b.learn(1e9, 0, false, probestest.Origin)
		}
	}
	file, err := m.Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		panic(err)
	}
	return file
}

func numberOf(file []byte) (int, error) {
	m := empty()
	err := m.Decode(file, probestest.Origin, probestest.Origin)
	if err != nil {
		return 0, err
	}
	return int(m.Records[probes.Key{Kind: probes.Node}].Cost), nil
}

// again runs one test of this binary in a process of its own, which sees the file's path in its environment.
func again(t *testing.T, test, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), "PROBES_STATE_FILE="+path)
	return cmd
}

// TestStateIsOldOrNewAfterKill kills a process that writes one state after the other, at any point of it.
func TestStateIsOldOrNewAfterKill(t *testing.T) {
	if path := os.Getenv("PROBES_STATE_FILE"); path != "" {
		for n := 1; ; n++ {
			if err := File(path).Save(numbered(n)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(os.Stdout, "\nsaved %d\n", n)
		}
	}
	path := filepath.Join(t.TempDir(), "state.json")
	between, kills := 0, 40
	if testing.Short() {
		kills = 10
	}
	for range kills {
		cmd := again(t, t.Name(), path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		saved, wanted := 0, 1+rand.IntN(5)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, found := strings.CutPrefix(lines.Text(), "saved "); found {
				saved, _ = strconv.Atoi(n)
			}
			if saved == wanted {
				wanted = -1
				time.Sleep(time.Duration(rand.IntN(int(4 * time.Millisecond)))) // not to wait for anything: to hit any point
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		if wanted > 0 {
			t.Fatalf("the writer ended after %d states", saved)
		}
		file, err := File(path).Load()
		if err != nil {
			t.Fatal(err)
		}
		n, err := numberOf(file)
		if err != nil {
			t.Fatalf("after state %d: %v", saved, err)
		}
		if n != saved && n != saved+1 {
			t.Fatalf("state %d was saved, but %d is read", saved, n)
		}
		if _, err := os.Stat(path + ".new"); err == nil {
			between++
		}
	}
	t.Logf("%d of %d kills left a temporary file", between, kills)
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) > 2 {
		t.Errorf("kills leave litter: %v", names)
	}
}

// TestStateSurvivesFullDisk has the kernel refuse what is written after 20,000 bytes, as a full disk does.
func TestStateSurvivesFullDisk(t *testing.T) {
	if path := os.Getenv("PROBES_STATE_FILE"); path != "" {
		limit := syscall.Rlimit{Cur: 20000, Max: 20000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		if err := File(path).Save(numbered(2)); !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("got %v, expected %v", err, syscall.EFBIG)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "state.json")
	if err := File(path).Save(numbered(1)); err != nil {
		t.Fatal(err)
	}
	if out, err := again(t, t.Name(), path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	onlyOld(t, path)
}

// TestStateSurvivesFullFileSystem is the same with a real one, where tests may mount.
func TestStateSurvivesFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", len(numbered(1))*3/2)); err != nil {
		t.Skipf("a small file system cannot be mounted here (%v): TestStateSurvivesFullDisk has a limit instead", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "state.json")
	if err := File(path).Save(numbered(1)); err != nil {
		t.Fatal(err)
	}
	if err := File(path).Save(numbered(2)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, expected %v", err, syscall.ENOSPC)
	}
	onlyOld(t, path)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("remounted read-only: %v", err)
	}
	if err := File(path).Save(numbered(2)); !errors.Is(err, syscall.EROFS) {
		t.Fatalf("got %v, expected %v", err, syscall.EROFS)
	}
	onlyOld(t, path)
}

// onlyOld requires that a failed save left the state of number 1, and nothing else.
func onlyOld(t *testing.T, path string) {
	t.Helper()
	file, err := File(path).Load()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := numberOf(file); err != nil || n != 1 {
		t.Errorf("read state %d, %v; expected 1", n, err)
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Errorf("there is more than the state: %v", names)
	}
}

func TestStateFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	if data, err := File(filepath.Join(dir, "state.json")).Load(); err != nil || data != nil {
		t.Errorf("none yet: got %q, %v", data, err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/zero"} { // a read of the last two would not end
		if _, err := File(path).Load(); !errors.Is(err, ErrState) {
			t.Errorf("%s: got %v, expected %v", path, err, ErrState)
		}
	}
	if err := File(filepath.Join(dir, "none", "state.json")).Save(nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v, expected %v", err, fs.ErrNotExist)
	}

	huge := filepath.Join(dir, "huge")
	if err := os.Truncate(create(t, huge), 1<<40); err != nil {
		t.Fatal(err)
	}
	if data, err := File(huge).Load(); err != nil || len(data) != stateMost+1 {
		t.Errorf("of 1 TiB %d bytes are read, %v; expected %d", len(data), err, stateMost+1)
	}

	// Another user puts a link where the temporary file is to be.
	path, victim := filepath.Join(dir, "linked.json"), create(t, filepath.Join(dir, "victim"))
	if err := os.Symlink(victim, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := File(path).Save([]byte("state")); err == nil {
		t.Error("a link is followed")
	}
	if data, err := os.ReadFile(victim); err != nil || len(data) > 0 {
		t.Errorf("the file that a link points to is overwritten: %q, %v", data, err)
	}
	if err := File(path).Save([]byte("state")); err != nil {
		t.Errorf("the link stays in the way: %v", err)
	}
}

func create(t *testing.T, path string) string {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeeperKeepsTheNewest(t *testing.T) {
	d := &probestest.Disk{Hang: make(chan struct{})}
	k := &Keeper{store: d}
	first := k.Save([]byte("1"))
	for i := range 100 {
		k.Save([]byte(fmt.Sprint("more ", i)))
	}
	last := k.Save([]byte("newest"))
	close(d.Hang)
	<-first
	<-last
	if string(d.Data) != "newest" || k.Err() != nil {
		t.Errorf("kept %q, %v", d.Data, k.Err())
	}
	d.Err = syscall.ENOSPC
	<-k.Save([]byte("x"))
	if !errors.Is(k.Err(), syscall.ENOSPC) {
		t.Errorf("got %v, expected %v", k.Err(), syscall.ENOSPC)
	}
	d.Err = nil
	<-k.Save([]byte("y"))
	if k.Err() != nil {
		t.Errorf("mended, but %v", k.Err())
	}
	if data, err := k.Load(context.Background()); string(data) != "y" || err != nil {
		t.Errorf("loaded %q, %v", data, err)
	}
}
