// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"gpufabric_exporter/internal/fabric"
)

const verbsClass = "class/infiniband_verbs"

// maxVerbs is IB_UVERBS_MAX_DEVICES of drivers/infiniband/core/uverbs_main.c.
const maxVerbs = 1024

// Moved is an RDMA device that the kernel has in another network namespace than the one sysfs was mounted in.
type Moved struct {
	Device  string // its name there
	Address string // of its PCI function; empty for a software device
	Link    string // what leads to it, relative to the root
}

// moved is what Moved found last, and what was listed then.
type moved struct {
	mu     sync.Mutex
	listed []byte
	found  []Moved
}

// Moved returns the devices that are in other network namespaces, as after "rdma dev set DEV netns POD", where these
// are the ones that are here.
//
// The class infiniband shows those of one namespace only, the class infiniband_verbs all of them (ib_class has a
// namespace, uverbs_class has none: drivers/infiniband/core/device.c and uverbs_main.c), by their place and their name
// (attribute ibdev). So one that a driver released, or whose function left the bus, is in neither. A bound
// driver or an auxiliary device would prove less: they are there too when the RDMA driver failed. No driver is asked.
//
// There are none without ib_uverbs. Where sysfs shows no hardware at all, it is that of a container, and all
// devices are elsewhere: container says that these are wanted. One entry that cannot be read costs itself; it
// is reported beside the others.
func (f *FS) Moved(here []string, container bool) ([]Moved, error) {
	names, listed, err := f.listVerbs(here)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if container {
		listed = append(listed, 1) // another question
	}
	f.moved.mu.Lock()
	defer f.moved.mu.Unlock()
	if slices.Equal(listed, f.moved.listed) {
		return f.moved.found, nil
	}
	f.moved.listed = nil
	found, whole, err := f.findMoved(names)
	if !container && len(here) == 0 && len(found) > 0 && !f.showsHardware() {
		found = nil
	}
	if whole {
		f.moved.listed, f.moved.found = listed, found
	}
	return found, err
}

// listVerbs lists the class, together with what shows a change: a device that moves gets another entry.
func (f *FS) listVerbs(here []string) (names []string, listed []byte, err error) {
	d := dir{fs: f, path: verbsClass}
	defer d.close()
	err = d.each(func(name []byte, number uint64) {
		if strings.HasPrefix(string(name), "uverbs") { // beside the file abi_version
			names = append(names, string(name))
			listed = binary.NativeEndian.AppendUint64(append(listed, name...), number)
		}
	})
	switch {
	case errors.Is(err, fs.ErrNotExist): // ib_uverbs is not loaded
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("rdma devices of all namespaces: %w", err)
	case len(names) > maxVerbs:
		return nil, nil, fmt.Errorf("%s: %w: %d entries, expected at most %d", verbsClass, errMalformed, len(names), maxVerbs)
	}
	slices.Sort(names)
	for _, name := range here {
		listed = append(append(listed, name...), 0)
	}
	return names, listed, nil
}

// findMoved looks at these entries of the class. Whole says that none of them was coming or going.
func (f *FS) findMoved(names []string) (found []Moved, whole bool, err error) {
	r := f.reader()
	var errs []error
	whole = true
	for _, name := range names {
		m, parent, err := f.verbs(r, verbsClass+"/"+name)
		switch reason := fabric.ReasonOf(err); {
		case reason == fabric.ReasonGone, reason == fabric.ReasonMissing:
			whole = false
		case err != nil:
			errs, whole = append(errs, err), false
		case f.parentOf(infinibandClass+"/"+m.Device) != parent:
			found = append(found, m)
		}
	}
	return found, whole, errors.Join(errs...)
}

// verbs reads one entry of the class.
func (f *FS) verbs(r *reader, link string) (m Moved, parent string, err error) {
	parent = f.parentOf(link)
	d := dir{fs: f, path: link}
	defer d.close()
	got := r.readOnce(&d, "ibdev")
	device := string(line(got.data))
	switch {
	case got.err != nil:
		return m, "", fmt.Errorf("%s: %w", got.source, got.err)
	case device == "": // ibdev_show of a device that is being taken away
		return m, "", fmt.Errorf("%s: %w", got.source, ErrGone)
	case parent == "" || !validDeviceName(device):
		return m, "", fmt.Errorf("%s: %w: device %.80q, expected a name", got.source, errMalformed, device)
	}
	m = Moved{Device: device, Link: link}
	if function := functionAbove(parent); function != "" {
		m.Address = path.Base(function)
	}
	return m, parent, nil
}

// parentOf returns the place of the device that an entry of a class belongs to: PARENT/CLASS/NAME; empty where there is
// no such entry.
func (f *FS) parentOf(link string) string {
	target, err := f.root.Readlink(link)
	if err != nil {
		return ""
	}
	return path.Dir(path.Dir(path.Join(path.Dir(link), target)))
}

// showsHardware reports whether sysfs shows a network interface that is one of hardware.
func (f *FS) showsHardware() bool {
	names, _ := f.list(netClass)
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := f.root.Lstat(netClass + "/" + name + "/device")
		return err == nil
	})
}
