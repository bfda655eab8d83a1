// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

var _ interface { // what the exporter needs of a source
	ReadQoS(netdev string, q *fabric.QoS, now time.Time) error
	Statistics(netdev string, wanted func(name string) bool, now time.Time) ([]fabric.Counter, error)
	Commands() fabric.Commands
	Close()
} = (*EthernetDrivers)(nil)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func readQoS(t *testing.T, e *EthernetDrivers, netdev string) fabric.QoS {
	t.Helper()
	var q fabric.QoS
	if err := e.ReadQoS(netdev, &q, noon); err != nil {
		t.Fatal(err)
	}
	return q
}

// count returns one statistic, and whether there is one of that name.
func readCount(t *testing.T, e *EthernetDrivers, netdev, name string) (uint64, bool) {
	t.Helper()
	list, err := e.Statistics(netdev, func(s string) bool { return s == name }, noon)
	if err != nil || len(list) > 1 {
		t.Fatalf("%v: %v", list, err)
	}
	if len(list) == 0 {
		return 0, false
	}
	return list[0].Value.Get()
}

func TestQoSOfDrivers(t *testing.T) {
	n := small()
	n.NetDev("enp24s0np0").Statistic("rx_prio3_pause").Start = 7
	n.NetDev("enp24s0np0").Statistic("tx_pause_ctrl_phy").Start = 9
	e := materialise(t, n).Ethernet()
	defer e.Close()

	q := readQoS(t, e, "enp24s0np0")
	pfc := q.PFC.Value
	if q.PFC.State != fabric.OK || pfc.Enabled != 1<<3 || pfc.Classes != 8 || pfc.Delay != 7 || q.PFC.At != noon || q.PFC.Source == "" {
		t.Errorf("PFC %+v", q.PFC)
	}
	if pfc.Received[3] != 0 {
		t.Error("mlx5 reports pauses without a request to the firmware")
	}
	if len(q.Apps.Value) != 64 || q.ETS.Value.Algorithm[7] != fabric.TSAVendor || q.Buffers.Value.OfPriority[3] != 1 || !q.DCBX.Value.Host {
		t.Errorf("%+v", q)
	}
	if p := q.Pause.Value; p.Receive || p.Transmit || p.Transmitted.Value != 9 || p.Received.State != fabric.OK {
		t.Errorf("pause %+v", q.Pause)
	}
	if f := q.FEC.Value; f.Active != "rs" || f.CorrectedBlocks.Value == 0 || f.UncorrectableBlocks.State != fabric.OK || f.CorrectedBits.Value == 0 {
		t.Errorf("FEC %+v", q.FEC)
	}
	if q.Trust.State != fabric.Unknown || q.NP.State != fabric.Unknown || q.Counters.State != fabric.Unknown {
		t.Errorf("what is in files: %+v", q)
	}
	if v, _ := readCount(t, e, "enp24s0np0", "rx_prio3_pause"); v != 7 || readQoS(t, e, "enp24s0np0").PFC.Value.Received[3] != 7 {
		t.Errorf("%d pauses", v)
	}
	want := fabric.Commands{fabric.CommandDCB: 2, fabric.CommandPause: 2, fabric.CommandFEC: 2, fabric.CommandNetStats: 1}
	for kind, got := range e.Commands() {
		if got != want[kind] {
			t.Errorf("%s: %d, want %d", kind, got, want[kind])
		}
	}

	q = readQoS(t, e, "bond0") // no driver of hardware
	for name, m := range map[string]fabric.Meta{
		"PFC": q.PFC.Meta(), "ETS": q.ETS.Meta(), "apps": q.Apps.Meta(), "buffers": q.Buffers.Meta(), "DCBX": q.DCBX.Meta(), "pause": q.Pause.Meta(), "FEC": q.FEC.Meta(),
	} {
		if m.Reason != fabric.ReasonUnsupported || m.Source == "" || m.At != noon {
			t.Errorf("bond0: %s is %+v", name, m)
		}
	}
	if _, err := e.Statistics("bond0", func(string) bool { return true }, noon); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("statistics of bond0: %v", err)
	}
	if after := e.Commands(); after[fabric.CommandDCB] != 2 || after[fabric.CommandNetStats] != 1 {
		t.Errorf("no driver was asked, but %v", after)
	}

	if err := e.ReadQoS("eth9", &q, noon); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "eth9") {
		t.Errorf("no such interface: %v", err)
	}
	if _, err := e.Statistics("eth9", func(string) bool { return true }, noon); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such interface: %v", err)
	}
}

// TestQoSOfOtherDrivers is about what only some drivers answer.
func TestQoSOfOtherDrivers(t *testing.T) {
	for _, test := range []struct {
		platform                         string
		netdev                           string
		dcb, buffers, pause, frames, fec fabric.State
	}{
		{"bnxt-roce", "ens1np0", fabric.OK, fabric.Unknown, fabric.OK, fabric.OK, fabric.OK},
		{"irdma-roce", "enp138s0f0", fabric.OK, fabric.Unknown, fabric.OK, fabric.Unknown, fabric.OK},
		{"ionic-roce", "enp9s0", fabric.Unknown, fabric.Unknown, fabric.OK, fabric.Unknown, fabric.OK},
		{"sriov-vf", "enp24s0v0", fabric.Unknown, fabric.Unknown, fabric.Unknown, fabric.Unknown, fabric.Unknown},
		{"mana", "enP30832p0s0", fabric.Unknown, fabric.Unknown, fabric.Unknown, fabric.Unknown, fabric.Unknown},
		{"efa", "ens32", fabric.Unknown, fabric.Unknown, fabric.Unknown, fabric.Unknown, fabric.Unknown},
		{"two-port", "enp97s0", fabric.OK, fabric.Unknown, fabric.OK, fabric.Unknown, fabric.Unknown},
		{"two-port", "eno1", fabric.Unknown, fabric.Unknown, fabric.OK, fabric.Unknown, fabric.Unknown},
	} {
		n := healthyNode(test.platform)
		for i := range n.HCAs {
			for k := range n.HCAs[i].Ports {
				n.HCAs[i].Ports[k].GIDSlots = min(n.HCAs[i].Ports[k].GIDSlots, 8)
			}
		}
		q := readQoS(t, materialise(t, n).Ethernet(), test.netdev)
		if q.PFC.State != test.dcb || q.Apps.State != test.dcb || q.Buffers.State != test.buffers || q.Pause.State != test.pause ||
			q.Pause.Value.Received.State != test.frames || q.FEC.State != test.fec {
			t.Errorf("%s: %+v", test.netdev, q)
		}
	}
}

func TestQoSFollowsTheTree(t *testing.T) {
	n := small()
	n.Flaps = []Flap{{"mlx5_4", 60, 20}}
	tree := materialise(t, n)
	e := tree.Ethernet()
	const name = "tx_prio3_bytes"
	perStep := n.NetDev("enp24s0np0").Statistic(name).PerStep
	before, _ := readCount(t, e, "enp24s0np0", name)
	if err := tree.Step(50); err != nil {
		t.Fatal(err)
	}
	if after, _ := readCount(t, e, "enp24s0np0", name); perStep == 0 || after-before != 50*perStep {
		t.Errorf("%s went from %d to %d in 50 steps", name, before, after)
	}
	if q := readQoS(t, e, "enp154s0np0"); q.FEC.State != fabric.Unknown || q.PFC.State != fabric.OK {
		t.Errorf("a port without a link: %+v", q.FEC)
	}
	if _, ok := readCount(t, e, "enp24s0np0", "rx_prio3_pause"); !ok {
		t.Error("no pauses of a priority with PFC")
	}
	if err := tree.Edit(func(n *Node) { n.qos("mlx5_0").SetPFC(1 << 4) }); err != nil {
		t.Fatal(err)
	}
	if _, ok := readCount(t, e, "enp24s0np0", "rx_prio3_pause"); ok || readQoS(t, e, "enp24s0np0").PFC.Value.Enabled != 1<<4 {
		t.Error("the edit does not show")
	}
	if err := tree.Edit(func(n *Node) { n.qos("mlx5_0").Pause.Receive = true }); err == nil {
		t.Error("PFC and global pause at the same time")
	}
	var q fabric.QoS
	if err := tree.Remove("mlx5_0"); err != nil {
		t.Fatal(err)
	}
	if err := e.ReadQoS("enp24s0np0", &q, noon); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a removed device: %v", err)
	}
	if err := errors.Join(tree.Add("mlx5_0"), e.ReadQoS("enp24s0np0", &q, noon)); err != nil {
		t.Error(err)
	}
	// What was read is the reader's.
	q.Apps.Value[0].Priority = 7
	if readQoS(t, e, "enp24s0np0").Apps.Value[0].Priority == 7 {
		t.Error("a reader wrote to the node")
	}
}

// TestQoSWhileTheTreeMoves is for the race detector.
func TestQoSWhileTheTreeMoves(t *testing.T) {
	tree := materialise(t, small())
	e := tree.Ethernet()
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			last := uint64(0)
			for range 40 {
				var q fabric.QoS
				if err := e.ReadQoS("enp24s0np0", &q, noon); err != nil {
					t.Error(err)
				}
				list, err := e.Statistics("enp24s0np0", func(name string) bool { return name == "rx_bytes_phy" }, noon)
				if err != nil || len(list) != 1 || list[0].Value.Value < last {
					t.Errorf("%v after %d: %v", list, last, err)
					return
				}
				last = list[0].Value.Value
				e.Commands()
			}
		})
	}
	for step := range 20 {
		if err := tree.Step(step); err != nil {
			t.Error(err)
		}
	}
	readers.Wait()
	if got := e.Commands()[fabric.CommandNetStats]; got != 120 {
		t.Errorf("%d commands", got)
	}
}
