// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"math"
	"slices"

	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/diagnose/roce"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// rule says of which check a failure may be a consequence of which other one, and when it is.
type rule struct {
	check, cause string
	follows      func(n *fabric.Node, v, cause *verdict.Verdict) bool
	exact        bool // its remedy is more exact than that of the cause, which gets it
}

func rules() []rule {
	return []rule{
		{check: verdict.CheckNCCLDevices, cause: verdict.CheckComputePorts, follows: func(n *fabric.Node, _, _ *verdict.Verdict) bool { return len(node.LostDevices(n)) > 0 }},
		{
			check: verdict.CheckComputePorts, cause: verdict.CheckLeftOut,
			follows: func(n *fabric.Node, _, _ *verdict.Verdict) bool {
				return node.CountPorts(n).There+len(nccl.LeftOutPorts(n)) >= *n.Policy.ComputePorts
			},
		},
		{check: verdict.CheckHardware, cause: verdict.CheckComputePorts, follows: func(n *fabric.Node, _, _ *verdict.Verdict) bool { return lacks(n, fabric.PCINIC) }},
		{check: verdict.CheckHardware, cause: verdict.CheckGPUs, follows: func(n *fabric.Node, _, _ *verdict.Verdict) bool { return lacks(n, fabric.PCIGPU) }},
		{check: verdict.CheckNCCLDevices, cause: verdict.CheckHardware, follows: func(n *fabric.Node, _, _ *verdict.Verdict) bool { return namesWhatIsGone(n) }},
		{check: verdict.CheckGID, cause: verdict.CheckGIDIndex, exact: true, follows: func(_ *fabric.Node, v, _ *verdict.Verdict) bool { return v.Mode == port.ModeGIDPinned.ID }},
		{check: verdict.CheckPinnedGIDs, cause: verdict.CheckGIDIndex, exact: true, follows: func(*fabric.Node, *verdict.Verdict, *verdict.Verdict) bool { return true }},
		{check: verdict.CheckPriority, cause: verdict.CheckGID, follows: untaggedByGID},
		{check: verdict.CheckPFC, cause: verdict.CheckGID, follows: untaggedByGID},
		// The port that differs may be the one that is not for training.
		{check: verdict.CheckPFCUniform, cause: verdict.CheckSurplusPorts, follows: func(*fabric.Node, *verdict.Verdict, *verdict.Verdict) bool { return true }},
		{
			check: verdict.CheckDSCP, cause: verdict.CheckNCCLLines, exact: true,
			follows: func(n *fabric.Node, v, cause *verdict.Verdict) bool {
				set, found := n.NCCL.Lookup("NCCL_IB_TC")
				return found && set.Source == cause.Subject.File && carriesHostClass(n, v.Subject)
			},
		},
	}
}

// follow sets the causes of verdicts. The list is in its final order: causes point into it. A consequence has
// no remedy: that of its cause is one for both.
func follow(n *fabric.Node, list []verdict.Verdict) {
	failed := slices.IndexFunc(list, func(v verdict.Verdict) bool { return v.Status != verdict.Failed })
	if failed < 0 {
		failed = len(list)
	}
	if list = list[:failed]; len(list) < 2 {
		return
	}
	for _, r := range rules() {
		for i := range list {
			if list[i].Check.ID != r.check {
				continue
			}
			for k := range list {
				if list[k].Check.ID == r.cause && r.follows(n, &list[i], &list[k]) {
					if r.exact && list[i].Remedy != "" {
						list[k].Remedy = list[i].Remedy
					}
					list[i].Cause, list[i].Remedy = &list[k], ""
				}
			}
		}
	}
}

// lacks reports whether all that the node had and lacks is of one kind.
func lacks(n *fabric.Node, kind fabric.PCIKind) bool {
	return len(n.Remembered) > 0 && !slices.ContainsFunc(n.Remembered,
		func(r fabric.Remembered) bool { return r.Kind != kind })
}

// namesWhatIsGone reports whether all names of NCCL_IB_HCA that match nothing are devices that the node had.
func namesWhatIsGone(n *fabric.Node) bool {
	set, _ := n.NCCL.Lookup("NCCL_IB_HCA")
	list := fabric.ParseNameFilter(set.Value)
	names := n.MissingNames(list)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(n.Remembered, func(r fabric.Remembered) bool {
			return slices.ContainsFunc(r.Missing, func(p fabric.Place) bool { return p.Device() == name })
		})
	})
}

// portOf returns the port of a subject; nil: there is none.
func portOf(n *fabric.Node, s verdict.Subject) *fabric.Port {
	h := n.HCA(s.Device)
	if h == nil {
		return nil
	}
	if i := slices.IndexFunc(h.Ports, func(p fabric.Port) bool { return p.Number == s.Port }); i >= 0 {
		return &h.Ports[i]
	}
	return nil
}

// untaggedByGID reports whether the packets of a port have another priority because the address that NCCL
// takes is untagged, while one that it should take is in a VLAN. PFC that is off for all priorities is a
// fault of its own.
func untaggedByGID(n *fabric.Node, v, cause *verdict.Verdict) bool {
	p := portOf(n, v.Subject)
	if p == nil || v.Subject.Key() != cause.Subject.Key() || roce.TaggedGID(n, p) == nil {
		return false
	}
	taken := p.GIDChoice.Or(fabric.GIDChoice{}).GID
	return taken != nil && !n.Tagged(roce.OfGID(taken, p)).Or(true) &&
		!slices.ContainsFunc(p.RoCE.Or(nil), func(c fabric.RoCEChain) bool {
			d := n.NetDev(c.Interface)
			return c.Trust.Or("") != fabric.TrustPCP || d == nil || d.QoS.PFC.Or(fabric.PFC{}).Enabled == 0
		})
}

// carriesHostClass reports whether the traffic class of a port is that of the host's configuration of NCCL.
func carriesHostClass(n *fabric.Node, s verdict.Subject) bool {
	p := portOf(n, s)
	return p != nil && slices.ContainsFunc(p.RoCE.Or(nil),
		func(c fabric.RoCEChain) bool { return c.TrafficClassFrom == fabric.TrafficClassFromNCCL })
}

// Shares of a baseline that remain with a fault, at least. What is slower has another cause, too.
const (
	tolerance   = 0.9  // of what a link allows: baselines vary
	lanesCarry  = 0.85 // of the bits of PCIe lanes, behind headers and flow control
	detourShare = 0.3  // of a rail whose data goes through host memory or the root complex
)

// Shares of what a rail can carry that remain with a fault, at most: a baseline above was measured without it.
const (
	detourCarries = 0.7 // through host memory or the root complex
	stormCarries  = 0.5 // the check fails from half of the time that is paused
)

// Explains returns the failed verdict from which all follows that a probe shows; nil: none does, or not all of it.
func Explains(n *fabric.Node, list []verdict.Verdict, s *fabric.Symptom) *verdict.Verdict {
	if s.Other {
		return nil
	}
	var tcp, gone, detour, notReady, slow *verdict.Verdict
	share := math.Inf(1)
	for i := range list {
		v := &list[i]
		if v.Status != verdict.Failed {
			continue
		}
		switch v.Check.ID {
		case verdict.CheckRDMAOff:
			tcp = v
		case verdict.CheckComputePorts:
			if withoutPorts(n) {
				gone = v
			}
		case verdict.CheckNVLinkFabric:
			notReady = v
		case verdict.CheckGPUDirect, verdict.CheckPeermem:
			if takesPart(n, v, s) && v.Mode != gpu.ModeIOMMU.ID {
				detour = v
			}
		}
		if r, explains := remains(n, v, s); explains && r < share {
			slow, share = v, r
		}
	}
	switch {
	case s.NotReady:
		return notReady
	case s.NoDevice:
		return gone
	case s.TCP: // whatever its speed
		return tcp
	case s.NoGPUDirect && detour == nil, s.Slow && s.Ratio < tolerance*share:
		return nil
	case s.NoGPUDirect:
		return detour
	case s.Slow && slow.Cause != nil:
		return slow.Cause
	case s.Slow:
		return slow
	}
	return nil
}

// withoutPorts reports whether no port of the node can be active: NCCL has no device, whatever else is wrong.
func withoutPorts(n *fabric.Node) bool {
	return !slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool {
		return len(h.Ports) == 0 || slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return !p.Down() })
	})
}

// SlowWithoutGPUDirect reports whether a probe is slow because it lost GPUDirect RDMA: its baseline was
// measured with it, and what remains is what host memory passes on.
func SlowWithoutGPUDirect(n *fabric.Node, s *fabric.Symptom) bool {
	carries := railCarries(n, s)
	return s.NoGPUDirect && s.Slow && !s.Other && carries > 0 && s.Baseline > detourCarries*carries &&
		s.Ratio >= tolerance*detourShare &&
		!gpu.FarByDesign(n)
}

// RemedyOfProbe says what to do about what a probe shows, and that follows from a failed verdict; nil: from
// none that is known.
func RemedyOfProbe(cause *verdict.Verdict, s *fabric.Symptom) string {
	switch {
	case cause != nil:
		return "It follows from " + cause.Check.ID + ": repair that. The next run shows whether it helped."
	case s.TCP:
		return "NCCL's log of the run names the cause: correct it, then run gpufabric_exporter probe transport."
	case s.NoGPUDirect:
		return "See the findings of the node first: ACS and a missing nvidia-peermem are checked there. Without one, check NCCL_NET_GDR_LEVEL and NCCL_DMABUF_ENABLE, " +
			"and that NCCL was built for CUDA 11.7 or later: an older build cannot use dma-buf and needs nvidia-peermem."
	}
	return "See the findings of the node, and what changed since the last good run on the page of probes. Without either, run the probe again, and compare its NCCL log with that of another node."
}

// takesPart reports whether a verdict is about a GPU of a probe, or about all.
func takesPart(n *fabric.Node, v *verdict.Verdict, s *fabric.Symptom) bool {
	if v.Subject.GPU == "" || slices.Contains(s.GPUs, v.Subject.GPU) {
		return true
	}
	return slices.ContainsFunc(verdict.GPUs(n), func(g verdict.GPU) bool {
		return g.Subject().GPU == v.Subject.GPU && g.GDR != nil && s.Device != "" && g.GDR.NIC == s.Device
	})
}

// remains returns the share of its baseline that a probe keeps with a failure, and whether it is a failure
// that makes this probe slow.
func remains(n *fabric.Node, v *verdict.Verdict, s *fabric.Symptom) (share float64, slows bool) {
	carries := railCarries(n, s)
	onRail := s.Device != "" && v.Subject.Device == s.Device && (v.Subject.Port == 0 || v.Subject.Port == s.Port)
	port := portOf(n, verdict.Subject{Device: s.Device, Port: s.Port})
	switch v.Check.ID {
	case verdict.CheckPortRate, verdict.CheckPortRateAgrees: // NCCL goes by the rate that RDMA reports
		if onRail && port != nil {
			rate := port.Rate.Or(fabric.Rate{}).BytesPerSecond
			return rate / port.ExpectedRate.Or(0), port.Rate.State == fabric.OK && !wasWithin(s, rate)
		}
	case verdict.CheckPCIeLink:
		if f := n.PCI.NIC(s.Device); onRail && f != nil && port != nil {
			line := max(port.Rate.Or(fabric.Rate{}).BytesPerSecond, port.ExpectedRate.Or(0))
			lanes := f.Link.Speed.Or(0) / 8 * float64(f.Link.Width.Or(0))
			return lanesCarry * lanes / line, lanes > 0 && line > 0 && !wasWithin(s, lanesCarry*lanes)
		}
	case verdict.CheckACS:
		return detourShare, onRail && !wasWithin(s, detourCarries*carries)
	case verdict.CheckGPUDirect, verdict.CheckPeermem:
		return detourShare, s.Device != "" && takesPart(n, v, s) && (s.NoGPUDirect || v.Mode == gpu.ModeIOMMU.ID) &&
			!wasWithin(s, detourCarries*carries)
	case verdict.CheckPauseSent: // the NIC does not take packets: nothing may remain
		return 0, onRail && !wasWithin(s, stormCarries*carries)
	case verdict.CheckNVLinks: // no guard: between GPUs, a probe measures far less than their links carry
		if i := slices.IndexFunc(verdict.GPUs(n),
			func(g verdict.GPU) bool { return g.Subject().GPU == v.Subject.GPU }); i >= 0 && s.Within && takesPart(n, v, s) {
			active, total := verdict.GPUs(n)[i].NVLinks()
			return float64(active.Or(0)) / float64(max(total, 1)), active.State == fabric.OK
		}
	}
	return 0, false
}

// railCarries is what the port of a probe and the PCIe link of its NIC can carry, in bytes per second; 0: it
// is not known.
func railCarries(n *fabric.Node, s *fabric.Symptom) float64 {
	port := portOf(n, verdict.Subject{Device: s.Device, Port: s.Port})
	if port == nil {
		return 0
	}
	most := max(port.Rate.Or(fabric.Rate{}).BytesPerSecond, port.ExpectedRate.Or(0))
	if f := n.PCI.NIC(s.Device); f != nil {
		if lanes := f.Link.Speed.Or(0) / 8 * float64(f.Link.Width.Or(0)); lanes > 0 {
			most = min(most, lanesCarry*lanes)
		}
	}
	return most
}

// wasWithin reports whether the baseline of a probe does not exceed what a fault leaves: the probe was as
// slow before, because of that fault or by its nature, and has become slower because of another one.
func wasWithin(s *fabric.Symptom, left float64) bool { return s.Baseline > 0 && s.Baseline <= left }
