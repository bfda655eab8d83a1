// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// RoCEStep is a link of the chain from what an application asks for to what the network does with its packets;
// it is used as a label value.
type RoCEStep string

// The steps that the configuration shows, in the order of the chain.
const (
	RoCEGID          RoCEStep = "gid"              // the address that NCCL uses, which makes packets RoCE v2 or v1
	RoCETrafficClass RoCEStep = "traffic_class"    // the byte that NCCL's queue pairs carry
	RoCEDSCP         RoCEStep = "dscp"             // its upper six bits
	RoCEPriority     RoCEStep = "priority"         // what the NIC makes of DSCP or VLAN tag
	RoCEPFC          RoCEStep = "pfc"              // whether that priority is lossless
	RoCEGlobalPause  RoCEStep = "global_pause"     // 802.3x flow control, which PFC excludes
	RoCEBuffer       RoCEStep = "buffer"           // what a lossless priority receives into
	RoCEETS          RoCEStep = "ets"              // the bandwidth that the priority is given
	RoCENotification RoCEStep = "ecn_notification" // receivers report congestion (DCQCN notification point)
	RoCEReaction     RoCEStep = "ecn_reaction"     // senders slow down (DCQCN reaction point)
	RoCECNP          RoCEStep = "cnp"              // the priority of those reports
)

// The steps that only traffic shows.
const (
	RoCEObservedPriority      RoCEStep = "observed_priority"
	RoCEObservedLoss          RoCEStep = "observed_loss"           // packets of a lossless priority
	RoCEObservedPauseSent     RoCEStep = "observed_pause_sent"     // this host stops the network
	RoCEObservedPauseReceived RoCEStep = "observed_pause_received" // the network stops this host
	RoCEObservedCNP           RoCEStep = "observed_cnp"
)

// RoCESteps returns every step: those of the configuration in the order of the chain, then those that only
// traffic shows.
func RoCESteps() []RoCEStep {
	return []RoCEStep{
		RoCEGID, RoCETrafficClass, RoCEDSCP, RoCEPriority, RoCEPFC, RoCEGlobalPause, RoCEBuffer, RoCEETS, RoCENotification,
		RoCEReaction, RoCECNP,
		RoCEObservedPriority, RoCEObservedLoss, RoCEObservedPauseSent, RoCEObservedPauseReceived, RoCEObservedCNP,
	}
}

// RoCEMode is what keeps RoCE from losing packets in congestion; it is used as a label value.
type RoCEMode string

// Modes.
const (
	RoCEModeNone    RoCEMode = "none"
	RoCEModePFC     RoCEMode = "pfc"
	RoCEModeECN     RoCEMode = "ecn"
	RoCEModePFCECN  RoCEMode = "pfc_ecn"
	RoCEModeUnknown RoCEMode = "unknown"
)

// RoCEModes returns every mode.
func RoCEModes() []RoCEMode {
	return []RoCEMode{RoCEModeNone, RoCEModePFC, RoCEModeECN, RoCEModePFCECN, RoCEModeUnknown}
}

var roceModes = map[RoCEMode]string{
	RoCEModePFCECN: "PFC and ECN",
	RoCEModePFC:    "PFC without ECN",
	RoCEModeECN:    "ECN without PFC",
	RoCEModeNone:   "neither PFC nor ECN",
}

// Text is the mode in words.
func (m RoCEMode) Text() string {
	return cmp.Or(roceModes[m], "PFC and ECN unknown")
}

// RoCELink is one step of the chain and what is known about it.
type RoCELink struct {
	Step     RoCEStep
	Status   Status
	Evidence string // half a sentence for humans
	Source   string // of the fact that decided
	Reason   Reason // why Status is unknown
}

// RoCEChain is how one network interface treats what NCCL sends and receives with RoCE.
type RoCEChain struct {
	Interface string // the physical one
	Verdict   Status
	Step      RoCEStep // the first broken step, else the first unknown one; empty when consistent

	TrafficClass Fact[int] // 0 to 255
	// TrafficClassFrom says who sets it: TrafficClassFrom*.
	TrafficClassFrom string
	DSCP             Fact[int] // absent with RoCE v1
	Trust            Fact[Trust]
	Priority         Fact[int]
	// Judged is the priority that the steps after it are judged for: Priority, else the one that the site's policy
	// means. Lossless, CongestionControlled, Mode and LosslessBuffer are about it.
	Judged               Fact[int]
	Lossless             Fact[bool]
	CongestionControlled Fact[bool]
	Mode                 RoCEMode
	LosslessBuffer       Fact[int] // bytes

	Links []RoCELink // what the configuration shows, in order; they alone make the verdict
	// Observed is what traffic shows. It never makes the verdict worse: rates are for alert rules, which see more
	// than one moment.
	Observed []RoCELink
	// Window is the time that Observed is about, but for RoCEObservedCNP: RDMA counters have readings of their own.
	Window Fact[time.Duration]
	Hash   string // of the configuration; equal on interfaces that are configured alike
	// DSCPMap and BufferMap are hashes of one setting each, for comparing nodes; empty when it is not known. DSCPMap is of
	// the priorities of all DSCPs, or "pcp" where the interface does not look at the DSCP. BufferMap is of the receive
	// buffers: their sizes and the priorities that use them.
	DSCPMap, BufferMap string

	// Meant is the chain for packets with the DSCP and the priority that the site expects, where those of this
	// one are broken: what is broken in it is another fault. It has no links elsewhere.
	Meant MeantChain
}

// MeantChain is what differs from the chain that is.
type MeantChain struct {
	DSCP, Judged Fact[int]
	Links        []RoCELink
}

// AsMeant is the chain for packets as the site means them, and whether it differs from the chain that is.
func (c *RoCEChain) AsMeant() (RoCEChain, bool) {
	if len(c.Meant.Links) == 0 {
		return *c, false
	}
	m := *c
	m.DSCP, m.Judged, m.Links, m.TrafficClassFrom = c.Meant.DSCP, c.Meant.Judged, c.Meant.Links, TrafficClassFromJob
	return m, true
}

// Values of RoCEChain.TrafficClassFrom.
const (
	TrafficClassFromOFED = "ofed"    // tc/<port>/traffic_class of MLNX_OFED, over everything else
	TrafficClassFromNCCL = "nccl"    // NCCL_IB_TC of the host's configuration
	TrafficClassFromJob  = "job"     // NCCL_IB_TC of the job, known, or unknown if nothing on the host shows it
	TrafficClassFromV1   = "none"    // RoCE v1 has none
	TrafficClassUnknown  = "unknown" // who does could not be read
)

// Link returns the link of that step, or nil.
func (c *RoCEChain) Link(s RoCEStep) *RoCELink {
	for _, list := range [][]RoCELink{c.Links, c.Observed} {
		if i := slices.IndexFunc(list, func(l RoCELink) bool { return l.Step == s }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// RoCEInputs is all that the chain of one interface follows from.
//
// For what only MLNX_OFED has (Override, Trust, DSCPPriority) unknown(missing) is knowledge: the driver is
// another one, and its rules hold. Any other reason leaves the step unknown.
type RoCEInputs struct {
	Interface string
	Driver    Fact[string]  // kernel driver of the interface
	GIDType   Fact[GIDType] // of the GID that NCCL uses
	// why that GID does not reach other nodes; absent where it does, and on ports not for training
	GIDUnfit Fact[string]
	Tagged   Fact[bool]         // packets carry a VLAN tag
	Override Fact[TrafficClass] // Port.TrafficClass
	// The host's NCCL_IB_TC, NCCL_IB_SL and NCCL_IB_FIFO_TC; absent when not set, or set to NCCL's "not set".
	TC, SL, ControlTC Fact[NCCLVariable]
	// JobTC is the NCCL_IB_TC in the environment of one job, over the host's: NCCL's files do not overwrite what is set
	// (setEnvFile of misc/param.cc). Not known, the chain is about no job in particular.
	JobTC      Fact[NCCLVariable]
	DefaultToS Fact[int]
	QoS        QoS
	Policy     RoCEPolicy
	Traffic    Fact[RoCETraffic]
	Congestion Fact[RoCECongestion]

	meant bool // the chain is about packets as the site means them
}

// evaluateRoCE judges the chain. Without a policy only settings that contradict each other break it.
//
// Hiding an input never makes a broken or unknown chain consistent.
func evaluateRoCE(in RoCEInputs) RoCEChain {
	b := roceBuilder{in: &in, q: &in.QoS}
	b.Interface = in.Interface
	b.Links = make([]RoCELink, 0, 11)
	b.Trust = trustOf(in.Driver.Or(""), &in.QoS)
	b.gid()
	b.trafficClass()
	b.dscp()
	b.priority()
	b.Observed = observeRoCE(b.Judged, b.has(pfcMask(b.q)), in.Policy.ECN, in.Traffic, in.Congestion)
	b.Window = roceWindowOf(in.Traffic)
	b.applyObservedTraffic()
	b.pfc()
	b.globalPause()
	b.buffer()
	b.ets()
	b.ecn()
	b.cnp()
	b.Mode = roceMode(b.Lossless, b.CongestionControlled)
	b.verdict()
	b.Hash = roceHash(&b.RoCEChain, &in.QoS)
	b.DSCPMap = dscpMap(b.Trust, in.Driver.Or(""), b.q)
	b.BufferMap = bufferMap(b.q.Buffers)
	if b.Link(RoCEDSCP).Status == StatusFailed || b.Link(RoCEPriority).Status == StatusFailed {
		b.Meant = meantChain(in)
	}
	return b.RoCEChain
}

// meantChain is the chain as it would be if packets had the DSCP and the priority that the site expects.
func meantChain(in RoCEInputs) MeantChain {
	if in.meant {
		return MeantChain{}
	}
	in.meant = true
	if want := in.Policy.DSCP; want != nil {
		tc := *want<<2 | 2 // ECN capable
		in.JobTC = Known(NCCLVariable{
			Name: "NCCL_IB_TC", Value: strconv.Itoa(tc), Number: int64(tc), IsNumber: true,
			Source: "config expected.roce",
		}, "config expected.roce", in.JobTC.At)
		in.Override = UnknownFact[TrafficClass](ReasonMissing, in.Override.Source, in.Override.At)
		in.GIDType = Known(GIDRoCEv2, in.GIDType.Source, in.GIDType.At)
	}
	c := evaluateRoCE(in)
	return MeantChain{c.DSCP, c.Judged, c.Links}
}

// roceBuilder adds link after link to a chain.
type roceBuilder struct {
	RoCEChain
	in *RoCEInputs
	q  *QoS
	// openToJobs: only the traffic class is missing, which each job may set.
	openToJobs bool
}

func (b *roceBuilder) consistent(s RoCEStep, source, format string, args ...any) {
	b.Links = append(b.Links, RoCELink{Step: s, Status: StatusOK, Evidence: fmt.Sprintf(format, args...), Source: source})
}

func (b *roceBuilder) broken(s RoCEStep, source, format string, args ...any) {
	b.Links = append(b.Links, RoCELink{
		Step: s, Status: StatusFailed, Evidence: fmt.Sprintf(format, args...),
		Source: source,
	})
}

func (b *roceBuilder) unknown(s RoCEStep, m Meta, format string, args ...any) {
	b.Links = append(b.Links, unknownLink(s, m, fmt.Sprintf(format, args...)))
}

func (b *roceBuilder) skip(s RoCEStep, format string, args ...any) {
	b.Links = append(b.Links, RoCELink{Step: s, Status: StatusNotApplicable, Evidence: fmt.Sprintf(format, args...)})
}

func unknownLink(s RoCEStep, m Meta, evidence string) RoCELink {
	if m.Reason == "" { // absent where a value is needed: this host has no such thing
		m.Reason = ReasonMissing
	}
	return RoCELink{Step: s, Status: StatusUnknown, Evidence: evidence, Source: m.Source, Reason: m.Reason}
}

// judge is consistent or broken by what is true.
func (b *roceBuilder) judge(s RoCEStep, holds bool, source, format string, args ...any) {
	if holds {
		b.consistent(s, source, format, args...)
	} else {
		b.broken(s, source, format, args...)
	}
}

func (b *roceBuilder) verdict() {
	b.Verdict = StatusOK
	for _, l := range b.Links {
		if l.Status == StatusFailed {
			b.Verdict, b.Step = StatusFailed, l.Step
			return
		}
		if l.Status == StatusUnknown && b.Verdict == StatusOK {
			b.Verdict, b.Step = StatusUnknown, l.Step
		}
	}
}

// has reports whether the judged priority is in a set, which is known also when all or none are.
func (b *roceBuilder) has(set Fact[PriorityMask]) Fact[bool] {
	p, known := b.Judged.Get()
	switch m, ok := set.Get(); {
	case !ok:
		return unknownLike[bool](set.Meta())
	case m == 0 || m == 1<<NumPriorities-1:
		return Known(m != 0, set.Source, set.At)
	case !known:
		return unknownLike[bool](b.Judged.Meta())
	default:
		return Known(m.Has(p), set.Source, set.At)
	}
}

func pfcMask(q *QoS) Fact[PriorityMask] {
	return Fact[PriorityMask]{
		Value: q.PFC.Value.Enabled, State: q.PFC.State, Reason: q.PFC.Reason, Source: q.PFC.Source,
		At: q.PFC.At,
	}
}

func roceMode(lossless, controlled Fact[bool]) RoCEMode {
	pfc, knownPFC := lossless.Get()
	ecn, knownECN := controlled.Get()
	switch {
	case !knownPFC || !knownECN:
		return RoCEModeUnknown
	case pfc && ecn:
		return RoCEModePFCECN
	case pfc:
		return RoCEModePFC
	case ecn:
		return RoCEModeECN
	default:
		return RoCEModeNone
	}
}

// missing reports whether there is no such source, as on other drivers for facts that only MLNX_OFED has.
func missing(m Meta) bool { return m.State == Unknown && m.Reason == ReasonMissing }

// notOffered reports whether the driver has no such setting to show.
func notOffered(m Meta) bool {
	return m.State == Absent || m.State == Unknown && (m.Reason == ReasonMissing || m.Reason == ReasonUnsupported)
}
