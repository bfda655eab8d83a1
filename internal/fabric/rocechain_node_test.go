// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roceNode is a node with one port set up as designed, and the site's policy for it.
func roceNode() *Node {
	n := node(1)
	n.Policy.RoCE = lossless()
	n.NCCL.Files = []NCCLFile{{Path: "/etc/nccl.conf", Exists: ok(true)}}
	n.NCCL.Variables = []NCCLVariable{setTo("NCCL_IB_TC", 106).Value}
	h, d := &n.HCAs[0], &n.NetDevs[0]
	h.Driver = ok("mlx5_core")
	h.Ports[0].TrafficClass = AbsentFact[TrafficClass]("tc", at)
	h.Ports[0].GIDs.Entries = ok([]GID{{Index: 3, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: GIDRoCEv2, Family: FamilyIPv4, NetDev: "eth0"}})
	d.Lower, d.Bond, d.Driver, d.QoS = ok([]string{}), ok(false), ok("mlx5_core"), designed().QoS
	return n
}

// member adds an interface like eth0, and returns it.
func member(n *Node, name string, lower ...string) *NetDev {
	d := n.NetDevs[0]
	d.Name, d.Lower = name, ok(lower)
	if len(lower) > 0 {
		d.QoS, d.Driver = QoS{}, AbsentFact[string]("net", at)
	}
	n.NetDevs = append(n.NetDevs, d)
	return &n.NetDevs[len(n.NetDevs)-1]
}

var managementOnly = []RoleRule{{regexp.MustCompile("."), RoleManagement}}

func TestRoCEOfNode(t *testing.T) {
	for _, c := range []struct {
		name    string
		edit    func(n *Node, p *Port)
		verdict Status // empty: there is no RoCE
		step    RoCEStep
		through string // interfaces, the worst first
	}{
		{"physical", func(*Node, *Port) {}, StatusOK, "", "eth0"},
		{"policy is for compute ports", func(n *Node, p *Port) {
			n.Policy.Roles, n.NCCL.Variables = managementOnly, []NCCLVariable{setTo("NCCL_IB_TC", 96).Value}
		}, StatusOK, "", "eth0"},
		{"NCCL has its own way to say unset", func(n *Node, _ *Port) { n.NCCL.Variables[0].Number = -1 }, StatusUnknown, RoCETrafficClass, "eth0"},
		{"not a number", func(n *Node, _ *Port) { n.NCCL.Variables[0].IsNumber = false }, StatusUnknown, RoCETrafficClass, "eth0"},
		{"a file that may say otherwise", func(n *Node, _ *Port) {
			n.NCCL.Files = append(n.NCCL.Files, NCCLFile{Path: "/home/train/.nccl.conf", Exists: UnknownFact[bool](ReasonPrivilege, "home/train/.nccl.conf", at)})
		}, StatusUnknown, RoCETrafficClass, "eth0"},
		{"no file was looked for", func(n *Node, _ *Port) { n.NCCL = NCCLConfig{} }, StatusUnknown, RoCETrafficClass, "eth0"},
		{"bond", func(n *Node, p *Port) {
			member(n, "eth1").QoS.PFC = ok(PFC{})
			member(n, "bond0", "eth0", "eth1").Bond = ok(true)
			p.GIDs.Entries.Value[0].NetDev = "bond0"
		}, StatusFailed, RoCEPFC, "eth1 eth0"},
		{"bond of equals", func(n *Node, p *Port) {
			member(n, "eth1")
			member(n, "bond0", "eth0", "eth1").Bond = ok(true)
			p.NetDev, p.GIDs.Entries.Value[0].NetDev = ok("bond0"), ""
		}, StatusOK, "", "eth0 eth1"},
		{"VLAN that trusts DSCP", func(n *Node, p *Port) {
			member(n, "eth0.7", "eth0")
			p.GIDs.Entries.Value[0].NetDev = "eth0.7"
		}, StatusOK, "", "eth0"},
		{"VLAN of a bond that trusts tags", func(n *Node, p *Port) {
			n.NetDevs[0].QoS.Trust = ok(TrustPCP)
			member(n, "eth1")
			member(n, "bond0", "eth0", "eth1").Bond = ok(true)
			member(n, "bond0.7", "bond0").Bond = ok(false)
			p.GIDs.Entries.Value[0].NetDev = "bond0.7"
			n.NCCL.Variables = []NCCLVariable{setTo("NCCL_IB_SL", 3).Value, setTo("NCCL_IB_TC", 106).Value}
		}, StatusOK, "", "eth0 eth1"},
		{"what lies below is not known", func(n *Node, p *Port) {
			n.NetDevs[0].QoS.Trust, n.NetDevs[0].Lower = ok(TrustPCP), UnknownFact[[]string](ReasonIO, "lower", at)
		}, StatusUnknown, RoCEPriority, "eth0"},
		{"a circle", func(n *Node, p *Port) {
			member(n, "a", "b")
			member(n, "b", "a")
			p.GIDs.Entries.Value[0].NetDev = "a"
		}, StatusUnknown, RoCEPriority, "b"},
		{"an interface that was not read", func(n *Node, p *Port) { n.NetDevs = nil; n.HCAs[0].Function = ok(FunctionPF) }, StatusUnknown, RoCEPriority, "eth0"},
		{"a GID that is not there", func(_ *Node, p *Port) { p.GIDs.Entries = ok([]GID{}) }, StatusFailed, RoCEGID, "eth0"},
		{"no GID table", func(_ *Node, p *Port) { p.GIDs.Entries = UnknownFact[[]GID](ReasonIO, "gids", at) }, StatusUnknown, RoCEGID, "eth0"},
		{"InfiniBand", func(_ *Node, p *Port) { p.LinkLayer = ok(LinkInfiniBand) }, "", "", ""},
		{"EFA", func(_ *Node, p *Port) { p.LinkLayer = ok(LinkUnspecified) }, "", "", ""},
		{"iWARP", func(n *Node, _ *Port) { n.HCAs[0].NodeType = ok(NodeRNIC) }, "", "", ""},
	} {
		n := roceNode()
		c.edit(n, &n.HCAs[0].Ports[0])
		n.Derive()
		f := n.HCAs[0].Ports[0].RoCE
		if c.verdict == "" {
			if f.State != Absent {
				t.Errorf("%s: %+v, want absent", c.name, f)
			}
			continue
		}
		var through []string
		for _, chain := range f.Value {
			through = append(through, chain.Interface)
		}
		if f.State != OK || f.Value[0].Verdict != c.verdict || f.Value[0].Step != c.step || strings.Join(through, " ") != c.through {
			t.Errorf("%s: %s through %v: %+v", c.name, f.State, through, f.Value)
		}
	}
}

// The readings of statistics, under the driver's names, arrive as traffic.
func TestRoCETrafficOfNode(t *testing.T) {
	reading := func(at time.Time, rdma, three, zero, pause, discards uint64) Fact[[]Counter] {
		list := []Counter{}
		add := func(name string, v uint64) { list = append(list, Counter{name, Known(v, name, at)}) }
		for p := range NumPriorities {
			add("tx_prio"+strconv.Itoa(p)+"_bytes", map[int]uint64{0: zero, 3: three}[p])
		}
		add("tx_vport_rdma_unicast_bytes", rdma)
		add("tx_prio3_pause_duration", pause)
		add("rx_prio3_pause_duration", pause)
		add("rx_prio3_discards", discards)
		add("tx_pause_storm_error_events", discards)
		add("rx_unheard_of", 1)
		return Known(list, "statistics", at)
	}
	n := roceNode()
	n.NCCL.Variables = nil // jobs bring their own
	q := &n.NetDevs[0].QoS
	q.Before, q.Counters = reading(at, 1e9, 2e9, 5, 100, 7), reading(at.Add(10*time.Second), 2e9, 3e9, 5, 3_000_100, 9)
	n.Derive()
	c := n.HCAs[0].Ports[0].RoCE.Value[0]
	if c.Verdict != StatusOK || c.Priority.Or(none) != 3 || c.TrafficClassFrom != TrafficClassFromJob {
		t.Errorf("traffic did not settle the traffic class: %s at %s", c.Verdict, c.Step)
	}
	for step, says := range map[RoCEStep]string{
		RoCEObservedPriority: "in the last 10 s RDMA sent 1 GB, at least 100 % of it with priority 3", RoCEObservedLoss: "dropped 2 packets of the lossless priority 3",
		RoCEObservedPauseReceived: "the network paused priority 3 of this host for 30.0 % of the time",
		RoCEObservedPauseSent:     "the NIC detected 2 PFC storms",
	} {
		if l := c.Link(step); !strings.Contains(l.Evidence, says) {
			t.Errorf("%s: %+v", step, l)
		}
	}
	n.Policy.Roles = managementOnly
	n.Derive()
	if l := n.HCAs[0].Ports[0].RoCE.Value[0].Link(RoCEObservedPriority); l.Status != StatusNotApplicable {
		t.Errorf("of a port that is not for NCCL: %+v", l)
	}
	n.Policy.Roles = nil
	q.Counters = reading(at.Add(10*time.Second), 5e8, 1e9, 5, 100, 7) // the counters began anew
	n.Derive()
	if c := n.HCAs[0].Ports[0].RoCE.Value[0]; c.Verdict != StatusUnknown || c.Link(RoCEObservedPriority).Status != StatusUnknown {
		t.Errorf("%s from counters that went back", c.Verdict)
	}
	q.Before, q.Counters = reading(at, 1e9, 2e9, 5, 100, 7), reading(at.Add(time.Hour), 2e9, 3e9, 5, 3_000_100, 9)
	n.Derive()
	if l := n.HCAs[0].Ports[0].RoCE.Value[0].Link(RoCEObservedLoss); l.Status != StatusUnknown || l.Reason != ReasonNotRead {
		t.Errorf("what happened within an hour is said to be now: %+v", l)
	}
	q.Before = Fact[[]Counter]{}
	n.Derive()
	if c := n.HCAs[0].Ports[0].RoCE.Value[0]; c.Verdict != StatusUnknown || !strings.Contains(c.Link(RoCEObservedLoss).Evidence, "two readings") {
		t.Errorf("%s from one reading: %+v", c.Verdict, c.Observed)
	}
}

func TestRoCEHash(t *testing.T) {
	first := evaluateRoCE(designed()).Hash
	if first != "3db08cb6" {
		t.Errorf("hash %s: it changed, and would differ between nodes while an update rolls out", first)
	}
	seen := []string{first}
	for name, edit := range map[string]func(in *RoCEInputs){
		"trust": func(in *RoCEInputs) { in.QoS.Trust = ok(TrustPCP) }, "tc": func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 104) },
		"pfc": func(in *RoCEInputs) { in.QoS.PFC = ok(PFC{}) }, "np": func(in *RoCEInputs) { in.QoS.NP = ok(PriorityMask(0)) },
		"pause": func(in *RoCEInputs) { in.QoS.Pause = ok(Pause{Receive: true}) }, "ets": func(in *RoCEInputs) { in.QoS.ETS.Value.Bandwidth[2] = 1 },
		"buffers": func(in *RoCEInputs) { in.QoS.Buffers.Value.Bytes[1]++ }, "unread": func(in *RoCEInputs) { in.QoS.RP.hide(Meta{Reason: ReasonIO, At: at}) },
	} {
		in := designed()
		edit(&in)
		h := evaluateRoCE(in).Hash
		if slices.Contains(seen, h) {
			t.Errorf("%s does not show in the hash", name)
		}
		seen = append(seen, h)
	}
	in := designed()
	in.QoS.PFC.Value.Sent[3], in.Interface = 7, "eth9"
	if h := evaluateRoCE(in).Hash; h != first {
		t.Error("counts or names show in the hash")
	}
}

// Nodes are compared by these: equal settings must look equal whichever driver shows them, and what is not
// known must not look like a setting.
func TestSettingsToCompare(t *testing.T) {
	ofed := evaluateRoCE(designed())
	in := designed()
	inbox(&in, true)
	if c := evaluateRoCE(in); c.DSCPMap != ofed.DSCPMap || c.DSCPMap == "" || c.BufferMap != ofed.BufferMap || c.BufferMap == "" {
		t.Errorf("maps %q, %q with the kernel's driver, %q, %q with MLNX_OFED", c.DSCPMap, c.BufferMap, ofed.DSCPMap, ofed.BufferMap)
	}
	for name, c := range map[string]struct {
		edit         func(in *RoCEInputs)
		dscp, buffer bool // whether it differs
		unknown      bool // whether what differs is unknown
	}{
		"map":              {func(in *RoCEInputs) { in.QoS.DSCPPriority.Value[26] = 4 }, true, false, false},
		"application":      {func(in *RoCEInputs) { in.QoS.Apps = ok([]App{{AppDSCP, 26, 4}}) }, true, false, false},
		"same application": {func(in *RoCEInputs) { in.QoS.Apps = ok([]App{{AppDSCP, 26, 3}, {AppDSCP, 99, 4}}) }, false, false, false},
		"traffic class":    {func(in *RoCEInputs) { in.TC = setTo("NCCL_IB_TC", 104) }, false, false, false},
		"not trusted":      {func(in *RoCEInputs) { in.QoS.Trust = ok(TrustPCP) }, true, false, false},
		"size":             {func(in *RoCEInputs) { in.QoS.Buffers.Value.Bytes[1]++ }, false, true, false},
		"trust unread":     {func(in *RoCEInputs) { in.QoS.Trust.hide(Meta{Reason: ReasonIO, At: at}) }, true, false, true},
		"map unread":       {func(in *RoCEInputs) { in.QoS.DSCPPriority.hide(Meta{Reason: ReasonIO, At: at}) }, true, false, true},
		"apps unread":      {func(in *RoCEInputs) { in.QoS.Apps.hide(Meta{Reason: ReasonTimeout, At: at}) }, true, false, true},
		"buffers unread":   {func(in *RoCEInputs) { in.QoS.Buffers.hide(Meta{Reason: ReasonTimeout, At: at}) }, false, true, true},
	} {
		in := designed()
		c.edit(&in)
		got := evaluateRoCE(in)
		if (got.DSCPMap != ofed.DSCPMap) != c.dscp || (got.BufferMap != ofed.BufferMap) != c.buffer {
			t.Errorf("%s: maps %q, %q, before %q, %q", name, got.DSCPMap, got.BufferMap, ofed.DSCPMap, ofed.BufferMap)
		}
		if unknown := got.DSCPMap == "" || got.BufferMap == ""; unknown != c.unknown {
			t.Errorf("%s: maps %q, %q", name, got.DSCPMap, got.BufferMap)
		}
	}
}

// The map must be that by which the chain finds the priority of a packet.
func TestDSCPMapIsThatOfTheChain(t *testing.T) {
	apps := []App{{AppDSCP, 26, 3}, {AppDSCP, 26, 5}, {AppEtherType, 27, 6}, {AppDSCP, 48, 6}}
	for _, driver := range []string{"mlx5_core", "bnxt_en"} {
		in := designed()
		inbox(&in, true)
		in.Driver, in.QoS.Apps = ok(driver), ok(apps)
		var table []int
		for dscp := range NumDSCP {
			table = append(table, PriorityOfDSCP(driver, &in.QoS, dscp).Or(-1))
		}
		want := roceHasher{}
		want.part(OK, table)
		if got := evaluateRoCE(in).DSCPMap; got != want.String() {
			t.Errorf("%s: map %s is not what PriorityOfDSCP says", driver, got)
		}
	}
}

func TestObserveRoCE(t *testing.T) {
	const mega = 1_000_000
	type watched struct {
		RoCETraffic
		RoCECongestion
	}
	for _, c := range []struct {
		name string
		edit func(t *watched)
		step RoCEStep
		want Status
		says string
	}{
		{"all as expected", func(*watched) {}, RoCEObservedPriority, StatusOK, "in the last 10 s RDMA sent 100 MB, at least 99.0 % of it with priority 3"},
		{"astray", func(t *watched) { t.SentBytes[3], t.SentBytes[0] = ok(uint64(0)), ok(uint64(100*mega)) }, RoCEObservedPriority, StatusFailed, "none of it with priority 3; 100 % of all that was sent had priority 0"},
		{"six in a hundred astray", func(t *watched) { t.SentBytes[3], t.SentBytes[0] = ok(uint64(94*mega)), ok(uint64(6*mega)) }, RoCEObservedPriority, StatusFailed, "at most 94.0 %"},
		{"notifications in priority 6", func(t *watched) { t.SentBytes[3], t.SentBytes[6] = ok(uint64(98*mega)), ok(uint64(3*mega)) }, RoCEObservedPriority, StatusOK, "at least 96.0 %"},
		{"TCP hides it", func(t *watched) { t.SentBytes[3], t.SentBytes[0] = ok(uint64(200*mega)), ok(uint64(200*mega)) }, RoCEObservedPriority, StatusUnknown, "other traffic hides how much"},
		{"hardly any", func(t *watched) { t.SentRDMA = ok(uint64(1000)) }, RoCEObservedPriority, StatusUnknown, "too little"},
		{"priorities stand at zero", func(t *watched) { t.SentBytes[0], t.SentBytes[3] = ok(uint64(0)), ok(uint64(0)) }, RoCEObservedPriority, StatusUnknown, "the statistics do not include it"},
		{"RDMA is not counted", func(t *watched) { t.SentRDMA.hide(Meta{Reason: ReasonMissing, At: at}) }, RoCEObservedPriority, StatusUnknown, "not counted"},
		{"priorities are not counted", func(t *watched) { t.SentBytes[7].hide(Meta{Reason: ReasonMissing, At: at}) }, RoCEObservedPriority, StatusUnknown, "not counted"},
		{"marks are reported", func(*watched) {}, RoCEObservedCNP, StatusOK, "in the last 5.0 s 1000 packets came with congestion marks, and 50 notifications went out; this host slowed down for 40"},
		{"marks are not reported", func(t *watched) { t.CNPSent = ok(uint64(0)) }, RoCEObservedCNP, StatusFailed, "0 notifications"},
		{"no sender slows down", func(t *watched) { t.CNPHandled, t.CNPIgnored = ok(uint64(0)), ok(uint64(500)) }, RoCEObservedCNP, StatusFailed, "ignored all 500"},
		{"some were ignored", func(t *watched) { t.CNPIgnored = ok(uint64(500)) }, RoCEObservedCNP, StatusOK, ""},
		{"no marks prove nothing", func(t *watched) { t.Marked, t.CNPSent = ok(uint64(0)), ok(uint64(0)) }, RoCEObservedCNP, StatusUnknown, ""},
		{"marks are not counted", func(t *watched) { t.Marked.hide(Meta{Reason: ReasonMissing, At: at}) }, RoCEObservedCNP, StatusUnknown, ""},
		{"notifications are not counted", func(t *watched) { t.CNPSent.hide(Meta{Reason: ReasonMissing, At: at}) }, RoCEObservedCNP, StatusUnknown, ""},
		{"nothing lost", func(*watched) {}, RoCEObservedLoss, StatusOK, "0 packets"},
		{"loss", func(t *watched) { t.Discards[3] = ok(uint64(5)) }, RoCEObservedLoss, StatusFailed, "dropped 5 packets of the lossless priority 3"},
		{"loss of lossy traffic", func(t *watched) { t.Discards[0] = ok(uint64(5)) }, RoCEObservedLoss, StatusOK, ""},
		{"loss is not counted", func(t *watched) { t.Discards[3].hide(Meta{Reason: ReasonMissing, At: at}) }, RoCEObservedLoss, StatusUnknown, ""},
		{"some pause sent", func(*watched) {}, RoCEObservedPauseSent, StatusOK, "this host paused priority 3 of the network for 0.1 % of the time"},
		{"some pause received", func(*watched) {}, RoCEObservedPauseReceived, StatusOK, "the network paused priority 3 of this host for 0.1 % of the time"},
		{"storm", func(t *watched) { t.Storms = ok(uint64(1)) }, RoCEObservedPauseSent, StatusFailed, "1 PFC storms"},
		{"this host stops the network", func(t *watched) { t.PauseSent[3] = ok(6 * time.Second) }, RoCEObservedPauseSent, StatusFailed, "paused priority 3 of the network for 60.0 %"},
		{"the network stops this host", func(t *watched) { t.PauseReceived[3] = ok(2 * time.Second) }, RoCEObservedPauseReceived, StatusFailed, "paused priority 3 of this host for 20.0 %"},
		{"pause is not counted", func(t *watched) { t.PauseReceived[3].hide(Meta{Reason: ReasonMissing, At: at}) }, RoCEObservedPauseReceived, StatusUnknown, ""},
	} {
		in := watched{
			traffic(100*mega, map[int]uint64{3: 100 * mega, 0: mega}).Value,
			RoCECongestion{5 * time.Second, ok(uint64(1000)), ok(uint64(50)), ok(uint64(40)), ok(uint64(0))},
		}
		in.RoCETraffic.Window = 10 * time.Second
		c.edit(&in)
		links := observeRoCE(ok(3), ok(true), nil, ok(in.RoCETraffic), ok(in.RoCECongestion))
		l := links[slices.IndexFunc(links, func(l RoCELink) bool { return l.Step == c.step })]
		if l.Status != c.want || !strings.Contains(l.Evidence, c.says) || (l.Status == StatusUnknown) != (l.Reason != "") {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
	for _, l := range observeRoCE(UnknownFact[int](ReasonIO, "", at), ok(true), nil, ok(RoCETraffic{}), ok(RoCECongestion{})) {
		if l.Status != StatusUnknown {
			t.Errorf("judged without a priority: %+v", l)
		}
	}
	for _, l := range observeRoCE(ok(3), ok(false), new(false), ok(RoCETraffic{}), ok(RoCECongestion{}))[1:] {
		if l.Status != StatusNotApplicable {
			t.Errorf("of a lossy priority without congestion control: %+v", l)
		}
	}
}

// The counters of RDMA, under the driver's names, arrive as marks and notifications.
func TestRoCECongestionOfNode(t *testing.T) {
	reading := func(at time.Time, marked, sent uint64) Fact[[]Counter] {
		return Known([]Counter{
			{"out_of_sequence", Known(uint64(7), "", at)}, {"np_ecn_marked_roce_packets", Known(marked, "", at)}, {"np_cnp_sent", Known(sent, "", at)},
		}, "hw_counters", at)
	}
	n := roceNode()
	c := &n.HCAs[0].Ports[0].Counters
	c.BeforeHW, c.HW = reading(at, 100, 9), reading(at.Add(6*time.Second), 5100, 9)
	n.Derive()
	l := n.HCAs[0].Ports[0].RoCE.Value[0].Link(RoCEObservedCNP)
	if l.Status != StatusFailed || !strings.Contains(l.Evidence, "in the last 6.0 s 5000 packets came with congestion marks, and 0 notifications went out") {
		t.Errorf("%+v", l)
	}
	c.HW.Value = c.HW.Value[1:] // a counter less, and the others at other places
	n.Derive()
	if l := n.HCAs[0].Ports[0].RoCE.Value[0].Link(RoCEObservedCNP); l.Status != StatusFailed {
		t.Errorf("%+v", l)
	}
	n.At = at.Add(time.Hour) // the collector was not asked for since
	n.Derive()
	if l := n.HCAs[0].Ports[0].RoCE.Value[0].Link(RoCEObservedCNP); l.Status != StatusUnknown || l.Reason != ReasonNotRead {
		t.Errorf("what happened an hour ago is said to be now: %+v", l)
	}
	c.HW = UnknownFact[[]Counter](ReasonIO, "hw_counters", at)
	n.Derive()
	if l := n.HCAs[0].Ports[0].RoCE.Value[0].Link(RoCEObservedCNP); l.Status != StatusUnknown || l.Reason != ReasonIO {
		t.Errorf("%+v", l)
	}
}

func TestHumanNumbers(t *testing.T) {
	for got, want := range map[string]string{
		span(1500 * time.Millisecond): "1.5 s", span(15003 * time.Millisecond): "15 s", span(5 * time.Minute): "5 min",
		percent(0): "0 %", percent(0.0001): "0.1 %", percent(0.35): "35.0 %", percent(0.9999): "99.9 %", percent(1): "100 %", percent(1.02): "102 %",
		bytes(0): "0 B", bytes(1_500_000): "1.5 MB", bytes(999_900): "1 MB", bytes(62_677_001_000): "62.7 GB",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
