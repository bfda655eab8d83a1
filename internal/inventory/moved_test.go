// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// placed is a node with these cards, each by its GUID, in the slots of their order; 0 is an empty slot. The
// card down has no link.
func placed(down int, guids ...int) func(time.Time) *fabric.Node {
	return func(at time.Time) *fabric.Node {
		n := nodeWith(8, at)
		n.Policy, n.Host.Hypervisor = &fabric.Policy{}, fabric.Known(false, "hypervisor", at)
		for slot, g := range guids {
			if g == 0 {
				continue
			}
			state := fabric.PortActive
			if g == down {
				state = fabric.PortDown
			}
			n.HCAs = append(n.HCAs, fabric.HCA{
				Name: fmt.Sprint("mlx5_", len(n.HCAs)), PCI: fabric.Known(fmt.Sprintf("0000:%02x:00.0", slot+1), "device", at),
				NodeGUID: fabric.Known(fmt.Sprintf("a088:c203:0041:%04x", g), "node_guid", at),
				Ports:    []fabric.Port{{Number: 1, State: fabric.Known(state, "state", at), LinkLayer: fabric.Known(fabric.LinkInfiniBand, "link_layer", at)}},
			})
		}
		return n
	}
}

// Cards that are elsewhere are the same cards: other numbers of buses, or another slot, hide no loss, make
// none, and take what a port had along.
func TestCardsThatMove(t *testing.T) {
	for name, c := range map[string]struct {
		then, now []int
		down      int // has no link now
		missing   []fabric.Place
		exchanged bool // perhaps
	}{
		"every bus has the next number":        {then: []int{1, 2, 3, 4}, now: []int{0, 1, 2, 3, 4}, down: 2},
		"all buses are others":                 {then: []int{1, 2, 3, 4}, now: []int{0, 0, 0, 0, 1, 2, 3, 4}, down: 3},
		"the order is reversed":                {then: []int{1, 2, 3, 4}, now: []int{4, 3, 2, 1}, down: 4},
		"others, and one is gone":              {then: []int{1, 2, 3, 4}, now: []int{0, 1, 2, 4}, down: 4, missing: []fabric.Place{"0000:03:00.0 mlx5_2"}},
		"two change places":                    {then: []int{1, 2}, now: []int{2, 1}, down: 1},
		"one dies, another is put in its slot": {then: []int{1, 2}, now: []int{0, 1}, down: 1, missing: []fabric.Place{"0000:02:00.0 mlx5_1"}},
		"one dies, another moves":              {then: []int{1, 2, 3, 4}, now: []int{1, 0, 0, 4, 3}, down: 3, missing: []fabric.Place{"0000:02:00.0 mlx5_1"}},
		"all but one die, and that moves":      {then: []int{1, 2, 3, 4}, now: []int{0, 0, 1}, down: 1, missing: []fabric.Place{"0000:02:00.0 mlx5_1", "0000:03:00.0 mlx5_2", "0000:04:00.0 mlx5_3"}},
		"another machine":                      {then: []int{1, 2, 3, 4}, now: []int{11, 12, 13}},
		"most cards of another machine":        {then: []int{1, 2, 3, 4}, now: []int{1, 12, 13}},
		"new cards in free slots":              {then: []int{1}, now: []int{1, 12, 13}, down: 1},
		"another card in its slot":             {then: []int{1, 2, 3}, now: []int{1, 12, 3}},
		"exchanged, and it has another place":  {then: []int{1, 2, 3}, now: []int{1, 0, 3, 14}, missing: []fabric.Place{"0000:02:00.0 mlx5_1"}, exchanged: true},
		"one dies, another is where it was, and a new one elsewhere": {
			then: []int{1, 2, 3, 4}, now: []int{0, 1, 2, 0, 4, 14}, missing: []fabric.Place{"0000:03:00.0 mlx5_2"}, exchanged: true,
		},
		"one dies, two new ones are elsewhere": {then: []int{1, 2, 3}, now: []int{1, 0, 3, 14, 15}, missing: []fabric.Place{"0000:02:00.0 mlx5_1"}, exchanged: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), placed(0, c.then...), placed(c.down, c.now...))
			var missing []fabric.Place
			for _, r := range n.Remembered {
				missing = append(missing, r.Missing...)
				if r.Doubtful != c.exchanged {
					t.Errorf("doubtful: %t", r.Doubtful)
				}
			}
			if !slices.Equal(missing, c.missing) {
				t.Errorf("missing %q, want %q", missing, c.missing)
			}
			for h, p := range n.Ports {
				if p.Down() && !p.Seen.Active {
					t.Errorf("what %s had is forgotten", h.Name)
				}
			}
		})
	}
}

// Functions without a device of their own move with their card.
func TestBondsThatMove(t *testing.T) {
	elsewhere := func(n *fabric.Node) *fabric.Node {
		move := func(f *fabric.Fact[string]) { f.Value = strings.Replace(f.Value, "0000:0", "0000:a", 1) }
		for i := range n.HCAs {
			move(&n.HCAs[i].PCI)
		}
		for i := range n.NetDevs {
			move(&n.NetDevs[i].PCI)
		}
		return n
	}
	see := func(list ...cardWith) func(time.Time) *fabric.Node {
		return func(at time.Time) *fabric.Node { return cards(at, list...) }
	}
	file := filepath.Join(t.TempDir(), "inventory.json")
	n := watched(t, file, see(two, two, two), see(two, bonded, bonded), func(at time.Time) *fabric.Node { return elsewhere(cards(at, bonded, bonded, gone)) })
	if len(n.Remembered) != 1 || fmt.Sprint(n.Remembered[0].Missing) != "[0000:03:00.0 mlx5_bond_2 0000:03:00.1 mlx5_bond_2]" {
		t.Errorf("got %+v", n.Remembered)
	}
	had, err := readFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range had.Ports {
		if strings.HasPrefix(p.PCI, "0000:0") != strings.HasPrefix(p.GUID, "a088:c203:0002") {
			t.Errorf("%s is at %s", p.GUID, p.PCI)
		}
	}
}

// A driver that is not loaded shows no card of a node: what another driver shows then does not make the
// record that of another machine.
func TestCardsWithoutDriver(t *testing.T) {
	withoutDriver := func(at time.Time) *fabric.Node {
		n := placed(0, 0, 0, 0, 14)(at)
		for slot := range 3 {
			n.PCI.Functions = slices.Insert(n.PCI.Functions, slot, fabric.PCIFunction{Address: fmt.Sprintf("0000:%02x:00.0", slot+1), Kind: fabric.PCINIC})
		}
		return n
	}
	n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), placed(0, 1, 2, 3), withoutDriver)
	if len(n.Remembered) != 1 || n.Remembered[0].Then != 3 {
		t.Errorf("got %+v", n.Remembered)
	}
}

// A card that was exchanged, or that changed its mode, may be the first whose driver is ready: the others are
// still those of this node.
func TestExchangedCardIsFirst(t *testing.T) {
	late := func(bus bool, driver string) func(time.Time) *fabric.Node {
		return func(at time.Time) *fabric.Node {
			n := placed(0, 11)(at)
			for slot := range 4 {
				n.PCI.Functions = slices.Insert(n.PCI.Functions, slot, fabric.PCIFunction{
					Address: fmt.Sprintf("0000:%02x:00.0", slot+1), Kind: fabric.PCINIC, Driver: fabric.Known(driver, "driver", at),
				})
			}
			n.Sources[0].Up = bus
			return n
		}
	}
	for name, c := range map[string]struct {
		late, now func(time.Time) *fabric.Node
		gone      int
	}{
		"the last is gone":       {late(true, "mlx5_core"), placed(0, 11, 2, 3), 1},
		"the bus is not read":    {late(false, "mlx5_core"), placed(0, 11, 2, 3), 1},
		"all are there":          {late(true, "mlx5_core"), placed(0, 11, 2, 3, 4), 0},
		"guests have the others": {late(true, "vfio-pci"), placed(0, 11, 2, 3), 0},
		"they are of a machine":  {late(true, "mlx5_core"), placed(0, 11, 12, 13), 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), placed(0, 1, 2, 3, 4), c.late, c.now)
			gone := 0
			for _, r := range n.Remembered {
				gone += len(r.Missing)
			}
			if gone != c.gone {
				t.Errorf("got %+v", n.Remembered)
			}
		})
	}
}

// A device whose GUID cannot be read may be any of the cards.
func TestCardsWithoutGUID(t *testing.T) {
	unread := func(at time.Time) *fabric.Node {
		n := placed(0, 0, 0, 1, 2)(at)
		n.HCAs[1].NodeGUID = fabric.UnknownFact[string](fabric.ReasonStuck, "node_guid", at)
		return n
	}
	n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), placed(0, 1, 2), unread)
	if len(n.Remembered) > 0 {
		t.Errorf("got %+v", n.Remembered)
	}
}

// As many count as new as are, whatever the numbers are.
func TestNewCards(t *testing.T) {
	n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), placed(0, 1, 2, 3), placed(0, 1, 0, 0, 14))
	if len(n.Remembered) != 1 || len(n.Remembered[0].Missing) != 2 || n.Remembered[0].New != 1 {
		t.Errorf("got %+v", n.Remembered)
	}
}

// What is gone is named, and not the device beside it that may be in a bond.
func TestGoneBesideBond(t *testing.T) {
	see := func(list ...cardWith) func(time.Time) *fabric.Node {
		return func(at time.Time) *fabric.Node {
			n := cards(at, list...)
			n.Host.Hypervisor = fabric.Known(false, "hypervisor", at)
			return n
		}
	}
	n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), see(two, two, gone), see(gone, pod, two))
	if len(n.Remembered) != 1 || n.Remembered[0].New == 0 || len(n.Remembered[0].Missing) != 2 {
		t.Errorf("got %+v", n.Remembered)
	}
}
