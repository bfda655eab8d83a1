// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
)

// trouble is something about the node that looks wrong, or that could not be looked at, in plain words.
type trouble struct {
	Where  []string // devices, ports or files
	What   string
	Seen   string // the numbers, where they differ from port to port; else in Why
	Why    string // what was seen, and what follows from it
	Remedy string
}

// troubles returns what looks wrong. Only ports that carry training or storage traffic are judged.
func troubles(n *fabric.Node) []trouble {
	var list []trouble
	for _, s := range n.Sources {
		if s.Stuck() {
			list = append(list, trouble{
				Where: []string{subject(s)}, What: "Reads do not return",
				Why:    "The kernel has not answered since " + s.Since.UTC().Format("15:04:05 UTC") + "; nothing is known about it until it does.",
				Remedy: "Look for hung tasks and firmware errors in the kernel log (dmesg).",
			})
		}
	}
	if t, missing := missingPorts(n); missing {
		list = append(list, t)
	}
	for h, p := range judged(n) {
		for _, t := range portTroubles(n, h, p) {
			t.Where = []string{portName(h, p)}
			list = append(list, t)
		}
	}
	list = append(list, pcieTroubles(n)...)
	list = append(list, gpuTroubles(n)...)
	for _, f := range n.NCCL.Findings {
		list = append(list, trouble{
			Where: []string{f.Source}, What: f.Name + " does not do what it says", Why: f.Text,
			Remedy: "Correct or remove the line.",
		})
	}
	return group(list)
}

// judged iterates over the ports that matter: those of role compute and storage.
func judged(n *fabric.Node) iter.Seq2[*fabric.HCA, *fabric.Port] {
	return func(yield func(*fabric.HCA, *fabric.Port) bool) {
		for i := range n.HCAs {
			h := &n.HCAs[i]
			for k := range h.Ports {
				r := h.Ports[k].Role.Or("")
				if (r == fabric.RoleCompute || r == fabric.RoleStorage) && !yield(h, &h.Ports[k]) {
					return
				}
			}
		}
	}
}

func portTroubles(n *fabric.Node, h *fabric.HCA, p *fabric.Port) []trouble {
	state, known := p.State.Get()
	if known && state != fabric.PortActive {
		return []trouble{inactive(p, state)} // the rest follows from it
	}
	var list []trouble
	if t, bad := slow(p); bad {
		list = append(list, t)
	}
	if p.RateMismatch.Or(false) {
		list = append(list, rateMismatch(n, p))
	}
	list = append(list, saturated(h, p)...)
	if t, bad := unusableGID(n, p); bad && known && p.Role.Or("") == fabric.RoleCompute {
		list = append(list, t)
	}
	return append(list, roceTroubles(n, p)...)
}

func inactive(p *fabric.Port, state fabric.PortState) trouble {
	phys := p.PhysState.Or("unknown")
	t := trouble{
		What:   "The port is not active",
		Why:    fmt.Sprintf("Its state is %s, the physical link is %s.", state, spaced(string(phys))),
		Remedy: "Check the cable, the transceiver and the switch port.",
	}
	switch {
	case phys == fabric.PhysLinkUp && p.LinkLayer.Or("") == fabric.LinkInfiniBand:
		t.Remedy = "The link is up but no subnet manager has configured the port: see that one runs and reaches it."
	case p.LinkLayer.Or("") == fabric.LinkEthernet:
		t.Remedy = "The network interface is switched off or has no carrier: see ip link, then cable, transceiver and switch port."
	case phys == fabric.PhysDisabled:
		t.Remedy = "Somebody switched the port off, here or at the switch."
	}
	return t
}

func slow(p *fabric.Port) (trouble, bool) {
	rate, ok := p.Rate.Get()
	expected, known := p.ExpectedRate.Get()
	if !ok || !known || rate.BytesPerSecond >= expected {
		return trouble{}, false
	}
	who := "Its peers run faster."
	if strings.HasPrefix(p.ExpectedRate.Source, "config") {
		who = "The site's configuration expects it."
	}
	return trouble{
		What:   fmt.Sprintf("The port runs at %s where %s is expected", gigabits(rate.BytesPerSecond), gigabits(expected)),
		Why:    who + " Every collective waits for its slowest port.",
		Remedy: "Check the speed that the switch port is set to, then cable and transceiver.",
	}, true
}

func rateMismatch(n *fabric.Node, p *fabric.Port) trouble {
	var speed fabric.Fact[float64]
	if d := n.NetDev(p.NetDev.Or("")); d != nil {
		speed = d.Speed
	}
	return trouble{
		What:   fmt.Sprintf("RDMA reports %s, the network interface %s", gigabits(p.Rate.Value.BytesPerSecond), gigabits(speed.Value)),
		Why:    "NCCL tunes itself for the rate that RDMA reports.",
		Remedy: "Kernels print rates they do not know as another: update driver and firmware.",
	}
}

// saturated names the counters that have reached the end of their register.
func saturated(h *fabric.HCA, p *fabric.Port) []trouble {
	var list []trouble
	for _, c := range p.Counters.PMA.Or(nil) {
		spec, ok := fabric.PMASpecOf(h.Driver.Or(""), c.Name)
		if v, known := c.Value.Get(); ok && known && spec.Saturates && v >= spec.Max() {
			list = append(list, trouble{
				What:   "The counter " + c.Name + " has reached its maximum",
				Why:    fmt.Sprintf("It stands at %d and counts no more: whatever it is for goes unseen.", v),
				Remedy: "Clear it (perfquery -R), and see whether it grows again.",
			})
		}
	}
	return list
}

// unusableGID tells that NCCL would connect from a GID that does not reach beyond the link.
func unusableGID(n *fabric.Node, p *fabric.Port) (trouble, bool) {
	c, ok := p.GIDChoice.Get()
	if !ok || p.LinkLayer.Or("") != fabric.LinkEthernet || c.Rule == fabric.GIDByMatch || c.GID != nil && c.GID.Routable() {
		return trouble{}, false
	}
	t := trouble{What: "NCCL would not use a RoCE v2 address", Why: sentence(c.Why)}
	if c.GID != nil {
		t.Why += fmt.Sprintf(" Entry %d is %s with %s address.", c.Index, gidType(c.GID.Type), gidFamily(c.GID.Family))
	}
	t.Why += " RDMA connections to other nodes are likely to fail."
	v6 := slices.ContainsFunc(p.GIDs.Entries.Or(nil), func(g fabric.GID) bool { return g.Routable() && g.Family == fabric.FamilyIPv6 })
	_, ranged := n.NCCL.Text("NCCL_IB_ADDR_RANGE")
	switch {
	case c.Rule == fabric.GIDByConfiguration:
		t.Remedy = "Remove NCCL_IB_GID_INDEX: NCCL 2.21 and later choose by themselves."
	case ranged:
		t.Remedy = "Correct NCCL_IB_ADDR_RANGE, or give the network interface an address in that range."
	case v6:
		t.Remedy = "There are IPv6 addresses only: set NCCL_IB_ADDR_FAMILY=AF_INET6."
	default:
		t.Remedy = "Give the network interface an IPv4 address."
	}
	return t, true
}

func missingPorts(n *fabric.Node) (trouble, bool) {
	want := n.Policy.ComputePorts
	unread := func(s fabric.Source) bool {
		return !s.Up && (s.Name == fabric.SourceClass || s.Name == fabric.SourceHCA)
	}
	if want == nil || n.ClassPresent.State == fabric.Unknown || slices.ContainsFunc(n.Sources, unread) {
		return trouble{}, false // a port that cannot be read is not a missing one
	}
	have := 0
	for _, p := range judged(n) {
		if p.Role.Value == fabric.RoleCompute {
			have++
		}
	}
	return trouble{
		Where:  []string{"node"},
		What:   fmt.Sprintf("%d compute ports where %d are expected", have, *want),
		Why:    "The site's configuration expects them.",
		Remedy: "Look for missing devices with lspci and in the kernel log, or correct the configuration.",
	}, have != *want
}

// unchecked returns what could not be looked at: no trouble was seen there, and none can be ruled out.
func unchecked(n *fabric.Node) []trouble {
	var list []trouble
	down := map[string]bool{}
	for _, s := range n.Sources {
		if s.Up || s.Stuck() {
			continue
		}
		down[s.Device] = true
		t := trouble{Where: []string{subject(s)}, What: "Could not be read", Why: sentence(reasonText(s.Reason))}
		if s.Err != nil {
			t.Why += " (" + s.Err.Error() + ")"
		}
		list = append(list, t)
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Restricted.Or(false) || down[h.Name] {
			continue
		}
		for k := range h.Ports {
			p := &h.Ports[k]
			list = append(list, uncheckedFact(h, p, "role", p.Role.Meta()), uncheckedFact(h, p, "state", p.State.Meta()))
			if p.Role.Or("") == fabric.RoleCompute && p.State.Or("") == fabric.PortActive {
				list = append(list, uncheckedFact(h, p, "rate", p.Rate.Meta()), uncheckedFact(h, p, "GID", p.GIDChoice.Meta()), roceUnchecked(h, p))
			}
		}
	}
	list = append(list, gpuUnchecked(n)...)
	return group(slices.DeleteFunc(list, func(t trouble) bool { return t.What == "" }))
}

// uncheckedFact returns an empty trouble for a fact that is known or not wanted.
func uncheckedFact(h *fabric.HCA, p *fabric.Port, what string, m fabric.Meta) trouble {
	if m.State != fabric.Unknown || m.Reason == fabric.ReasonNotRead || m.Reason == fabric.ReasonStuck || m.Reason == fabric.ReasonRTNLStuck {
		return trouble{}
	}
	return trouble{Where: []string{portName(h, p)}, What: "The " + what + " of the port is not known", Why: sentence(reasonText(m.Reason))}
}

// group makes one trouble of those that differ only in where they are and in numbers: those of the first stand for
// all.
func group(list []trouble) []trouble {
	var grouped []trouble
	for _, t := range list {
		i := slices.IndexFunc(grouped, func(g trouble) bool { return g.What == t.What && g.Why == t.Why && g.Remedy == t.Remedy })
		if i < 0 {
			grouped = append(grouped, t)
			continue
		}
		if g := &grouped[i]; g.Seen != t.Seen && len(g.Where) == 1 {
			g.Seen = g.Where[0] + ", for one: " + g.Seen
		}
		for _, w := range t.Where {
			if !slices.Contains(grouped[i].Where, w) {
				grouped[i].Where = append(grouped[i].Where, w)
			}
		}
	}
	return grouped
}

// portName is the device, with the port where there are several.
func portName(h *fabric.HCA, p *fabric.Port) string {
	if len(h.Ports) == 1 {
		return h.Name
	}
	return h.Name + " port " + strconv.Itoa(p.Number)
}

func subject(s fabric.Source) string {
	if s.Device != "" {
		return s.Device
	}
	switch s.Name {
	case fabric.SourceClass:
		return "list of RDMA devices"
	case fabric.SourceNetDev:
		return "network interfaces"
	case fabric.SourceNCCL:
		return "NCCL configuration"
	case fabric.SourceGPU:
		return "GPU driver (NVML)"
	default:
		return s.Name
	}
}

func gigabits(bytesPerSecond float64) string {
	return strconv.FormatFloat(bytesPerSecond*8/1e9, 'g', 6, 64) + " Gb/s"
}

func gidType(t fabric.GIDType) string {
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

// gidFamily is an address family with its article.
func gidFamily(f fabric.GIDFamily) string {
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

// spaced shows an enumeration value as words.
func spaced(s string) string { return strings.ReplaceAll(s, "_", " ") }

// sentence makes a full stop of what has none, and begins with a capital.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".") + "."
}

func reasonText(r fabric.Reason) string {
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
		return "not in the format that the kernel promises"
	case fabric.ReasonGone:
		return "the device left"
	case fabric.ReasonStuck:
		return "a read of the device does not return"
	case fabric.ReasonRTNLStuck:
		return "a read under the kernel's rtnl lock does not return"
	case fabric.ReasonTimeout:
		return "no answer in time"
	case fabric.ReasonPanic:
		return "a bug of this exporter"
	case fabric.ReasonDriverConstant:
		return "the driver always answers the same"
	case fabric.ReasonRestricted:
		return "the device is not to be touched"
	case fabric.ReasonSuspended:
		return "reading would wake a device that sleeps"
	case fabric.ReasonVirtual:
		return "a hypervisor shows something else than the hardware"
	default:
		return string(r)
	}
}
