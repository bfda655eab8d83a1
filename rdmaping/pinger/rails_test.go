// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

// TestTrafficClass is that of NCCL's connections: what MLNX_OFED sets for the port is over what NCCL asks for.
func TestTrafficClass(t *testing.T) {
	unknown := fabric.UnknownFact[fabric.TrafficClass](fabric.ReasonMissing, "test", time.Time{})
	for _, c := range []struct {
		name string
		nccl bool
		ofed fabric.Fact[fabric.TrafficClass]
		want int
		by   string
	}{
		{"none", false, unknown, 0, "NCCL's default"},
		{"NCCL", true, unknown, 106, "NCCL_IB_TC"},
		{"MLNX_OFED, unset", true, fabric.AbsentFact[fabric.TrafficClass]("test", time.Time{}), 106, "NCCL_IB_TC"},
		{"MLNX_OFED, rules only", true, known(fabric.TrafficClass{Global: -1, Rules: 2}), 106, "NCCL_IB_TC"},
		{"MLNX_OFED", true, known(fabric.TrafficClass{Global: 96}), 96, "MLNX_OFED, for the whole port"},
		{"MLNX_OFED, 0", true, known(fabric.TrafficClass{}), 0, "MLNX_OFED, for the whole port"},
	} {
		n := nodeOf("10.0.0.1", "mlx5_0")
		n.HCAs[0].Ports[0].TrafficClass = c.ofed
		if c.nccl {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_TC", Number: 106, IsNumber: true}}
		}
		rails, err := Rails(n, "")
		if err != nil || len(rails) != 1 || rails[0].TrafficClass != c.want || rails[0].ClassBy != c.by {
			t.Errorf("%s: %+v, %v", c.name, rails, err)
		}
	}
}

// TestExcess leaves no card out: of cards with two ports each, the second ones are too many.
func TestExcess(t *testing.T) {
	var two, one []Own
	for i := range 16 {
		device := fmt.Sprintf("mlx5_%d", i)
		two = append(two, Own{Open: rdmaping.Open{Device: device}, Card: fmt.Sprintf("0000:%02x:00", i/2)})
		one = append(one, Own{Open: rdmaping.Open{Device: device}})
	}
	for i := range 16 {
		device := fmt.Sprintf("mlx5_%d", i)
		if got := excess(two)[device]; got != (i%2 == 1) {
			t.Errorf("%s of two ports: %v", device, got)
		}
		if got := excess(one)[device]; got != (i >= 8) {
			t.Errorf("%s, of which no card is known: %v", device, got)
		}
	}
	if got := excess(two[:8]); len(got) > 0 {
		t.Errorf("of eight: %v", got)
	}
}

// TestPortChanges opens a rail anew when its port is not what it was opened with. What is not known is no change.
func TestPortChanges(t *testing.T) {
	w := newWorld(t, 4)
	change := func(f func(n *fabric.Node, p *fabric.Port)) func(*Pinger) {
		return func(*Pinger) {
			n := nodeOf("10.0.0.1", "mlx5_0", "mlx5_1")
			p := &n.HCAs[0].Ports[0]
			p.State, p.LID, p.NetDev = known(fabric.PortActive), known(7), known("eth0")
			n.NetDevs = []fabric.NetDev{{Name: "eth0", MTU: known(9000)}}
			f(n, p)
			w.node = n
		}
	}
	check := func(what string, opens int) func(*Pinger) {
		return func(*Pinger) {
			if w.opens != opens {
				t.Errorf("%s: %d opened, expected %d", what, w.opens, opens)
			}
		}
	}
	change(func(*fabric.Node, *fabric.Port) {})(nil)
	w.run(30*time.Second,
		check("begins", 2),
		change(func(n *fabric.Node, _ *fabric.Port) { n.NetDevs[0].MTU = known(1500) }),
		check("MTU", 3),
		change(func(n *fabric.Node, p *fabric.Port) {
			n.NetDevs = nil
			p.LID = fabric.UnknownFact[int](fabric.ReasonMissing, "test", time.Time{})
			p.State = fabric.UnknownFact[fabric.PortState](fabric.ReasonMissing, "test", time.Time{})
			p.GIDs.Entries = fabric.UnknownFact[[]fabric.GID](fabric.ReasonMissing, "test", time.Time{})
			p.TrafficClass = fabric.UnknownFact[fabric.TrafficClass](fabric.ReasonIO, "test", time.Time{})
			p.GIDChoice = fabric.UnknownFact[fabric.GIDChoice](fabric.ReasonMissing, "test", time.Time{})
		}),
		check("nothing is known", 3),
		change(func(n *fabric.Node, p *fabric.Port) { n.NetDevs[0].MTU, p.LID = known(1500), known(8) }),
		check("LID", 4),
		change(func(n *fabric.Node, p *fabric.Port) {
			n.NetDevs[0].MTU, p.LID, p.State = known(1500), known(8), known(fabric.PortState("down"))
		}),
		check("down", 5),
	)
}

// TestReported is a driver that reports something of a port: the rail is opened anew, and nothing is lost.
func TestReported(t *testing.T) {
	w := newWorld(t, 4)
	s := w.run(25*time.Second,
		func(*Pinger) {
			w.pong.Failure = &rdmaping.Failure{Step: "the driver reports", Text: "the port went down"}
		},
		func(*Pinger) { w.pong.Failure = nil },
	)
	if w.opens < 6 || w.opens > 10 || w.started != 1 {
		t.Errorf("%d opened, %d starts", w.opens, w.started)
	}
	if n := strings.Count(w.log.String(), `device=mlx5_0 err="the driver reports: the port went down"`); n < 2 || n > 4 {
		t.Errorf("logged %d times:\n%s", n, w.log.String())
	}
	for _, r := range s.Rails {
		if sent, lost := lost(r); lost > 0 || sent < 90 || r.Loop.Lost > 0 || r.Uncovered != "" {
			t.Errorf("%d of %d lost, %+v", lost, sent, r)
		}
	}
}

// TestUnread is a port whose GIDs cannot be read: no GID is guessed.
func TestUnread(t *testing.T) {
	own := Own{Open: rdmaping.Open{Device: "mlx5_0", Port: 1}, Unread: true}
	if _, err := (Session{}).Open(t.Context(), own); err == nil || !strings.Contains(err.Error(), "mlx5_0/ports/1/gids") {
		t.Errorf("error %v", err)
	}
}

// TestUnfit is a rail without an address, which later fails because its address changes. While no GID fits, it is not
// opened on the one that NCCL would take then: a link-local one reaches no other subnet, and all paths would look dead.
func TestUnfit(t *testing.T) {
	w := newWorld(t, 4)
	choose := func(choice fabric.GIDChoice) func(*Pinger) {
		return func(*Pinger) {
			w.node = nodeOf("10.0.0.1", "mlx5_0", "mlx5_1")
			for i := range w.node.HCAs {
				w.node.HCAs[i].Ports[0].GIDChoice = known(choice)
			}
		}
	}
	fits, falls := fabric.GIDChoice{Index: 3, Rule: fabric.GIDByMatch}, fabric.GIDChoice{Rule: fabric.GIDByFallback}
	choose(falls)(nil)
	opened := func(want int) func(*Pinger) {
		return func(*Pinger) {
			if w.opens != want {
				t.Errorf("%d opened, expected %d", w.opens, want)
			}
		}
	}
	w.run(30*time.Second,
		opened(0), choose(fits), opened(2), choose(falls), opened(2),
		func(*Pinger) { w.pong.Failure = &rdmaping.Failure{Step: "the driver reports", Text: "the GID changed"} },
		func(*Pinger) { w.pong.Failure = nil },
		opened(2),
		choose(fits), opened(4),
	)
	if !strings.Contains(w.log.String(), "no GID of its port fits") {
		t.Error(w.log.String())
	}
}

// TestUnfitWhy is ports that have addresses, of which NCCL takes none: the log says what it looks for, and what states it.
func TestUnfitWhy(t *testing.T) {
	var nccl fabric.NCCLConfig
	for _, c := range []struct {
		name, address string
		version       fabric.GIDType
		says          string
	}{
		{"RoCE v1 only", "10.0.0.1", fabric.GIDRoCEv1, "no RoCE v2 GID with an IPv4 address"},
		{"IPv6 only", "2001:db8::1", fabric.GIDRoCEv2, "no RoCE v2 GID with an IPv4 address"},
	} {
		w := newWorld(t, 4)
		w.node = nodeOf(c.address, "mlx5_0")
		p := &w.node.HCAs[0].Ports[0]
		p.GIDs.Entries = known([]fabric.GID{{Index: 0, Addr: netip.MustParseAddr(c.address), Type: c.version}})
		choice, ok := fabric.SelectGID(fabric.NodeCA, fabric.LinkEthernet, 1, p.GIDs.Entries.Value, &nccl)
		if !ok || choice.Rule != fabric.GIDByFallback {
			t.Fatalf("%s: %+v", c.name, choice)
		}
		p.GIDChoice = known(choice)
		w.run(20 * time.Second)
		log := w.log.String()
		for _, want := range []string{c.says, "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_RANGE", "NCCL_IB_GID_INDEX"} {
			if !strings.Contains(log, want) {
				t.Errorf("%s: lacks %s: %s", c.name, want, log)
			}
		}
		if n := strings.Count(log, "no GID of its port fits"); n != 1 || w.opens > 0 {
			t.Errorf("%s: said %d times, %d opened", c.name, n, w.opens)
		}
	}
}

// TestPlanes is NICs with several ports each, of which the first ones have no link, as those of several planes: the first
// that has one pings. Where none has, it is the first one, as before.
func TestPlanes(t *testing.T) {
	n := nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2")
	for h, states := range [][]fabric.PortState{{"down", "down", fabric.PortActive, fabric.PortActive}, {fabric.PortActive, "down"}, {"down", "down"}} {
		one := n.HCAs[h].Ports[0]
		n.HCAs[h].Ports = nil
		for i, state := range states {
			one.Number, one.State = i+1, known(state)
			n.HCAs[h].Ports = append(n.HCAs[h].Ports, one)
		}
	}
	rails, err := Rails(n, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rails {
		got = append(got, fmt.Sprintf("%s/%d is rail %d", r.Device, r.Port, r.Rail))
	}
	if want := []string{"mlx5_0/3 is rail 2", "mlx5_1/1 is rail 4", "mlx5_2/1 is rail 6"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

// TestMovedBefore starts while a pod has a device, so that its ports were never seen: the others have the numbers that
// they have on nodes where all are here. What is not for training has none.
func TestMovedBefore(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(n *fabric.Node, h *fabric.HCA)
		want   string
	}{
		{"for training", func(*fabric.Node, *fabric.HCA) {}, "mlx5_1 1, mlx5_2 2, "},
		{"virtual function", func(_ *fabric.Node, h *fabric.HCA) { h.Function = known(fabric.FunctionVF) }, "mlx5_1 0, mlx5_2 1, "},
		{"restricted", func(_ *fabric.Node, h *fabric.HCA) { h.Restricted = known(true) }, "mlx5_1 0, mlx5_2 1, "},
		{"for storage", func(n *fabric.Node, _ *fabric.HCA) {
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("^mlx5_0$"), Role: fabric.RoleStorage}}
		}, "mlx5_1 0, mlx5_2 1, "},
		{"not for NCCL", func(n *fabric.Node, _ *fabric.HCA) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "=mlx5_1,mlx5_2"}}
		}, "mlx5_1 0, mlx5_2 1, "},
		{"seen before", func(_ *fabric.Node, h *fabric.HCA) {
			h.Ports = nodeOf("10.0.0.1", "mlx5_0").HCAs[0].Ports
		}, "mlx5_0 0, mlx5_1 1, mlx5_2 2, "},
	} {
		n := nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2")
		n.HCAs[0].Moved, n.HCAs[0].Ports, n.Policy = true, nil, &fabric.Policy{}
		c.change(n, &n.HCAs[0])
		rails, err := Rails(n, "")
		var got strings.Builder
		for _, r := range rails {
			fmt.Fprintf(&got, "%s %d, ", r.Device, r.Rail)
		}
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s, expected %s: %v", c.name, got.String(), c.want, err)
		}
	}
}

// TestPortKept keeps the first port of a device that ever had a link, and so its number, while the link flaps. One that
// waits for its first link holds nothing.
func TestPortKept(t *testing.T) {
	var node *fabric.Node
	p := New(Options{
		Config: rdmaping.DefaultConfig(), Log: slog.New(slog.DiscardHandler), Host: named("n0"),
		Maintenance: func() (string, error) { return "", nil },
		Observe:     func(context.Context) *fabric.Node { return node },
	})
	const up, down = fabric.PortActive, fabric.PortState("down")
	storage := known(fabric.RoleStorage)
	for _, c := range []struct {
		name   string
		states []fabric.PortState
		change func(h *fabric.HCA)
		want   string
	}{
		{"no link yet", []fabric.PortState{down, down}, nil, "port 1, rail 0"},
		{"no state yet", []fabric.PortState{"", ""}, nil, "port 1, rail 0"},
		{"first link", []fabric.PortState{down, up}, nil, "port 2, rail 1"},
		{"all are down", []fabric.PortState{down, down}, nil, "port 2, rail 1"},
		{"a pod has it", []fabric.PortState{"", ""}, func(h *fabric.HCA) { h.Moved = true }, "port 2, rail 1"},
		{"another role", []fabric.PortState{down, up}, func(h *fabric.HCA) { h.Ports[1].Role = storage }, "port 1, rail 0"},
		{"as before", []fabric.PortState{down, up}, nil, "port 2, rail 1"},
		{"the first one, too", []fabric.PortState{up, up}, nil, "port 1, rail 0"},
		{"it is down", []fabric.PortState{down, up}, nil, "port 1, rail 0"},
		{"it flaps", []fabric.PortState{up, up}, nil, "port 1, rail 0"},
		{"down again", []fabric.PortState{down, up}, nil, "port 1, rail 0"},
	} {
		node = nodeOf("10.0.0.1", "mlx5_0")
		h := &node.HCAs[0]
		for i, state := range c.states {
			one := nodeOf("10.0.0.1", "mlx5_0").HCAs[0].Ports[0]
			if one.Number = i + 1; state != "" {
				one.State = known(state)
			}
			h.Ports = append(h.Ports[:i], one)
		}
		if c.change != nil {
			c.change(h)
		}
		p.look(t.Context())
		if r := p.current().rails; len(r) != 1 || fmt.Sprintf("port %d, rail %d", r[0].Port, r[0].Rail) != c.want {
			t.Errorf("%s: %+v, expected %s", c.name, r, c.want)
		}
	}
}
