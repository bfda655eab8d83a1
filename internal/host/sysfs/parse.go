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

// words returns a parser of lines that are one of these.
func words[T any](of map[string]T) func([]byte) (T, bool) {
	return func(b []byte) (T, bool) {
		v, ok := of[string(line(b))]
		return v, ok
	}
}

var (
	// parseNodeType reads node_type (node_type_show).
	parseNodeType = words(map[string]fabric.NodeType{
		"1: CA":          fabric.NodeCA,
		"2: switch":      fabric.NodeSwitch,
		"3: router":      fabric.NodeRouter,
		"4: RNIC":        fabric.NodeRNIC,
		"5: usNIC":       fabric.NodeUSNIC,
		"6: usNIC UDP":   fabric.NodeUSNICUDP,
		"7: unspecified": fabric.NodeUnspecified,
	})
	// parsePortState reads ports/N/state (state_show).
	parsePortState = words(map[string]fabric.PortState{
		"0: NOP":          fabric.PortNop,
		"1: DOWN":         fabric.PortDown,
		"2: INIT":         fabric.PortInit,
		"3: ARMED":        fabric.PortArmed,
		"4: ACTIVE":       fabric.PortActive,
		"5: ACTIVE_DEFER": fabric.PortActiveDefer,
	})
	// parsePhysState reads ports/N/phys_state (phys_state_to_str).
	parsePhysState = words(map[string]fabric.PhysState{
		"1: Sleep":                     fabric.PhysSleep,
		"2: Polling":                   fabric.PhysPolling,
		"3: Disabled":                  fabric.PhysDisabled,
		"4: PortConfigurationTraining": fabric.PhysTraining,
		"5: LinkUp":                    fabric.PhysLinkUp,
		"6: LinkErrorRecovery":         fabric.PhysRecovery,
		"7: Phy Test":                  fabric.PhysPhyTest,
	})
	// parseLinkLayer reads ports/N/link_layer (link_layer_show).
	parseLinkLayer = words(map[string]fabric.LinkLayer{
		"InfiniBand": fabric.LinkInfiniBand, "Ethernet": fabric.LinkEthernet, "Unknown": fabric.LinkUnspecified,
	})
	// parseTrust reads qos/trust of MLNX_OFED, as mlnx_qos of mlnx-tools does. Driver and firmware have no third mode
	// (MLX5_QPTS_TRUST_PCP and _DSCP of linux/mlx5/driver.h).
	parseTrust = words(map[string]fabric.Trust{"pcp": fabric.TrustPCP, "dscp": fabric.TrustDSCP})
)

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
	return s != "" && s != "." && s != ".." && len(s) <= maxDeviceName && !strings.ContainsAny(s, "/\x00") &&
		utf8.ValidString(s)
}

// line returns b without the newline that the kernel ends every attribute with, or those that a simulated file,
// which never shrinks, ends with.
func line(b []byte) []byte { return bytes.TrimRight(b, "\n") }
