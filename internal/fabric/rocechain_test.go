// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// designed is a port as NVIDIA's guides set it up with MLNX_OFED: DSCP 26, priority 3, PFC and DCQCN, notifications
// with DSCP 48.
func designed() RoCEInputs {
	q := QoS{
		PFC: ok(PFC{Enabled: 1 << 3, Classes: 8}), Pause: ok(Pause{}), Apps: ok([]App{}), Trust: ok(TrustDSCP),
		ETS: ok(ETS{PriorityClass: [8]int{1, 0, 2, 3, 4, 5, 6, 7}, Algorithm: [8]TSA{255, 255, 255, 255, 255, 255, 255, 255}}),
		NP:  ok(PriorityMask(1 << 3)), RP: ok(PriorityMask(1 << 3)), CNPDSCP: ok(48), CNPPriority: ok(6),
		Buffers: ok(Buffers{OfPriority: [8]int{3: 1}, Bytes: [8]int{20_016, 156_096}}),
	}
	var table [NumDSCP]int
	for d := range table {
		table[d] = d >> 3
	}
	q.DSCPPriority = ok(table)
	return RoCEInputs{
		Interface: "eth0", Driver: ok("mlx5_core"), GIDType: ok(GIDRoCEv2), GIDUnfit: AbsentFact[string]("gid", at), Tagged: ok(false), Override: AbsentFact[TrafficClass]("tc", at),
		TC: setTo("NCCL_IB_TC", 106), SL: AbsentFact[NCCLVariable]("nccl", at), ControlTC: AbsentFact[NCCLVariable]("nccl", at), DefaultToS: AbsentFact[int]("configfs", at),
		QoS: q,
	}
}

func setTo(name string, n int64) Fact[NCCLVariable] {
	return ok(NCCLVariable{Name: name, Value: strconv.FormatInt(n, 10), Source: "/etc/nccl.conf:1", Number: n, IsNumber: true})
}

func job(tc int64) Fact[NCCLVariable] {
	v := setTo("NCCL_IB_TC", tc)
	v.Value.Source = "environment of process 4711"
	return v
}

func lossless() RoCEPolicy {
	return RoCEPolicy{DSCP: new(26), Priority: new(3), Lossless: new(true), ECN: new(true)}
}

// inbox makes it a port of the kernel's own mlx5 driver, which shows the map as application table.
func inbox(in *RoCEInputs, trustsDSCP bool) {
	in.Override = UnknownFact[TrafficClass](ReasonMissing, "tc", at)
	q := &in.QoS
	q.Trust, q.DSCPPriority = UnknownFact[Trust](ReasonMissing, "qos", at), UnknownFact[[NumDSCP]int](ReasonMissing, "qos", at)
	q.NP, q.RP = UnknownFact[PriorityMask](ReasonMissing, "ecn", at), UnknownFact[PriorityMask](ReasonMissing, "ecn", at)
	q.CNPDSCP, q.CNPPriority = UnknownFact[int](ReasonMissing, "ecn", at), UnknownFact[int](ReasonMissing, "ecn", at)
	if trustsDSCP {
		q.Apps = ok([]App{{AppDSCP, 0, 0}, {AppDSCP, 26, 3}, {AppDSCP, 48, 6}})
	}
}

// noDCB makes it a port whose driver answers nothing: a virtual function, ionic, mana.
func noDCB(in *RoCEInputs) {
	inbox(in, false)
	q := &in.QoS
	q.PFC, q.ETS = UnknownFact[PFC](ReasonUnsupported, "dcb", at), UnknownFact[ETS](ReasonUnsupported, "dcb", at)
	q.Apps, q.Buffers = UnknownFact[[]App](ReasonUnsupported, "dcb", at), UnknownFact[Buffers](ReasonUnsupported, "dcb", at)
	q.Pause = UnknownFact[Pause](ReasonUnsupported, "pause", at)
}

// traffic is a second in which that many bytes left with each priority, rdma of them RDMA's.
func traffic(rdma uint64, byPriority map[int]uint64) Fact[RoCETraffic] {
	t := RoCETraffic{Window: time.Second, SentRDMA: ok(rdma), Storms: ok(uint64(0))}
	for p := range NumPriorities {
		t.SentBytes[p], t.Discards[p] = ok(byPriority[p]), ok(uint64(0))
		t.PauseSent[p], t.PauseReceived[p] = ok(time.Millisecond), ok(time.Millisecond)
	}
	return ok(t)
}

const none = -1 // not known, or there is none

type truth struct {
	name     string
	edit     func(in *RoCEInputs)
	verdict  Status
	step     RoCEStep
	tc       int
	dscp     int
	priority int
	mode     RoCEMode
	says     string // part of the evidence of step
}

// truths is the truth table. What is expected follows from the kernel's drivers and the guides of vendors and
// sites, not from the code.
var truths = []truth{
	// The traffic class.
	{"as designed, no policy", func(in *RoCEInputs) {}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"as designed", func(in *RoCEInputs) { in.Policy = lossless() }, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"TC 104 is the same DSCP", func(in *RoCEInputs) { in.TC, in.Policy = setTo("NCCL_IB_TC", 104), lossless() }, StatusOK, "", 104, 26, 3, RoCEModePFCECN, ""},
	{"TC 96: DSCP 24, priority 3", func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 96) }, StatusOK, "", 96, 24, 3, RoCEModePFCECN, ""},
	{"TC 96 where DSCP 26 is expected", func(in *RoCEInputs) { in.TC, in.Policy = setTo("NCCL_IB_TC", 96), lossless() }, StatusFailed, RoCEDSCP, 96, 24, 3, RoCEModePFCECN, "expects DSCP 26"},
	{"TC 41: DSCP 10, out of the lossless class", func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 41) }, StatusFailed, RoCEPFC, 41, 10, 1, RoCEModeNone, "on for priority 3, but RoCE uses priority 1"},
	{"TC 41 where the site maps DSCP 10", func(in *RoCEInputs) {
		in.TC, in.QoS.DSCPPriority.Value[10] = setTo("NCCL_IB_TC", 41), 3
		in.Policy = RoCEPolicy{DSCP: new(10), Priority: new(3), Lossless: new(true)}
	}, StatusOK, "", 41, 10, 3, RoCEModePFCECN, ""},
	{"TC 5, a priority taken for a traffic class", func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 5) }, StatusFailed, RoCEPFC, 5, 1, 0, RoCEModeNone, "but RoCE uses priority 0"},
	{"TC 5 where DSCP 26 is expected", func(in *RoCEInputs) { in.TC, in.Policy = setTo("NCCL_IB_TC", 5), lossless() }, StatusFailed, RoCEDSCP, 5, 1, 0, RoCEModeNone, "traffic class 5 is DSCP 1"},
	{"TC 0 set by the host", func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 0) }, StatusFailed, RoCEPFC, 0, 0, 0, RoCEModeNone, "but RoCE uses priority 0"},
	{"TC 236: DSCP 59, priority 7", func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 236) }, StatusFailed, RoCEPFC, 236, 59, 7, RoCEModeNone, "uses priority 7"},
	{"TC 236 where the site maps DSCP 59", func(in *RoCEInputs) {
		in.TC, in.QoS.Apps = setTo("NCCL_IB_TC", 236), ok([]App{{AppDSCP, 59, 5}})
		in.QoS.PFC.Value.Enabled, in.QoS.NP, in.QoS.RP = 1<<5, ok(PriorityMask(0xff)), ok(PriorityMask(0xff))
		in.QoS.Buffers.Value.OfPriority = [8]int{5: 1}
	}, StatusOK, "", 236, 59, 5, RoCEModePFCECN, ""},
	{"TC 362 loses its ninth bit", func(in *RoCEInputs) { in.TC, in.Policy = setTo("NCCL_IB_TC", 362), lossless() }, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"no TC is set, no policy", func(in *RoCEInputs) { in.TC = AbsentFact[NCCLVariable]("nccl", at) }, StatusUnknown, RoCETrafficClass, none, none, none, RoCEModeUnknown, "jobs may"},
	{"no TC is set", func(in *RoCEInputs) { in.TC, in.Policy = AbsentFact[NCCLVariable]("nccl", at), lossless() }, StatusUnknown, RoCETrafficClass, none, none, none, RoCEModePFCECN, "jobs may"},
	{"no TC is set, the map is wrong anyway", func(in *RoCEInputs) {
		in.TC, in.Policy, in.QoS.DSCPPriority.Value[26] = AbsentFact[NCCLVariable]("nccl", at), lossless(), 0
	}, StatusFailed, RoCEPriority, none, none, none, RoCEModeNone, "expects DSCP 26 with priority 3; DSCP 26 goes to priority 0"},
	{"no TC is set, PFC is wrong anyway", func(in *RoCEInputs) {
		in.TC, in.Policy, in.QoS.PFC.Value.Enabled = AbsentFact[NCCLVariable]("nccl", at), lossless(), 1<<4
	}, StatusFailed, RoCEPFC, none, none, none, RoCEModeECN, "on for priority 4, but RoCE uses priority 3"},
	{"no TC is set, no policy, PFC beside 802.3x", func(in *RoCEInputs) {
		in.TC, in.QoS.Pause = AbsentFact[NCCLVariable]("nccl", at), ok(Pause{Receive: true})
	}, StatusFailed, RoCEGlobalPause, none, none, none, RoCEModeUnknown, "exclude each other"},
	{"no TC is set, traffic is right", func(in *RoCEInputs) {
		in.TC, in.Policy, in.Traffic = AbsentFact[NCCLVariable]("nccl", at), lossless(), traffic(1e9, map[int]uint64{3: 1e9, 0: 1e6})
	}, StatusOK, "", none, none, 3, RoCEModePFCECN, ""},
	{"no TC is set, traffic is astray", func(in *RoCEInputs) {
		in.TC, in.Policy, in.Traffic = AbsentFact[NCCLVariable]("nccl", at), lossless(), traffic(1e9, map[int]uint64{0: 1e9})
	}, StatusUnknown, RoCETrafficClass, none, none, none, RoCEModePFCECN, "jobs may"},
	{"a wrong TC, though traffic is right", func(in *RoCEInputs) {
		in.TC, in.Policy, in.Traffic = setTo("NCCL_IB_TC", 5), lossless(), traffic(1e9, map[int]uint64{3: 1e9})
	}, StatusFailed, RoCEDSCP, 5, 1, 0, RoCEModeNone, "DSCP 1"},
	{"the driver overrides a wrong TC", func(in *RoCEInputs) {
		in.TC, in.Override, in.Policy = setTo("NCCL_IB_TC", 5), ok(TrafficClass{Global: 106}), lossless()
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"the job's TC goes over the host's", func(in *RoCEInputs) { in.JobTC = job(5) }, StatusFailed, RoCEPFC, 5, 1, 0, RoCEModeNone, "but RoCE uses priority 0"},
	{"the job's TC mends that of the host", func(in *RoCEInputs) {
		in.TC, in.JobTC, in.Policy = setTo("NCCL_IB_TC", 5), job(106), lossless()
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"the job sets a TC, the host none", func(in *RoCEInputs) {
		in.TC, in.JobTC = AbsentFact[NCCLVariable]("nccl", at), job(96)
	}, StatusOK, "", 96, 24, 3, RoCEModePFCECN, ""},
	{"the job sets a TC, the host's cannot be read", func(in *RoCEInputs) {
		in.TC, in.JobTC = UnknownFact[NCCLVariable](ReasonPrivilege, "nccl", at), job(96)
	}, StatusOK, "", 96, 24, 3, RoCEModePFCECN, ""},
	{"the job sets a wrong TC, though traffic is right", func(in *RoCEInputs) {
		in.TC, in.JobTC, in.Policy, in.Traffic = AbsentFact[NCCLVariable]("nccl", at), job(5), lossless(), traffic(1e9, map[int]uint64{3: 1e9})
	}, StatusFailed, RoCEDSCP, 5, 1, 0, RoCEModeNone, "DSCP 1"},
	{"the driver overrides that of the job", func(in *RoCEInputs) {
		in.JobTC, in.Override, in.Policy = job(5), ok(TrafficClass{Global: 106}), lossless()
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"the driver overrides a right TC", func(in *RoCEInputs) { in.Override = ok(TrafficClass{Global: 20, Rules: 2}) }, StatusFailed, RoCEPFC, 20, 5, 0, RoCEModeNone, "uses priority 0"},
	{"the driver sets it by peer", func(in *RoCEInputs) { in.Override = ok(TrafficClass{Global: -1, Rules: 2}) }, StatusUnknown, RoCETrafficClass, none, none, none, RoCEModeUnknown, "2 rules"},
	{"the connection manager's ToS does not count", func(in *RoCEInputs) { in.DefaultToS, in.TC = ok(106), AbsentFact[NCCLVariable]("nccl", at) }, StatusUnknown, RoCETrafficClass, none, none, none, RoCEModeUnknown, "default_roce_tos 106"},

	// Which priority that is.
	{"trusts tags, untagged", func(in *RoCEInputs) { in.QoS.Trust = ok(TrustPCP) }, StatusFailed, RoCEPFC, 106, 26, 0, RoCEModeNone, "uses priority 0"},
	{"trusts tags, untagged, priority 3 expected", func(in *RoCEInputs) { in.QoS.Trust, in.Policy = ok(TrustPCP), lossless() }, StatusFailed, RoCEPriority, 106, 26, 0, RoCEModeNone, "expects priority 3"},
	{"trusts tags, untagged, PFC on 0", func(in *RoCEInputs) {
		in.QoS.Trust, in.QoS.PFC.Value.Enabled, in.QoS.Buffers.Value.OfPriority = ok(TrustPCP), 1, [8]int{0: 1}
		in.QoS.NP, in.QoS.RP = ok(PriorityMask(1)), ok(PriorityMask(1))
	}, StatusOK, "", 106, 26, 0, RoCEModePFCECN, ""},
	{"VLAN with service level 3", func(in *RoCEInputs) {
		in.QoS.Trust, in.Tagged, in.SL = ok(TrustPCP), ok(true), setTo("NCCL_IB_SL", 3)
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"VLAN with service level 11, three bits of it", func(in *RoCEInputs) {
		in.QoS.Trust, in.Tagged, in.SL = ok(TrustPCP), ok(true), setTo("NCCL_IB_SL", 11)
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"VLAN without a service level", func(in *RoCEInputs) { in.QoS.Trust, in.Tagged = ok(TrustPCP), ok(true) }, StatusUnknown, RoCEPriority, 106, 26, none, RoCEModeUnknown, "does not set NCCL_IB_SL"},
	{"VLAN that trusts DSCP", func(in *RoCEInputs) { in.Tagged = ok(true) }, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"RoCE v1, untagged", func(in *RoCEInputs) { in.GIDType = ok(GIDRoCEv1) }, StatusFailed, RoCEPFC, none, none, 0, RoCEModeNone, "uses priority 0"},
	{"RoCE v1, VLAN", func(in *RoCEInputs) {
		in.GIDType, in.Tagged, in.SL = ok(GIDRoCEv1), ok(true), setTo("NCCL_IB_SL", 3)
	}, StatusOK, "", none, none, 3, RoCEModePFCECN, ""},
	{"RoCE v1 because nothing fits", func(in *RoCEInputs) { in.GIDType, in.GIDUnfit = ok(GIDRoCEv1), ok("no RoCE v2 GID") }, StatusFailed, RoCEGID, none, none, none, RoCEModeUnknown, "no RoCE v2 GID"},
	{"RoCE v1 where a DSCP is expected", func(in *RoCEInputs) { in.GIDType, in.Policy = ok(GIDRoCEv1), lossless() }, StatusFailed, RoCEDSCP, none, none, 0, RoCEModeNone, "no DSCP"},
	{"MLNX_OFED since 4.9 shows trust and map by DCB only", func(in *RoCEInputs) {
		ecn := in.QoS
		inbox(in, true)
		in.Override, in.QoS.NP, in.QoS.RP, in.QoS.CNPDSCP, in.Policy = AbsentFact[TrafficClass]("tc", at), ecn.NP, ecn.RP, ecn.CNPDSCP, lossless()
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"upstream mlx5 that trusts DSCP", func(in *RoCEInputs) { inbox(in, true) }, StatusOK, "", 106, 26, 3, RoCEModeUnknown, ""},
	{"upstream mlx5, DSCP not in the table", func(in *RoCEInputs) { inbox(in, true); in.TC = setTo("NCCL_IB_TC", 96) }, StatusOK, "", 96, 24, 3, RoCEModeUnknown, ""},
	{"upstream mlx5 as it starts", func(in *RoCEInputs) { inbox(in, false) }, StatusFailed, RoCEPFC, 106, 26, 0, RoCEModeUnknown, "uses priority 0"},
	{"bnxt with a table", func(in *RoCEInputs) {
		inbox(in, true)
		in.Driver, in.QoS.Buffers = ok("bnxt_en"), UnknownFact[Buffers](ReasonMissing, "dcb", at)
	}, StatusOK, "", 106, 26, 3, RoCEModeUnknown, ""},
	{"bnxt without a table", func(in *RoCEInputs) { inbox(in, false); in.Driver = ok("bnxt_en") }, StatusUnknown, RoCEPriority, 106, 26, none, RoCEModeUnknown, "trusts"},
	{"bnxt, DSCP not in the table", func(in *RoCEInputs) { inbox(in, true); in.Driver, in.TC = ok("bnxt_en"), setTo("NCCL_IB_TC", 96) }, StatusUnknown, RoCEPriority, 96, 24, none, RoCEModeUnknown, "DSCP 24"},
	{"a priority that is none", func(in *RoCEInputs) { in.QoS.Apps = ok([]App{{AppDSCP, 26, 9}}) }, StatusUnknown, RoCEPriority, 106, 26, none, RoCEModeUnknown, "DSCP 26"},
	{"virtual function", noDCB, StatusUnknown, RoCEPriority, 106, 26, none, RoCEModeUnknown, "trusts"},
	{"virtual function under a policy", func(in *RoCEInputs) { noDCB(in); in.Policy = lossless() }, StatusUnknown, RoCEPriority, 106, 26, none, RoCEModeUnknown, "trusts"},

	// Whether it is lossless.
	{"lossy, nothing said", func(in *RoCEInputs) { in.QoS.PFC.Value.Enabled = 0 }, StatusOK, "", 106, 26, 3, RoCEModeECN, ""},
	{"neither PFC nor ECN, nothing said", func(in *RoCEInputs) {
		in.QoS.PFC.Value.Enabled, in.QoS.NP, in.QoS.RP = 0, ok(PriorityMask(0)), ok(PriorityMask(0))
	}, StatusOK, "", 106, 26, 3, RoCEModeNone, ""},
	{"lossy by design", func(in *RoCEInputs) { in.QoS.PFC.Value.Enabled, in.Policy = 0, RoCEPolicy{Lossless: new(false)} }, StatusOK, "", 106, 26, 3, RoCEModeECN, ""},
	{"lossy by design, PFC on for storage", func(in *RoCEInputs) {
		in.QoS.PFC.Value.Enabled, in.Policy = 1<<4, RoCEPolicy{Lossless: new(false)}
	}, StatusOK, "", 106, 26, 3, RoCEModeECN, ""},
	{"lossy by design, but PFC is on", func(in *RoCEInputs) { in.Policy = RoCEPolicy{Lossless: new(false)} }, StatusFailed, RoCEPFC, 106, 26, 3, RoCEModePFCECN, "lossy by design"},
	{"PFC off where lossless is expected", func(in *RoCEInputs) { in.QoS.PFC.Value.Enabled, in.Policy = 0, lossless() }, StatusFailed, RoCEPFC, 106, 26, 3, RoCEModeECN, "off for all priorities; the site"},
	{"802.3x instead of PFC, nothing said", func(in *RoCEInputs) {
		in.QoS.PFC.Value.Enabled, in.QoS.Pause = 0, ok(Pause{Receive: true, Transmit: true})
	}, StatusOK, "", 106, 26, 3, RoCEModeECN, ""},
	{"802.3x instead of PFC where lossless is expected", func(in *RoCEInputs) {
		in.QoS.PFC.Value.Enabled, in.QoS.Pause, in.Policy = 0, ok(Pause{Receive: true, Transmit: true}), lossless()
	}, StatusFailed, RoCEPFC, 106, 26, 3, RoCEModeECN, "802.3x flow control is on instead"},
	{"PFC on another priority", func(in *RoCEInputs) { in.QoS.PFC.Value.Enabled = 1 << 4 }, StatusFailed, RoCEPFC, 106, 26, 3, RoCEModeECN, "on for priority 4"},
	{"PFC on two others", func(in *RoCEInputs) { in.QoS.PFC.Value.Enabled = 1<<0 | 1<<5 }, StatusFailed, RoCEPFC, 106, 26, 3, RoCEModeECN, "on for priorities 0 and 5, but"},
	{"PFC on two priorities", func(in *RoCEInputs) {
		in.QoS.PFC.Value.Enabled, in.QoS.Buffers.Value.OfPriority[4] = 1<<3|1<<4, 1
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"PFC beside 802.3x", func(in *RoCEInputs) { in.QoS.Pause = ok(Pause{Transmit: true}) }, StatusFailed, RoCEGlobalPause, 106, 26, 3, RoCEModePFCECN, "exclude"},
	{"lossless buffer of 0 bytes", func(in *RoCEInputs) { in.QoS.Buffers.Value.Bytes[1] = 0 }, StatusFailed, RoCEBuffer, 106, 26, 3, RoCEModePFCECN, "0 bytes"},
	{"lossless buffer shared with lossy priorities", func(in *RoCEInputs) { in.QoS.Buffers.Value.OfPriority[4] = 1 }, StatusFailed, RoCEBuffer, 106, 26, 3, RoCEModePFCECN, "lossy priority 4"},
	{"buffers not shown", func(in *RoCEInputs) { in.QoS.Buffers = UnknownFact[Buffers](ReasonMissing, "dcb", at) }, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},
	{"a buffer that is none", func(in *RoCEInputs) { in.QoS.Buffers.Value.OfPriority[3] = 12 }, StatusUnknown, RoCEBuffer, 106, 26, 3, RoCEModePFCECN, "buffer 12"},
	{"a class without bandwidth", func(in *RoCEInputs) { in.QoS.ETS.Value.Algorithm[3] = TSAETS }, StatusFailed, RoCEETS, 106, 26, 3, RoCEModePFCECN, "0 % of the bandwidth"},
	{"a class with bandwidth", func(in *RoCEInputs) {
		in.QoS.ETS.Value.Algorithm[3], in.QoS.ETS.Value.Bandwidth[3] = TSAETS, 50
	}, StatusOK, "", 106, 26, 3, RoCEModePFCECN, ""},

	// Whether congestion is controlled.
	{"receivers notify, senders do not react", func(in *RoCEInputs) { in.QoS.RP = ok(PriorityMask(0)) }, StatusFailed, RoCEReaction, 106, 26, 3, RoCEModePFC, "do not slow down"},
	{"senders would react, receivers do not notify", func(in *RoCEInputs) { in.QoS.NP = ok(PriorityMask(1 << 4)) }, StatusFailed, RoCENotification, 106, 26, 3, RoCEModePFC, "do not notify"},
	{"no ECN, nothing said", func(in *RoCEInputs) { in.QoS.NP, in.QoS.RP = ok(PriorityMask(0)), ok(PriorityMask(0)) }, StatusOK, "", 106, 26, 3, RoCEModePFC, ""},
	{"no ECN where it is expected", func(in *RoCEInputs) {
		in.QoS.NP, in.QoS.RP, in.Policy = ok(PriorityMask(0)), ok(PriorityMask(0)), lossless()
	}, StatusFailed, RoCENotification, 106, 26, 3, RoCEModePFC, "to be on"},
	{"ECN where none is expected", func(in *RoCEInputs) { in.Policy = RoCEPolicy{ECN: new(false)} }, StatusFailed, RoCENotification, 106, 26, 3, RoCEModePFCECN, "to be off"},
	{"ECN is not shown, but expected", func(in *RoCEInputs) { inbox(in, true); in.Policy = lossless() }, StatusUnknown, RoCENotification, 106, 26, 3, RoCEModeUnknown, "not known"},
	{"ECN is not shown, nor expected", func(in *RoCEInputs) { inbox(in, true); in.Policy = lossless(); in.Policy.ECN = nil }, StatusOK, "", 106, 26, 3, RoCEModeUnknown, ""},
	{"notifications in the lossless class", func(in *RoCEInputs) { in.QoS.CNPDSCP = ok(26) }, StatusFailed, RoCECNP, 106, 26, 3, RoCEModePFCECN, "use priority 3"},
	{"notifications in the class of data, all lossy", func(in *RoCEInputs) { in.QoS.CNPDSCP, in.QoS.PFC.Value.Enabled = ok(26), 0 }, StatusOK, "", 106, 26, 3, RoCEModeECN, ""},
	{"nothing was read", func(in *RoCEInputs) { *in = RoCEInputs{Policy: lossless()} }, StatusUnknown, RoCEGID, none, none, none, RoCEModeUnknown, "which GID"},
}

func TestRoCEChain(t *testing.T) {
	for _, c := range truths {
		in := designed()
		c.edit(&in)
		got := evaluateRoCE(in)
		says := ""
		if l := got.Link(got.Step); l != nil {
			says = l.Evidence
		}
		t.Logf("%-50s tc %3d dscp %2d priority %2d %-8s %-10s %-17s %s", c.name, got.TrafficClass.Or(none), got.DSCP.Or(none), got.Priority.Or(none), got.Mode, got.Verdict, got.Step, says)
		if got.Verdict != c.verdict || got.Step != c.step || got.Mode != c.mode || !strings.Contains(says, c.says) ||
			got.TrafficClass.Or(none) != c.tc || got.DSCP.Or(none) != c.dscp || got.Priority.Or(none) != c.priority {
			t.Errorf("%s: want tc %d dscp %d priority %d %s %s %s %q", c.name, c.tc, c.dscp, c.priority, c.mode, c.verdict, c.step, c.says)
		}
		var steps []RoCEStep
		for _, l := range append(slices.Clip(got.Links), got.Observed...) {
			steps = append(steps, l.Step)
			if l.Evidence == "" || (l.Status == StatusUnknown) != (l.Reason != "") {
				t.Errorf("%s: half a link %+v", c.name, l)
			}
		}
		if !slices.Equal(steps, RoCESteps()) {
			t.Errorf("%s: steps %v, want %v", c.name, steps, RoCESteps())
		}
	}
}

// Whatever cannot be read, one or two or all inputs at once, a chain that was broken or unknown does not become
// consistent. Missing and unsupported are not hiding: they say which driver it is.
func TestRoCEHiddenFactsNeverPass(t *testing.T) {
	count := 0
	for _, r := range []Reason{ReasonIO, ReasonNotRead} {
		for _, c := range truths {
			in := designed()
			c.edit(&in)
			hides := roceHides(&in)
			for i, a := range hides {
				for _, b := range hides[i:] {
					showA, showB := a.hide(r), b.hide(r)
					count++
					if got := evaluateRoCE(in); got.Verdict == StatusOK && c.verdict != StatusOK {
						t.Errorf("%s without %s and %s (%s): consistent", c.name, a.path, b.path, r)
					}
					showB()
					showA()
				}
			}
			for _, h := range hides {
				h.hide(ReasonIO)
			}
			if got := evaluateRoCE(in); got.Verdict != StatusUnknown {
				t.Errorf("%s without anything: %s at %s", c.name, got.Verdict, got.Step)
			}
		}
	}
	t.Logf("%d chains", count)
}

// roceHides are all inputs but the traffic class of a job: without one, the chain is about no job in particular.
func roceHides(in *RoCEInputs) []hideable {
	return slices.DeleteFunc(hideables(in), func(h hideable) bool { return strings.HasPrefix(h.path, ".JobTC") })
}

// A driver that has no such thing must not make a contradiction go away either, where the chain cannot do without.
func TestRoCEMissingFactsNeverPass(t *testing.T) {
	for _, c := range truths {
		for _, name := range []string{".GIDType", ".Tagged", ".TC", ".SL", ".QoS.PFC", ".QoS.Pause", ".QoS.NP", ".QoS.RP"} {
			in := designed()
			c.edit(&in)
			hides := hideables(&in)
			hides[slices.IndexFunc(hides, func(h hideable) bool { return h.path == name })].hide(ReasonMissing)
			if got := evaluateRoCE(in); c.verdict != StatusOK && got.Verdict == StatusOK {
				t.Errorf("%s: consistent where there is no %s", c.name, name)
			}
		}
	}
}

// NCCL_IB_FIFO_TC=0 stands for NCCL_IB_TC up to NCCL 2.23, and separates messages later.
func TestControlClass(t *testing.T) {
	for value, want := range map[int64]string{
		200: "NCCL_IB_FIFO_TC=200 sends the small control messages with DSCP 50", 107: "",
		0:   "NCCL_IB_FIFO_TC=0 sends the small control messages with DSCP 0 from NCCL 2.24 on",
		256: "NCCL_IB_FIFO_TC=256 sends the small control messages with DSCP 0",
	} {
		in := designed()
		in.ControlTC = setTo("NCCL_IB_FIFO_TC", value)
		chain := evaluateRoCE(in)
		said := chain.Link(RoCETrafficClass).Evidence
		_, note, _ := strings.Cut(said, "; ")
		if note != want {
			t.Errorf("%d: %q, expected %q", value, said, want)
		}
	}
}
