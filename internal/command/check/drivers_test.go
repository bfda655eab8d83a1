// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// became is a simulated node, as it is read, after something happened to it.
func became(t *testing.T, scenario string, happen func(*simulator.Node)) *fabric.Node {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	node := s.Build()
	happen(node)
	return observed(t, node)
}

// observed is a simulated node as it is read. Nothing is stated of it but what a profile states.
func observed(t *testing.T, node *simulator.Node) *fabric.Node {
	t.Helper()
	tree, err := node.Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(tree.Rootfs(), "etc/nccl.conf")); err != nil {
		t.Fatal(err)
	}
	paths := site.Paths{Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs()}
	n, _, err := (&site.Site{Paths: paths}).ObserveOnce(t.Context(), nil, collector.CheckWants(), 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The first card with a driver after a start is a new one: the others are on the bus, so the record stays that
// of this node, and one that is gone is noticed.
func TestCardsWhoseDriversComeLate(t *testing.T) {
	exchange := func(n *simulator.Node) { n.HCA("mlx5_1").GUID ^= 0x5a00 }
	rails := func(n *simulator.Node) (others []string) {
		for _, h := range n.HCAs {
			if h.Name != "mlx5_1" {
				others = append(others, h.Name)
			}
		}
		return others
	}
	whole := became(t, "healthy", func(*simulator.Node) {})
	late := became(t, "healthy", func(n *simulator.Node) {
		exchange(n)
		for _, device := range rails(n) {
			n.Rebind(device, "")
		}
	})
	now := became(t, "healthy", func(n *simulator.Node) {
		exchange(n)
		n.Unplug("mlx5_5")
	})
	file := filepath.Join(t.TempDir(), "inventory.json")
	var last *fabric.Node
	for i, n := range []*fabric.Node{whole, whole, late, now} {
		m, seen := inventory.Open(file, "", slog.New(slog.DiscardHandler)), *n
		seen.At = time.Date(2026, 11, 22, 12+i, 0, 0, 0, time.UTC)
		last = m.Update(&seen)
		m.Close()
	}
	if last.Unrecorded != "" || len(last.Remembered) != 1 || !slices.ContainsFunc(last.Remembered[0].Missing, func(i fabric.Place) bool { return i == "0000:c0:00.0 mlx5_5" }) {
		t.Errorf("missing %s, unrecorded %q", fmt.Sprint(last.Remembered), last.Unrecorded)
	}
}

// A card of two ports is one, too, where a bond makes one RDMA device of them: the profile calls it storage.
func TestCardInBondByProfile(t *testing.T) {
	layouts := simulator.Layouts()
	l := layouts[slices.IndexFunc(layouts, func(l simulator.Layout) bool { return l.Name == "dgx-h100-storage-in-bond" })]
	n := observed(t, l.Build())
	for name, want := range map[string]fabric.Role{"mlx5_0": fabric.RoleCompute, "mlx5_bond_0": fabric.RoleStorage} {
		if h := n.HCA(name); h == nil || h.Ports[0].Role.Or("") != want || n.Profile.NICOf(n, h, &h.Ports[0]) == nil {
			t.Errorf("%s: %+v, want %s", name, h, want)
		}
	}
}

// A NIC that a virtual machine has is on the bus without an RDMA device: nothing is said of how to take away the ACS
// that keeps it apart.
func TestACSStaysForNICsOfGuests(t *testing.T) {
	for _, driver := range []string{"vfio-pci", ""} {
		n := became(t, "pcie-acs-on", func(n *simulator.Node) { n.Rebind("mlx5_9", driver) })
		list := diagnose.Run(n, nil)
		i := slices.IndexFunc(list, func(v verdict.Verdict) bool { return v.Check.ID == "pcie_acs" && v.Status == verdict.Failed })
		if i < 0 {
			t.Fatal("ACS is in order")
		}
		if remedy, guest := list[i].Remedy, driver != ""; strings.Contains(remedy, "setpci") == guest || strings.Contains(remedy, "Leave ACS on: 0000:e7:00.1 belong") != guest {
			t.Errorf("%q: %s", driver, remedy)
		}
	}
}

// Where each network namespace has RDMA devices of its own, those of pods are seen to be there. One that none has is
// gone, though its driver has its function.
func TestDevicesOfPods(t *testing.T) {
	pods := func(n *simulator.Node) {
		for _, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2"} {
			n.Move(device)
		}
	}
	whole := became(t, "healthy", func(*simulator.Node) {})
	for want, happen := range map[string]func(n *simulator.Node){
		"": pods, "0000:c0:00.0 mlx5_5": func(n *simulator.Node) { pods(n); n.Rebind("mlx5_5", "mlx5_core") },
	} {
		file := filepath.Join(t.TempDir(), "inventory.json")
		missing := []fabric.Place{}
		for i, n := range []*fabric.Node{whole, whole, became(t, "healthy", happen)} {
			m, seen := inventory.Open(file, "", slog.New(slog.DiscardHandler)), *n
			seen.At = time.Date(2026, 11, 22, 12+i, 0, 0, 0, time.UTC)
			seen.Host.RDMANetNS = fabric.Known(fabric.NetNSExclusive, "netlink", seen.At)
			for _, r := range m.Update(&seen).Remembered {
				missing = append(missing, r.Missing...)
			}
			m.Close()
		}
		if fmt.Sprint(missing) != "["+want+"]" {
			t.Errorf("missing %v, want %q", missing, want)
		}
	}
}
