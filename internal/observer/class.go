// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"io/fs"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sysfs"
)

// classList is what the kernel lists below class/infiniband, and which devices it has in other network namespaces.
type classList struct {
	present bool
	names   []string
	moved   []sysfs.Moved
	odd     error // what could not be listed beside these
}

func (l *look) listDevices() {
	l.class.refresh(l.half, since[classList](l.now, l.o.FastInterval), l.readClass(l.want&fabric.WantInside != 0))
	l.listed(l.now) // what left has its place on the bus still, if it is in another network namespace
}

// readClass lists the devices. A kernel without RDMA is an answer, not an error. Where nothing can be listed, the last
// list stands. A job wants to know of the devices that its container lacks.
func (ob *Observer) readClass(inside bool) func(classList, time.Time) (classList, error) {
	return func(last classList, _ time.Time) (classList, error) {
		names, err := ob.rdma.Devices()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return classList{}, nil
		case err != nil && len(names) == 0:
			return last, err
		}
		moved, movedErr := ob.rdma.Moved(names, inside)
		return classList{present: true, names: names, moved: moved, odd: errors.Join(err, movedErr)}, nil
	}
}
