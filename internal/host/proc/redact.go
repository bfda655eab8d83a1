// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/lazyregexp"
)

// Redactions say what of the files that are read here may leave the node in a capture.
func Redactions() []openat.Redaction {
	return []openat.Redaction{
		{File: "stat", Keep: first("btime ")},
		{File: "cpuinfo", Keep: first("flags\t")},
		{File: "sys/kernel/osrelease", Keep: keepRelease},
		{File: "net/route", Keep: byLine(keepRoute)},
		{File: "1/net/route", Keep: byLine(keepRoute)},
		{File: "net/ipv6_route", Keep: byLine(keepRoute6)},
		{File: "1/net/ipv6_route", Keep: byLine(keepRoute6)},
		{File: nvidiaVersion, Keep: byLine(keepModule)},
		{File: nvidiaParams, Keep: byLine(keepParameter)},
		{File: "1/comm", Keep: byLine(keepInit)},
		{File: "[0-9]*/comm", Keep: keepDaemon},
		{File: "[0-9]*/status", Keep: first("Uid:\t0\t")}, // users' processes are no daemons, see Daemons.Read
		{File: "[0-9]*/limits", Keep: first("Max locked memory ")},
	}
}

// first keeps the first line that begins so.
func first(prefix string) func(string, openat.Replacements) string {
	return func(text string, _ openat.Replacements) string {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) && numeric().MatchString(line[len(prefix):]) {
				return line
			}
		}
		return ""
	}
}

// numeric is what kernels write behind the beginnings above: numbers, and flags of processors.
var numeric = lazyregexp.New(`^[a-z0-9_: \t]+\n?$`)

func byLine(keep func(string, openat.Replacements) string) func(string, openat.Replacements) string {
	return func(text string, with openat.Replacements) string {
		return openat.Lines(text, func(line string) string { return keep(line, with) })
	}
}

var letters = lazyregexp.New(`[A-Za-z]+`)

// keepRelease keeps words that distributions have in the releases of their kernels.
func keepRelease(text string, with openat.Replacements) string {
	const words = `generic lowlatency server cloud virtual kvm aws amzn azure gcp gke gkeop oracle uek ibm nvidia tegra k el fc deb bpo amd arm aarch x
		rt lts default arch zen hardened pve cos flatcar talos coreos bottlerocket mlnx lp rc debug preempt dynamic vanilla elrepo`
	return letters().ReplaceAllStringFunc(text, func(s string) string {
		if slices.Contains(strings.Fields(words), s) {
			return s
		}
		return with.Shift(s)
	})
}

// keepInit keeps usual names of the first process.
func keepInit(name string, with openat.Replacements) string {
	if name == "" || startsJobs(name) ||
		slices.Contains(strings.Fields("systemd init tini dumb-init docker-init catatonit pause sh bash"), name) {
		return name
	}
	return with.Word(name)
}

// keepDaemon keeps the names of daemons that start jobs. What else runs does not leave the node.
func keepDaemon(text string, _ openat.Replacements) string {
	if startsJobs(strings.TrimSuffix(text, "\n")) {
		return text
	}
	return ""
}

var (
	nvrm      = lazyregexp.New(`^(NVRM version: NVIDIA UNIX [A-Za-z0-9_ ]{1,60}  [0-9.]{1,30}  )(?:\S.*)?$`)
	setting   = lazyregexp.New(`^(\w{1,64}): (\d{1,20}|""|"(?:\w{1,64}=(?:0x)?[0-9a-fA-F]{1,16};?)+"|"(?:driver|numa|none)")$`)
	paramName = lazyregexp.New(`^(\w+): `)
)

// keepModule keeps the version in driver/nvidia/version, and not who built the module, where and when.
func keepModule(line string, _ openat.Replacements) string {
	if m := nvrm().FindStringSubmatch(line); m != nil {
		return m[1] + openat.Removed
	}
	return openat.Removed
}

// keepParameter keeps names and numbers in driver/nvidia/params. Texts may name anything.
func keepParameter(line string, _ openat.Replacements) string {
	if setting().MatchString(line) {
		return line
	}
	m := paramName().FindString(line)
	if m == "" {
		return openat.Removed
	}
	return m + `"` + openat.Removed + `"`
}

// keepRoute rewrites a line of net/route: addresses are numbers of the machine, and the mask is among them.
func keepRoute(line string, with openat.Replacements) string {
	if strings.HasPrefix(line, "Iface\tDestination\tGateway ") && with.Text(line) == line {
		return line
	}
	f := strings.Split(line, "\t")
	const iface, destination, gateway, mask, columns = 0, 1, 2, 7, 11
	if len(f) != columns {
		return openat.Removed
	}
	dst, ok1 := parseWord(f[destination])
	gw, ok2 := parseWord(f[gateway])
	m, ok3 := parseWord(f[mask])
	if !ok1 || !ok2 || !ok3 {
		return openat.Removed
	}
	d := with.Addr(netip.AddrFrom4(dst)).As4()
	if binary.BigEndian.Uint32(dst[:])&^binary.BigEndian.Uint32(m[:]) == 0 { // of a network, not of a host
		for i := range d {
			d[i] &= m[i]
		}
	}
	for i := range f {
		if i != iface && i != destination && i != gateway && i != mask {
			f[i] = with.Text(f[i])
		}
	}
	f[iface], f[destination], f[gateway] = with.Device(f[iface]), printWord(d),
		printWord(with.Addr(netip.AddrFrom4(gw)).As4())
	return strings.Join(f, "\t")
}

func parseWord(s string) (b [4]byte, ok bool) {
	v, err := strconv.ParseUint(s, 16, 32)
	binary.NativeEndian.PutUint32(b[:], uint32(v))
	return b, err == nil && len(s) == 8
}

func printWord(b [4]byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:])) }

// keepRoute6 rewrites a line of net/ipv6_route.
func keepRoute6(line string, with openat.Replacements) string {
	f := strings.Fields(line)
	const destination, source, gateway, iface, columns = 0, 2, 4, 9, 10
	if len(f) != columns {
		return openat.Removed
	}
	for _, i := range []int{destination, source, gateway} {
		raw, err := hex.DecodeString(f[i])
		if err != nil || len(raw) != 16 {
			return openat.Removed
		}
		ip := netip.AddrFrom16([16]byte(raw))
		bits := uint64(128)
		if i != gateway {
			if bits, err = strconv.ParseUint(f[i+1], 16, 8); err != nil || bits > 128 {
				return openat.Removed
			}
		}
		is := with.Prefix(netip.PrefixFrom(ip, int(bits))).Addr().As16()
		f[i] = hex.EncodeToString(is[:])
	}
	return fmt.Sprintf("%s %8s", strings.Join(f[:iface], " "), with.Device(f[iface]))
}
