// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
)

var gidTypes = map[fabric.GIDType]string{
	fabric.GIDInfiniBand: "InfiniBand",
	fabric.GIDRoCEv1:     "RoCE v1",
	fabric.GIDRoCEv2:     "RoCE v2",
	fabric.GIDiWARP:      "iWARP",
}

// GIDTypeName is a type of GID as people call it.
func GIDTypeName(t fabric.GIDType) string {
	return cmp.Or(gidTypes[t], string(t))
}

var families = map[fabric.GIDFamily]string{
	fabric.FamilyIPv4:      "an IPv4",
	fabric.FamilyIPv6:      "an IPv6",
	fabric.FamilyLinkLocal: "a link-local",
}

// GIDFamilyName is an address family with its article.
func GIDFamilyName(f fabric.GIDFamily) string {
	return cmp.Or(families[f], "no IP")
}

// Bytes shows a number of bytes in the largest unit that keeps it whole.
func Bytes(n uint64) string {
	if n == fabric.NoLimit {
		return "any amount"
	}
	unit := 0
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for n > 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatUint(n, 10) + " " + units[unit]
}

// Few joins the first of a list that may be long.
func Few(list []string) string { return spelling.Few(list, 12) }

// Gigabits shows a rate in bytes per second as link speeds are called.
func Gigabits(bytesPerSecond float64) string {
	return strconv.FormatFloat(bytesPerSecond*8/1e9, 'g', 6, 64) + " Gb/s"
}

// Spaced shows an enumeration value as words.
func Spaced(s string) string { return strings.ReplaceAll(s, "_", " ") }

// Sentence makes a full stop of what has none, and begins with a capital.
func Sentence(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".")
	if strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

var sources = map[string]string{
	fabric.SourceClass:  "list of RDMA devices",
	fabric.SourceNetDev: "network interfaces",
	fabric.SourceNCCL:   "NCCL configuration",
	fabric.SourcePCI:    "PCI bus",
	fabric.SourceInside: "device nodes, limits and libraries",
	fabric.SourceRanks:  "processes that hold GPUs",
	fabric.SourceGPU:    "GPU driver (NVML)",
}

// SourceWords is a source of the whole node as people call it.
func SourceWords(name string) string {
	return cmp.Or(sources[name], name)
}

var reasons = map[fabric.Reason]string{
	fabric.ReasonNotRead:        "not read",
	fabric.ReasonMissing:        "this kernel or driver does not offer it",
	fabric.ReasonPrivilege:      "not permitted for this user",
	fabric.ReasonUnsupported:    "the driver refuses",
	fabric.ReasonIO:             "the read fails",
	fabric.ReasonMalformed:      "not in the documented format",
	fabric.ReasonGone:           "the device is gone",
	fabric.ReasonStuck:          "a read of the device does not return",
	fabric.ReasonRTNLStuck:      "a read under the kernel's rtnl lock does not return",
	fabric.ReasonTimeout:        "timed out",
	fabric.ReasonPanic:          "a bug of this exporter",
	fabric.ReasonDriverConstant: "the driver always reports the same value",
	fabric.ReasonRestricted:     "the device is restricted",
	fabric.ReasonSuspended:      "reading would wake a sleeping device",
	fabric.ReasonVirtual:        "a hypervisor hides the hardware",
	fabric.ReasonUnstated:       "nothing states whether it should be so",
	fabric.ReasonMoved:          "it is in another network namespace",
	fabric.ReasonNeverMet:       "this node never met the expectation",
}

// ReasonText says why a fact is not known, in words that end a sentence.
func ReasonText(r fabric.Reason) string {
	return cmp.Or(reasons[r], string(r))
}
