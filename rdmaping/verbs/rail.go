// SPDX-License-Identifier: Apache-2.0

package verbs

/*
#include <stdlib.h>
#include "rail.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"gpufabric_exporter/rdmaping"
)

// functions are those of libibverbs, which stays loaded until the process ends.
type functions struct{ table *C.struct_verbs }

func load(path string) (functions, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	table := (*C.struct_verbs)(C.calloc(1, C.sizeof_struct_verbs)) // for as long as the library
	var why [maxText]C.char
	if C.verbs_load(cpath, table, &why[0], maxText) != 0 {
		C.free(unsafe.Pointer(table))
		return functions{}, errors.New(C.GoString(&why[0]))
	}
	return functions{table}, nil
}

// port is a queue pair on a port, in memory of C, because the library keeps pointers to it.
type port struct{ c *C.struct_rail }

func (l functions) open(q *rdmaping.Open) (port, rdmaping.Endpoint, *rdmaping.Failure) {
	p := port{(*C.struct_rail)(C.calloc(1, C.sizeof_struct_rail))}
	p.c.qkey = C.uint32_t(draw()>>33 | 1) // not 0, and without the top bit, for which CAP_NET_RAW would be needed
	p.c.port, p.c.gid_index = C.uint8_t(q.Port), C.uint8_t(q.GIDIndex)
	p.c.traffic_class, p.c.service_level = C.uint8_t(q.TrafficClass), C.uint8_t(q.ServiceLevel)
	p.c.pkey_index = C.uint16_t(q.PKeyIndex)
	name := C.CString(q.Device)
	defer C.free(unsafe.Pointer(name))
	if step := C.rail_open(p.c, l.table, name); step != nil {
		f := failure(C.GoString(step), int(p.c.error))
		p.close()
		return port{}, rdmaping.Endpoint{}, f
	}
	e := rdmaping.Endpoint{
		Device: q.Device, Link: rdmaping.Ethernet, GID: *(*rdmaping.GID)(unsafe.Pointer(&p.c.gid)),
		LID: uint16(p.c.lid), PKey: uint16(p.c.pkey), QPN: uint32(p.c.qpn), QKey: uint32(p.c.qkey),
		MTU: int(p.c.mtu), Timed: p.c.timed != nil,
	}
	if p.c.link_layer == C.LINK_INFINIBAND {
		e.Link = rdmaping.InfiniBand
	}
	if err := e.Check(); err != nil { // nobody could ask it, this rail included
		p.close()
		return port{}, rdmaping.Endpoint{}, &rdmaping.Failure{Step: "the port has no valid address", Text: err.Error()}
	}
	return p, e, nil
}

func failure(step string, errno int) *rdmaping.Failure {
	f := &rdmaping.Failure{Step: step, Errno: errno}
	if errno > 0 {
		f.Text = syscall.Errno(errno).Error()
	}
	return f
}

// quit destroys the queue pair, before the handles that it sends by.
func (p port) quit() { C.rail_quit(p.c) }

func (p port) close() {
	C.rail_close(p.c)
	C.free(unsafe.Pointer(p.c))
}

// handle is a way to a peer.
type handle *C.struct_ibv_ah

func (p port) reach(gid rdmaping.GID, lid uint16, flow uint32) (handle, *rdmaping.Failure) {
	ah, err := C.rail_reach(p.c, (*C.uint8_t)(unsafe.Pointer(&gid[0])), C.uint16_t(lid), C.uint32_t(flow))
	if ah != nil {
		return ah, nil
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	return nil, failure("ibv_create_ah", int(errno))
}

func (p port) forget(h handle) { C.rail_forget(p.c, h) }

// The slots of buffers that send begin after those that receive.
const (
	receives = C.RECEIVES
	sends    = C.SENDS
)

// buffer is the memory of a slot: the route and the message.
func (p port) buffer(slot int) (route, text []byte) {
	b := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p.c.memory), slot*C.BUFFER)), C.BUFFER)
	return b[:C.ROUTE], b[C.ROUTE : C.ROUTE+C.LONGEST]
}

func (p port) send(slot, size int, h handle, qpn, qkey uint32) *rdmaping.Failure {
	errno := C.rail_send(p.c, C.int(slot), C.uint32_t(size), h, C.uint32_t(qpn), C.uint32_t(qkey))
	if errno != 0 {
		return failure("ibv_post_send", int(errno))
	}
	return nil
}

func (p port) receive(slot int) *rdmaping.Failure {
	if errno := C.rail_receive(p.c, C.int(slot)); errno != 0 {
		return failure("ibv_post_recv", int(errno))
	}
	return nil
}

// arrival is a message that came, or one that was sent.
type arrival struct {
	received bool
	status   int // 0: it is well
	slot     int
	size     int
	qpn      uint32
	lid      uint16
	routed   bool
	ticks    uint64 // when it was, by the clock of the NIC if it has one
}

// poll returns what has come, of which there may be more.
func (p port) poll() ([]arrival, *rdmaping.Failure) {
	var done [16]C.struct_arrival
	n := int(C.rail_poll(p.c, &done[0], C.int(len(done))))
	if n < 0 {
		return nil, &rdmaping.Failure{Step: "ibv_poll_cq", Text: fmt.Sprintf("it answers %d", n)}
	}
	out := make([]arrival, 0, n)
	for _, a := range done[:n] {
		out = append(out, arrival{
			received: a.received != 0, status: int(a.status), slot: int(a.slot), size: int(a.size),
			qpn: uint32(a.source_qpn), lid: uint16(a.source_lid), routed: a.routed != 0, ticks: uint64(a.ticks),
		})
	}
	return out, nil
}

// between is the time from one completion to another, by the clock of the NIC.
func (p port) between(from, to uint64) time.Duration {
	return between(from, to, uint64(p.c.clock_mask), uint64(p.c.clock_khz))
}

// between is negative where to is half a turn of the clock or more after from.
func between(from, to, mask, khz uint64) time.Duration {
	ticks := int64((to - from) & mask)
	if uint64(ticks) > mask/2 {
		ticks = int64(uint64(ticks) | ^mask)
	}
	return time.Duration(float64(ticks) * 1e6 / float64(khz))
}

// wait returns when something came, after wake, and at the end of so many milliseconds.
func (p port) wait(milliseconds int) *rdmaping.Failure {
	if errno := C.rail_wait(p.c, C.int(milliseconds)); errno != 0 {
		return failure("waiting for completions", int(errno))
	}
	if p.c.ended != nil {
		return &rdmaping.Failure{Step: "the driver reports", Text: C.GoString(p.c.ended)}
	}
	return nil
}

// gidsChanged reports whether the GIDs of the port changed since it was last called.
func (p port) gidsChanged() bool {
	changed := p.c.gids_changed != 0
	p.c.gids_changed = 0
	return changed
}

// wake may be called by any goroutine, until close.
func (p port) wake() { C.rail_wake(p.c) }
