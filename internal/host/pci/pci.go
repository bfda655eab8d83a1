// SPDX-License-Identifier: Apache-2.0

// Package pci reads from sysfs which GPUs and NICs are on the PCI bus and, of GPUs and NICs with an RDMA device, the
// bridges above them, their links, errors and configuration space. It never writes, never leaves its root directory,
// and never reads what would wake a device that sleeps: what the kernel answers from configuration space (such as the
// state of links) is left alone below a suspended bridge. Without CAP_SYS_ADMIN the kernel shows 64 bytes of it; what
// follows from the rest is unknown(privilege).
//
// Reading and parsing are apart: parse.go and config.go hold pure functions over bytes. What is read every
// minute is kept open (often.go); all else is opened, read once and closed.
//
// Concurrency: a Bus is used by one goroutine at a time. A read can hang as long as a link does that is being reset.
//
// Errors: one unreadable attribute costs one fact, which is then unknown with a reason. A function whose place cannot
// be made out is left out and reported, beside everything else that was read.
package pci

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// Directories of sysfs, relative to the root.
const (
	busDevices  = "bus/pci/devices"
	iommuGroups = "kernel/iommu_groups"
)

const (
	maxNames = 1 << 16 // of a directory
	maxIdle  = 1 << 10 // NICs without an RDMA device, of which only virtual functions can be as many
)

var errMalformed = fabric.Because(fabric.ReasonMalformed, "not what sysfs promises")

// Bus is the PCI bus in a mounted sysfs.
type Bus struct {
	root *openat.Root
	kept *openat.Budget // of files that stay open; nil: no limit
	// What was listed last, and the functions that were found there.
	listed listing
	places []place
	err    error
}

// NIC is an RDMA device, whose function is to be found.
type NIC struct {
	Device string
	Link   string // of a class that leads to the device or to another one of its function, relative to the root
}

// listing is what there is, by which a change is noticed.
type listing struct {
	functions []string
	nics      []NIC
}

// place is where a function is, and what it is to the exporter.
type place struct {
	path
	kind  fabric.PCIKind
	hcas  []string
	files *files
}

// function is what is known of it without a reading.
func (p *place) function() fabric.PCIFunction {
	return fabric.PCIFunction{Address: p.address, Kind: p.kind, HCAs: p.hcas, Root: p.root, Bridges: p.bridges}
}

// Open opens the sysfs mounted at root.
func Open(root string) (*Bus, error) {
	r, err := openat.Open(root)
	if err != nil {
		return nil, fmt.Errorf("pci: %w", err)
	}
	return &Bus{root: r}, nil
}

// Keep has files stay open within a budget. What is open already stays.
func (b *Bus) Keep(kept *openat.Budget) { b.kept = kept }

// Record reports the files that are read from now on to rec.
func (b *Bus) Record(rec openat.Recorder) { b.root.Record(rec) }

// Close closes the root and all files.
func (b *Bus) Close() error {
	b.closeFiles()
	return b.root.Close()
}

func (b *Bus) closeFiles() {
	for _, p := range b.places {
		p.files.close()
	}
}

// Read reads as much as what says, and takes the rest from last; everything when a function came or went, and
// all of one that woke up. A kernel without PCI has no functions, which is no error.
func (b *Bus) Read(last fabric.PCI, what fabric.PCIFacts, nics []NIC, now time.Time) (fabric.PCI, error) {
	functions, err := b.names(busDevices)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.listed = listing{} // what follows is read anew
		return withoutFacts(last, fabric.ReasonOf(err), now), err
	}
	is := listing{functions, nics}
	if what == fabric.PCIEverything || b.places == nil || !slices.Equal(is.functions, b.listed.functions) ||
		!slices.Equal(is.nics, b.listed.nics) {
		b.closeFiles()
		b.places, b.err = b.survey(is)
		b.listed, what = is, fabric.PCIEverything
	}
	if what == fabric.PCIPlaces && b.has(last) {
		return last, b.err
	}
	r := &reader{root: b.root, now: now, asleep: map[string]fabric.Fact[bool]{}}
	next := fabric.PCI{Functions: make([]fabric.PCIFunction, 0, len(b.places))}
	for _, p := range b.places { // bridges come before what is below them
		f := p.function()
		if was := last.Function(p.address); was != nil && what != fabric.PCIEverything {
			f = *was
			f.HCAs, f.Root, f.Bridges = p.hcas, p.root, p.bridges
			if what == fabric.PCILinks && !f.Idle() {
				r.links(&f, p)
			}
		} else {
			r.everything(&f, p)
		}
		next.Functions = append(next.Functions, f)
	}
	slices.SortFunc(next.Functions, func(a, b fabric.PCIFunction) int { return strings.Compare(a.Address, b.Address) })
	return next, b.err
}

// withoutFacts is what is known where the functions cannot be listed: where they were.
func withoutFacts(last fabric.PCI, r fabric.Reason, now time.Time) fabric.PCI {
	next := fabric.PCI{Functions: make([]fabric.PCIFunction, 0, len(last.Functions))}
	for i := range last.Functions {
		next.Functions = append(next.Functions, last.Functions[i].WithoutFacts(r, now))
	}
	return next
}

// has reports whether these are the functions of the last survey.
func (b *Bus) has(all fabric.PCI) bool {
	missing := func(p place) bool { return all.Function(p.address) == nil }
	return len(all.Functions) == len(b.places) && !slices.ContainsFunc(b.places, missing)
}

func (b *Bus) names(dir string) ([]string, error) {
	fd, err := b.root.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	slices.Sort(names)
	if rec := b.root.Recorder(); rec != nil {
		for _, name := range names {
			rec.Entry(dir, name)
		}
	}
	return names, nil
}

// survey finds GPUs and NICs, and the bridges above those that are not idle, outermost first.
func (b *Bus) survey(l listing) ([]place, error) {
	at, errs := b.byClass(l.functions)
	for _, n := range l.nics {
		p, err := b.follow(n.Link, "")
		switch {
		case errors.Is(err, errNoFunction) || b.leadsNowhere(n.Link, err): // a software device; gone, or no device at all
		case err != nil:
			errs = append(errs, err)
		default:
			if at[p.address] == nil {
				at[p.address] = &place{path: p, kind: fabric.PCINIC}
			}
			nic := at[p.address]
			nic.hcas = append(nic.hcas, n.Device)
		}
	}
	places := make([]place, 0, 4*len(at))
	for _, p := range at {
		places = append(places, *p)
	}
	for _, p := range places {
		if f := p.function(); f.Idle() {
			continue
		}
		for _, above := range p.above() {
			if at[above.address] == nil {
				bridge := place{path: above, kind: fabric.PCIBridge}
				at[above.address] = &bridge
				places = append(places, bridge)
			}
		}
	}
	for i := range places {
		places[i].files = newFiles(places[i].dir, b.kept)
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.dir, b.dir) })
	return places, errors.Join(errs...)
}

// byClass finds the functions that are GPUs or NICs by their class. NICs beyond maxIdle are found by their devices.
func (b *Bus) byClass(functions []string) (at map[string]*place, errs []error) {
	at = map[string]*place{}
	nics := 0
	var buf buffer
	for _, name := range functions {
		kind, err := b.kindOf(name, &buf)
		if kind == fabric.PCINIC {
			nics++
		}
		beyond := kind == fabric.PCINIC && nics > maxIdle
		if gone := errors.Is(err, fs.ErrNotExist); gone || beyond || err == nil && kind == "" {
			continue
		}
		p, misled := b.follow(busDevices+"/"+name, name)
		switch err := cmp.Or(misled, err); { // which link leads out of the root says only the first
		case err == nil:
			at[name] = &place{path: p, kind: kind}
		case kind != fabric.PCINIC: // one with an RDMA device is found, and reported, by that
			errs = append(errs, err)
		}
	}
	return at, errs
}

// follow makes out the place that a link of sysfs leads to.
func (b *Bus) follow(link, address string) (path, error) {
	target, err := b.root.Readlink(link)
	if err != nil {
		return path{}, fmt.Errorf("%s: %w", link, err)
	}
	p, err := parseLink(link, target)
	if err == nil && address != "" && p.address != address {
		err = fmt.Errorf("%s: %w: leads to %q, expected function %s", link, errMalformed, target, address)
	}
	return p, err
}

// leadsNowhere reports whether an entry of a class is no link, or one to nothing. The reader of the device
// reports the error.
func (b *Bus) leadsNowhere(link string, err error) bool {
	if err == nil || errors.Is(err, unix.EINVAL) {
		return err != nil
	}
	_, err = b.root.Stat(link)
	return errors.Is(err, fs.ErrNotExist)
}

// kindOf tells by class and vendor what a function is: display, 3D and processing accelerators of NVIDIA and AMD,
// Ethernet and InfiniBand; empty: anything else.
func (b *Bus) kindOf(name string, buf *buffer) (fabric.PCIKind, error) {
	const nvidia, ati, display, accelerator, ethernet, infiniband = 0x10de, 0x1002, 0x03, 0x12, 0x0200, 0x0207
	d, err := openDir(b.root, busDevices+"/"+name, buf)
	if err != nil {
		return "", err
	}
	defer d.close()
	class, err := d.number("class")
	switch {
	case err != nil:
		return "", err
	case class>>8 == ethernet, class>>8 == infiniband:
		return fabric.PCINIC, nil
	case class>>16 != display && class>>16 != accelerator:
		return "", nil
	}
	vendor, err := d.number("vendor")
	if err == nil && (vendor == nvidia || vendor == ati) {
		return fabric.PCIGPU, nil
	}
	return "", err
}
