// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// cardWith is how a card with two functions shows: each with its RDMA device, or one for both while their
// interfaces are in a bond.
type cardWith int

const (
	two        cardWith = iota
	bonded              // one device, named as mlx5 does
	renamed             // one device, named by its place
	pod                 // one device, its interface in another network namespace
	gone                // nothing
	unbound             // the second function has neither device nor interface
	failed              // the second function has its interface, no device, and there is no bond
	failedBond          // the same, and both interfaces are in a bond of which the driver made no device
	left                // a bond that has lost the second function
	switchdev           // one device for both, without a bond
)

func (c cardWith) String() string {
	return []string{"two", "bonded", "renamed", "pod", "gone", "unbound", "failed", "failed in a bond", "left", "switchdev"}[c]
}

// cards is a node with such cards. Each function has a link of 200 Gb/s, and a device for both 400.
func cards(at time.Time, list ...cardWith) *fabric.Node {
	n := nodeWith(8, at)
	n.Policy = &fabric.Policy{}
	ok := func(s string) fabric.Fact[string] { return fabric.Known(s, "test", at) }
	none := fabric.AbsentFact[string]("test", at)
	netdev := func(name, address string, upper fabric.Fact[string], bond bool, lower ...string) {
		pci := none
		if address != "" {
			pci = ok(address)
		}
		n.NetDevs = append(n.NetDevs, fabric.NetDev{
			Name: name, PCI: pci, Upper: upper, Bond: fabric.Known(bond, "test", at), Lower: fabric.Known(slices.Concat([]string{}, lower), "test", at),
		})
	}
	for i, c := range list {
		first, second := fmt.Sprintf("0000:%02x:00.0", i+1), fmt.Sprintf("0000:%02x:00.1", i+1)
		a, b, bond := fmt.Sprintf("ens%df0", i), fmt.Sprintf("ens%df1", i), fmt.Sprint("bond", i)
		hca := func(name, address, on string, rate float64) {
			netdev := ok(on)
			if on == "" {
				netdev = fabric.UnknownFact[string](fabric.ReasonMoved, "test", at)
			}
			n.HCAs = append(n.HCAs, fabric.HCA{
				Name: name, PCI: ok(address), NodeGUID: ok(fmt.Sprintf("a088:c203:%04x:000%s", i, address[len(address)-1:])),
				Ports: []fabric.Port{{
					Number: 1, State: fabric.Known(fabric.PortActive, "test", at), LinkLayer: fabric.Known(fabric.LinkEthernet, "test", at), NetDev: netdev,
					Rate: fabric.Known(fabric.Rate{BytesPerSecond: rate * 1e9 / 8}, "test", at),
				}},
			})
		}
		inBond := func(members ...string) {
			for k, m := range members {
				netdev(m, []string{first, second}[k], ok(bond), false)
			}
			netdev(bond, "", none, true, members...)
		}
		switch name := fmt.Sprint("mlx5_", 2*i); c {
		case two:
			netdev(a, first, none, false)
			netdev(b, second, none, false)
			hca(name, first, a, 200)
			hca(fmt.Sprint("mlx5_", 2*i+1), second, b, 200)
		case bonded:
			inBond(a, b)
			hca(fmt.Sprint("mlx5_bond_", i), first, bond, 400)
		case renamed:
			inBond(a, b)
			hca(fmt.Sprintf("rocep%ds0f0", i+1), first, a, 400)
		case pod:
			hca(fmt.Sprint("mlx5_bond_", i), first, "", 400)
		case unbound:
			netdev(a, first, none, false)
			hca(name, first, a, 200)
		case failed:
			netdev(a, first, none, false)
			netdev(b, second, none, false)
			hca(name, first, a, 200)
		case failedBond:
			inBond(a, b)
			hca(name, first, bond, 200)
		case left:
			inBond(a)
			hca(name, first, bond, 200)
		case switchdev:
			netdev(a, first, none, false)
			netdev(b, second, none, false)
			hca(fmt.Sprint("mlx5_bond_", i), first, a, 200)
		}
	}
	return n
}

// watched has one exporter after another see a node, each for an hour, and returns what the last one says.
func watched(t *testing.T, file string, list ...func(time.Time) *fabric.Node) (n *fabric.Node) {
	t.Helper()
	for i, node := range list {
		synctest.Test(t, func(*testing.T) {
			for k := range 2 {
				m := Open(file, "", slog.New(slog.DiscardHandler))
				n = m.Update(node(begin.Add(time.Duration(2*i+k) * time.Hour)))
				m.Close()
			}
		})
	}
	return n
}

// A bond that forms or dissolves takes no device away, and hides none that is gone.
func TestBonds(t *testing.T) {
	for _, c := range []struct {
		then, now         []cardWith
		missing, doubtful []fabric.Place
	}{
		{then: []cardWith{two, two}, now: []cardWith{bonded, bonded}},
		{then: []cardWith{two, two}, now: []cardWith{two, bonded}},
		{then: []cardWith{two, two}, now: []cardWith{renamed, renamed}},
		{then: []cardWith{bonded, bonded}, now: []cardWith{two, two}},
		{then: []cardWith{renamed, bonded}, now: []cardWith{bonded, two}},
		{then: []cardWith{bonded, bonded}, now: []cardWith{bonded, pod}},
		{then: []cardWith{two, two}, now: []cardWith{bonded, pod}, doubtful: []fabric.Place{"0000:02:00.1 mlx5_3"}},
		{then: []cardWith{two, two}, now: []cardWith{two, switchdev}, doubtful: []fabric.Place{"0000:02:00.1 mlx5_3"}},
		{then: []cardWith{two, two}, now: []cardWith{two, failedBond}, doubtful: []fabric.Place{"0000:02:00.1 mlx5_3"}},
		{then: []cardWith{two, two}, now: []cardWith{bonded, gone}, missing: []fabric.Place{"0000:02:00.0 mlx5_2", "0000:02:00.1 mlx5_3"}},
		{then: []cardWith{two, two}, now: []cardWith{bonded, failed}, missing: []fabric.Place{"0000:02:00.1 mlx5_3"}},
		{then: []cardWith{two, two}, now: []cardWith{pod, unbound}, missing: []fabric.Place{"0000:02:00.1 mlx5_3"}},
		{then: []cardWith{bonded, bonded}, now: []cardWith{two, gone}, missing: []fabric.Place{"0000:02:00.0 mlx5_bond_1", "0000:02:00.1 mlx5_bond_1"}},
		{then: []cardWith{bonded, bonded}, now: []cardWith{two, unbound}, missing: []fabric.Place{"0000:02:00.1 mlx5_bond_1"}},
		{then: []cardWith{bonded, bonded}, now: []cardWith{bonded, left}, missing: []fabric.Place{"0000:02:00.1 mlx5_bond_1"}},
	} {
		t.Run(fmt.Sprint(c.then, " to ", c.now), func(t *testing.T) {
			see := func(list []cardWith) func(time.Time) *fabric.Node {
				return func(at time.Time) *fabric.Node { return cards(at, list...) }
			}
			n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), see(c.then), see(c.now))
			var missing, doubtful []fabric.Place
			for _, r := range n.Remembered {
				if r.Doubtful {
					doubtful = append(doubtful, r.Missing...)
				} else {
					missing = append(missing, r.Missing...)
				}
			}
			if !slices.Equal(missing, c.missing) || !slices.Equal(doubtful, c.doubtful) {
				t.Errorf("got %+v", n.Remembered)
			}
		})
	}
}

// The rate of a device for two ports is not that of one, nor the other way round; a link and an address stay
// with the function.
func TestRateOfBond(t *testing.T) {
	see := func(c cardWith) func(time.Time) *fabric.Node {
		return func(at time.Time) *fabric.Node { return cards(at, c) }
	}
	file := filepath.Join(t.TempDir(), "inventory.json")
	rate := func(c cardWith) float64 {
		n := see(c)(begin.Add(10 * time.Hour))
		synctest.Test(t, func(*testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			n.HCAs[0].Ports[0].Rate.Value.BytesPerSecond = 100e9 / 8
			n = m.Update(n)
		})
		if !n.HCAs[0].Ports[0].Seen.Active {
			t.Errorf("%v: the link is forgotten", c)
		}
		return n.HCAs[0].Ports[0].Seen.Rate * 8 / 1e9
	}
	watched(t, file, see(bonded))
	if got := rate(pod); got != 400 {
		t.Errorf("of a bond that is not seen: %v Gb/s", got)
	}
	if got := rate(bonded); got != 400 {
		t.Errorf("of a bond: %v Gb/s", got)
	}
	if got := rate(two); got != 0 {
		t.Errorf("of one port: %v Gb/s", got)
	}
}

// What two processes recorded of a port before and after its bond formed is not mixed.
func TestRatesThatMeet(t *testing.T) {
	one, both := port{PCI: "a", Rate: 1, span: span{2, 4}}, port{PCI: "a", Rate: 2, Bonded: true, span: span{1, 3}}
	if got := mergePorts([]port{both}, []port{one}); len(got) != 1 || got[0].Rate != 1 || got[0].Bonded || got[0].span != (span{1, 4}) {
		t.Errorf("got %+v", got)
	}
}
