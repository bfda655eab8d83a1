// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// TestCostOfWarmRead: one pread for each attribute and no other system call.
func TestCostOfWarmRead(t *testing.T) {
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	opened := len(openFiles(t))
	for what, c := range map[string]struct {
		read func(*fabric.HCA) error
		want int
	}{
		"ReadPorts": {func(h *fabric.HCA) error { return d.ReadPorts(h, now) }, 2},    // state, phys_state
		"ReadGIDs":  {func(h *fabric.HCA) error { return d.ReadGIDs(h, now) }, 8 * 3}, // gid, type, ndev
	} {
		before := d.preads
		must(t, c.read(&h))
		if got := d.preads - before; got != c.want {
			t.Errorf("%s costs %d preads, want %d", what, got, c.want)
		}
		if d.lost {
			t.Errorf("%s looks whether the device is gone", what)
		}
	}
	if got := len(openFiles(t)); got != opened {
		t.Errorf("%d open files, %d before", got, opened)
	}
	allocated := testing.AllocsPerRun(100, func() {
		must(t, d.ReadPorts(&h, now))
		must(t, d.ReadGIDs(&h, now))
	})
	if allocated != 0 {
		t.Errorf("a warm read allocates %v times", allocated)
	}
}

// TestCostOfWarmCounters: five preads for each of eight ports, and one allocation: what is published.
func TestCostOfWarmCounters(t *testing.T) {
	devices, states := hcas(t, 12)
	preads := func() (n int) {
		for _, d := range devices {
			n += d.preads
		}
		return n
	}
	read := func() {
		for i, d := range devices {
			must(t, d.ReadPMA(&states[i], false, now))
		}
	}
	before, opened := preads(), len(openFiles(t))
	read()
	if got := preads() - before; got != 40 {
		t.Errorf("ReadPMA costs %d preads, want 40", got)
	}
	if got := len(openFiles(t)); got != opened {
		t.Errorf("%d open files, %d before", got, opened)
	}
	for _, d := range devices {
		if d.lost {
			t.Error("ReadPMA looks whether the device is gone")
		}
	}
	if got := testing.AllocsPerRun(100, read); got != 8 {
		t.Errorf("a warm read allocates %v times, want 8", got)
	}
}

// hcas opens eight HCAs as an HGX node has them, with GID tables of so many slots.
func hcas(b testing.TB, slots int) ([]*Device, []fabric.HCA) {
	b.Helper()
	all := tree{}
	for i := range 8 {
		name, parents, netdev := fmt.Sprintf("mlx5_%d", i), fmt.Sprintf("pci0000:%02x/0000:%02x:00.0", i, i), fmt.Sprintf("eth%d", i)
		all = all.with(mlx5(name, parents, netdev), mlx5GIDs(slots, netdev).
			with(counters("counters", pmaNames...), counters("hw_counters", mlx5Names...)).
			under("devices/"+parents+"/infiniband/"+name+"/ports/1"))
	}
	f, _ := all.open(b)
	f.pread = unix.Pread
	devices, states := make([]*Device, 8), make([]fabric.HCA, 8)
	for i := range devices {
		d, err := f.Device(fmt.Sprintf("mlx5_%d", i))
		must(b, err)
		b.Cleanup(d.Close)
		must(b, d.Identify(&states[i], false, now))
		must(b, d.ReadPorts(&states[i], now))
		must(b, d.ReadPortDetails(&states[i], now))
		must(b, d.ScanGIDs(&states[i], now))
		must(b, d.ReadPMA(&states[i], true, now))
		must(b, d.ReadHWCounters(&states[i], now))
		devices[i] = d
	}
	return devices, states
}

func benchmark(b *testing.B, read func(*Device, *fabric.HCA) error) {
	devices, states := hcas(b, 255)
	before := devices[0].preads
	b.ReportAllocs()
	for b.Loop() {
		for i, d := range devices {
			must(b, read(d, &states[i]))
		}
	}
	b.ReportMetric(float64(devices[0].preads-before)/float64(b.N)*8, "preads/op")
}

// BenchmarkFast is what a scrape costs on eight HCAs with eight GIDs each.
func BenchmarkFast(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error {
		if err := d.ReadPorts(h, now); err != nil {
			return err
		}
		return d.ReadGIDs(h, now)
	})
}

func BenchmarkIdentify(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.Identify(h, false, now) })
}

func BenchmarkReadPortDetails(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.ReadPortDetails(h, now) })
}

func BenchmarkScanGIDs(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.ScanGIDs(h, now) })
}

// BenchmarkFindGIDs is what of that a minute costs.
func BenchmarkFindGIDs(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.FindGIDs(h, now) })
}

// BenchmarkReadPMA is what a scrape costs of the counters of eight HCAs.
func BenchmarkReadPMA(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.ReadPMA(h, false, now) })
}

func BenchmarkReadPMAAll(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.ReadPMA(h, true, now) })
}

func BenchmarkReadHWCounters(b *testing.B) {
	benchmark(b, func(d *Device, h *fabric.HCA) error { return d.ReadHWCounters(h, now) })
}

func BenchmarkGPUs(b *testing.B) {
	all := tree{}
	for i := range 400 {
		all = all.with(pci(fmt.Sprintf("%04x:00:00.0", i), "0x8086\n", "0x060400\n"))
	}
	f, _ := all.open(b)
	f.pread = unix.Pread
	b.ReportAllocs()
	for b.Loop() {
		f.GPUs(now)
	}
}
