// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// maxPorts is more than any device has; an IB switch has 64, a switchdev port per representor comes close.
const maxPorts = 256

// Device is one open RDMA device. It is used by one goroutine at a time.
//
// Its methods fill a fabric.HCA in place. What they put behind a pointer or a slice is never written again, so
// a copy of the HCA with a copy of its Ports can be published. When they return ErrGone, what they read is not
// to be used.
type Device struct {
	*reader
	fs    *FS
	name  string
	dir   *dir
	ports map[int]*port
	hw    hwCounters

	firmware attr
	lasting  lasting
	checked  time.Time    // when check found it to be what was opened
	entries  []fabric.GID // scratch
}

// Device opens the RDMA device of that name. The error wraps ErrGone when there is none.
func (f *FS) Device(name string) (*Device, error) {
	if !validDeviceName(name) {
		return nil, fmt.Errorf("%s: %w: device name %q", infinibandClass, errMalformed, name)
	}
	d := &Device{
		reader: f.reader(),
		fs:     f,
		name:   name,
		dir:    &dir{fs: f, path: infinibandClass + "/" + name},
		ports:  map[int]*port{},
	}
	d.hw, d.firmware = newHWCounters(d.dir), newAttr(d.dir, "fw_ver")
	if _, err := d.dir.fd(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(ErrGone, err)
		}
		return nil, fmt.Errorf("rdma device %q: %w", name, err)
	}
	return d, nil
}

// Close releases every descriptor.
func (d *Device) Close() {
	for n, p := range d.ports {
		p.close()
		delete(d.ports, n)
	}
	d.hw.close()
	d.firmware.close()
	d.dir.close()
}

// Commands returns what the driver was asked since the device was opened.
func (d *Device) Commands() fabric.Commands { return maps.Clone(d.asked) }

// port returns the reader of a port.
func (d *Device) port(n int) *port {
	p, ok := d.ports[n]
	if !ok {
		p = newPort(d.dir, n)
		d.ports[n] = p
	}
	return p
}

// check returns ErrGone when the device, or one of its ports, is not what was opened any more.
func (d *Device) check() error {
	d.lost, d.checked = false, time.Time{}
	if err := d.dir.check(); err != nil {
		return err
	}
	for n, p := range d.ports {
		if !p.dir.open {
			continue
		}
		if err := p.dir.compare(openat.InodeBelow(d.dir.at, "ports/"+strconv.Itoa(n))); err != nil {
			return err
		}
	}
	d.checked = time.Now()
	return nil
}

// justChecked is how long check need not look again.
const justChecked = 10 * time.Millisecond

// checkAgain is check, unless that was fine a moment ago: the slow methods of one round come one after the
// other, but between them a driver may take its time.
func (d *Device) checkAgain() error {
	if time.Since(d.checked) < justChecked {
		return nil
	}
	return d.check()
}

// readExtra reads an attribute that most devices lack: where it is missing, the device is not.
func (d *Device) readExtra(at *dir, name string) reading {
	lost := d.lost
	got := d.readOnce(at, name)
	if errors.Is(got.err, fs.ErrNotExist) {
		d.lost = lost
	}
	return got
}

// verdict ends a method: when something was not there, it reports whether that is the device itself.
func (d *Device) verdict() error {
	if !d.lost {
		return nil
	}
	return d.check()
}

// listPorts returns the ports that the device has now, with what is already known of them.
func (d *Device) listPorts(known []fabric.Port) []fabric.Port {
	ports := d.dir.sub("ports")
	defer ports.close()
	numbers, err := ports.numbers()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return known
	}
	if len(numbers) > maxPorts {
		numbers = numbers[:maxPorts]
	}
	d.keepPorts(numbers)
	list := make([]fabric.Port, len(numbers))
	for i, n := range numbers {
		list[i].Number = n
		if k := slices.IndexFunc(known, func(p fabric.Port) bool { return p.Number == n }); k >= 0 {
			list[i] = known[k]
		}
	}
	return list
}

// keepPorts closes all ports but these.
func (d *Device) keepPorts(numbers []int) {
	for n, p := range d.ports {
		if !slices.Contains(numbers, n) {
			p.close()
			delete(d.ports, n)
		}
	}
}

// driverConstants reports whether the driver prints port states and a rate that no hardware was asked for: EFA is
// always "4: ACTIVE", "5: LinkUp" and 100 Gb/sec (efa_query_port of drivers/infiniband/hw/efa/efa_verbs.c).
func driverConstants(h *fabric.HCA) bool { return h.Traits().ConstantPorts }

func driverConstant[T any](q *question, now time.Time) fabric.Fact[T] {
	return fabric.UnknownFact[T](fabric.ReasonDriverConstant, q.source, now)
}
