// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

const pfcUniform = "pfc_uniform"

// pfcVerdicts are the verdicts of pfc_uniform on a node, after Derive.
func pfcVerdicts(n *fabric.Node) []verdict.Verdict {
	n.Derive()
	return diagnosetest.Ask(n, pfcUniform)
}

func enable(n *fabric.Node, mask fabric.PriorityMask, ports ...int) {
	for _, i := range ports {
		n.NetDevs[i].QoS.PFC.Value.Enabled = mask
	}
}

// TestPFCUniform asserts that a port whose PFC is not that of its peers is found on a site without
// expectations, with a remedy that turns off nothing that other traffic may need.
func TestPFCUniform(t *testing.T) {
	for _, c := range []struct {
		name  string
		ports int
		edit  func(n *fabric.Node)
		want  []string
	}{
		{"off on one of eight", 8, func(n *fabric.Node) { enable(n, 0, 2) }, []string{
			"mlx5_2: PFC is off, but its peers have it on for priority 3. PFC is off for all priorities. Of 8 interfaces of compute ports of its board, 7 have PFC on for priority 3. In congestion,",
			"The other compute ports have PFC on for priority 3: mlnx_qos -i <interface> --pfc 0,0,0,1,0,0,0,0 or dcb pfc set dev <interface> prio-pfc 3:on, and the same at the switch port.",
			"give it another role in the configuration (roles).",
		}},
		{"802.3x instead", 8, func(n *fabric.Node) {
			enable(n, 0, 2)
			n.NetDevs[2].QoS.Pause.Value = fabric.Pause{Receive: true, Transmit: true}
		}, []string{"mlx5_2: PFC is off, but", "802.3x flow control is on instead"}},
		{"off on one of four", 4, func(n *fabric.Node) { enable(n, 0, 1) }, []string{"mlx5_1: PFC is off, but its peers have it on for priority 3. "}},
		{"off on two of eight", 8, func(n *fabric.Node) { enable(n, 0, 1, 6) }, []string{"mlx5_1, mlx5_6: PFC is off, but its peers", "Of 8 interfaces of compute ports of its board, 6 have"}},
		{"on for one more", 8, func(n *fabric.Node) { enable(n, 1<<0|1<<3, 5) }, []string{
			"mlx5_5: PFC is on for priorities 0 and 3, but its peers have it on for priority 3. Of 8 ",
			"The other compute ports have PFC off for priority 0. If no other traffic needs it: mlnx_qos -i <interface> --pfc 0,0,0,1,0,0,0,0 or dcb pfc set dev <interface> prio-pfc 0:off, and the same",
		}},
		{"off for one of two", 8, func(n *fabric.Node) { enable(n, 1<<3|1<<5, 0, 1, 2, 3, 4, 6, 7) }, []string{
			"mlx5_5: PFC is on for priority 3, but its peers have it on for priorities 3 and 5. Of 8 ",
			"--pfc 0,0,0,1,0,1,0,0 or dcb pfc set dev <interface> prio-pfc 3:on 5:on,",
		}},
		{"on for one only", 8, func(n *fabric.Node) { enable(n, 0, 0, 1, 2, 4, 5, 6, 7) }, []string{
			"mlx5_3: PFC is on for priority 3, but its peers have it off. ", "If RoCE is to be lossless, turn PFC on at the other ports. If not, and no other traffic needs it: mlnx_qos -i <interface> --pfc 0,0,0,0,0,0,0,0 or dcb pfc set dev <interface> prio-pfc all:off,",
		}},
		{"a peer that is down has no say", 8, func(n *fabric.Node) { enable(n, 0, 2); down(n, 0) }, []string{"mlx5_2: PFC is off, but", "Of 8 interfaces of compute ports of its board, 6 have"}},
		{"a peer that is not read has no say", 8, func(n *fabric.Node) {
			enable(n, 0, 2)
			n.NetDevs[0].QoS.PFC = fabric.UnknownFact[fabric.PFC](fabric.ReasonIO, "DCB PFC", n.At)
		}, []string{"mlx5_2: PFC is off, but", "Of 8 interfaces of compute ports of its board, 6 have"}},
		{"storage beside it", 8, func(n *fabric.Node) {
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("^mlx5_[4-7]$"), Role: fabric.RoleStorage}}
			enable(n, 0, 2, 4, 5, 6, 7)
		}, []string{"mlx5_2: PFC is off, but", "Of 4 interfaces of compute ports of its board, 3 have"}},
		{"one cable in each card", 4, func(n *fabric.Node) { n.Policy.ComputePorts = new(4); uncabledSecond(n); enable(n, 0, 2) }, []string{"mlx5_2 port 1: PFC is off, but", "Of 4 interfaces of compute ports of its board, 3 have"}},
		{"DCBX in firmware", 8, func(n *fabric.Node) {
			enable(n, 0, 2)
			for i := range n.NetDevs {
				n.NetDevs[i].QoS.DCBX = fabric.Known(fabric.DCBX{IEEE: true}, "DCBX", n.At)
			}
		}, []string{"mlx5_2: PFC is off, but", "may take PFC from its link partner (DCBX): compare the switch port with those of the other compute ports. If the host decides: The other"}},
		{"willing", 8, func(n *fabric.Node) { enable(n, 0, 2); n.NetDevs[2].QoS.ETS.Value.Willing = true }, []string{"mlx5_2: PFC is off, but", "from its link partner (DCBX)"}},
		{"a member of a bond", 8, func(n *fabric.Node) { inBonds(n); enable(n, 0, 5) }, []string{"mlx5_4: PFC is off, but", "eth5: PFC is off for all priorities. Of 8 interfaces"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := alike(c.ports)
			c.edit(n)
			list := pfcVerdicts(n)
			got := diagnosetest.Describe(list)
			diagnosetest.Contains(t, got, c.want...)
			if strings.Count(got, "\n") != 1 || verdict.Failures(list)[0].Check.Severity != verdict.Warning {
				t.Errorf("not one warning: %q", got)
			}
		})
	}
}

// down takes the link of ports away.
func down(n *fabric.Node, ports ...int) {
	for _, i := range ports {
		p := &n.HCAs[i].Ports[0]
		p.State.Value, p.PhysState.Value = fabric.PortDown, fabric.PhysDisabled
		enable(n, 0, i)
	}
}

// uncabledSecond gives each device a second port that never had a link.
func uncabledSecond(n *fabric.Node) {
	for i := range n.HCAs {
		p := n.HCAs[i].Ports[0]
		p.Number, p.NetDev, p.GIDs = 2, fabric.Known("eth"+n.HCAs[i].Name, "ndevs/0", n.At), fabric.GIDTable{}
		p.State, p.PhysState = fabric.Known(fabric.PortDown, "state", n.At), fabric.Known(fabric.PhysDisabled, "phys_state", n.At)
		p.Seen = fabric.PortHistory{}
		n.HCAs[i].Ports = append(n.HCAs[i].Ports, p)
	}
}

// inBonds makes one of two interfaces each, the first with an even number, and leaves the device of that.
func inBonds(n *fabric.Node) {
	var hcas []fabric.HCA
	for i := 0; i < len(n.HCAs); i += 2 {
		h, name := n.HCAs[i], "bond"+n.HCAs[i].Name
		h.Ports = slices.Clone(h.Ports)
		p := &h.Ports[0]
		p.NetDev.Value, p.GIDs.Entries.Value = name, slices.Clone(p.GIDs.Entries.Value)
		for g := range p.GIDs.Entries.Value {
			p.GIDs.Entries.Value[g].NetDev = name
		}
		n.NetDevs = append(n.NetDevs, fabric.NetDev{
			Name: name, Bond: fabric.Known(true, "bonding", n.At), Lower: fabric.Known([]string{n.NetDevs[i].Name, n.NetDevs[i+1].Name}, "lower_*", n.At),
		})
		hcas = append(hcas, h)
	}
	n.HCAs = hcas
}

// TestPFCUniformIsSilent has nodes on which one port has PFC off, or several, and that is right or not known
// to be wrong.
func TestPFCUniformIsSilent(t *testing.T) {
	half := []int{4, 5, 6, 7}
	last := func(n *fabric.Node) *fabric.Port { return &n.HCAs[7].Ports[0] }
	off := func(edit func(n *fabric.Node)) func(n *fabric.Node) {
		return func(n *fabric.Node) { enable(n, 0, 7); edit(n) }
	}
	for name, edit := range map[string]func(n *fabric.Node){
		"all alike":                 func(*fabric.Node) {},
		"no PFC at all":             func(n *fabric.Node) { enable(n, 0, 0, 1, 2, 3, 4, 5, 6, 7) },
		"three ports":               func(n *fabric.Node) { n.HCAs = n.HCAs[:3]; enable(n, 0, 1) },
		"two networks":              func(n *fabric.Node) { enable(n, 1<<5, half...); n.NCCL.Variables = nil; mapTo(n, 5, half...) },
		"two networks, one lossy":   func(n *fabric.Node) { enable(n, 0, half...) },
		"two networks, a port down": func(n *fabric.Node) { enable(n, 0, half...); down(n, 0) },
		"two networks, one in a pod": func(n *fabric.Node) {
			enable(n, 0, half...)
			n.HCAs[0].Ports[0].NetDev = fabric.UnknownFact[string](fabric.ReasonMoved, "ndevs/0", n.At)
		},
		"down":          off(func(n *fabric.Node) { down(n, 7) }),
		"InfiniBand":    off(func(n *fabric.Node) { last(n).LinkLayer.Value = fabric.LinkInfiniBand }),
		"EFA":           off(func(n *fabric.Node) { last(n).LinkLayer.Value = fabric.LinkUnspecified }),
		"usNIC":         off(func(n *fabric.Node) { n.HCAs[7].NodeType.Value = fabric.NodeUSNIC }),
		"another board": off(func(n *fabric.Node) { n.HCAs[7].BoardID.Value = "MT_0000000359" }),
		"another driver": off(func(n *fabric.Node) {
			n.HCAs[7].BoardID, n.HCAs[7].Driver.Value = fabric.AbsentFact[string]("board_id", n.At), "bnxt_en"
		}),
		"a virtual function": off(func(n *fabric.Node) { n.Policy.Roles = nil; n.HCAs[7].Function.Value = fabric.FunctionVF }),
		"storage": off(func(n *fabric.Node) {
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("^mlx5_7$"), Role: fabric.RoleStorage}}
		}),
		"not for NCCL": off(func(n *fabric.Node) {
			n.NCCL.Variables = slices.Insert(n.NCCL.Variables, 0, fabric.NCCLVariable{Name: "NCCL_IB_HCA", Value: "^=mlx5_7", Source: "/etc/nccl.conf:2"})
		}),
		"no DCB": off(func(n *fabric.Node) {
			n.NetDevs[7].QoS.PFC = fabric.UnknownFact[fabric.PFC](fabric.ReasonUnsupported, "DCB PFC", n.At)
		}),
		"a member of a bond without carrier": func(n *fabric.Node) {
			inBonds(n)
			enable(n, 0, 7)
			n.Interfaces = fabric.Known([]fabric.Interface{{Name: "eth7", OperState: fabric.Known("down", "operstate", n.At)}}, "net", n.At)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := alike(8)
			edit(n)
			for _, v := range pfcVerdicts(n) {
				if v.Status != verdict.OK {
					t.Errorf("%s: %s, %s. %s", v.Subject.Device, v.Status, v.What, v.Evidence)
				}
			}
		})
	}
}

// mapTo gives the DSCP of RoCE another priority.
func mapTo(n *fabric.Node, priority int, ports ...int) {
	for _, i := range ports {
		n.NetDevs[i].QoS.DSCPPriority.Value[26] = priority
	}
}

// TestPFCUniformUnread asserts that PFC that could not be read is neither off nor all right, of the port and
// of peers that decide.
func TestPFCUniformUnread(t *testing.T) {
	unread := func(n *fabric.Node, i int) {
		n.NetDevs[i].QoS.PFC = fabric.UnknownFact[fabric.PFC](fabric.ReasonIO, "DCB PFC", n.At)
	}
	for _, c := range []struct {
		name  string
		ports int
		edit  func(n *fabric.Node)
		want  []string // what is unknown, as device: evidence
	}{
		{"one of eight", 8, func(n *fabric.Node) { unread(n, 2) }, []string{"mlx5_2: For which priorities PFC is on is not known."}},
		{"no majority without it", 4, func(n *fabric.Node) { enable(n, 0, 1); unread(n, 2) }, []string{
			"mlx5_0: For which priorities PFC of its peers is on is unknown: the read fails.", "mlx5_1: For which priorities PFC of its peers is on is unknown: the read fails.",
			"mlx5_2: For which priorities PFC is on is not known.", "mlx5_3: For which priorities PFC of its peers is on is unknown: the read fails.",
		}},
		{"one of two networks", 8, func(n *fabric.Node) { enable(n, 0, 4, 5, 6, 7); unread(n, 0) }, []string{"mlx5_0: ", "mlx5_1: ", "mlx5_2: ", "mlx5_3: ", "mlx5_4: ", "mlx5_5: ", "mlx5_6: ", "mlx5_7: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := alike(c.ports)
			c.edit(n)
			list := pfcVerdicts(n)
			if failed := verdict.Failures(list); len(failed) > 0 {
				t.Errorf("failed: %s", diagnosetest.Describe(list))
			}
			var got []string
			for _, v := range verdict.Unknowns(list) {
				got = append(got, v.Subject.Device+": "+v.Evidence)
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("unknown: %q, expected %q", got, c.want)
			}
		})
	}
}

// TestPFCIsOneFinding asserts that what roce_pfc reports is not reported again, and that peers which the site
// wants otherwise are no example for the port that is right.
func TestPFCIsOneFinding(t *testing.T) {
	expected := fabrictest.Lossless().Policy.RoCE
	others := []int{0, 1, 2, 4, 5, 6, 7}
	for _, c := range []struct {
		name string
		edit func(n *fabric.Node)
		want []string
	}{
		{"off where the site expects it", func(n *fabric.Node) { n.Policy.RoCE = expected; enable(n, 0, 3) }, []string{"roce_pfc mlx5_3"}},
		{"on where the site does not", func(n *fabric.Node) {
			n.Policy.RoCE = fabric.RoCEPolicy{Priority: new(3), Lossless: new(false)}
			enable(n, 0, others...)
		}, []string{"roce_pfc mlx5_3"}},
		{"for another priority", func(n *fabric.Node) { enable(n, 1<<4, 3) }, []string{"roce_pfc mlx5_3"}},
		{"all others are wrong", func(n *fabric.Node) { n.Policy.RoCE = expected; enable(n, 0, others...) }, []string{
			"roce_pfc mlx5_0", "roce_pfc mlx5_1", "roce_pfc mlx5_2", "roce_pfc mlx5_4", "roce_pfc mlx5_5", "roce_pfc mlx5_6", "roce_pfc mlx5_7",
		}},
		{"for one more than the site expects", func(n *fabric.Node) { n.Policy.RoCE = expected; enable(n, 1<<0|1<<3, 3) }, []string{"pfc_uniform mlx5_3"}},
		{"the site says nothing about loss", func(n *fabric.Node) { n.Policy.RoCE = fabric.RoCEPolicy{DSCP: new(26)}; enable(n, 0, 3) }, []string{"pfc_uniform mlx5_3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := alike(8)
			c.edit(n)
			n.Derive()
			var got []string
			for _, v := range verdict.Failures(diagnose.Run(n, []*verdict.Check{diagnose.Find("roce_pfc"), diagnose.Find(pfcUniform)})) {
				got = append(got, v.Check.ID+" "+v.Subject.Device)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, expected %q", got, c.want)
			}
		})
	}
}

// TestPFCOfSurplusPort asserts that a port that differs because it is not for training is one finding with that.
func TestPFCOfSurplusPort(t *testing.T) {
	n := alike(9)
	n.Policy.ComputePorts = new(8)
	n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("."), Role: fabric.RoleCompute}}
	enable(n, 0, 8)
	n.Derive()
	list := verdict.Findings(diagnose.Run(n, []*verdict.Check{diagnose.Find("compute_ports_surplus"), diagnose.Find(pfcUniform)}))
	if len(list) != 1 || list[0].Check.ID != "compute_ports_surplus" || len(list[0].Consequences) != 1 || list[0].Consequences[0].Check.ID != pfcUniform {
		t.Errorf("found %+v", list)
	}
}

// TestPFCUniformNamesToolsOfTheDriver asserts that niccli, whose list may replace that of the port, is named
// for one priority only.
func TestPFCUniformNamesToolsOfTheDriver(t *testing.T) {
	const uniform = "The other compute ports have PFC "
	for _, c := range []struct {
		driver    string
		own, peer fabric.PriorityMask
		want      string
	}{
		{"bnxt_en", 0, 1 << 3, uniform + "on for priority 3: dcb pfc set dev eth7 prio-pfc 3:on or niccli -dev 0000:1a:00.0 pfc -enable 3, and the same"},
		{"bnxt_en", 1 << 3, 1<<3 | 1<<5, uniform + "on for priorities 3 and 5: dcb pfc set dev eth7 prio-pfc 3:on 5:on, and the same"},
		{"bnxt_en", 1<<3 | 1<<5, 1 << 3, uniform + "off for priority 5. If no other traffic needs it: dcb pfc set dev eth7 prio-pfc 5:off, and the same"},
		{"ice", 0, 1 << 3, uniform + "on for priority 3: dcb pfc set dev eth7 prio-pfc 3:on, and the same"},
	} {
		n := alike(8)
		for i := range n.HCAs {
			n.HCAs[i].Driver.Value, n.NetDevs[i].QoS.PFC.Value.Enabled = c.driver, c.peer
		}
		enable(n, c.own, 7)
		list := verdict.Failures(pfcVerdicts(n))
		if len(list) != 1 || !strings.HasPrefix(verdict.FilledRemedy(n, &list[0]), c.want) {
			t.Errorf("%s, %s of %s: %+v, expected %q", c.driver, c.own, c.peer, list, c.want)
		}
	}
}
