// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/rdmanl"
)

// rewrite returns the text of an entry, or the target of a link, without identifiers. Where the text is a number, a
// version or a board's type, it stays as it is; in all other texts whatever looks like an identifier is replaced.
func (a *anonymiser) rewrite(name string, e entry) string {
	dir, base := path.Split(name)
	switch {
	case e.kind == link:
		return a.link(name, e.text)
	case e.kind == directory:
		return ""
	case name == rdmaName:
		return rewriteAll(e.text, func(e netlink.Exchange) netlink.Exchange {
			return rdmanl.Rewrite(e, rdmanl.Rewriting{Keep: func(string) bool { return true }, Name: a.device, GUID: a.eui64})
		})
	case name == dcbName:
		return rewriteAll(e.text, func(e netlink.Exchange) netlink.Exchange { return dcbnl.Rewrite(e, a.device) })
	case name == ethtoolName:
		return rewriteAll(e.text, func(e netlink.Exchange) netlink.Exchange { return ethtool.Rewrite(e, a.device) })
	case name == gpusName:
		return a.gpuText(e.text)
	case name == procPart+"/"+nvidiaProc+"/version":
		return a.lines(e.text, a.moduleLine)
	case name == procPart+"/"+nvidiaProc+"/params":
		return a.lines(e.text, a.parameterLine)
	case isFunction(path.Base(dir)) && base == "config":
		return string(pci.Redact([]byte(e.text)))
	case strings.HasPrefix(name, rootPart+"/"):
		return a.conf(e.text)
	case strings.HasPrefix(name, procPart+"/") && base == "route":
		return a.lines(e.text, a.route)
	case strings.HasPrefix(name, procPart+"/") && base == "ipv6_route":
		return a.lines(e.text, a.route6)
	case base == "node_desc":
		return a.words(e.text)
	case base == "traffic_class":
		return a.lines(e.text, a.rule)
	case path.Base(dir) == "ndevs", base == "parent", base == "ibdev", base == "slaves", base == "active_slave", base == "primary":
		return a.list(e.text)
	case path.Base(dir) == "gids":
		return a.gidText(e.text)
	case isAddress(base):
		return a.identifiers(e.text, true)
	case base == "osrelease":
		return letters.ReplaceAllStringFunc(e.text, a.flavour)
	case base == "comm":
		return a.lines(e.text, a.command)
	case base == "limits":
		return a.lines(e.text, onlyIf(memlockLine))
	case base == "status" && strings.HasPrefix(name, procPart+"/"):
		return a.lines(e.text, onlyIf(uidLine))
	case isVersion(dir, base):
		return a.scrub(e.text)
	case counterFile.MatchString(name), slices.Contains(strings.Fields("stat cpuinfo aer_dev_correctable aer_dev_nonfatal aer_dev_fatal"), base):
		return e.text // a version of four numbers or a counter of twelve digits may look like an identifier
	}
	return a.text(e.text)
}

// isVersion tells whether a file has what a vendor calls a thing, a version of four numbers for one.
func isVersion(dir, base string) bool {
	return slices.Contains([]string{"fw_ver", "hw_rev", "hca_type", "board_id"}, base) ||
		base == "version" && strings.HasPrefix(dir, sysPart+"/") || base == "srcversion"
}

// knownFiles are files of sysfs that rewrite treats rightly: how their paths end. All words in them are the kernel's own, or
// replaced for what they are.
const knownFiles = `ports/*/state ports/*/phys_state ports/*/rate ports/*/link_layer gid_attrs/types/* gid_attrs/ndevs/* gids/*
	node_type node_desc node_guid sys_image_guid fw_ver hw_rev hca_type board_id infiniband/*/parent infiniband_verbs/*/ibdev
	net/*/address net/*/operstate qos/trust qos/dscp2prio tc/*/traffic_class
	bonding/mode bonding/slaves bonding/active_slave bonding/primary
	power/runtime_status current_link_speed max_link_speed aer_dev_correctable aer_dev_nonfatal aer_dev_fatal iommu_groups/*/type
	module/*/version module/*/srcversion module/*/initstate memory_peers/*/version`

var (
	knownFile = func() *regexp.Regexp {
		var ends []string
		for pattern := range strings.FieldsSeq(knownFiles) {
			ends = append(ends, strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^/]+`))
		}
		return regexp.MustCompile(`^` + sysPart + `/(?:.*/)?(?:` + strings.Join(ends, "|") + `)$`)
	}()
	counterFile = regexp.MustCompile(`^` + sysPart + `/.*/(?:counters|counters_ext|hw_counters|cm_\w+|memory_peers/\w+)/[^/]+$`)
	counterText = regexp.MustCompile(`^(?:\d{1,20}|N/A \(no PMA\))\n?$`)
)

// isKnown tells whether rewrite knows what is in a file. All others that somebody reads are guarded.
func isKnown(name, text string) bool {
	switch dir, base := path.Split(name); {
	case !strings.HasPrefix(name, sysPart+"/"): // these files are named in read.go, with what is kept of them
		return true
	case counterFile.MatchString(name):
		return counterText.MatchString(text) || base == "version"
	case isFunction(path.Base(dir)) && base == "config":
		return true
	}
	return knownFile.MatchString(name)
}

// guarded returns what is kept of the text of a file that nobody said anything about: numbers of up to ten digits and
// words that NCCL or a vendor has. All others are replaced, as a serial number or somebody's name would be. Why says so.
func (a *anonymiser) guarded(text string) (kept, why string) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t\r", r) }) {
		return "", "of no known kind, and no text: it is empty here"
	}
	if kept = a.words(text); kept != text {
		return kept, "of no known kind: words in it were replaced"
	}
	return kept, ""
}

// isAddress tells whether a file has a MAC address or GUID. In all others there are only texts that look like one.
func isAddress(base string) bool {
	return slices.Contains([]string{"address", "ad_partner_mac", "node_guid", "sys_image_guid"}, base)
}

var (
	memlockLine = regexp.MustCompile(`^Max locked memory +(?:\d{1,20}|unlimited) +(?:\d{1,20}|unlimited) +bytes *$`)
	uidLine     = regexp.MustCompile(`^Uid:(?:\t\d{1,10}){4}$`)
)

// onlyIf keeps lines that match.
func onlyIf(line *regexp.Regexp) func(string) string {
	return func(s string) string {
		if line.MatchString(s) {
			return s
		}
		return removed
	}
}

// command keeps the name of a daemon, or of what is the first process everywhere.
func (a *anonymiser) command(s string) string {
	if slices.Contains(strings.Fields("systemd init tini dumb-init docker-init catatonit pause sh bash slurmd pbs_mom containerd crio dockerd"), s) || s == "" {
		return s
	}
	return a.word(s)
}

// flavour keeps words that distributions have in the releases of their kernels.
func (a *anonymiser) flavour(s string) string {
	const words = `generic lowlatency server cloud virtual kvm aws amzn azure gcp gke gkeop oracle uek ibm nvidia tegra k el fc deb bpo amd arm aarch x
		rt lts default arch zen hardened pve cos flatcar talos coreos bottlerocket mlnx lp rc debug preempt dynamic vanilla elrepo`
	if slices.Contains(strings.Fields(words), s) {
		return s
	}
	return a.shift(s)
}

// identifier finds what looks like an identifier, in the order of preference: MAC addresses of IPoIB, of EUI-64 and
// of Ethernet, GIDs, GUIDs, MAC addresses with dots, IPv6, IPv4, and digits without anything between them. IP
// addresses may come with the length of a prefix.
var identifier = regexp.MustCompile(`(?i)(?:[0-9a-f]{2}[:-]){19}[0-9a-f]{2}` +
	`|(?:[0-9a-f]{2}[:-]){7}[0-9a-f]{2}` +
	`|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}` +
	`|(?:[0-9a-f]{4}:){7}[0-9a-f]{4}(?:/\d{1,3})?` +
	`|(?:[0-9a-f]{4}:){3}[0-9a-f]{4}` +
	`|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}` +
	`|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,}(?:\.\d{1,3}){0,3}(?:/\d{1,3})?` +
	`|\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?` +
	`|[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{12}`)

// text replaces every identifier in a text.
func (a *anonymiser) text(s string) string {
	return a.identifiers(s, false)
}

// identifiers does so. placed says that it is where the kernel has addresses: then they keep their vendor.
func (a *anonymiser) identifiers(s string, placed bool) string {
	return identifier.ReplaceAllStringFunc(s, func(m string) string { return a.identifier(m, placed) })
}

// identifier replaces one match of the expression above. Its digits are told from its separators, so that the result
// looks as what it replaces.
func (a *anonymiser) identifier(s string, placed bool) string {
	if p, err := netip.ParsePrefix(s); err == nil {
		return a.prefix(p).String()
	}
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune(":-.", r) {
			return -1
		}
		return r
	}, s)
	raw, err := hex.DecodeString(digits)
	pairs := len(s) == len(raw)*3-1
	ip, ipErr := netip.ParseAddr(s)
	switch {
	case ipErr == nil && (ip.Is4() || !pairs) && len(s) != len(digits):
		if ip.Is6() && len(s) == 39 { // as the kernel prints GIDs
			return a.gidText(s)
		}
		return a.addr(ip).String()
	case err == nil && !placed && (len(raw) == 6 || len(raw) == 20 || len(raw) == 16 || len(raw) == 8 && (raw[3] != 0xff || raw[4] != 0xfe)):
		raw = a.noise(raw)
	case err == nil && len(raw) == 20:
		raw = append(raw[:4:4], a.gidBytes(raw[4:])...)
	case err == nil && len(raw) == 16:
		raw = a.gidBytes(raw)
	case err == nil && len(raw) == 8:
		raw = binary.BigEndian.AppendUint64(nil, a.eui64(binary.BigEndian.Uint64(raw)))
	case err == nil && len(raw) == 6:
		m := a.mac([6]byte(raw))
		raw = m[:]
	default:
		return a.odd(s, placed)
	}
	return punctuate(hex.EncodeToString(raw), s)
}

// odd replaces what has the separators of an address without being one. What has two colons stays: it is a PCI
// address or a time.
func (a *anonymiser) odd(s string, placed bool) string {
	if before, after, ok := strings.Cut(s, "/"); ok {
		return a.identifier(before, placed) + "/" + after
	}
	if t, ok := strings.CutSuffix(s, ":"); ok {
		return a.identifier(t, placed) + ":"
	}
	if t, ok := strings.CutPrefix(s, ":"); ok {
		return ":" + a.identifier(t, placed)
	}
	switch before, after, _ := strings.Cut(s, ":"); {
	case strings.Count(s, ":") > 2, !strings.Contains(s, ":") || strings.Contains(s, "::"):
		return a.word(s)
	case strings.Contains(after, "."):
		last := after[strings.LastIndexByte(after, ':')+1:]
		if ip, err := netip.ParseAddr(last); err == nil {
			return before + ":" + strings.TrimSuffix(after, last) + a.addr(ip).String()
		}
	}
	return s
}

// punctuate puts the separators of like between the digits, and nothing else of it.
func punctuate(digits, like string) string {
	var b strings.Builder
	for _, r := range like {
		switch {
		case strings.ContainsRune(":-.", r):
			b.WriteRune(r)
		case digits != "":
			b.WriteByte(digits[0])
			digits = digits[1:]
		}
	}
	return b.String()
}

func (a *anonymiser) gidBytes(b []byte) []byte {
	g := a.gid([16]byte(b))
	return g[:]
}

// gidText replaces a GID as the kernel prints it.
func (a *anonymiser) gidText(s string) string {
	text := strings.TrimSpace(s)
	raw, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	if err != nil || len(raw) != 16 {
		return a.text(s)
	}
	return punctuate(hex.EncodeToString(a.gidBytes(raw)), text) + s[len(strings.TrimRight(s, "\n")):]
}

// lines rewrites each line; those that are not what they should be are not kept.
func (a *anonymiser) lines(s string, rewrite func(string) string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		text, end := strings.CutSuffix(line, "\n")
		b.WriteString(rewrite(text))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

const removed = "removed"

// route rewrites a line of net/route: addresses are numbers of the machine, and the mask is among them.
func (a *anonymiser) route(line string) string {
	if strings.HasPrefix(line, "Iface\tDestination\tGateway ") && a.text(line) == line {
		return line
	}
	f := strings.Split(line, "\t")
	const iface, destination, gateway, mask, columns = 0, 1, 2, 7, 11
	if len(f) != columns {
		return removed
	}
	dst, ok1 := parseWord(f[destination])
	gw, ok2 := parseWord(f[gateway])
	m, ok3 := parseWord(f[mask])
	if !ok1 || !ok2 || !ok3 {
		return removed
	}
	d := a.addr(netip.AddrFrom4(dst)).As4()
	if binary.BigEndian.Uint32(dst[:])&^binary.BigEndian.Uint32(m[:]) == 0 { // of a network, not of a host
		for i := range d {
			d[i] &= m[i]
		}
	}
	for i := range f {
		if i != iface && i != destination && i != gateway && i != mask {
			f[i] = a.text(f[i])
		}
	}
	f[iface], f[destination], f[gateway] = a.device(f[iface]), printWord(d), printWord(a.addr(netip.AddrFrom4(gw)).As4())
	return strings.Join(f, "\t")
}

// rule rewrites a line of traffic_class: "Global tclass=106" or "src_ip=10.0.0.1,dst_ip=10.0.1.0/24,tclass=96".
func (a *anonymiser) rule(line string) string {
	fields := strings.Split(strings.TrimPrefix(line, "Global "), ",")
	for i, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "tclass":
			if _, err := strconv.ParseUint(value, 0, 8); err != nil {
				return removed
			}
		case "src_ip", "dst_ip", "src_ip6", "dst_ip6":
			_, noAddress := netip.ParseAddr(value)
			if _, noPrefix := netip.ParsePrefix(value); noAddress != nil && noPrefix != nil {
				return removed
			}
			fields[i] = key + "=" + a.identifier(value, true)
		default:
			return removed
		}
	}
	return line[:len(line)-len(strings.TrimPrefix(line, "Global "))] + strings.Join(fields, ",")
}

func parseWord(s string) (b [4]byte, ok bool) {
	v, err := strconv.ParseUint(s, 16, 32)
	binary.NativeEndian.PutUint32(b[:], uint32(v))
	return b, err == nil && len(s) == 8
}

func printWord(b [4]byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:])) }

// route6 rewrites a line of net/ipv6_route.
func (a *anonymiser) route6(line string) string {
	f := strings.Fields(line)
	const destination, source, gateway, iface, columns = 0, 2, 4, 9, 10
	if len(f) != columns {
		return removed
	}
	for _, i := range []int{destination, source, gateway} {
		raw, err := hex.DecodeString(f[i])
		if err != nil || len(raw) != 16 {
			return removed
		}
		ip := netip.AddrFrom16([16]byte(raw))
		bits := uint64(128)
		if i != gateway {
			if bits, err = strconv.ParseUint(f[i+1], 16, 8); err != nil || bits > 128 {
				return removed
			}
		}
		is := a.prefix(netip.PrefixFrom(ip, int(bits))).Addr().As16()
		f[i] = hex.EncodeToString(is[:])
	}
	return fmt.Sprintf("%s %8s", strings.Join(f[:iface], " "), a.device(f[iface]))
}
