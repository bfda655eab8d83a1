// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"gpufabric_exporter/rdmaping"
)

// A message is 64 bytes or more, big-endian: magic (8), kind (1), 1 where times of the NIC are wanted (1), 1 where
// people ask (1), zero (1), flow label (4), key of the one that is asked (8), number that the asker draws (8), its
// Q_Key (4), zero (4), time in the host that answers (8, nanoseconds), zero.
type message struct {
	kind   byte
	timed  bool
	byHand bool
	flow   uint32
	key    uint64
	number uint64 // of the message, so that nobody answers who was not asked
	qkey   uint32
	remote time.Duration
}

const (
	magic      = "gpfping2"
	kindAsk    = 1
	kindAnswer = 2
	kindTimes  = 3 // follows an answer: the time from the message to the answer, by the clock of the NIC
)

var errForeign = errors.New("not a message of RDMA ping")

func (m message) put(b []byte) {
	clear(b)
	copy(b, magic)
	b[8] = m.kind
	if m.timed {
		b[9] = 1
	}
	if m.byHand {
		b[10] = 1
	}
	binary.BigEndian.PutUint32(b[12:], m.flow)
	binary.BigEndian.PutUint64(b[16:], m.key)
	binary.BigEndian.PutUint64(b[24:], m.number)
	binary.BigEndian.PutUint32(b[32:], m.qkey)
	binary.BigEndian.PutUint64(b[40:], uint64(m.remote))
}

func parseMessage(b []byte) (message, error) {
	if len(b) < rdmaping.Least || string(b[:8]) != magic || b[8] < kindAsk || b[8] > kindTimes {
		return message{}, errForeign
	}
	return message{
		kind: b[8], timed: b[9] == 1, byHand: b[10] == 1,
		flow: binary.BigEndian.Uint32(b[12:]) & 0xfffff, key: binary.BigEndian.Uint64(b[16:]),
		number: binary.BigEndian.Uint64(b[24:]), qkey: binary.BigEndian.Uint32(b[32:]) &^ (1 << 31),
		remote: time.Duration(binary.BigEndian.Uint64(b[40:])),
	}, nil
}

// sourceOf returns the GID that a message came from, by the 40 bytes before it: a GRH, or an IPv4 header in the
// second half of them (RoCE v2). What is before that is undefined, and may look like a GRH: then the checksum tells.
// Soft-RoCE writes none by loopback, and zeros before.
func sourceOf(route []byte) (rdmaping.GID, bool) {
	if len(route) < 40 {
		return rdmaping.GID{}, false
	}
	v4, like6 := route[20:40], route[0]>>4 == 6
	switch {
	case v4[0] == 0x45 && v4[9] == 17 && (!like6 || sumOf(v4) == 0xffff): // no options; UDP
		return netip.AddrFrom4([4]byte(v4[12:16])).As16(), true
	case like6:
		return rdmaping.GID(route[8:24]), true
	}
	return rdmaping.GID{}, false
}

// sumOf is the sum of an IPv4 header, which its checksum makes 0xffff.
func sumOf(header []byte) uint32 {
	var sum uint32
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	return sum>>16 + sum&0xffff
}
