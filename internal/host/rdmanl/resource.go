// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// Bounds of one round of questions about resources.
const (
	maxResourceMessages = 1 << 12 // of one kind, of one device: 32 KiB each, some 400 objects
	maxTasks            = 1 << 12 // that use verbs
)

// Use is what the RDMA core keeps for the programs of a node.
type Use struct {
	// ByTask has what was made by a thread, by its ID in the PID namespace of the reader: a thread, which need not be the
	// first of its process (rdma_restrack_set_name takes current). NCCL makes its queues in threads of its own.
	ByTask map[int]*fabric.VerbsUse
	// Unowned counts objects of programs that the kernel names no thread for: the thread has ended, or is in a PID
	// namespace that the reader does not see. Some kernels leave such objects out, others list them without a PID. So a
	// process that ByTask does not have may use verbs all the same.
	Unowned int
}

// Use asks what the programs of a node have of verbs: their contexts, protection domains, memory regions and completion
// queues on these devices. The RDMA core answers from its own lists; no driver asks its firmware. Kernels without
// RES_CTX_GET (before 5.13) are taken at their protection domains: each belongs to a context.
func (c *Client) Use(devices []Device) (Use, error) {
	u := users{use: Use{ByTask: map[int]*fabric.VerbsUse{}}, uses: map[int]uint64{}, contexts: map[context]bool{}}
	for _, d := range devices {
		for _, k := range resourceKinds() {
			err := c.conn.Each(c.about(k.command, netlink.Dump, d.Index), maxResourceMessages, func(b []byte) error {
				return decodeResources(b, k, func(r resource) error { return u.add(d, k.command, r) })
			})
			if err != nil && (k.command != cmdCtxGet || !errors.Is(err, unix.EINVAL)) {
				return Use{}, err
			}
		}
	}
	for task, n := range u.uses {
		u.use.ByTask[task].QueuePairs = int(n / 2)
	}
	return u.use, nil
}

// resourceKind says where the objects are in an answer: a table in each message, with an entry for each object.
type resourceKind struct {
	command      command
	table, entry uint16
}

func resourceKinds() []resourceKind {
	return []resourceKind{
		{cmdCtxGet, attrResCtx, attrResCtxEntry},
		{cmdPDGet, attrResPD, attrResPDEntry},
		{cmdMRGet, attrResMR, attrResMREntry},
		{cmdCQGet, attrResCQ, attrResCQEntry},
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

// decodeResources reads what res_get_common_dumpit of drivers/infiniband/core/nldev.c writes, and calls f with each object.
// It calls f with none of a message that is malformed.
func decodeResources(b []byte, kind resourceKind, f func(resource) error) error {
	read := func(f func(resource) error) error {
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
				if err := f(r); err != nil {
					return err
				}
			}
		}
		return d.Err()
	}
	if err := read(func(resource) error { return nil }); err != nil {
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
	uses     map[int]uint64   // of completion queues, by task
	contexts map[context]bool // that were counted
}

func (u *users) add(d Device, cmd command, r resource) error {
	switch {
	case r.kernel:
		return nil
	case r.task == 0 || r.task > 1<<22: // PID_MAX_LIMIT
		u.use.Unowned++
		return nil
	}
	task := int(r.task)
	v := u.use.ByTask[task]
	if v == nil {
		if len(u.use.ByTask) == maxTasks {
			return netlink.ErrTooMany
		}
		v = &fabric.VerbsUse{}
		u.use.ByTask[task] = v
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
		u.uses[task] += r.uses
	}
	return nil
}

// context counts a context for the task that is seen with it first: the one that opened it, where the kernel reports that.
func (u *users) context(v *fabric.VerbsUse, c context) {
	if c.number >= 0 && !u.contexts[c] {
		u.contexts[c] = true
		v.Contexts++
	}
}
