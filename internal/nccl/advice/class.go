// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
)

const (
	classVariable = "NCCL_IB_TC"
	askDSCP       = "state expected.roce.dscp in the configuration file, as the switches have it"
	// usualDSCP is the value for RoCE data in guides of NIC and switch vendors. It is used only where the interfaces of
	// the node have it in their lossless priority.
	usualDSCP = 26
	// ecnCapable are the lower two bits of the traffic class (RFC 3168): switches may mark such packets.
	ecnCapable = 2
)

// lane is how one interface below a compute port treats classes.
type lane struct {
	of         portOf
	port, name string
	driver     string
	qos        *fabric.QoS
	chain      *fabric.RoCEChain
}

// tagged reports whether the interface takes the priority from the VLAN tag.
func (l lane) tagged() bool { return l.chain.Trust.Or("") == fabric.TrustPCP }

// trafficClass derives the traffic class of NCCL's packets from the chain of the node: DSCP, priority, PFC.
func (k *adviser) trafficClass() {
	if k.contradicted() {
		return
	}
	if k.Workload.Fabric == InfiniBand {
		k.leave(classVariable, "NCCL gives a traffic class to RoCE alone.", classVariable)
		return
	}
	active := roce(k.base)
	lanes, ok := k.lanes(active)
	if !ok || len(lanes) == 0 {
		return
	}
	if expected := k.node.Policy.RoCE; expected.DSCP != nil {
		k.setClass(*expected.DSCP, fmt.Sprintf("The site expects DSCP %d (expected.roce.dscp)%s", *expected.DSCP,
			treated(*expected.DSCP, lanes)), "configuration file, expected.roce.dscp")
		return
	}
	p, why := lossless(lanes)
	if why != "" {
		k.open(classVariable, why, askDSCP)
		return
	}
	fits := dscpsOf(p, lanes)
	present, set := k.presentDSCP()
	dscp := usualDSCP
	switch {
	case set && slices.Contains(fits, present):
		dscp = present
	case slices.Contains(fits, usualDSCP):
	case len(fits) == 1:
		dscp = fits[0]
	default:
		k.open(classVariable,
			fmt.Sprintf("Priority %d is lossless, and %d DSCPs go to it on all interfaces: which of them the switches expect is not known.", p, len(fits)), askDSCP)
		return
	}
	k.setClass(dscp,
		fmt.Sprintf("DSCP %d goes to priority %d, the only lossless one, on %s. The switches must map it in the same way, which a host cannot show",
			dscp, p, interfaces(len(lanes))), lanes[0].qos.PFC.Source+" and "+cmp.Or(lanes[0].qos.Apps.Source,
			lanes[0].qos.DSCPPriority.Source))
}

func interfaces(n int) string {
	if n == 1 {
		return "its interface"
	}
	return fmt.Sprintf("all %d interfaces of the compute ports", n)
}

// setClass sets the class of a DSCP. A present value of the same DSCP stays.
func (k *adviser) setClass(dscp int, reason, source string) {
	tc := dscp<<2 | ecnCapable
	k.set(Setting{
		Name: classVariable, Value: strconv.Itoa(tc), Source: source + "; " + sourceOf(classVariable),
	}, func(present string) bool {
		n, ok := settings.ParseNumber(present)
		return ok && n >= 0 && n < 256 && int(n)>>2 == dscp
	})
	s := &k.Settings[len(k.Settings)-1]
	n, _ := settings.ParseNumber(s.Value)
	s.Reason = fmt.Sprintf("%s. The value is the whole traffic class byte: DSCP %d × 4, plus %d, which lets switches mark packets in congestion (ECN).", reason, dscp, n&3)
	if n&3 == 0 {
		s.Reason = fmt.Sprintf("%s. The value is the whole traffic class byte: DSCP %d × 4. Switches cannot mark such packets in congestion (ECN); plus %d, they can.", reason, dscp, ecnCapable)
	}
}

// presentDSCP is what the host sets and lint accepts.
func (k *adviser) presentDSCP() (dscp int, set bool) {
	v, found := k.base.NCCL.Lookup(classVariable)
	if !found || !v.IsNumber || v.Number < 0 || v.Number > 255 {
		return 0, false
	}
	return int(v.Number) >> 2, true
}

// lanes returns the interfaces below the ports; ok is false where the class is not for NCCL to choose, or the
// chain could not be read, which it has said.
func (k *adviser) lanes(active []portOf) (list []lane, ok bool) {
	const chain = "run `gpufabric_exporter check` and look at the checks whose names begin with roce_"
	overridden := 0
	for _, p := range active {
		chains, known := p.RoCE.Get()
		o, has := p.TrafficClass.Get()
		switch {
		case !known:
			k.open(classVariable, "How the interface of "+p.name()+" treats classes of traffic could not be read.", chain)
			return nil, false
		case has && o.Global >= 0:
			overridden++
		case has || p.TrafficClass.State == fabric.Unknown && p.TrafficClass.Meta().Reason != fabric.ReasonMissing:
			k.open(classVariable, "Whether the driver of "+p.name()+" overrides the traffic class of jobs is not known.", chain)
			return nil, false
		}
		for i := range chains {
			l := lane{of: p, port: p.name(), name: chains[i].Interface, driver: p.Driver.Or(""), chain: &chains[i]}
			if d := k.base.NetDev(l.name); d != nil {
				l.driver, l.qos = d.Driver.Or(l.driver), &d.QoS
			}
			list = append(list, l)
		}
	}
	if len(active) > 0 && overridden == len(active) {
		k.leave(classVariable,
			"The driver sets a traffic class for all queue pairs of the compute ports (tc/<port>/traffic_class of MLNX_OFED), over what jobs ask for.", classVariable)
		return nil, false
	}
	expected := k.node.Policy.RoCE.DSCP != nil
	k.serviceLevel(list)
	if len(list) > 0 && !expected && !slices.ContainsFunc(list, func(l lane) bool { return !l.tagged() }) {
		k.open(classVariable,
			"The interfaces of the compute ports take the priority from the VLAN tag and not from the DSCP: the traffic class has no effect on this node, NCCL_IB_SL has where packets are tagged. Whether the switches use the DSCP is not known.", "if they do, "+askDSCP)
		return nil, false
	}
	for _, l := range list {
		trust, known := l.chain.Trust.Get()
		why := ""
		switch {
		case l.chain.TrafficClassFrom == fabric.TrafficClassFromV1:
			why = "NCCL uses a RoCE v1 address on " + l.port + ", whose packets have no traffic class"
		case expected: // packets carry it, whatever the host does with it
		case l.qos == nil || !known:
			why = "Whether " + l.name + " trusts the DSCP of packets is not known"
		case trust != fabric.TrustDSCP:
			why = l.name +
				" takes the priority from the VLAN tag and not from the DSCP, so that the traffic class has no effect on it"
		}
		if why != "" {
			k.open(classVariable, why+".", chain)
			return nil, false
		}
	}
	return list, true
}

// serviceLevel has NCCL send with the lossless priority where all interfaces take it from the VLAN tag.
func (k *adviser) serviceLevel(lanes []lane) {
	const name = "NCCL_IB_SL"
	if len(lanes) == 0 || slices.ContainsFunc(lanes, func(l lane) bool {
		return !l.tagged() || l.qos == nil ||
			!k.inVLAN(l.of)
	}) {
		return
	}
	p, why := lossless(lanes)
	if expected := k.node.Policy.RoCE.Priority; expected != nil && *expected != p || why != "" {
		return
	}
	k.set(Setting{
		Name: name, Value: strconv.Itoa(p), Source: lanes[0].qos.PFC.Source + "; " + sourceOf(name),
		Reason: fmt.Sprintf("Priority %d is the only lossless one on %s, which take it from the VLAN tag, and the tag has the service level of the queue pair. Without the setting NCCL takes 0.", p, interfaces(len(lanes))),
	}, func(present string) bool {
		n, ok := settings.ParseNumber(present)
		return ok && n >= 0 && int(n&7) == p
	})
}

// inVLAN reports whether the packets of a port carry a VLAN tag with the address that NCCL takes.
func (k *adviser) inVLAN(p portOf) bool {
	g := p.GIDChoice.Or(fabric.GIDChoice{}).GID
	return g != nil && g.Routable() && k.base.Tagged(cmp.Or(g.NetDev, p.NetDev.Or(""))).Or(false)
}

// lossless is the one priority that PFC protects on all interfaces, else why there is none.
func lossless(lanes []lane) (priority int, why string) {
	all := fabric.PriorityMask(0xff)
	for _, l := range lanes {
		pfc, known := l.qos.PFC.Get()
		if !known {
			return 0, "For which priorities PFC is on at " + l.name + " is not known."
		}
		if pfc.Enabled != lanes[0].qos.PFC.Value.Enabled {
			return 0, fmt.Sprintf("PFC is on for %s at %s and for %s at %s.", lanes[0].qos.PFC.Value.Enabled.Text(),
				lanes[0].name, pfc.Enabled.Text(), l.name)
		}
		all = pfc.Enabled
	}
	switch list := all.Priorities(); len(list) {
	case 0:
		return 0,
			"PFC is off for all priorities: no class of this host is lossless, and none is better for RoCE than another as far as the host shows."
	case 1:
		return list[0], ""
	default:
		return 0, fmt.Sprintf("PFC is on for %s: which one is that of RoCE is not known.", all.Text())
	}
}

// dscpsOf returns the DSCPs that go to a priority on all interfaces.
func dscpsOf(priority int, lanes []lane) []int {
	var list []int
	for dscp := range fabric.NumDSCP {
		if !slices.ContainsFunc(lanes, func(l lane) bool { return goesTo(dscp, l) != priority }) {
			list = append(list, dscp)
		}
	}
	return list
}

// goesTo is the priority of a DSCP, -1 where it is not known.
func goesTo(dscp int, l lane) int {
	if l.qos == nil {
		return -1
	}
	return fabric.PriorityOfDSCP(l.driver, l.qos, dscp).Or(-1)
}

// treated says where a DSCP does not get what it should on the host.
func treated(dscp int, lanes []lane) string {
	if i := slices.IndexFunc(lanes, lane.tagged); i >= 0 {
		return ", which the switches see; " + lanes[i].name + " takes the priority from the VLAN tag instead"
	}
	first := goesTo(dscp, lanes[0])
	for _, l := range lanes {
		switch p := goesTo(dscp, l); {
		case p < 0:
			return ". Which priority that is at " + l.name + " is not known"
		case p != first:
			return fmt.Sprintf(". It goes to priority %d at %s and to %d at %s: run `gpufabric_exporter check`", first,
				lanes[0].name, p, l.name)
		}
	}
	return fmt.Sprintf(", which goes to priority %d on %s", first, interfaces(len(lanes)))
}
