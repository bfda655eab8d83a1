// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// The parsers below are pure and return false for what the kernel does not print.

// parseBootTime finds btime in stat (show_stat of fs/proc/stat.c): seconds since the epoch.
func parseBootTime(b []byte) (time.Time, bool) {
	for line := range bytes.Lines(b) {
		text, ok := bytes.CutPrefix(line, []byte("btime "))
		if !ok {
			continue
		}
		const end = 253402300800 // the year 10000, beyond which no format of time goes
		n, err := strconv.ParseUint(strings.TrimSuffix(string(text), "\n"), 10, 63)
		if err != nil || n == 0 || n >= end {
			return time.Time{}, false
		}
		return time.Unix(int64(n), 0), true
	}
	return time.Time{}, false
}

// parseRelease reads sys/kernel/osrelease, at most 64 characters (__NEW_UTS_LEN).
func parseRelease(b []byte) (string, bool) {
	s := strings.TrimSuffix(string(b), "\n")
	return s, s != "" && len(s) <= 64 && fabric.IsText(s)
}

// parseHypervisor finds the flags of the first processor of x86 in cpuinfo (show_cpuinfo of
// arch/x86/kernel/cpu/proc.c).
func parseHypervisor(b []byte) (bool, bool) {
	for line := range bytes.Lines(b) {
		name, flags, ok := strings.Cut(string(line), ":")
		if ok && strings.TrimSpace(name) == "flags" && strings.HasSuffix(flags, "\n") {
			return slices.Contains(strings.Fields(flags), "hypervisor"), true
		}
	}
	return false, false
}

// Flags of a route, include/uapi/linux/route.h.
const (
	flagUp     = 0x0001
	flagReject = 0x0200
)

// route is a default route.
type route struct {
	iface  string
	metric uint64 // the lowest wins
}

// parseRoutes returns the default routes in net/route, the IPv4 main table
// (fib_route_seq_show of net/ipv4/fib_trie.c). Of a route with several next hops the kernel prints the first.
func parseRoutes(b []byte) ([]route, bool) {
	const iface, destination, flags, priority, mask, columns = 0, 1, 3, 6, 7, 11
	header, body, _ := bytes.Cut(b, []byte("\n"))
	if len(b) == 0 {
		return nil, true // a network namespace that never had a route
	}
	if !bytes.HasPrefix(header, []byte("Iface\t")) {
		return nil, false
	}
	var routes []route
	for line := range bytes.Lines(body) {
		f := fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != columns {
			return nil, false
		}
		d, ok1 := parseHex(f[destination], 8)
		m, ok2 := parseHex(f[mask], 8)
		fl, ok3 := parseHex(f[flags], 4)
		metric, err := strconv.ParseUint(string(f[priority]), 10, 32)
		if !ok1 || !ok2 || !ok3 || err != nil {
			return nil, false
		}
		if d == 0 && m == 0 && leaves(f[iface], fl) {
			routes = append(routes, route{string(f[iface]), metric})
		}
	}
	return routes, true
}

// parseRoutes6 returns the default routes in net/ipv6_route, which lists all tables
// (rt6_native_seq_show of net/ipv6/ip6_fib.c).
func parseRoutes6(b []byte) ([]route, bool) {
	const prefix, length, priority, flags, iface, columns = 0, 1, 5, 8, 9, 10
	var routes []route
	for line := range bytes.Lines(b) {
		f := fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != columns || len(f[prefix]) != 32 {
			return nil, false
		}
		n, ok1 := parseHex(f[length], 2)
		metric, ok2 := parseHex(f[priority], 8)
		fl, ok3 := parseHex(f[flags], 8)
		if !ok1 || !ok2 || !ok3 {
			return nil, false
		}
		if n == 0 && leaves(f[iface], fl) {
			routes = append(routes, route{string(f[iface]), metric})
		}
	}
	return routes, true
}

// leaves reports whether packets that take the route leave the node.
func leaves(iface []byte, flags uint64) bool {
	s := string(iface)
	return flags&flagUp != 0 && flags&flagReject == 0 && s != "lo" && s != "*" && fabric.IsText(s)
}

// fields splits at blanks and tabs only: names of interfaces may hold any other byte.
func fields(line []byte) [][]byte {
	return bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
}

// parseHex reads exactly so many hexadecimal digits.
func parseHex(b []byte, digits int) (uint64, bool) {
	n, err := strconv.ParseUint(string(b), 16, 64)
	return n, err == nil && len(b) == digits
}
