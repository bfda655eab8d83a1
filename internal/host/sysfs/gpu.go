// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// GPUs counts the display and 3D controllers of NVIDIA on the PCI bus, bound to a driver or not. Functions that
// leave meanwhile are not counted.
func (f *FS) GPUs(now time.Time) fabric.Fact[int] {
	names, err := f.list(pciDevices)
	if err != nil {
		return fabric.NotKnown[int](ReasonOf(err), pciDevices, now)
	}
	r := &reader{pread: f.pread}
	count := 0
	for _, name := range names {
		at := &dir{fs: f, path: pciDevices + "/" + name}
		gpu := r.isGPU(at, now)
		at.close()
		switch is, ok := gpu.Get(); {
		case is:
			count++
		case !ok:
			if _, err := f.root.Stat(at.path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return fabric.NotKnown[int](gpu.Reason, gpu.Source, now)
		}
	}
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
