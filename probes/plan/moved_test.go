// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

// What NCCL chooses on the host says nothing of jobs in pods that have the devices, or the interfaces that carry them.
func TestNoProbeOfWhatPodsHave(t *testing.T) {
	n := probestest.Node(8)
	if _, skip := New(probes.Key{Kind: probes.Transport}, n, Settings{}); skip != nil {
		t.Fatalf("nothing is elsewhere: %+v", skip)
	}
	h := n.HCA("mlx5_0")
	whole := *h
	for name, move := range map[string]func(){
		"device": func() { *h = whole.Elsewhere(n.At) },
		"interface": func() {
			*h = whole
			h.Ports[0].NetDev = fabric.UnknownFact[string](fabric.ReasonMoved, "", n.At)
		},
	} {
		move()
		for _, key := range []probes.Key{{Kind: probes.Transport}, {Kind: probes.Rail, Device: "mlx5_0", Port: 1}} {
			if _, skip := New(key, n, Settings{}); skip == nil || skip.Why != probes.SkipNoDevice {
				t.Errorf("%s: %v: %+v", name, key, skip)
			}
		}
		if _, skip := New(probes.Key{Kind: probes.Rail, Device: "mlx5_1", Port: 1}, n, Settings{}); skip != nil {
			t.Errorf("%s: another rail: %+v", name, skip)
		}
	}
}

// A node without a rail says why: what is not known of its ports is not that they are down.
func TestWithoutRails(t *testing.T) {
	each := func(do func(*fabric.HCA, *fabric.Port)) func(*fabric.Node) {
		return func(n *fabric.Node) {
			for i := range n.HCAs {
				do(&n.HCAs[i], &n.HCAs[i].Ports[0])
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*fabric.Node)
		want   string
	}{
		"down": {each(func(_ *fabric.HCA, p *fabric.Port) { p.State.Value = fabric.PortDown }), "no port is active and for training"},
		"EFA": {each(func(h *fabric.HCA, p *fabric.Port) {
			h.Driver, p.LinkLayer.Value = fabric.Known("efa", "driver", p.State.At), fabric.LinkUnspecified
			p.State = fabric.UnknownFact[fabric.PortState](fabric.ReasonDriverConstant, "state", p.State.At)
		}), "NCCL opens the 4 ports for training through a plugin only, and their state is unknown"},
		"states unknown": {each(func(_ *fabric.HCA, p *fabric.Port) {
			p.State = fabric.UnknownFact[fabric.PortState](fabric.ReasonIO, "state", p.State.At)
		}), "no port is known to be active and for training: the state or role of 4 ports is unknown"},
		"storage": {each(func(_ *fabric.HCA, p *fabric.Port) { p.Role = fabric.Known(fabric.RoleStorage, "", p.State.At) }), "no port is active and for training"},
	} {
		n := probestest.Node(8)
		c.change(n)
		if _, skip := New(probes.Key{Kind: probes.Rail}, n, Settings{}); skip == nil || skip.Detail != c.want {
			t.Errorf("%s: %+v, expected %q", name, skip, c.want)
		}
	}
}
