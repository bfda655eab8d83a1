// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// nodeWith is a node with this many GPUs, seen at a time.
func nodeWith(gpus int, at time.Time) *fabric.Node {
	n := &fabric.Node{At: at, GPUs: fabric.Known(gpus, "sysfs", at), Sources: []fabric.Source{{Name: fabric.SourcePCI, Up: true}, {Name: fabric.SourceClass, Up: true}}}
	for i := range gpus {
		f := fabric.PCIFunction{Address: fmt.Sprintf("0000:%02x:00.0", 0x1b+i), Kind: fabric.PCIGPU, PF: fabric.AbsentFact[string]("physfn", at)}
		n.PCI.Functions = append(n.PCI.Functions, f)
	}
	return n
}

// updated has the inventory in a folder see a node with 8 GPUs, and returns what it logs.
func updated(t *testing.T, dir string) string {
	t.Helper()
	var said strings.Builder
	synctest.Test(t, func(t *testing.T) { // in which Close waits for the slowest disk
		m := Open(filepath.Join(dir, "inventory.json"), "", slog.New(slog.NewTextHandler(&said, nil)))
		defer m.Close()
		m.Announce()
		for range 2 {
			if n := m.Update(nodeWith(8, time.Now())); len(n.Remembered) > 0 {
				t.Errorf("a whole node lacks %+v", n.Remembered)
			}
		}
	})
	return said.String()
}

func onlyFile(t *testing.T, dir string, want ...string) {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder has %v, want %v", names, want)
	}
}

// What is missing stays known, is found again, and is forgotten only with the file. What did not change is
// written once a day.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "inventory.json")
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	see := func(gpus int, at time.Time) (n *fabric.Node) {
		t.Helper()
		synctest.Test(t, func(*testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			n = m.Update(nodeWith(gpus, at))
		})
		return n
	}
	seen := func() time.Time {
		t.Helper()
		had, err := readFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(had.GPUs.Seen, 0).UTC()
	}
	see(8, at)
	onlyFile(t, dir, "inventory.json")
	for range 2 {
		n := see(7, at.Add(time.Hour))
		want := []fabric.Remembered{{Kind: fabric.PCIGPU, Now: 7, Then: 8, Seen: time.Unix(at.Unix(), 0), Missing: []fabric.Place{"0000:22:00.0"}}}
		if !reflect.DeepEqual(n.Remembered, want) || n.RememberedIn != file {
			t.Errorf("got %+v in %s", n.Remembered, n.RememberedIn)
		}
	}
	if n := see(8, at.Add(2*time.Hour)); n.Remembered != nil || !seen().Equal(at) {
		t.Errorf("back again: %+v, written at %s", n.Remembered, seen())
	}
	if see(8, at.Add(25*time.Hour)); !seen().Equal(at.Add(25 * time.Hour)) {
		t.Errorf("a day later: written at %s", seen())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if n := see(7, at.Add(26*time.Hour)); n.Remembered != nil {
		t.Errorf("without the file: %+v", n.Remembered)
	}
}

// The memory is kept where no other user can change it, and what is not one is none.
func TestFolders(t *testing.T) {
	t.Run("no folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "none")
		if said := updated(t, dir); strings.Count(said, "what this node has is not recorded: there is no folder for it") != 1 || strings.Count(said, "\n") != 1 {
			t.Errorf("got %q", said)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the folder was made")
		}
	})
	t.Run("a folder for all", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if said := updated(t, dir); !strings.Contains(said, "only its owner can write to") {
			t.Errorf("got %q", said)
		}
		onlyFile(t, dir)
	})
	t.Run("a link", func(t *testing.T) {
		dir := t.TempDir()
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, filepath.Join(dir, "inventory.json")); err != nil {
			t.Fatal(err)
		}
		if said := updated(t, dir); !strings.Contains(said, "cannot be read") {
			t.Errorf("got %q", said)
		}
		if text, _ := os.ReadFile(victim); string(text) != "mine" {
			t.Errorf("the link was followed: %q", text)
		}
	})
	t.Run("a folder as systemd lays it with DynamicUser", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gpufabric_exporter")
		if err := os.Symlink(t.TempDir(), dir); err != nil {
			t.Fatal(err)
		}
		if said := updated(t, dir); said != "" {
			t.Error(said)
		}
		if had, err := readFile(filepath.Join(dir, "inventory.json")); err != nil || len(had.GPUs.Items) != 8 {
			t.Errorf("%+v, %v", had, err)
		}
	})
	t.Run("another user's folder", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Skipf("skipped: needs root: %v", err)
		}
		words := []string{"level=WARN", "the hardware inventory is not saved, because its folder belongs to another user", "folder=" + dir, "owner=65534", "user=0", "chown -R 0 " + dir}
		said := updated(t, dir)
		for _, w := range words {
			if strings.Count(said, w) != 1 {
				t.Errorf("got %q, want %q once", said, w)
			}
		}
		onlyFile(t, dir)

		// What its owner has saved there is enough: a check by another user has nothing to add.
		seen := clockSet.Unix()
		data, err := hardware{GPUs: stock{seen, gpusOf(nodeWith(8, time.Now())).items}, Devices: stock{seen, []fabric.Place{}}}.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "inventory.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if said := updated(t, dir); said != "" {
			t.Errorf("got %q", said)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "inventory.json")
		for _, text := range []string{"", "{}", `{"version":2}`, `{"version":1,"sha256":"00","hardware":{}}`, strings.Repeat("x", maxFile+1)} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if said := updated(t, dir); !strings.Contains(said, "the saved hardware inventory cannot be read") {
				t.Errorf("%.20q: got %q", text, said)
			}
			if _, err := readFile(file); err != nil {
				t.Errorf("%.20q: not written anew: %v", text, err)
			}
		}
	})
}

// A disk that is full or read-only costs what is on it nothing, and what is missing stays known. It is said
// once, and what could not be saved is saved when there is room.
func TestDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k,mode=755"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	file, fill := filepath.Join(dir, "inventory.json"), filepath.Join(dir, "fill")
	remount := func(flags uintptr) {
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, "size=16k"); err != nil {
			t.Fatal(err)
		}
	}
	for name, broken := range map[string]struct{ breaks, mends func() }{
		"full":      {func() { _ = os.WriteFile(fill, make([]byte, 1<<20), 0o600) }, func() { _ = os.Remove(fill) }},
		"read-only": {func() { remount(syscall.MS_RDONLY) }, func() { remount(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(file)
			look := func(m *Inventory, gpus int) *fabric.Node {
				n := m.Update(nodeWith(gpus, time.Now()))
				synctest.Wait()
				time.Sleep(time.Minute)
				return n
			}
			var said strings.Builder
			synctest.Test(t, func(t *testing.T) {
				m := Open(file, "", slog.New(slog.NewTextHandler(&said, nil)))
				defer m.Close()
				look(m, 4)
				broken.breaks()
				look(m, 8)
				for i := range 5 {
					if n := look(m, 7); len(n.Remembered) != 1 || n.Remembered[0].Then != 8 {
						t.Errorf("look %d: a node that lost a GPU while the disk is %s lacks %+v", i, name, n.Remembered)
					}
				}
				if had, err := readFile(file); err != nil || len(had.GPUs.Items) != 4 {
					t.Errorf("the old file: %+v, %v", had, err)
				}
				broken.mends()
				onlyFile(t, dir, "inventory.json")
				look(m, 7)
				if had, err := readFile(file); err != nil || len(had.GPUs.Items) != 8 {
					t.Errorf("after there is room: %+v, %v", had, err)
				}
			})
			if n := strings.Count(said.String(), "cannot be saved"); n != 1 {
				t.Errorf("said %d times:\n%s", n, said.String())
			}
		})
	}
}

// A clock that was far ahead, or is set back, does not keep the inventory from being written; one that is not
// set yet does.
func TestClockWasWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.json")
	var written time.Time
	for _, at := range []time.Time{time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), time.Unix(1000, 0)} {
		if at.After(clockSet) {
			written = at
		}
		synctest.Test(t, func(t *testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			m.Update(nodeWith(8, at))
		})
		if had, err := readFile(file); err != nil || had.GPUs.Seen != written.Unix() {
			t.Errorf("at %s: seen at %s, %v", at, time.Unix(had.GPUs.Seen, 0), err)
		}
	}
}

func FuzzInventory(f *testing.F) {
	data, err := hardware{GPUs: stock{1, []fabric.Place{"0000:1b:00.0"}}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := parse(data); err == nil {
			if _, err := h.encode(); err != nil {
				t.Error(err)
			}
		}
	})
}

// devicesSeen is a node with these RDMA devices, and NICs on the bus in these places.
func devicesSeen(mode fabric.NetNSMode, names []string, places ...string) *fabric.Node {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	n := nodeWith(0, at)
	n.Host.RDMANetNS = fabric.Known(mode, "netlink", at)
	for _, name := range names {
		n.HCAs = append(n.HCAs, fabric.HCA{Name: name, PCI: fabric.Known("0000:0"+name[len(name)-1:]+":00.0", "sysfs", at)})
	}
	for _, p := range places {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{Address: p, Kind: fabric.PCINIC, PF: fabric.AbsentFact[string]("physfn", at)})
	}
	return n
}

// Without a file or a folder for it, a device that goes is known for as long as the process runs. Where each
// network namespace has devices of its own, one that none is seen to have is gone, though its function is on
// the bus; where not a single device is seen, it is not known.
func TestDevicesThatGo(t *testing.T) {
	two, one := []string{"mlx5_1", "mlx5_2"}, []string{"mlx5_1"}
	bus := []string{"0000:01:00.0", "0000:02:00.0"}
	for name, c := range map[string]struct {
		file          string
		mode          fabric.NetNSMode
		now, bus      []string
		gone, outlive bool
	}{
		"no file":                          {"", fabric.NetNSShared, one, bus, true, false},
		"no folder":                        {"none/inventory.json", fabric.NetNSShared, one, bus, true, false},
		"a file":                           {"inventory.json", fabric.NetNSShared, one, bus, true, true},
		"no namespace has it":              {"inventory.json", fabric.NetNSExclusive, one, bus, true, true},
		"no namespace has it, nor the bus": {"inventory.json", fabric.NetNSExclusive, one, bus[:1], true, true},
		"the namespace of a container":     {"inventory.json", fabric.NetNSExclusive, nil, bus, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			file := c.file
			if file != "" {
				file = filepath.Join(t.TempDir(), file)
			}
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			m.Update(devicesSeen(c.mode, two, bus...))
			synctest.Wait()
			m.Update(devicesSeen(c.mode, two, bus...))
			synctest.Wait()
			n := m.Update(devicesSeen(c.mode, c.now, c.bus...))
			if gone := len(n.Remembered) == 1 && slices.Equal(n.Remembered[0].Missing, []fabric.Place{"0000:02:00.0 mlx5_2"}); gone != c.gone || n.DevicesCompared != c.outlive || n.DevicesUnread != (c.now == nil) {
				t.Errorf("%s: lacks %+v, compared %t", name, n.Remembered, n.DevicesCompared)
			}
		})
	}
}
