// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

func itoa(n int) string { return strconv.Itoa(n) }

func mkfifo(t *testing.T, p string) {
	t.Helper()
	must(t, unix.Mkfifo(p, 0o644))
}

// openFiles returns the open descriptors of the process.
func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no procfs here")
	}
	var fds []string
	for _, e := range entries {
		fds = append(fds, e.Name())
	}
	return fds
}

func TestDeviceGone(t *testing.T) {
	const device = "devices/" + mlx5PCI + "/infiniband/mlx5_0"
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	remove := func(root string) {
		must(t, os.Remove(filepath.Join(root, "class/infiniband/mlx5_0")))
		must(t, os.RemoveAll(filepath.Join(root, "devices", mlx5PCI)))
	}
	for name, again := range map[string]bool{"removed": false, "removed and added again": true} {
		t.Run(name, func(t *testing.T) {
			d, root := base.device(t, "mlx5_0")
			h := all(t, d)
			remove(root)
			if again {
				base.with(tree{device + "/fw_ver": "28.40.0000\n"}).write(t, root)
			}
			wantGone(t, "ReadPorts", d.ReadPorts(&h, now))
			unknown(t, "state", h.Ports[0].State, fabric.ReasonGone)
			wantGone(t, "ReadPorts", d.ReadPorts(&h, now)) // and it stays so
			wantGone(t, "ReadGIDs", d.ReadGIDs(&h, now))
			wantGone(t, "ReadPortDetails", d.ReadPortDetails(&h, now))
			wantGone(t, "ScanGIDs", d.ScanGIDs(&h, now))
			wantGone(t, "Identify", d.Identify(&h, false, now))
			known(t, "firmware from before", h.Firmware, "28.39.1002")

			d.Close()
			d, err := d.fs.Device("mlx5_0")
			if !again {
				wantGone(t, "Device", err)
				return
			}
			must(t, err)
			defer d.Close()
			h = all(t, d)
			known(t, "firmware", h.Firmware, "28.40.0000")
			known(t, "state", h.Ports[0].State, fabric.PortActive)
		})
	}
}

// TestGoneBetweenMethods: a device that leaves while its driver takes its time to answer is found out by the
// next method.
func TestGoneBetweenMethods(t *testing.T) {
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	d, root := base.device(t, "mlx5_0")
	h := all(t, d)
	must(t, d.Identify(&h, false, now))
	must(t, os.Remove(filepath.Join(root, "class/infiniband/mlx5_0")))
	d.checked = d.checked.Add(-justChecked)
	wantGone(t, "ReadPortDetails", d.ReadPortDetails(&h, now))
	wantGone(t, "FindGIDs", d.FindGIDs(&h, now))
}

// TestErrorOfDriverIsNotGone: a driver may answer ENODEV or ENXIO while its device is there.
func TestErrorOfDriverIsNotGone(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	for _, errno := range []string{"!ENODEV", "!ENXIO"} {
		tree{mlx5Port + "state": errno}.write(t, root)
		must(t, d.ReadPorts(&h, now))
		unknown(t, "state", h.Ports[0].State, fabric.ReasonGone)
		known(t, "physical state", h.Ports[0].PhysState, fabric.PhysLinkUp)
	}
	tree{mlx5Port + "state": "4: ACTIVE\n"}.write(t, root)
	must(t, d.ReadPorts(&h, now))
	known(t, "state", h.Ports[0].State, fabric.PortActive)
}

// TestInterrupted: the Go runtime interrupts system calls with signals of its own.
func TestInterrupted(t *testing.T) {
	f, _ := mlx5("mlx5_0", mlx5PCI, "hca0").open(t)
	calls := 0
	f.pread = func(fd int, p []byte, off int64) (int, error) {
		if calls++; calls%2 == 1 {
			return 0, unix.EINTR
		}
		return kernfs(fd, p, off)
	}
	d, err := f.Device("mlx5_0")
	must(t, err)
	defer d.Close()
	h := all(t, d)
	known(t, "state", h.Ports[0].State, fabric.PortActive)
}

// TestConcurrent is for the race detector: one goroutine for each device, all on one FS.
func TestConcurrent(t *testing.T) {
	f, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(rxe("rxe0", 8), siw("siw9"), netdev("hca0", "400000\n", nil),
		pci("0000:01:00.0", "0x10de\n", "0x030200\n")).open(t)
	var wg sync.WaitGroup
	for _, name := range []string{"mlx5_0", "rxe0", "siw9"} {
		d, err := f.Device(name)
		must(t, err)
		h := all(t, d)
		wg.Go(func() {
			defer d.Close()
			for range 50 {
				if err := errors.Join(d.ReadPorts(&h, now), d.ReadGIDs(&h, now), d.ScanGIDs(&h, now),
					d.ReadPMA(&h, true, now), d.ReadHWCounters(&h, now), d.ReadCM(&h, now), d.ReadTrafficClass(&h, now)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			known(t, "GPUs", f.GPUs(now), 1)
			known(t, "speed", f.NetDevs([]string{"hca0"}, nil, nil, true, now)[0].Speed, 50e9)
			if names, err := f.Devices(); err != nil || len(names) != 3 {
				t.Errorf("Devices() = %q, %v", names, err)
			}
		}
	})
	wg.Wait()
}

func TestNoLeak(t *testing.T) {
	f, root := mlx5("mlx5_0", mlx5PCI, "hca0").with(netdev("hca0", "400000\n", nil), pci("0000:01:00.0", "0x10de\n", "0x030200\n")).open(t)
	must(t, os.Remove(filepath.Join(root, mlx5Port, "sm_lid")))
	mkfifo(t, filepath.Join(root, mlx5Port, "sm_lid"))
	outside := openFiles(t)
	d, err := f.Device("mlx5_0")
	must(t, err)
	h := all(t, d)
	inside := openFiles(t)
	for range 1000 {
		must(t, d.ReadPorts(&h, now))
		must(t, d.ReadGIDs(&h, now))
	}
	for range 20 {
		all(t, d)
		f.NetDevs([]string{"hca0", "none"}, map[string]bool{"hca0": true}, nil, true, now)
		f.GPUs(now)
		if _, err := f.Devices(); err != nil {
			t.Fatal(err)
		}
	}
	if got := openFiles(t); len(got) != len(inside) {
		t.Errorf("%d open files after 1000 reads, %d before", len(got), len(inside))
	}
	d.Close()
	d.Close()
	if got := openFiles(t); len(got) != len(outside) {
		t.Errorf("%d open files after Close, %d before Device", len(got), len(outside))
	}
	t.Logf("%d descriptors for a device with one port and 8 GIDs", len(inside)-len(outside))
}

// TestOpenedForReading looks at every descriptor that is kept open.
func TestOpenedForReading(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	must(t, d.ReadGIDs(&h, now))
	seen := 0
	for _, fd := range openFiles(t) {
		name, err := os.Readlink("/proc/self/fd/" + fd)
		if err != nil || !strings.HasPrefix(name, root) {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + fd)
		must(t, err)
		for l := range strings.Lines(string(info)) {
			text, ok := strings.CutPrefix(l, "flags:")
			if !ok {
				continue
			}
			flags, err := strconv.ParseInt(strings.TrimSpace(text), 8, 64)
			must(t, err)
			if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_CLOEXEC == 0 {
				t.Errorf("%s is open with flags %#o", name, flags)
			}
			seen++
		}
	}
	if seen < 30 {
		t.Errorf("saw %d descriptors", seen)
	}
}

// TestNeverWrites fails when the package so much as mentions a way to change a file.
func TestNeverWrites(t *testing.T) {
	forbidden := []string{
		"O_WRONLY", "O_RDWR", "O_CREAT", "O_CREATE", "O_TRUNC", "O_APPEND", "Write", "WriteFile", "WriteString",
		"Pwrite", "Create", "Mkdir", "MkdirAll", "Remove", "RemoveAll", "Rename", "Link", "Symlink", "Chmod", "Chown", "Truncate",
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(forbidden, s.Sel.Name) {
				t.Errorf("%s uses %s", name, s.Sel.Name)
			}
			return true
		})
	}
}
