// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
)

// route4 is 40 bytes before a message over IPv4, of which the first 20 are garbage.
func route4(garbage byte, check bool) []byte {
	b := make([]byte, 40)
	for i := range 20 {
		b[i] = garbage
	}
	b[20], b[22], b[28], b[29] = 0x45, 1, 64, 17
	copy(b[32:], []byte{10, 0, 0, 7, 10, 0, 0, 8})
	var sum uint32
	for i := 20; i < 40; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if check {
		binary.BigEndian.PutUint16(b[30:], ^uint16(sum+sum>>16))
	}
	return b
}

// TestSourceOf tells IPv4 from IPv6 as libibverbs does: what is before an IPv4 header may look like the other one.
func TestSourceOf(t *testing.T) {
	v4, v6 := rdmaping.GID(netip.MustParseAddr("::ffff:10.0.0.7").As16()), netip.MustParseAddr("fe80::4500:0:0:11").As16()
	grh := make([]byte, 40)
	grh[0] = 0x60
	copy(grh[8:], v6[:])
	likeV4 := make([]byte, 40) // a GRH whose addresses look like an IPv4 header but for its checksum
	copy(likeV4, route4(0, false))
	likeV4[0], likeV4[8] = 0x60, 0xfe
	wrong := route4(0, false)
	wrong[29] = 6
	for name, c := range map[string]struct {
		route []byte
		want  rdmaping.GID
	}{
		"IPv4":                            {route4(0, true), v4},
		"IPv4 after garbage":              {route4(0xee, true), v4},
		"IPv4 after what looks like IPv6": {route4(0x66, true), v4},
		"IPv4 without a checksum, as of loopback": {route4(0, false), v4},
		"IPv6":                      {grh, v6},
		"IPv6 that looks like IPv4": {likeV4, rdmaping.GID(likeV4[8:24])},
		"no UDP":                    {wrong, rdmaping.GID{}},
		"nothing":                   {make([]byte, 40), rdmaping.GID{}},
		"short":                     {make([]byte, 39), rdmaping.GID{}},
	} {
		got, ok := sourceOf(c.route)
		if got != c.want || ok != (c.want != rdmaping.GID{}) {
			t.Errorf("%s: %s, %t, expected %s", name, got, ok, c.want)
		}
	}
}

// TestNoLID knows a peer of RoCE by its GID: the LID of a completion is garbage there, and so may be that of a port.
func TestNoLID(t *testing.T) {
	for _, clocks := range []string{"", clocks} {
		f := open(t, 2, clocks)
		if f.ends[0].LID != 0 {
			t.Errorf("%+v: RoCE has no LID", f.ends[0])
		}
		f.ends[1].LID = 9 // of an older peer
		for range 4 {
			f.expect("peer", 0, 1, 64, true)
			f.expect("loopback", 0, 0, 64, true)
			f.expect("back", 1, 0, 64, true)
		}
		f.handles(0, 2)
		f.handles(1, 1)
		for _, s := range f.servers {
			s.Close()
		}
	}
}

// TestECT marks messages and answers of RoCE as able to carry ECN, as connections do, and leaves what is stated.
func TestECT(t *testing.T) {
	for _, c := range []struct {
		class, sent int
	}{{104, 106}, {0, 2}, {105, 105}, {7, 7}} {
		f := devices(t, 2)
		for i := range 2 {
			s := NewServer()
			t.Cleanup(s.Close)
			r := f.do(s, rdmaping.Request{Open: &rdmaping.Open{
				Library: f.library, Device: fmt.Sprintf("rdma%d", i), Port: 1, GIDIndex: 3, TrafficClass: c.class,
			}})
			if r.Failure != nil {
				t.Fatal(r.Failure)
			}
			f.servers, f.ends = append(f.servers, s), append(f.ends, *r.Endpoint)
		}
		f.plant(fmt.Sprintf("class all %d", c.sent))
		f.expect("class", 0, 1, 64, true)
		f.plant(fmt.Sprintf("class all %d", c.sent^1))
		if p := f.ask(0, f.ends[1], 64, 20*time.Millisecond); !p.Lost {
			t.Errorf("%+v", p)
		}
	}
}
