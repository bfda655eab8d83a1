// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// What the kernel is listened to at most: for one list, and for all of a look. It lists some million objects
// in a second. How many objects there are is up to the programs that make them, so that no number bounds
// them.
const (
	longestList = time.Second
	longestUse  = 3 * time.Second
)

// Use is what the RDMA core keeps for the programs of a node.
type Use struct {
	// ByProcess has what the threads of a process made. The kernel reports the thread that made an object, by
	// its ID in the PID namespace of the reader (rdma_restrack_set_name takes current). NCCL makes its queues in
	// threads of its own.
	ByProcess map[int]*fabric.VerbsUse
	// Unowned counts objects of programs that the kernel names no thread for: the thread has ended, or is in a PID
	// namespace that the reader does not see. Some kernels leave such objects out, others list them without a PID. So a
	// process that ByProcess does not have may use verbs all the same.
	Unowned int
	// Partial: there are more protection domains or memory regions than are listed, and their numbers are -1.
	Partial bool
}

// Use asks what the programs of a node have of verbs: their contexts, completion queues, protection domains and memory
// regions on these devices. The RDMA core answers from its own lists; no driver asks its firmware. Kernels without
// RES_CTX_GET (before 5.13) are taken at their protection domains: each belongs to a context. process returns
// the process that a thread is of, or 0 for one that is not asked about: only as many as it knows are kept.
func (c *Client) Use(devices []Device, process func(task int) int) (Use, error) {
	u := users{
		use: Use{ByProcess: map[int]*fabric.VerbsUse{}}, uses: map[int]uint64{}, contexts: map[context]bool{},
		process: process,
	}
	ask := &asker{c: c, users: &u, until: time.Now().Add(longestUse)}
	domains := false
	for _, d := range devices {
		err := ask.about(d, kindOf(cmdCtxGet))
		if errors.Is(err, unix.EINVAL) {
			domains = true
			err = ask.about(d, kindOf(cmdPDGet))
		}
		if err == nil {
			err = ask.about(d, kindOf(cmdCQGet))
		}
		if err != nil {
			return Use{}, err
		}
	}
	for process, n := range u.uses {
		u.use.ByProcess[process].QueuePairs = int(n / 2)
	}
	// These cost a program next to nothing. They are asked for last: an answer that is too long leaves the rest as it is.
	for _, cmd := range []command{cmdPDGet, cmdMRGet} {
		for _, d := range devices {
			if cmd == cmdPDGet && domains {
				continue
			}
			if err := ask.about(d, kindOf(cmd)); errors.Is(err, netlink.ErrTooLong) {
				return u.partial(), nil
			} else if err != nil {
				return Use{}, err
			}
		}
	}
	return u.use, nil
}

// asker asks for lists of objects.
type asker struct {
	c     *Client
	users *users
	until time.Time
}

func (a *asker) about(d Device, k resourceKind) error {
	within := min(longestList, time.Until(a.until))
	return a.c.conn.Each(a.c.about(k.command, netlink.Dump, d.Index), within, func(b []byte) error {
		return decodeResources(b, k, func(r resource) { a.users.add(d, k.command, r) })
	})
}

// partial is the use without what could not be listed.
func (u *users) partial() Use {
	for _, v := range u.use.ByProcess {
		v.PDs, v.Regions, v.Bytes = -1, -1, 0
	}
	u.use.Partial = true
	return u.use
}

// resourceKind says where the objects are in an answer: a table in each message, with an entry for each object.
type resourceKind struct {
	command      command
	table, entry uint16
}

func kindOf(cmd command) resourceKind {
	switch cmd {
	case cmdCtxGet:
		return resourceKind{cmd, attrResCtx, attrResCtxEntry}
	case cmdPDGet:
		return resourceKind{cmd, attrResPD, attrResPDEntry}
	case cmdMRGet:
		return resourceKind{cmd, attrResMR, attrResMREntry}
	default:
		return resourceKind{cmdCQGet, attrResCQ, attrResCQEntry}
	}
}

// resource is an object of a program or of a kernel module.
type resource struct {
	task    uint32 // RDMA_NLDEV_ATTR_RES_PID; 0: not reported
	kernel  bool   // it has RDMA_NLDEV_ATTR_RES_KERN_NAME
	context int64  // RDMA_NLDEV_ATTR_RES_CTXN of contexts and protection domains; -1: not reported
	length  uint64 // RDMA_NLDEV_ATTR_RES_MRLEN of memory regions, in bytes
	uses    uint64 // RDMA_NLDEV_ATTR_RES_USECNT of completion queues and protection domains
}

// decodeResources reads what res_get_common_dumpit of drivers/infiniband/core/nldev.c writes, and calls f
// with each object. It calls f with none of a message that is malformed.
func decodeResources(b []byte, kind resourceKind, f func(resource)) error {
	read := func(f func(resource)) error {
		d := netlink.Decode(b, attributeName)
		for d.Next() {
			if d.Type() != kind.table {
				continue
			}
			table := d.Nest(attributeName)
			for table.Next() {
				if table.Type() != kind.entry {
					continue
				}
				r := decodeResource(&table)
				if table.Err() != nil {
					break
				}
				f(r)
			}
		}
		return d.Err()
	}
	if err := read(func(resource) {}); err != nil {
		return err
	}
	return read(f)
}

func decodeResource(table *netlink.Decoder) (r resource) {
	r.context = -1
	entry := table.Nest(attributeName)
	for entry.Next() {
		switch entry.Type() {
		case attrResPID:
			r.task = entry.Uint32()
		case attrResKernName:
			r.kernel = true
		case attrResCtxN:
			r.context = int64(entry.Uint32())
		case attrResMRLen:
			r.length = entry.Uint64()
		case attrResUseCount:
			r.uses = entry.Uint64()
		}
	}
	return r
}

// context is one of a device.
type context struct {
	device uint32
	number int64
}

// users adds up the objects of all devices.
type users struct {
	use      Use
	uses     map[int]uint64 // of completion queues, by process
	process  func(task int) int
	contexts map[context]bool // that were counted
}

func (u *users) add(d Device, cmd command, r resource) {
	switch {
	case r.kernel:
		return
	case r.task == 0 || r.task > 1<<22: // PID_MAX_LIMIT
		u.use.Unowned++
		return
	}
	process := u.process(int(r.task))
	if process == 0 {
		return
	}
	v := u.use.ByProcess[process]
	if v == nil {
		v = &fabric.VerbsUse{}
		u.use.ByProcess[process] = v
	}
	if !slices.Contains(v.Devices, d.Name) {
		v.Devices = append(v.Devices, d.Name)
	}
	switch cmd {
	case cmdCtxGet:
		u.context(v, context{d.Index, r.context})
	case cmdPDGet:
		v.PDs++
		u.context(v, context{d.Index, r.context})
	case cmdMRGet:
		v.Regions++
		v.Bytes += r.length
	case cmdCQGet:
		u.uses[process] += r.uses
	}
}

// context counts a context for the process that is seen with it first: the one that opened it, where the
// kernel reports that.
func (u *users) context(v *fabric.VerbsUse, c context) {
	if c.number >= 0 && !u.contexts[c] {
		u.contexts[c] = true
		v.Contexts++
	}
}
