// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/ownership"
)

type kind uint8

const (
	directory kind = iota
	regular
	link
	named  // a file that a reader looked up and did not read
	beside // one that a reader saw in a list
)

// entry is a file, a directory or a symbolic link of an archive.
type entry struct {
	kind  kind
	text  string                                   // of a file, or the target of a link
	keep  func(string, openat.Replacements) string // what may leave of the text; nil: see rewrite.go
	empty bool                                     // the file stays where nothing of its text does
}

// collection is what was read so far. Its methods may be called by any goroutine: those that were left behind still
// do so.
type collection struct {
	mu      sync.Mutex
	entries map[string]entry
	bytes   int
	full    bool
	leftOut []Problem
	errors  []Problem
	netdevs map[string]bool
	devices map[string]bool     // all names of interfaces and RDMA devices, read or not
	ports   map[string]string   // interfaces of Ethernet ports that may be asked; empty where sysfs names none
	lower   map[string][]string // what lies below each interface that was read
	hosts   []string            // names of the node itself, never written
	nics    []pci.NIC           // of devices in other network namespaces
	alone   map[string]bool     // devices that are not to be captured
}

func newCollection() *collection {
	return &collection{
		entries: map[string]entry{}, netdevs: map[string]bool{}, devices: map[string]bool{}, ports: map[string]string{},
		lower:   map[string][]string{},
		alone:   map[string]bool{},
		leftOut: []Problem{}, errors: []Problem{},
	}
}

// with runs f, which has the collection for itself.
func (c *collection) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// put adds an entry, unless it is there or the limits are reached.
func (c *collection) put(name string, e entry) { c.with(func() { c.locked(name, e) }) }

func (c *collection) locked(name string, e entry) {
	if was, ok := c.entries[name]; c.full || ok && (was.kind < named || e.kind != regular && e.kind != named) {
		return
	}
	if len(c.entries) >= maxFiles || c.bytes+len(e.text) > maxBytes {
		c.full = true
		c.leftOut = append(c.leftOut, Problem{
			name,
			fmt.Sprintf("more than %d files or %d bytes: left out with all that follows", maxFiles, maxBytes),
		})
		return
	}
	c.entries[name] = e
	c.bytes += len(e.text)
}

func (c *collection) leaveOut(name, why string) {
	c.with(func() { c.leftOut = append(c.leftOut, Problem{name, why}) })
}

// leaveAlone notes a device of which nothing is to be in the archive.
func (c *collection) leaveAlone(device string) { c.with(func() { c.alone[device] = true }) }

// seeDevice notes a name that is one of an interface or RDMA device.
func (c *collection) seeDevice(name string) { c.with(func() { c.devices[name] = true }) }

// movedNICs returns the devices in other network namespaces.
func (c *collection) movedNICs() (list []pci.NIC) {
	c.with(func() { list = slices.Clone(c.nics) })
	return list
}

// interfaces returns the network interfaces that were named so far.
func (c *collection) interfaces() (names []string) {
	c.with(func() { names = slices.Sorted(maps.Keys(c.netdevs)) })
	return names
}

// names returns those of all interfaces and RDMA devices, and those of the node.
func (c *collection) names() (devices, hosts []string) {
	c.with(func() {
		devices = slices.AppendSeq(slices.Collect(maps.Keys(c.netdevs)), maps.Keys(c.devices))
		hosts = slices.Clone(c.hosts)
	})
	return devices, hosts
}

// found returns the network interfaces that were read.
func (c *collection) found() (names []string) {
	c.with(func() { names = slices.Sorted(maps.Keys(c.lower)) })
	return names
}

// physicalInterfaces returns the physical interfaces below those of Ethernet ports: a bond or VLAN has no
// queues of its own. Those that were not read are in another network namespace.
func (c *collection) physicalInterfaces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var physical []string
	seen := map[string]bool{}
	for todo := slices.Collect(maps.Values(c.ports)); len(todo) > 0; {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		lower, read := c.lower[name]
		if seen[name] || !read {
			continue
		}
		seen[name] = true
		if len(lower) == 0 {
			physical = append(physical, name)
		}
		todo = append(todo, lower...)
	}
	slices.Sort(physical)
	return physical
}

// take returns copies, because a goroutine that was left behind may hold on to the collection. Of devices
// that are to be left alone nothing is in them.
func (c *collection) take() (entries map[string]entry, leftOut, failed []Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries = maps.Clone(c.entries)
	alone := maps.Clone(c.alone)
	read := map[string]bool{} // directories of which files were read
	for name, e := range entries {
		read[path.Dir(name)] = read[path.Dir(name)] || e.kind == regular
	}
	for name, e := range entries {
		switch {
		case e.kind == beside && read[path.Dir(name)]: // a reader chose from them
			delete(entries, name)
		case e.kind >= named:
			entries[name] = entry{kind: regular}
		}
		if dir, base := path.Split(name); base == "ibdev" && c.alone[strings.TrimSpace(e.text)] {
			alone[path.Base(dir)] = true // uverbs0
		}
	}
	maps.DeleteFunc(entries, func(name string, _ entry) bool {
		return slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool { return alone[s] })
	})
	return entries, slices.Clone(c.leftOut), slices.Clone(c.errors)
}

// unit is one read that may hang: a device, all network interfaces, and so on.
type unit struct {
	all  *collection
	over bool   // no caller waits for it any more; guarded by all.mu, as is at
	at   string // what it reads
}

// run reads a unit and waits for it until the time limit. It returns whether the unit has been read, if only in
// part, and an error only when ctx ends.
func (s *session) run(ctx context.Context, name string, read func(*unit) error) (bool, error) {
	return s.runFor(ctx, s.o.limit, name, read)
}

func (s *session) runFor(ctx context.Context, limit time.Duration, name string, read func(*unit) error) (bool, error) {
	u := &unit{all: s.all}
	done := make(chan error, 1)
	go func() { done <- read(u) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			s.all.leaveOut(name, reason(err))
		}
		return err == nil, nil
	case <-ctx.Done():
		u.end()
		return false, ctx.Err()
	case <-timer.C:
		at := u.end()
		s.all.leaveOut(name, fmt.Sprintf("no answer within %v from %s; what was read before is here", limit, at))
		return true, nil
	}
}

func (u *unit) end() (at string) {
	u.all.with(func() { u.over, at = true, u.at })
	return at
}

// begin notes what is read next, and reports whether a caller still waits for it.
func (u *unit) begin(name string) (waits bool) {
	u.all.with(func() { u.at, waits = name, !u.over && !u.all.full })
	return waits
}

// has reports whether something is in the archive already.
func (u *unit) has(name string) (ok bool) {
	u.all.with(func() { _, ok = u.all.entries[name] })
	return ok
}

// forget removes a file that turned out to be unreadable.
func (u *unit) forget(name string) {
	u.change(func(c *collection) {
		if c.entries[name].kind >= named {
			delete(c.entries, name)
		}
	})
}

func (u *unit) seeDevice(name string) { u.change(func(c *collection) { c.devices[name] = true }) }

func (u *unit) put(name string, e entry) { u.change(func(c *collection) { c.locked(name, e) }) }

func (u *unit) fail(name string, err error) {
	u.change(func(c *collection) {
		if len(c.errors) < maxFiles {
			c.errors = append(c.errors, Problem{name, reason(err)})
		}
	})
}

func (u *unit) leaveOut(name, why string) {
	u.change(func(c *collection) { c.leftOut = append(c.leftOut, Problem{name, why}) })
}

// note is fail where err may be nil.
func (u *unit) note(name string, err error) {
	if err != nil {
		u.fail(name, err)
	}
}

func (u *unit) seeInterface(name string) {
	if name != "" {
		u.change(func(c *collection) { c.netdevs[name] = true })
	}
}

// namePort notes the interface of an Ethernet port of which sysfs knows none, as those of siw.
func (u *unit) namePort(port, name string) {
	u.change(func(c *collection) {
		if known, ethernet := c.ports[port]; ethernet && known == "" && name != "" {
			c.ports[port], c.netdevs[name] = name, true
		}
	})
}

func (u *unit) change(f func(*collection)) {
	u.all.with(func() {
		if !u.over {
			f(u.all)
		}
	})
}

// The reasons of this package for not reading a file.
var (
	errTooLong    = errors.New("too long")
	errOutside    = errors.New("link leads out of the tree")
	errRestricted = errors.New("belongs to the platform, not to be touched")
	errUnreadable = errors.New("cannot be read")
)

// reason says why without any path, which may hold an identifier.
func reason(err error) string {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no.Error()
	}
	if fabric.ReasonOf(err) == fabric.ReasonMalformed {
		return "not what the kernel promises"
	}
	for _, e := range []error{errTooLong, ownership.ErrNotRegular, errOutside, errRestricted} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return errUnreadable.Error()
}
