// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
)

// The parsers below are pure. They return false for whatever the kernel's ABI does not promise
// (Documentation/ABI/stable/sysfs-class-infiniband); words are printed by drivers/infiniband/core/sysfs.c.

// parseNodeType reads node_type (node_type_show).
func parseNodeType(b []byte) (fabric.NodeType, bool) {
	switch string(line(b)) {
	case "1: CA":
		return fabric.NodeCA, true
	case "2: switch":
		return fabric.NodeSwitch, true
	case "3: router":
		return fabric.NodeRouter, true
	case "4: RNIC":
		return fabric.NodeRNIC, true
	case "5: usNIC":
		return fabric.NodeUSNIC, true
	case "6: usNIC UDP":
		return fabric.NodeUSNICUDP, true
	case "7: unspecified":
		return fabric.NodeUnspecified, true
	}
	return "", false
}

// parsePortState reads ports/N/state (state_show).
func parsePortState(b []byte) (fabric.PortState, bool) {
	switch string(line(b)) {
	case "0: NOP":
		return fabric.PortNop, true
	case "1: DOWN":
		return fabric.PortDown, true
	case "2: INIT":
		return fabric.PortInit, true
	case "3: ARMED":
		return fabric.PortArmed, true
	case "4: ACTIVE":
		return fabric.PortActive, true
	case "5: ACTIVE_DEFER":
		return fabric.PortActiveDefer, true
	}
	return "", false
}

// parsePhysState reads ports/N/phys_state (phys_state_to_str).
func parsePhysState(b []byte) (fabric.PhysState, bool) {
	switch string(line(b)) {
	case "1: Sleep":
		return fabric.PhysSleep, true
	case "2: Polling":
		return fabric.PhysPolling, true
	case "3: Disabled":
		return fabric.PhysDisabled, true
	case "4: PortConfigurationTraining":
		return fabric.PhysTraining, true
	case "5: LinkUp":
		return fabric.PhysLinkUp, true
	case "6: LinkErrorRecovery":
		return fabric.PhysRecovery, true
	case "7: Phy Test":
		return fabric.PhysPhyTest, true
	}
	return "", false
}

// parseLinkLayer reads ports/N/link_layer (link_layer_show).
func parseLinkLayer(b []byte) (fabric.LinkLayer, bool) {
	switch string(line(b)) {
	case "InfiniBand":
		return fabric.LinkInfiniBand, true
	case "Ethernet":
		return fabric.LinkEthernet, true
	case "Unknown":
		return fabric.LinkUnspecified, true
	}
	return "", false
}

// parseRate reads ports/N/rate (rate_show): "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)". Old kernels print no
// word for SDR, nor for generations they do not know.
func parseRate(b []byte) (fabric.Rate, bool) {
	speed, width, ok := strings.Cut(string(line(b)), " Gb/sec (")
	if !ok {
		return fabric.Rate{}, false
	}
	width, closed := strings.CutSuffix(width, ")")
	lanes, generation, ok := strings.Cut(width, "X")
	n, isNumber := parseDigits(lanes)
	if !closed || !ok || !isNumber || n < 1 || n > 64 {
		return fabric.Rate{}, false
	}
	if generation != "" {
		generation, ok = strings.CutPrefix(generation, " ")
		if !ok || !isGeneration(generation) {
			return fabric.Rate{}, false
		}
	}
	whole, fraction, dot := strings.Cut(speed, ".")
	if !dot {
		fraction = "0"
	}
	gigabits, ok := parseDigits(whole)
	tenth, isNumber := parseDigits(fraction)
	tenths := gigabits*10 + tenth
	if !ok || !isNumber || len(fraction) != 1 || tenths == 0 {
		return fabric.Rate{}, false
	}
	return fabric.Rate{BytesPerSecond: float64(tenths) * 1e8 / 8, Lanes: n, Generation: generation}, true
}

func isGeneration(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 8
}

// parseDigits reads up to six decimal digits.
func parseDigits(s string) (int, bool) {
	if s == "" || len(s) > 6 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// parseOperState reads operstate (operstates of net/core/net-sysfs.c).
func parseOperState(b []byte) (string, bool) {
	switch s := string(line(b)); s {
	case "unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up":
		return s, true
	}
	return "", false
}

// parseGUID reads node_guid and sys_image_guid: four groups of four hexadecimal digits.
func parseGUID(b []byte) (string, bool) {
	b = line(b)
	var raw [8]byte
	if !parseHexGroups(b, raw[:]) {
		return "", false
	}
	return string(b), true
}

// parseGID reads gids/I (_show_port_gid_attr prints "%pI6"): always eight groups of four hexadecimal digits. An
// empty entry reads as all zero.
func parseGID(b []byte) (netip.Addr, bool) {
	var raw [16]byte
	if !parseHexGroups(line(b), raw[:]) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(raw), true
}

// parseHexGroups reads groups of four hexadecimal digits with colons between them; to is filled exactly.
func parseHexGroups(b, to []byte) bool {
	if len(b) != len(to)/2*5-1 {
		return false
	}
	for i := 0; i < len(to); i += 2 {
		at := i / 2 * 5
		if at > 0 && b[at-1] != ':' {
			return false
		}
		if _, err := hex.Decode(to[i:i+2], b[at:at+4]); err != nil {
			return false
		}
	}
	return true
}

// parseInt returns a parser of decimal and "0x" hexadecimal integers from lo to hi.
func parseInt(lo, hi int) func([]byte) (int, bool) {
	return func(b []byte) (int, bool) {
		s, base := string(line(b)), 10
		if h, ok := strings.CutPrefix(s, "0x"); ok {
			s, base = h, 16
		}
		if strings.HasPrefix(s, "+") || (base == 16 && strings.HasPrefix(s, "-")) {
			return 0, false // strconv takes them, the kernel does not print them
		}
		n, err := strconv.ParseInt(s, base, 64)
		return int(n), err == nil && int64(lo) <= n && n <= int64(hi)
	}
}

// parseCounter reads a counter (show_pma_counter, print_hw_stat; cm_show_counter of drivers/infiniband/core/cm.c).
func parseCounter(b []byte) (uint64, bool) {
	const digits = len("18446744073709551615")
	b = line(b)
	if len(b) > digits {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, false // n is the greatest number when there are greater ones
	}
	return n, true
}

// parseLifespan reads hw_counters/lifespan (show_stats_lifespan): at most 10 s in milliseconds, but rounded up to
// jiffies.
func parseLifespan(b []byte) (time.Duration, bool) {
	ms, ok := parseInt(0, 11_000)(b)
	return time.Duration(ms) * time.Millisecond, ok
}

// parseText reads a line that ends up in a label: printable UTF-8 of a length that a driver may print.
func parseText(b []byte) (string, bool) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || len(b) > 128 || !fabric.IsText(string(b)) {
		return "", false
	}
	return string(b), true
}

// parseNetDev reads the name of a network interface (dev_valid_name of net/core/dev.c).
func parseNetDev(b []byte) (string, bool) {
	s := string(line(b))
	if !validNetDevName(s) {
		return "", false
	}
	return s, true
}

func validNetDevName(s string) bool {
	const maxLen = 15 // IFNAMSIZ, less the NUL
	return s != "" && s != "." && s != ".." && len(s) <= maxLen && !strings.ContainsAny(s, "/: ") && fabric.IsText(s)
}

// validCounterName accepts what a label can carry, except for the file that is no counter.
func validCounterName(s string) bool {
	return s != lifespanName && s != "" && len(s) <= maxCounterName && fabric.IsText(s)
}

const maxDeviceName = 64 // IB_DEVICE_NAME_MAX

// validDeviceName accepts whatever the kernel may have accepted ("rdma dev set name" refuses little) and what a
// label can carry.
func validDeviceName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxDeviceName && !strings.ContainsAny(s, "/\x00") && utf8.ValidString(s)
}

// line returns b without the newline that the kernel ends every attribute with, or those that a simulated file,
// which never shrinks, ends with.
func line(b []byte) []byte { return bytes.TrimRight(b, "\n") }
