// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"

	"gpufabric_exporter/internal/counters"
)

// gid: with an address that does not fit, what follows is about packets that do not reach other nodes as they should.
func (b *roceBuilder) gid() {
	switch why, unfit := b.in.GIDUnfit.Get(); {
	case unfit:
		b.broken(RoCEGID, b.in.GIDUnfit.Source, "%s", why)
	case b.in.GIDUnfit.State == Unknown:
		b.unknown(RoCEGID, b.in.GIDUnfit.Meta(), "which GID NCCL uses is not known")
	default:
		b.consistent(RoCEGID, b.in.GIDUnfit.Source, "the GID that NCCL uses fits")
	}
}

// addressless reports whether the port has no RoCE v2 address for training. The entry that NCCL takes instead
// says nothing about packets that will be sent once it has one.
func (b *roceBuilder) addressless() bool {
	return b.in.GIDUnfit.State == OK && b.in.GIDType.Or("") == GIDRoCEv1
}

const untilAddress = "it is not known until the port has an address for RoCE v2"

// unknownClass leaves a step that the DSCP follows from unknown, where something depends on it: the interface
// may take the priority from the VLAN tag on a site that expects no DSCP.
func (b *roceBuilder) unknownClass(s RoCEStep, m Meta, format string, args ...any) {
	if b.Trust.Or("") == TrustPCP && b.in.Policy.DSCP == nil {
		b.skip(s, "the interface trusts the VLAN tag, not the DSCP")
		return
	}
	b.unknown(s, m, format, args...)
}

// trafficClass finds the traffic class byte that NCCL's queue pairs carry, and who sets it. What MLNX_OFED sets
// for a port goes over what applications ask for (traffic_class_store in its mlx5 driver); then NCCL_IB_TC, of the job
// before that of the host; then 0. But most jobs bring an NCCL_IB_TC of their own, so that "not set on the host" says
// nothing about jobs whose settings were not read.
func (b *roceBuilder) trafficClass() {
	in := b.in
	nccl, set, from := b.asked()
	o, overridden := in.Override.Get()
	switch {
	case b.addressless():
		b.TrafficClass, b.TrafficClassFrom = UnknownFact[int](ReasonMissing, in.GIDUnfit.Source, in.GIDUnfit.At),
			TrafficClassUnknown
		b.unknownClass(RoCETrafficClass, b.TrafficClass.Meta(), untilAddress)
	case in.GIDType.Or("") == GIDRoCEv1:
		b.TrafficClass, b.TrafficClassFrom = AbsentFact[int](in.GIDType.Source, in.GIDType.At), TrafficClassFromV1
		b.skip(RoCETrafficClass, "NCCL uses a RoCE v1 GID, whose packets have no traffic class")
	case overridden && o.Global >= 0:
		b.TrafficClass, b.TrafficClassFrom = Known(o.Global, in.Override.Source, in.Override.At), TrafficClassFromOFED
		b.consistent(RoCETrafficClass, in.Override.Source,
			"traffic class %d (%s) is set for the whole port, over what jobs ask for%s%s",
			o.Global, bits(o.Global), b.overNCCL(), b.toS())
	case overridden:
		b.TrafficClass, b.TrafficClassFrom = UnknownFact[int](ReasonNotRead, in.Override.Source, in.Override.At),
			TrafficClassFromOFED
		b.unknownClass(RoCETrafficClass, b.TrafficClass.Meta(),
			"the driver has %d rules that set the traffic class by peer", o.Rules)
	case in.Override.State == Unknown && !missing(in.Override.Meta()):
		b.TrafficClass, b.TrafficClassFrom = unknownLike[int](in.Override.Meta()), TrafficClassUnknown
		b.unknownClass(RoCETrafficClass, in.Override.Meta(),
			"whether the driver overrides the traffic class of jobs could not be read")
	case set:
		tc := int(uint8(nccl.Number)) // ah_attr.grh.traffic_class has 8 bits, NCCL checks no range
		cut := ""
		if int64(tc) != nccl.Number {
			cut = fmt.Sprintf(", of which NCCL keeps 8 bits: %d", tc)
		}
		b.TrafficClass, b.TrafficClassFrom = Known(tc, nccl.Source, in.TC.At), from
		b.consistent(RoCETrafficClass, nccl.Source, "NCCL_IB_TC=%s%s%s (%s)%s%s", nccl.Value, nccl.From(), cut, bits(tc),
			b.control(tc), b.toS())
	case in.TC.State == Unknown:
		b.TrafficClass, b.TrafficClassFrom = unknownLike[int](in.TC.Meta()), TrafficClassUnknown
		b.unknownClass(RoCETrafficClass, in.TC.Meta(), "the host's NCCL configuration could not be read")
	default:
		b.TrafficClass, b.TrafficClassFrom = UnknownFact[int](ReasonNotRead, in.TC.Source, in.TC.At), TrafficClassFromJob
		b.unknownClass(RoCETrafficClass, b.TrafficClass.Meta(),
			"the host does not set NCCL_IB_TC; jobs may, and NCCL takes 0 for those that do not%s", b.toS())
	}
}

// asked is the traffic class that NCCL asks for, if it is set.
func (b *roceBuilder) asked() (v NCCLVariable, set bool, from string) {
	if v, set = b.in.JobTC.Get(); set {
		return v, true, TrafficClassFromJob
	}
	v, set = b.in.TC.Get()
	return v, set, TrafficClassFromNCCL
}

func bits(tc int) string { return fmt.Sprintf("DSCP %d, ECN bits %d", tc>>2, tc&3) }

func (b *roceBuilder) overNCCL() string {
	if v, set, _ := b.asked(); set {
		return fmt.Sprintf(", NCCL_IB_TC=%s of %s included", v.Value, cmp.Or(v.Source, "the job"))
	}
	return ""
}

// control returns a note on NCCL_IB_FIFO_TC (NCCL 2.22.3 and later), which separates messages on purpose. In 2.22 and
// 2.23 0 is its default, which stands for NCCL_IB_TC.
func (b *roceBuilder) control(tc int) string {
	v, set := b.in.ControlTC.Get()
	c, since := int(uint8(v.Number)), ""
	if v.Number == 0 {
		since = " from NCCL 2.24 on"
	}
	if set && c>>2 != tc>>2 {
		return fmt.Sprintf("; NCCL_IB_FIFO_TC=%s sends the small control messages with DSCP %d%s", v.Value, c>>2, since)
	}
	return ""
}

// toS returns a note on the connection manager's default, which is often mistaken for NCCL's.
func (b *roceBuilder) toS() string {
	if t, set := b.in.DefaultToS.Get(); set {
		return fmt.Sprintf("; default_roce_tos %d is for the connection manager, which NCCL does not use", t)
	}
	return ""
}

// dscp: the upper six bits of the traffic class (mlx5_set_path: ads.dscp = traffic_class >> 2, RoCE v2 only).
func (b *roceBuilder) dscp() {
	want := b.in.Policy.DSCP
	tc, known := b.TrafficClass.Get()
	switch kind, ok := b.in.GIDType.Get(); {
	case !ok:
		b.DSCP = unknownLike[int](b.in.GIDType.Meta())
		b.unknownClass(RoCEDSCP, b.DSCP.Meta(), "which GID NCCL uses is not known")
	case b.addressless():
		b.DSCP = unknownLike[int](b.TrafficClass.Meta())
		b.unknownClass(RoCEDSCP, b.DSCP.Meta(), untilAddress)
	case kind == GIDRoCEv1:
		b.DSCP = AbsentFact[int](b.in.GIDType.Source, b.in.GIDType.At)
		if want != nil {
			b.broken(RoCEDSCP, b.in.GIDType.Source,
				"NCCL uses a RoCE v1 GID, whose packets have no DSCP; the site expects DSCP %d", *want)
		} else {
			b.skip(RoCEDSCP, "RoCE v1 packets have no DSCP")
		}
	case !known:
		b.DSCP = unknownLike[int](b.TrafficClass.Meta())
		b.unknownClass(RoCEDSCP, b.DSCP.Meta(), "it follows from the traffic class, which is not known")
	default:
		d := tc >> 2
		b.DSCP = Known(d, b.TrafficClass.Source, b.TrafficClass.At)
		if want != nil && *want != d {
			b.broken(RoCEDSCP, b.DSCP.Source, "traffic class %d is DSCP %d; the site expects DSCP %d", tc, d, *want)
		} else {
			b.consistent(RoCEDSCP, b.DSCP.Source, "traffic class %d is DSCP %d%s", tc, d, asExpected(want))
		}
	}
}

func asExpected[T any](want *T) string {
	if want == nil {
		return ""
	}
	return ", as the site expects"
}

// priority: the NIC takes it from the DSCP, or from the VLAN tag, which says the service level of the queue pair
// (mlx5_ib: eth_prio = sl & 7). NCCL sets the service level on Ethernet too.
func (b *roceBuilder) priority() {
	in := b.in
	var why string
	kind, knownKind := in.GIDType.Get()
	trust, knownTrust := b.Trust.Get()
	switch {
	case !knownKind && trust != TrustPCP:
		b.Priority, why = unknownLike[int](in.GIDType.Meta()), "which GID NCCL uses is not known"
	case b.addressless() && trust != TrustPCP:
		b.Priority, why = unknownLike[int](b.TrafficClass.Meta()), untilAddress
	case kind == GIDRoCEv1:
		b.Priority, why = b.fromTag("RoCE v1 has no DSCP")
	case !knownTrust:
		b.Priority, why = unknownLike[int](b.Trust.Meta()), "whether the interface trusts DSCP or VLAN tag is not known"
	case trust == TrustPCP:
		b.Priority, why = b.fromTag("the interface trusts the VLAN tag, not the DSCP")
	default:
		b.Priority, why = b.fromDSCP(b.DSCP)
	}
	b.Priority = inRange(b.Priority)
	b.Judged = b.Priority
	want := in.Policy.Priority
	if p, known := b.Priority.Get(); known {
		if want != nil && *want != p {
			b.broken(RoCEPriority, b.Priority.Source, "%s; the site expects priority %d", why, *want)
			if in.meant {
				b.Judged = Known(*want, "config expected.roce", b.Priority.At)
			}
		} else {
			b.consistent(RoCEPriority, b.Priority.Source, "%s%s", why, asExpected(want))
		}
		return
	}
	b.expectPriority(why, trust == TrustDSCP && kind == GIDRoCEv2 && b.TrafficClass.State == Unknown)
}

// expectPriority goes on with what the site means where the priority is not known; byDSCP says that this is only
// because the traffic class is not.
func (b *roceBuilder) expectPriority(why string, byDSCP bool) {
	policy := &b.in.Policy
	if policy.Priority != nil {
		b.Judged = Known(*policy.Priority, "config expected.roce", b.Priority.At)
	}
	if byDSCP && policy.DSCP != nil {
		mapped, text := b.fromDSCP(Known(*policy.DSCP, "config expected.roce", b.Priority.At))
		if p, known := mapped.Get(); known {
			b.Judged, why = mapped, text+", if jobs use the DSCP that the site expects"
			if policy.Priority != nil && *policy.Priority != p {
				b.broken(RoCEPriority, mapped.Source, "the site expects DSCP %d with priority %d; %s", *policy.DSCP,
					*policy.Priority, text)
				return
			}
		} else {
			byDSCP = false
		}
	}
	b.openToJobs = byDSCP && b.TrafficClassFrom == TrafficClassFromJob && b.TrafficClass.State == Unknown &&
		b.Judged.State == OK
	b.unknown(RoCEPriority, b.Priority.Meta(), "%s", why)
}

func (b *roceBuilder) fromTag(because string) (Fact[int], string) {
	tagged, known := b.in.Tagged.Get()
	sl, set := b.in.SL.Get()
	switch {
	case !known:
		return unknownLike[int](b.in.Tagged.Meta()), because + ", and whether packets are tagged is not known"
	case !tagged:
		return Known(0, b.in.Tagged.Source, b.in.Tagged.At), because + ", and packets are untagged: priority 0"
	case !set:
		m := b.in.SL.Meta()
		return UnknownFact[int](m.Reason, m.Source, m.At), because + ", and the host does not set NCCL_IB_SL; jobs may"
	}
	p := int(sl.Number & 7)
	return Known(p, sl.Source, b.in.SL.At), fmt.Sprintf("%s: NCCL_IB_SL=%s is priority %d", because, sl.Value, p)
}

// fromDSCP looks the priority up: in the application table, which is how upstream drivers show their map; in
// MLNX_OFED's own file; else mlx5 starts with the upper three bits.
func (b *roceBuilder) fromDSCP(dscp Fact[int]) (Fact[int], string) {
	d, known := dscp.Get()
	if !known {
		m := dscp.Meta()
		return unknownLike[int](m), "it follows from the DSCP, which is not known"
	}
	p := inRange(PriorityOfDSCP(b.in.Driver.Or(""), b.q, d))
	if v, ok := p.Get(); ok {
		return p, fmt.Sprintf("DSCP %d goes to priority %d", d, v)
	}
	return p, fmt.Sprintf("the priority of DSCP %d is not known", d)
}

// PriorityOfDSCP returns the priority, 0 to 7, that an interface of a driver gives to packets with a DSCP, if
// it trusts the DSCP.
func PriorityOfDSCP(driver string, q *QoS, dscp int) Fact[int] {
	apps, knownApps := q.Apps.Get()
	best := -1 // of several entries drivers take the highest (dcb_ieee_getapp_dscp_prio_mask_map)
	for _, a := range apps {
		if a.Selector == AppDSCP && a.Protocol == dscp {
			best = max(best, a.Priority)
		}
	}
	table, knownTable := q.DSCPPriority.Get()
	switch {
	case knownApps && best >= 0:
		return Known(best, q.Apps.Source, q.Apps.At)
	case !knownApps && !notOffered(q.Apps.Meta()):
		return unknownLike[int](q.Apps.Meta())
	case knownTable && dscp < len(table):
		return Known(table[dscp], q.DSCPPriority.Source, q.DSCPPriority.At)
	case !missing(q.DSCPPriority.Meta()):
		return unknownLike[int](q.DSCPPriority.Meta())
	case knownApps && counters.TraitsOf(driver).PCPUntilDSCP:
		return Known(dscp>>3, "default of the driver", q.Apps.At)
	}
	return UnknownFact[int](ReasonMissing, q.Apps.Source, q.Apps.At)
}

// inRange refuses a priority that is none, whatever said so.
func inRange(p Fact[int]) Fact[int] {
	if v, ok := p.Get(); ok && (v < 0 || v >= NumPriorities) {
		return UnknownFact[int](ReasonMalformed, p.Source, p.At)
	}
	return p
}

// trustOf returns which field the interface trusts. MLNX_OFED has a file for it; the mlx5 driver of the kernel
// trusts DSCP as soon as its application table has an entry for one (mlx5e_dcbnl_ieee_setapp), and of other
// drivers such an entry is the only sign.
func trustOf(driver string, q *QoS) Fact[Trust] {
	apps, known := q.Apps.Get()
	switch {
	case q.Trust.State == OK:
		return q.Trust
	case !missing(q.Trust.Meta()):
		return unknownLike[Trust](q.Trust.Meta())
	case !known:
		return unknownLike[Trust](q.Apps.Meta())
	}
	for _, a := range apps {
		if a.Selector == AppDSCP {
			return Known(TrustDSCP, q.Apps.Source, q.Apps.At)
		}
	}
	if counters.TraitsOf(driver).PCPUntilDSCP {
		return Known(TrustPCP, q.Apps.Source, q.Apps.At)
	}
	return UnknownFact[Trust](ReasonMissing, q.Apps.Source, q.Apps.At)
}

// unknownLike is unknown for the reason of another fact.
func unknownLike[T any](m Meta) Fact[T] {
	r := m.Reason
	if r == "" {
		r = ReasonMissing
	}
	return UnknownFact[T](r, m.Source, m.At)
}
