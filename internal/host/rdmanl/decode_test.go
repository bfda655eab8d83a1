// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// decodes checks a decoder with what a real kernel said.
func decodes[T any](t *testing.T, name string, decode func([]byte) (T, error), want T) {
	t.Helper()
	got, err := decode(payload(t, name))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
	}
}

func TestDecodeDevice(t *testing.T) {
	messages := recording(t, "get")
	for i, want := range map[int]Device{
		0: {Index: 0, Name: "rxe0", Ports: 1, NodeGUID: "44d4:4bff:fef8:ac0a", ImageGUID: "44d4:4bff:fef8:ac0a", NodeType: fabric.NodeCA, Protocol: "roce"},
		2: {Index: 2, Name: "siw0", Ports: 1, NodeGUID: "d8e0:8fff:fec5:d9c2", ImageGUID: "d8e0:8fff:fec5:d9c2", NodeType: fabric.NodeRNIC, Protocol: "iw"},
		9: {
			Index: 9, Name: "fakehca_5", Ports: 1, Firmware: "28.39.1002", NodeGUID: "0000:00ff:fe00:0705",
			ImageGUID: "0000:00ff:fe00:0705", NodeType: fabric.NodeCA, Protocol: "ib",
		},
	} {
		if got, err := decodeDevice(messages[i].Data); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		want.SMI = true
		smi := append(slices.Clone(messages[i].Data), 5, 0, attrDevType, 0, 1, 0, 0, 0)
		if got, err := decodeDevice(smi); err != nil || got != want {
			t.Errorf("for subnet management: %+v, %v", got, err)
		}
	}
}

func TestDecodePort(t *testing.T) {
	up := Port{State: fabric.PortActive, PhysState: fabric.PhysLinkUp}
	decodes(t, "port_get_rxe0_other_netns", decodePort, up)
	roce := up
	roce.NetDevIndex, roce.NetDev = 3, "rdma0"
	decodes(t, "port_get_rxe0", decodePort, roce)
	decodes(t, "port_get_list", decodePort, roce)
	roce.NetDevIndex, roce.NetDev = 8, "hca0"
	decodes(t, "port_get_fakehca_0", decodePort, roce)
	infiniband := up
	infiniband.Subnet = &Subnet{LID: 7, SMLID: 1, Prefix: 0xfe80_0000_0000_0000}
	decodes(t, "port_get_fakehca_5", decodePort, infiniband)
	decodes(t, "port_get_siw1", decodePort, Port{State: fabric.PortDown, PhysState: fabric.PhysDisabled, NetDevIndex: 7, NetDev: "iw1"})
}

// States and types that the kernel may come to know are not errors.
func TestCodes(t *testing.T) {
	for code, want := range []fabric.PortState{"nop", "down", "init", "armed", "active", "active_defer", "", ""} {
		if got := portState(uint8(code)); got != want {
			t.Errorf("state %d: %q, want %q", code, got, want)
		}
	}
	for code, want := range []fabric.PhysState{"", "sleep", "polling", "disabled", "port_configuration_training", "link_up", "link_error_recovery", "phy_test", ""} {
		if got := physState(uint8(code)); got != want {
			t.Errorf("physical state %d: %q, want %q", code, got, want)
		}
	}
	for code, want := range []fabric.NodeType{"", "ca", "switch", "router", "rnic", "usnic", "usnic_udp", "unspecified", ""} {
		if got := nodeType(uint8(code)); got != want {
			t.Errorf("type %d: %q, want %q", code, got, want)
		}
	}
	if portState(255) != "" || physState(255) != "" || nodeType(255) != "" {
		t.Error("255 has a name")
	}
}

func TestDecodeCounters(t *testing.T) {
	decodes(t, "stat_get_rxe0", decodeCounters, []Counter{
		{"sent_pkts", 0},
		{"rcvd_pkts", 0},
		{"duplicate_request", 0},
		{"out_of_seq_request", 0},
		{"rcvd_rnr_err", 0},
		{"send_rnr_err", 0},
		{"rcvd_seq_err", 0},
		{"ack_deferred", 0},
		{"retry_exceeded_err", 0},
		{"retry_rnr_exceeded_err", 0},
		{"completer_retry_err", 0},
		{"send_err", 0},
		{"link_downed", 1},
		{"rdma_sends", 0},
		{"rdma_recvs", 0},
	})
	decodes(t, "stat_get_fakehca_0", decodeCounters, []Counter{
		{"out_of_sequence", 0},
		{"packet_seq_err", 0},
		{"out_of_buffer", 0},
		{"local_ack_timeout_err", 0},
		{"rnr_nak_retry_err", 0},
		{"implied_nak_seq_err", 0},
		{"duplicate_request", 0},
		{"np_cnp_sent", 77},
		{"np_ecn_marked_roce_packets", 0},
		{"rp_cnp_handled", 0},
		{"rp_cnp_ignored", 0},
		{"roce_adp_retrans", 0},
		{"roce_slow_restart", 0},
		{"rx_icrc_encapsulated", 1<<64 - 1},
	})
}

// PAD (0) as architectures without unaligned access have it, attributes that are not known, a nest without its flag,
// entries in another order of attributes, and a name that comes twice.
func TestCountersVariations(t *testing.T) {
	const nested = 1 << 15
	entry := func(flag uint16, parts ...[]byte) []byte {
		return put(nil, attrStatHWCounterEntry|flag, slices.Concat(parts...))
	}
	name := put(nil, attrStatHWCounterName, "ecn")
	value := func(v uint64) []byte { return put(nil, attrStatHWCounterValue, v) }
	pad := put(nil, 0, []byte{})
	unknown := put(nil, 0x3fff, []byte{1, 2, 3})
	table := slices.Concat(
		unknown,
		entry(nested, name, pad, value(1)),
		entry(0, unknown, value(2), name, pad),
		pad,
	)
	b := slices.Concat(put(nil, attrDevIndex, uint32(0)), unknown, put(nil, attrStatHWCounters, table), unknown)
	want := []Counter{{"ecn", 1}, {"ecn", 2}}
	if got, err := decodeCounters(b); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := decodeCounters(put(nil, attrStatHWCounters, []byte{})); err != nil || got == nil || len(got) != 0 {
		t.Errorf("no counters: %v, %v", got, err)
	}
}

func TestDecodeSystem(t *testing.T) {
	decodes(t, "sys_get", decodeSystem, System{SharedNetNS: true, CopyOnFork: true})
	exclusive := put(put(nil, attrSysNetNSMode, uint8(0)), attrSysMonitorMode, uint8(1))
	if got, err := decodeSystem(exclusive); err != nil || got != (System{Monitor: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Errors name the attribute and what was expected, and nothing comes with them.
func TestMalformed(t *testing.T) {
	port := func(b []byte) any { v, err := decodePort(b); return result{v, err} }
	device := func(b []byte) any { v, err := decodeDevice(b); return result{v, err} }
	counters := func(b []byte) any { v, err := decodeCounters(b); return result{v, err} }
	system := func(b []byte) any { v, err := decodeSystem(b); return result{v, err} }
	counter := func(name any, value any) []byte {
		entry := put(put(nil, attrStatHWCounterName, name), attrStatHWCounterValue, value)
		return put(nil, attrStatHWCounters, put(nil, attrStatHWCounterEntry, entry))
	}
	for _, c := range []struct {
		name   string
		decode func([]byte) any
		b      []byte
		want   string
	}{
		{"nothing", port, nil, "ATTR_PORT_STATE: missing"},
		{"no header", system, put(nil, attrSysNetNSMode, uint8(1))[:3], "ATTR_UNSPEC: followed by 3 bytes, expected another attribute or none"},
		{"cut header", system, append(put(nil, attrSysNetNSMode, uint8(1)), 8, 0), "SYS_ATTR_NETNS_MODE: followed by 2 bytes, expected another attribute or none"},
		{"cut payload", port, put(nil, attrLID, uint32(1))[:7], "ATTR_LID: a length of 8, expected 4 to 7"},
		{"length below the header", port, []byte{3, 0, 12, 0}, "ATTR_PORT_STATE: a length of 3, expected 4 to 4"},
		{"length 0", port, []byte{0, 0, 12, 0}, "ATTR_PORT_STATE: a length of 0, expected 4 to 4"},
		{"length beyond the message", port, []byte{255, 255, 12, 0, 1, 0, 0, 0}, "ATTR_PORT_STATE: a length of 65535, expected 4 to 8"},
		{"wide u8", port, put(nil, attrPortState, uint32(4)), "ATTR_PORT_STATE: 4 bytes, expected 1"},
		{"narrow u32", port, put(nil, attrLID, uint8(4)), "ATTR_LID: 1 bytes, expected 4"},
		{"narrow u64", device, put(nil, attrNodeGUID, uint32(4)), "ATTR_NODE_GUID: 4 bytes, expected 8"},
		{"not a flag", system, put(nil, attrSysNetNSMode, uint8(2)), "SYS_ATTR_NETNS_MODE: 2, expected 0 or 1"},
		{"empty", device, put(nil, attrDevName, []byte{}), `ATTR_DEV_NAME: "", expected a NUL at the end`},
		{"empty name", counters, counter("", uint64(1)), "ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: ATTR_STAT_HWCOUNTER_ENTRY_NAME: empty, expected a string"},
		{"no NUL", counters, counter([]byte("abc"), uint64(1)), `ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: ATTR_STAT_HWCOUNTER_ENTRY_NAME: "abc", expected a NUL at the end`},
		{"NUL inside", counters, counter("a\x00b", uint64(1)), `ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: ATTR_STAT_HWCOUNTER_ENTRY_NAME: "a\x00b\x00", expected no NUL before the end`},
		{"not UTF-8", counters, counter("\xff", uint64(1)), `ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: ATTR_STAT_HWCOUNTER_ENTRY_NAME: "\xff\x00", expected UTF-8`},
		{"value of 4 bytes", counters, counter("a", uint32(1)), "ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: ATTR_STAT_HWCOUNTER_ENTRY_VALUE: 4 bytes, expected 8"},
		{"entry without value", counters, put(nil, attrStatHWCounters, put(nil, attrStatHWCounterEntry, put(nil, attrStatHWCounterName, "a"))), "ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: ATTR_STAT_HWCOUNTER_ENTRY_VALUE: missing"},
		{"entry cut short", counters, put(nil, attrStatHWCounters, []byte{24, 0, 81, 0}), "ATTR_STAT_HWCOUNTERS: ATTR_STAT_HWCOUNTER_ENTRY: a length of 24, expected 4 to 4"},
		{"no table", counters, put(nil, attrDevIndex, uint32(1)), "ATTR_STAT_HWCOUNTERS: missing"},
		{"table that is no nest", counters, put(nil, attrStatHWCounters, []byte{1, 2, 3}), "ATTR_STAT_HWCOUNTERS: ATTR_UNSPEC: followed by 3 bytes, expected another attribute or none"},
	} {
		got := c.decode(c.b).(result)
		if got.err == nil || !errors.Is(got.err, netlink.ErrMalformed) || !strings.HasPrefix(got.err.Error(), c.want+": ") {
			t.Errorf("%s: %v, want %s", c.name, got.err, c.want)
		}
		if !reflect.ValueOf(got.value).IsZero() {
			t.Errorf("%s: returns %+v with the error", c.name, got.value)
		}
	}
}

type result struct {
	value any
	err   error
}

// Every message that ends too early is an error, or complete without what was cut off; none is a panic.
func TestTruncated(t *testing.T) {
	b := payload(t, "stat_get_fakehca_0")
	for n := range len(b) {
		if got, err := decodeCounters(b[:n]); !errors.Is(err, netlink.ErrMalformed) || got != nil {
			t.Errorf("%d of %d bytes: %v, %v", n, len(b), got, err)
		}
	}
}

func BenchmarkDecodeCounters(b *testing.B) {
	data := payload(b, "stat_get_fakehca_0")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeCounters(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePort(b *testing.B) {
	data := payload(b, "port_get_fakehca_0")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodePort(data); err != nil {
			b.Fatal(err)
		}
	}
}
