// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
)

// GIDTypeName is a type of GID as people call it.
func GIDTypeName(t fabric.GIDType) string {
	switch t {
	case fabric.GIDInfiniBand:
		return "InfiniBand"
	case fabric.GIDRoCEv1:
		return "RoCE v1"
	case fabric.GIDRoCEv2:
		return "RoCE v2"
	case fabric.GIDiWARP:
		return "iWARP"
	default:
		return string(t)
	}
}

// GIDFamilyName is an address family with its article.
func GIDFamilyName(f fabric.GIDFamily) string {
	switch f {
	case fabric.FamilyIPv4:
		return "an IPv4"
	case fabric.FamilyIPv6:
		return "an IPv6"
	case fabric.FamilyLinkLocal:
		return "a link-local"
	default:
		return "no IP"
	}
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

// SourceWords is a source of the whole node as people call it.
func SourceWords(name string) string {
	switch name {
	case fabric.SourceClass:
		return "list of RDMA devices"
	case fabric.SourceNetDev:
		return "network interfaces"
	case fabric.SourceNCCL:
		return "NCCL configuration"
	case fabric.SourcePCI:
		return "PCI bus"
	case fabric.SourceInside:
		return "device nodes, limits and libraries"
	case fabric.SourceRanks:
		return "processes that hold GPUs"
	case fabric.SourceGPU:
		return "GPU driver (NVML)"
	default:
		return name
	}
}

// ReasonText says why a fact is not known, in words that end a sentence.
func ReasonText(r fabric.Reason) string {
	switch r {
	case fabric.ReasonNotRead:
		return "not read"
	case fabric.ReasonMissing:
		return "this kernel or driver does not offer it"
	case fabric.ReasonPrivilege:
		return "not permitted for this user"
	case fabric.ReasonUnsupported:
		return "the driver refuses"
	case fabric.ReasonIO:
		return "the read fails"
	case fabric.ReasonMalformed:
		return "not in the documented format"
	case fabric.ReasonGone:
		return "the device is gone"
	case fabric.ReasonStuck:
		return "a read of the device does not return"
	case fabric.ReasonRTNLStuck:
		return "a read under the kernel's rtnl lock does not return"
	case fabric.ReasonTimeout:
		return "timed out"
	case fabric.ReasonPanic:
		return "a bug of this exporter"
	case fabric.ReasonDriverConstant:
		return "the driver always reports the same value"
	case fabric.ReasonRestricted:
		return "the device is restricted"
	case fabric.ReasonSuspended:
		return "reading would wake a sleeping device"
	case fabric.ReasonVirtual:
		return "a hypervisor hides the hardware"
	case fabric.ReasonUnstated:
		return "nothing states whether it should be so"
	case fabric.ReasonMoved:
		return "it is in another network namespace"
	case fabric.ReasonNeverMet:
		return "this node never met the expectation"
	default:
		return string(r)
	}
}
