// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/lazyregexp"
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
	case e.keep != nil:
		return e.keep(e.text, a.replacements())
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
	case isFunction(path.Base(dir)) && base == "config":
		return string(pci.Redact([]byte(e.text)))
	case strings.HasSuffix(dir, "/dmi/id/"):
		return a.machine(base, e.text)
	case base == "node_desc", base == "hca_type": // of some drivers the second is the first
		return a.words(e.text)
	case base == "traffic_class":
		return openat.Lines(e.text, a.rule)
	case path.Base(dir) == "ndevs", base == "parent", base == "ibdev", base == "slaves", base == "active_slave",
		base == "primary":
		return a.list(e.text)
	case path.Base(dir) == "gids":
		return a.gidText(e.text)
	case isAddress(base):
		return a.identifiers(e.text, true)
	case isVersion(dir, base):
		return a.scrub(e.text)
	case counterFile().MatchString(name),
		slices.Contains(strings.Fields("aer_dev_correctable aer_dev_nonfatal aer_dev_fatal"), base):
		return e.text // a version of four numbers or a counter of twelve digits may look like an identifier
	}
	return a.text(e.text)
}

// machine keeps what many machines have in common of what the firmware says: products, and the asset tags of
// clouds. An owner writes what he likes into others.
func (a *anonymiser) machine(name, text string) string {
	if name == fabric.DMIAssetTag && !slices.Contains(fabric.AssetTags(), strings.TrimSpace(text)) {
		return a.words(text)
	}
	return a.scrub(text)
}

// replacements are what readers replace identifiers with in what they read.
func (a *anonymiser) replacements() openat.Replacements {
	return openat.Replacements{
		Device: a.device, Listed: a.listed, Word: a.word, Words: a.words, Text: a.text, Shift: a.shift, Addr: a.addr,
		Prefix: a.prefix,
	}
}

// isVersion reports whether a file has what a vendor calls a thing, a version of four numbers for one.
func isVersion(dir, base string) bool {
	return slices.Contains([]string{"fw_ver", "hw_rev", "board_id"}, base) ||
		base == "version" && strings.HasPrefix(dir, sysPart+"/") || base == "srcversion"
}

// knownFiles are files of sysfs that rewrite treats rightly: how their paths end. All words in them are the
// kernel's own, or replaced for what they are.
const knownFiles = `ports/*/state ports/*/phys_state ports/*/rate ports/*/link_layer gid_attrs/types/* gid_attrs/ndevs/* gids/*
	node_type node_desc node_guid sys_image_guid fw_ver hw_rev hca_type board_id infiniband/*/parent
	infiniband_verbs/*/ibdev net/*/address net/*/operstate qos/trust qos/dscp2prio tc/*/traffic_class
	bonding/mode bonding/slaves bonding/active_slave bonding/primary
	power/runtime_status current_link_speed max_link_speed aer_dev_correctable aer_dev_nonfatal aer_dev_fatal
	iommu_groups/*/type dmi/id/sys_vendor dmi/id/product_name dmi/id/product_version dmi/id/board_vendor
	dmi/id/board_name dmi/id/chassis_asset_tag
	module/*/version module/*/srcversion module/*/initstate memory_peers/*/version`

var (
	knownFile = sync.OnceValue(func() *regexp.Regexp {
		var ends []string
		for pattern := range strings.FieldsSeq(knownFiles) {
			ends = append(ends, strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^/]+`))
		}
		return regexp.MustCompile(`^` + sysPart + `/(?:.*/)?(?:` + strings.Join(ends, "|") + `)$`)
	})
	counterFile = lazyregexp.New(`^` + sysPart +
		`/.*/(?:counters|counters_ext|hw_counters|cm_\w+|memory_peers/\w+)/[^/]+$`)
	counterText = lazyregexp.New(`^(?:\d{1,20}|N/A \(no PMA\))\n?$`)
)

// isKnown reports whether rewrite knows what is in a file. All other files that are read are guarded.
func isKnown(name, text string) bool {
	switch dir, base := path.Split(name); {
	case !strings.HasPrefix(name, sysPart+"/"): // the readers of these have rules
		return true
	case counterFile().MatchString(name):
		return counterText().MatchString(text) || base == "version"
	case isFunction(path.Base(dir)) && base == "config":
		return true
	}
	return knownFile().MatchString(name)
}

// guarded returns what is kept of the text of a file without a rule: numbers of up to ten digits and
// words that NCCL or a vendor has. All others are replaced, as a serial number or a name of a person would
// be. Why says so.
func (a *anonymiser) guarded(text string) (kept, why string) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text,
		func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t\r", r) }) {
		return "", "of no known kind, and no text: it is empty here"
	}
	if kept = a.words(text); kept != text {
		return kept, "of no known kind: words in it were replaced"
	}
	return kept, ""
}

// isAddress reports whether a file has a MAC address or GUID. In all others there are only texts that look like one.
func isAddress(base string) bool {
	return slices.Contains([]string{"address", "ad_partner_mac", "node_guid", "sys_image_guid"}, base)
}

// identifier finds what looks like an identifier, in the order of preference: MAC addresses of IPoIB, of EUI-64 and
// of Ethernet, GIDs, GUIDs, MAC addresses with dots, IPv6, IPv4, and digits without anything between them. IP
// addresses may come with the length of a prefix.
var identifier = lazyregexp.New(`(?i)(?:[0-9a-f]{2}[:-]){19}[0-9a-f]{2}` +
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
	return identifier().ReplaceAllStringFunc(s, func(m string) string { return a.identifier(m, placed) })
}

// identifier replaces one match of the expression above. Its digits are distinguished from its separators, so
// that the result looks as what it replaces.
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
	case err == nil && !placed && (len(raw) == 6 || len(raw) == 20 || len(raw) == 16 || len(raw) == 8 &&
		(raw[3] != 0xff || raw[4] != 0xfe)):
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

// rule rewrites a line of traffic_class: "Global tclass=106" or "src_ip=10.0.0.1,dst_ip=10.0.1.0/24,tclass=96".
func (a *anonymiser) rule(line string) string {
	fields := strings.Split(strings.TrimPrefix(line, "Global "), ",")
	for i, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "tclass":
			if _, err := strconv.ParseUint(value, 0, 8); err != nil {
				return openat.Removed
			}
		case "src_ip", "dst_ip", "src_ip6", "dst_ip6":
			_, noAddress := netip.ParseAddr(value)
			if _, noPrefix := netip.ParsePrefix(value); noAddress != nil && noPrefix != nil {
				return openat.Removed
			}
			fields[i] = key + "=" + a.identifier(value, true)
		default:
			return openat.Removed
		}
	}
	return line[:len(line)-len(strings.TrimPrefix(line, "Global "))] + strings.Join(fields, ",")
}
