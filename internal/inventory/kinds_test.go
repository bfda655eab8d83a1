// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// with adds devices of a kind, each on the function of the card in its slot, or on virtual functions of it
// that the PCI bus may not show yet.
func with(see func(time.Time) *fabric.Node, kind fabric.Function, shown bool, slots ...int) func(time.Time) *fabric.Node {
	return func(at time.Time) *fabric.Node {
		n := see(at)
		for i, slot := range slots {
			address := fmt.Sprintf("0000:%02x:00.0", slot)
			if kind == fabric.FunctionVF {
				address = fmt.Sprintf("0000:%02x:00.%d", slot, 1+i)
			}
			n.HCAs = append(n.HCAs, fabric.HCA{
				Name: fmt.Sprint("part", i), PCI: fabric.Known(address, "device", at), Function: fabric.Known(kind, "device", at), // "": unknown
				NodeGUID: fabric.Known(fmt.Sprintf("b088:0000:%04x:0001", i), "node_guid", at),
			})
			if kind == fabric.FunctionVF && shown {
				n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
					Address: address, Kind: fabric.PCINIC, PF: fabric.Known(fmt.Sprintf("0000:%02x:00.0", slot), "physfn", at),
				})
			}
		}
		slices.SortFunc(n.PCI.Functions, func(a, b fabric.PCIFunction) int { return strings.Compare(a.Address, b.Address) })
		return n
	}
}

// unnamed is a node whose devices have no GUID, as EFA.
func unnamed(see func(time.Time) *fabric.Node) func(time.Time) *fabric.Node {
	return func(at time.Time) *fabric.Node {
		n := see(at)
		for i := range n.HCAs {
			n.HCAs[i].NodeGUID.Value = noGUID
		}
		return n
	}
}

// alike is a node whose first two devices have one GUID, which is made from the MAC address of their bond.
func alike(see func(time.Time) *fabric.Node) func(time.Time) *fabric.Node {
	return func(at time.Time) *fabric.Node {
		n := see(at)
		n.HCAs[1].NodeGUID.Value = n.HCAs[0].NodeGUID.Value
		return n
	}
}

// What drivers and firmware do makes a good node critical by no record, and hides no device that is gone.
func TestKindsOfDevices(t *testing.T) {
	four := placed(0, 1, 2, 3, 4)
	for name, c := range map[string]struct {
		then, now      func(time.Time) *fabric.Node
		gone, doubtful int
	}{
		"BlueFields change their mode":             {then: four, now: placed(0, 11, 12, 3, 4)},
		"all are BlueFields":                       {then: four, now: placed(0, 11, 12, 13, 14)},
		"BlueFields and their buses":               {then: four, now: placed(0, 0, 11, 12, 3, 4), doubtful: 1},
		"one of BlueFields is gone":                {then: placed(0, 1, 2, 3, 4, 5), now: placed(0, 11, 12, 3, 4), gone: 1},
		"virtual functions are removed":            {then: with(four, fabric.FunctionVF, true, 1, 1, 2), now: four},
		"virtual functions before the bus is read": {then: with(four, fabric.FunctionVF, false, 1, 1, 2), now: four},
		"virtual functions hide none":              {then: four, now: with(placed(0, 1, 2, 3), fabric.FunctionVF, false, 1, 1, 2), gone: 1},
		"subfunctions are removed":                 {then: with(four, fabric.FunctionSF, true, 1, 1, 2), now: four},
		"subfunctions of an old kernel":            {then: with(four, "", true, 1, 1, 2), now: four},
		"subfunctions hide none":                   {then: four, now: with(placed(0, 1, 2, 3), fabric.FunctionSF, true, 1, 1, 2), gone: 1},
		"a device for subnet management":           {then: with(four, fabric.FunctionSMI, true, 1), now: four},
		"without GUIDs":                            {then: unnamed(four), now: unnamed(four)},
		"without GUIDs, one is gone":               {then: unnamed(four), now: unnamed(placed(0, 1, 0, 3, 4)), gone: 1},
		"without GUIDs, other places":              {then: unnamed(four), now: unnamed(placed(0, 0, 1, 2, 3, 4))},
		"one GUID for two":                         {then: alike(four), now: alike(placed(0, 0, 1, 2, 3, 4))},
		"one GUID for two, one is gone":            {then: alike(four), now: placed(0, 1, 0, 3, 4), gone: 1},
		"an image for nodes without GUIDs":         {then: unnamed(gpuNode(0, 8, true, 1, 2, 3, 4)), now: unnamed(gpuNode(20, 1, true, 1))},
		"an image, and no device here":             {then: gpuNode(0, 8, true, 1, 2, 3, 4), now: gpuNode(20, 1, true)},
		"no device is left":                        {then: gpuNode(0, 8, true, 1, 2, 3, 4), now: gpuNode(0, 8, true), gone: 4},
		"GPUs exchanged, and a card is gone":       {then: gpuNode(0, 8, true, 1, 2, 3, 4), now: gpuNode(20, 8, true, 1, 2, 3), gone: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), c.then, c.now)
			gone, doubtful := 0, 0
			for _, r := range n.Remembered {
				if r.Doubtful {
					doubtful += len(r.Missing)
				} else {
					gone += len(r.Missing)
				}
			}
			if gone != c.gone || doubtful != c.doubtful {
				t.Errorf("got %+v", n.Remembered)
			}
		})
	}
}

// A driver that is loaded again while the exporter watches: devices are gone until they are back, with
// whatever names and in whatever order.
func TestDriverReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.json")
	back := func(at time.Time) *fabric.Node {
		n := placed(0, 1, 2, 3)(at)
		slices.Reverse(n.HCAs)
		for i := range n.HCAs {
			n.HCAs[i].Name = fmt.Sprint("mlx5_", 4+i)
		}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		m := Open(file, "a", slog.New(slog.DiscardHandler))
		defer m.Close()
		m.volatile = false
		for i, step := range []struct {
			see  func(time.Time) *fabric.Node
			gone int
		}{
			{placed(0, 1, 2, 3), 0},
			{placed(0, 1, 2, 3), 0},
			{placed(0), 3},
			{placed(0, 0, 2), 2},
			{back, 0},
			{placed(3, 0, 2, 3), 1},
			{back, 0},
		} {
			n := m.Update(step.see(begin.Add(time.Duration(i) * 20 * time.Minute)))
			synctest.Wait()
			missing := 0
			for _, r := range n.Remembered {
				missing += len(r.Missing)
			}
			if missing != step.gone || i > 0 && !n.DevicesCompared {
				t.Errorf("step %d: compared %t, gone %+v", i, n.DevicesCompared, n.Remembered)
			}
			for h, p := range n.Ports {
				if p.Down() && !p.Seen.Active {
					t.Errorf("step %d: the link of %s is forgotten", i, h.Name)
				}
			}
		}
	})
}

// Rails that are virtual functions may have another GUID with each start. Those that were seen last are
// recorded, however many there were.
func TestVirtualRailsOverTime(t *testing.T) {
	var h, other hardware
	rail := func(start int) *fabric.Node {
		at := begin.Add(time.Duration(start) * time.Hour)
		n := with(placed(0), fabric.FunctionVF, true, 1)(at)
		n.HCAs[0].NodeGUID.Value = fmt.Sprintf("b088:0000:0000:%04x", start)
		n.HCAs[0].Ports = []fabric.Port{{Number: 1, Role: fabric.Known(fabric.RoleCompute, "", at), State: fabric.Known(fabric.PortActive, "state", at)}}
		return n
	}
	for start := range maxPorts + 10 {
		h.updatePorts(rail(start))
		other.updatePorts(rail(1000 + start))
	}
	last := fmt.Sprintf("b088:0000:0000:%04x", maxPorts+9)
	if len(h.Ports) != maxPorts || !slices.ContainsFunc(h.Ports, func(p port) bool { return p.GUID == last }) {
		t.Errorf("%d ports, without the last one", len(h.Ports))
	}
	both, last := mergePorts(h.Ports, other.Ports), fmt.Sprintf("b088:0000:0000:%04x", 1000+maxPorts+9)
	if len(both) != maxPorts || !slices.ContainsFunc(both, func(p port) bool { return p.GUID == last }) {
		t.Errorf("merged: %d ports, without the last one", len(both))
	}
}
