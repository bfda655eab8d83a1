// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// The functions below read everything once, for a copy of what is read (Record). A test names a method that
// reads and is not called here.

// ReadOnce reads all that is read of a device.
func (d *Device) ReadOnce(h *fabric.HCA, now time.Time) error {
	if err := d.Identify(h, false, now); err != nil {
		return err
	}
	var errs []error
	for _, read := range []func(*fabric.HCA, time.Time) error{
		d.ReadPorts, d.ReadPortDetails, d.ScanGIDs, d.ReadHWCounters, d.ReadTrafficClass, d.ReadCM,
	} {
		errs = append(errs, read(h, now))
	}
	return errors.Join(append(errs, d.ReadPMA(h, true, now))...)
}

// ReadOnce reads all that is read of the node and of no single device.
func (f *FS) ReadOnce(now time.Time) {
	f.Interfaces(now)
	f.Peermem(now)
	f.GPUs(now)
	f.DMI(fabric.DMI{}, now)
}

// ReadWireOnce reads all that is read of a physical network interface beside NetDevs.
func (f *FS) ReadWireOnce(netdev string, now time.Time) error {
	var q fabric.QoS
	return errors.Join(f.ReadQoS(netdev, &q, now), f.ReadCongestionParameters(netdev, f.FunctionOf(netdev), &q, now))
}
