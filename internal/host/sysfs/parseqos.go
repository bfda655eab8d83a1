// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// The parsers below are of files that MLNX_OFED adds to the kernel's. They are as pure and as strict as those of
// the kernel's own.

// parseDSCPPriority reads qos/dscp2prio, as mlnx_qos does: a line that names the columns, then DSCP and priority,
// a line for each DSCP.
func parseDSCPPriority(b []byte) (table [fabric.NumDSCP]int, ok bool) {
	_, rows, _ := strings.Cut(string(b), "\n")
	var seen [fabric.NumDSCP]bool
	count := 0
	for row := range strings.Lines(rows) {
		columns := strings.Fields(row)
		if len(columns) != 2 {
			return [fabric.NumDSCP]int{}, false
		}
		dscp, isDSCP := parseInt(0, fabric.NumDSCP-1)([]byte(columns[0]))
		priority, isPriority := parseInt(0, fabric.NumPriorities-1)([]byte(columns[1]))
		if !isDSCP || !isPriority || seen[dscp] {
			return [fabric.NumDSCP]int{}, false
		}
		seen[dscp], table[dscp] = true, priority
		count++
	}
	if count != fabric.NumDSCP {
		return [fabric.NumDSCP]int{}, false
	}
	return table, true
}

// parseSwitch reads ecn/*/enable/<priority> (mlx5e_show_ecn_enable of en_ecn.c).
func parseSwitch(b []byte) (bool, bool) {
	n, ok := parseInt(0, 1)(b)
	return n == 1, ok
}

// parseParameter reads a parameter of congestion control. The fields are unsigned and of at most 32 bits, but
// MLNX_OFED prints them as if they had a sign (en_ecn.c and its cong.c; that of Linux does not).
func parseParameter(b []byte) (uint64, bool) {
	n, ok := parseInt(-1<<31, 1<<32-1)(b)
	return uint64(uint32(n)), ok
}

// parseTrafficClass reads tc/<port>/traffic_class (traffic_class_show of main_ext.c): "Global tclass=106" if that
// is set, and a line for each rule, "src_ip=10.0.0.1,dst_ip=10.0.1.0/24,tclass=96".
func parseTrafficClass(b []byte) (fabric.TrafficClass, bool) {
	const maxRules = 256 // TCLASS_MAX_RULES is 40
	c := fabric.TrafficClass{Global: -1}
	for row := range strings.Lines(string(b)) {
		row = strings.TrimSuffix(row, "\n")
		global, isGlobal := strings.CutPrefix(row, "Global ")
		if isGlobal && (c.Global >= 0 || c.Rules > 0) {
			return fabric.TrafficClass{}, false
		}
		switch class, ok := parseRule(global, isGlobal); {
		case !ok || c.Rules == maxRules:
			return fabric.TrafficClass{}, false
		case isGlobal:
			c.Global = class
		default:
			c.Rules++
		}
	}
	if c == (fabric.TrafficClass{Global: -1}) {
		return fabric.TrafficClass{}, false
	}
	return c, true
}

// parseRule returns the traffic class of a rule, which comes last. A global one has nothing else, and others have
// an address.
func parseRule(rule string, isGlobal bool) (class int, ok bool) {
	conditions, value, found := cutLast(rule, "tclass=")
	if !found || (conditions == "") != isGlobal {
		return 0, false
	}
	class, ok = parseInt(0, 255)([]byte(value))
	if !ok || isGlobal {
		return class, ok
	}
	for condition := range strings.SplitSeq(strings.TrimSuffix(conditions, ","), ",") {
		key, address, _ := strings.Cut(condition, "=")
		switch key {
		case "src_ip", "dst_ip", "src_ip6", "dst_ip6":
			ok = ok && address != "" && fabric.IsText(address)
		default:
			ok = false
		}
	}
	return class, ok
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
