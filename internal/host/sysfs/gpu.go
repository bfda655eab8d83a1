// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// entry is a PCI function as long as it is there: the kernel does not soon give its number to another.
type entry struct {
	name   string
	number uint64
}

// gpus remembers which PCI functions are GPUs. What a function is does not change while it is there.
type gpus struct {
	mu    sync.Mutex
	known map[entry]bool
}

// GPUs counts the display and 3D controllers of NVIDIA on the PCI bus, bound to a driver or not. Functions that
// leave meanwhile are not counted.
func (f *FS) GPUs(now time.Time) fabric.Fact[int] {
	bus := &dir{fs: f, path: pciDevices}
	defer bus.close()
	var functions []entry
	err := bus.each(func(name []byte, number uint64) { functions = append(functions, entry{string(name), number}) })
	if err != nil {
		return fabric.UnknownFact[int](fabric.ReasonOf(err), pciDevices, now)
	}
	f.gpus.mu.Lock()
	before := f.gpus.known
	f.gpus.mu.Unlock()
	r := f.reader()
	count, known := 0, make(map[entry]bool, len(functions))
	for _, e := range functions {
		is, ok := before[e]
		if !ok {
			at := &dir{fs: f, path: pciDevices + "/" + e.name}
			gpu := r.isGPU(at, now)
			at.close()
			if is, ok = gpu.Get(); !ok {
				if _, err := f.root.Stat(at.path); errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return fabric.UnknownFact[int](gpu.Reason, gpu.Source, now)
			}
		}
		known[e] = is
		if is {
			count++
		}
	}
	f.gpus.mu.Lock()
	f.gpus.known = known
	f.gpus.mu.Unlock()
	return fabric.Known(count, pciDevices, now)
}

// isGPU reads the vendor and the class code of a PCI function: 24 bits, of which the lowest eight name a
// programming interface.
func (r *reader) isGPU(at *dir, now time.Time) fabric.Fact[bool] {
	const (
		nvidia = 0x10de
		vga    = 0x0300
		threeD = 0x0302
	)
	is := func(b []byte) (bool, bool) {
		vendor, ok := parseInt(0, 0xffff)(b)
		return vendor == nvidia, ok
	}
	ours := factOf(r.readOnce(at, "vendor"), now, is)
	if !ours.Or(false) {
		return ours
	}
	return factOf(r.readOnce(at, "class"), now, func(b []byte) (bool, bool) {
		class, ok := parseInt(0, 0xffffff)(b)
		return class>>8 == vga || class>>8 == threeD, ok
	})
}
