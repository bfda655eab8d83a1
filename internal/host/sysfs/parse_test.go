// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
)

// check runs a parser over what it must read and what it must refuse.
func check[T any](t *testing.T, parse func([]byte) (T, bool), good map[string]T, bad ...string) {
	t.Helper()
	for s, want := range good {
		for _, s := range []string{s, s + "\n"} {
			if got, ok := parse([]byte(s)); !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("parsing %q = %v, %v, want %v", s, got, ok, want)
			}
		}
	}
	for _, s := range append(bad, "", "\n", "\x00", "\xff\xfe", "  ", strings.Repeat("7", pageSize)) {
		if got, ok := parse([]byte(s)); ok {
			t.Errorf("parsing %.60q = %v, want nothing", s, got)
		}
	}
}

func TestParseRate(t *testing.T) {
	check(t, parseRate, map[string]fabric.Rate{
		"400 Gb/sec (4X NDR)":  {BytesPerSecond: 50e9, Lanes: 4, Generation: "NDR"},
		"800 Gb/sec (4X XDR)":  {BytesPerSecond: 100e9, Lanes: 4, Generation: "XDR"},
		"200 Gb/sec (2X NDR)":  {BytesPerSecond: 25e9, Lanes: 2, Generation: "NDR"},
		"2.5 Gb/sec (1X SDR)":  {BytesPerSecond: 312.5e6, Lanes: 1, Generation: "SDR"},
		"10 Gb/sec (4X)":       {BytesPerSecond: 1.25e9, Lanes: 4},
		"10 Gb/sec (4X SDR)":   {BytesPerSecond: 1.25e9, Lanes: 4, Generation: "SDR"},
		"40 Gb/sec (4X FDR10)": {BytesPerSecond: 5e9, Lanes: 4, Generation: "FDR10"},
		"56 Gb/sec (4X FDR)":   {BytesPerSecond: 7e9, Lanes: 4, Generation: "FDR"},
		"7.5 Gb/sec (12X QX1)": {BytesPerSecond: 937.5e6, Lanes: 12, Generation: "QX1"},
	}, "N/A (no PMA)", "400 Gb/sec", "400 Gb/sec (4X NDR", "400 Gb/sec 4X NDR)", "-400 Gb/sec (4X NDR)", "0 Gb/sec (4X NDR)", "400.55 Gb/sec (4X NDR)",
		"400. Gb/sec (4X NDR)", " Gb/sec (4X NDR)", "400 Gb/sec (0X NDR)", "400 Gb/sec (4XNDR)", "400 Gb/sec (4X ndr)", "400 Gb/sec (4X )",
		"400 Gb/sec (X)", "4000000 Gb/sec (4X NDR)", "400 Gb/sec (4X NDR) ", "400 Mb/sec (4X NDR)", "1e3 Gb/sec (4X NDR)", "400 Gb/sec (4X N\nR)")
}

func TestParseCounter(t *testing.T) {
	check(t, parseCounter, map[string]uint64{"0": 0, "15": 15, "65237\n\n": 65237, "4294967296": 1 << 32, "18446744073709551615": 1<<64 - 1},
		"18446744073709551616", "-1", "+1", "1_000", "0x10", "1.0", "1e3", " 1", "1 ", "1\n2\n", "N/A (no PMA)", strings.Repeat("0", 21))
	check(t, parseLifespan, map[string]time.Duration{"0": 0, "12": 12 * time.Millisecond, "10000": 10 * time.Second}, "-1", "11001", "1.5", "soon")
}

func TestParseStates(t *testing.T) {
	states, phys := map[string]fabric.PortState{}, map[string]fabric.PhysState{}
	for i, word := range []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"} {
		states[fmt.Sprintf("%d: %s", i, word)] = fabric.PortStates()[i]
	}
	for i, word := range []string{"Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test"} {
		phys[fmt.Sprintf("%d: %s", i+1, word)] = fabric.PhysStates()[i]
	}
	check(t, parsePortState, states, "4: UNKNOWN", "6: UNKNOWN", "9: ACTIVE", "4:ACTIVE", "ACTIVE", "4: ACTIVE\nx", "5: LinkUp")
	check(t, parsePhysState, phys, "5: <unknown>", "<unknown>", "9: Offline", "0: LinkUp", "LinkUp", "4: ACTIVE")
	check(t, parseLinkLayer, map[string]fabric.LinkLayer{
		"InfiniBand": fabric.LinkInfiniBand, "Ethernet": fabric.LinkEthernet, "Unknown": fabric.LinkUnspecified,
	}, "ethernet", "IB", "Unspecified")
	check(t, parseNodeType, map[string]fabric.NodeType{
		"1: CA": fabric.NodeCA, "2: switch": fabric.NodeSwitch, "3: router": fabric.NodeRouter, "4: RNIC": fabric.NodeRNIC,
		"5: usNIC": fabric.NodeUSNIC, "6: usNIC UDP": fabric.NodeUSNICUDP, "7: unspecified": fabric.NodeUnspecified,
	}, "8: <unknown>", "<unknown>", "1: ca", "4: CA")
	check(t, parseOperState, map[string]string{"up": "up", "lowerlayerdown": "lowerlayerdown", "unknown": "unknown"}, "UP", "sideways")
}

func TestParseAddresses(t *testing.T) {
	check(t, parseGID, map[string]netip.Addr{
		"fe80:0000:0000:0000:344f:2fff:feb7:27f8": netip.MustParseAddr("fe80::344f:2fff:feb7:27f8"),
		"0000:0000:0000:0000:0000:ffff:c0a8:0701": netip.MustParseAddr("::ffff:192.168.7.1"),
		"0000:0000:0000:0000:0000:0000:0000:0000": netip.IPv6Unspecified(),
		"FE80:0000:0000:0000:0000:0000:0000:0001": netip.MustParseAddr("fe80::1"),
	}, "fe80::1", "::", "fe80:0000:0000:0000:344f:2fff:feb7", "fe80:0000:0000:0000:344f:2fff:feb7:27f8:0000",
		"fe80:0000:0000:0000:344f:2fff:feb7:27fg", "fe80-0000:0000:0000:344f:2fff:feb7:27f8", "fe80:0000:0000:0000:344f:2fff:feb727:f8")
	check(t, parseGUID, map[string]string{"344f:2fff:feb7:27f8": "344f:2fff:feb7:27f8", "0000:0000:0000:0000": "0000:0000:0000:0000"},
		"344f:2fff:feb7", "0x344f2ffffeb727f8", "344f:2fff:feb7:27g8", "344f:2fff:feb7:27f8:0000")
}

func TestParseInt(t *testing.T) {
	parse := parseInt(-1, 0xffff)
	for s, want := range map[string]int{"0": 0, "-1": -1, "65535": 65535, "0x1a\n": 26, "0xFFFF": 65535, "1\n": 1} {
		if got, ok := parse([]byte(s)); !ok || got != want {
			t.Errorf("parsing %q = %d, %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "\n", "-2", "65536", "0x10000", "0x", "0x-1", "-0x1", "+1", "0x+1", "1_0", "1.0", "1 ", " 1", "0b1", "ff",
		"99999999999999999999", "0xffffffffffffffffff", "1\n1", "\xff",
	} {
		if got, ok := parse([]byte(s)); ok {
			t.Errorf("parsing %q = %d, want nothing", s, got)
		}
	}
}

func TestParseText(t *testing.T) {
	check(t, parseText, map[string]string{"28.39.1002": "28.39.1002", "  MT_0000000838 ": "MT_0000000838", "µ \"q\" \\": "µ \"q\" \\"},
		"a\x00b", "a\nb", "a\tb", "\x7fa", "\xc3(", strings.Repeat("a", 129))
}

func TestParseNetDev(t *testing.T) {
	check(t, parseNetDev, map[string]string{"eth0": "eth0", "bond0.100": "bond0.100", "enp23s0f0np0": "enp23s0f0np0", "µ\"\\": "µ\"\\"},
		".", "..", "a/b", "a b", "a:b", "a\tb", "sixteen_chars_xx", "a\xff")
}

// The fuzzers check that a parser never panics, and what is true of everything it accepts.

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"400 Gb/sec (4X NDR)\n", "2.5 Gb/sec (1X SDR)", "10 Gb/sec (4X)", "40 Gb/sec (4X FDR10)", "", "0.5 Gb/sec (12X )"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := parseRate(b)
		if !ok && r != (fabric.Rate{}) {
			t.Errorf("refused %q but returned %+v", b, r)
		}
		if ok && (r.BytesPerSecond < 1e8/8 || r.BytesPerSecond > 1e15/8 || r.Lanes < 1 || r.Lanes > 64 || len(r.Generation) > 8) {
			t.Errorf("parseRate(%q) = %+v", b, r)
		}
	})
}

func FuzzParsePortState(f *testing.F) {
	for _, s := range []string{"4: ACTIVE\n", "5: ACTIVE_DEFER", "6: UNKNOWN", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parsePortState(b); ok != slices.Contains(fabric.PortStates(), s) {
			t.Errorf("parsePortState(%q) = %q, %v", b, s, ok)
		}
	})
}

func FuzzParsePhysState(f *testing.F) {
	for _, s := range []string{"5: LinkUp\n", "7: Phy Test", "<unknown>", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parsePhysState(b); ok != slices.Contains(fabric.PhysStates(), s) {
			t.Errorf("parsePhysState(%q) = %q, %v", b, s, ok)
		}
	})
}

func FuzzParseWords(f *testing.F) {
	for _, s := range []string{"1: CA\n", "6: usNIC UDP", "InfiniBand\n", "Unknown", "up\n", "<unknown>", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := parseNodeType(b)
		if ok == (n == "") {
			t.Errorf("parseNodeType(%q) = %q, %v", b, n, ok)
		}
		l, ok := parseLinkLayer(b)
		if ok == (l == "") {
			t.Errorf("parseLinkLayer(%q) = %q, %v", b, l, ok)
		}
		s, ok := parseOperState(b)
		if ok == (s == "") {
			t.Errorf("parseOperState(%q) = %q, %v", b, s, ok)
		}
	})
}

func FuzzParseGID(f *testing.F) {
	for _, s := range []string{"fe80:0000:0000:0000:344f:2fff:feb7:27f8\n", "0000:0000:0000:0000:0000:ffff:c0a8:0701", zeroGID, "fe80::1", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := parseGID(b)
		if !ok {
			return
		}
		raw := a.As16()
		again := fmt.Sprintf("%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x", raw[0:2], raw[2:4], raw[4:6], raw[6:8], raw[8:10], raw[10:12], raw[12:14], raw[14:16])
		if again != strings.ToLower(string(line(b))) {
			t.Errorf("parseGID(%q) = %v", b, a)
		}
	})
}

func FuzzParseGUID(f *testing.F) {
	for _, s := range []string{"344f:2fff:feb7:27f8\n", "0000:0000:0000:0000", "344f:2fff:feb7:27g8", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parseGUID(b); ok && (len(s) != 19 || s != string(line(b))) {
			t.Errorf("parseGUID(%q) = %q", b, s)
		}
	})
}

func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"0x1a\n", "-1", "65535", "0xfffffffffffffffff", "99999999999999999999", "0x", "-0x1", "+1", "1_0", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, ok := parseInt(-1, 0xffff)(b); ok && (n < -1 || n > 0xffff) {
			t.Errorf("parseInt(%q) = %d", b, n)
		}
	})
}

func FuzzParseCounter(f *testing.F) {
	for _, s := range []string{"0\n", "18446744073709551615", "18446744073709551616", "-1", "+1", "1_000", "0x1", "007", "N/A (no PMA)\n", "1\n\n", " 1", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := parseCounter(b)
		s := strings.TrimLeft(string(line(b)), "0")
		if ok && s != strings.TrimLeft(strconv.FormatUint(n, 10), "0") || !ok && n != 0 {
			t.Errorf("parseCounter(%q) = %d, %v", b, n, ok)
		}
		if d, ok := parseLifespan(b); ok && (d < 0 || d > 11*time.Second) {
			t.Errorf("parseLifespan(%q) = %v", b, d)
		}
	})
}

func FuzzParseNames(f *testing.F) {
	for _, s := range []string{"eth0\n", "bond0.100", "28.39.1002\n", "a b", "µ", "\xff", "a\x00", "..", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for what, parse := range map[string]func([]byte) (string, bool){"parseText": parseText, "parseNetDev": parseNetDev} {
			s, ok := parse(b)
			if ok == (s == "") || !utf8.ValidString(s) || len(s) > 128 || strings.ContainsAny(s, "\n\x00") {
				t.Errorf("%s(%q) = %q, %v", what, b, s, ok)
			}
		}
		if s := string(b); validCounterName(s) && (s == lifespanName || len(s) > maxCounterName || strings.ContainsAny(s, "\n\x00\x7f")) {
			t.Errorf("validCounterName(%q)", s)
		}
		if s := string(b); validDeviceName(s) && (strings.Contains(s, "/") || len(s) > maxDeviceName || !utf8.ValidString(s)) {
			t.Errorf("validDeviceName(%q)", s)
		}
	})
}
