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
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// bonds is a node with four cards of two ports, in bonds or not, of which nothing is stated, with what has
// happened to it.
func bonds(t *testing.T, bonded bool, happens ...func(*simulator.Node)) *fabric.Node {
	t.Helper()
	s, err := simulator.Find("healthy-roce-bond")
	if err != nil {
		t.Fatal(err)
	}
	node := s.Build()
	for i := range 4 {
		if !bonded {
			node.Unbond(fmt.Sprint("mlx5_bond_", i), fmt.Sprint("mlx5_", 2*i), fmt.Sprint("mlx5_", 2*i+1))
		}
	}
	for _, happen := range happens {
		happen(node)
	}
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
	if n.Profile != nil {
		t.Fatalf("profile %s", n.Profile.Name)
	}
	return n
}

// A bond that forms or dissolves makes a good node critical by no source, and hides no device that is gone.
func TestBondsByEachSource(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	recorded := func(t *testing.T, then, now *fabric.Node) *fabric.Node {
		file := filepath.Join(t.TempDir(), "inventory.json")
		for i, n := range []*fabric.Node{then, then, now} {
			m, seen := inventory.Open(file, "", slog.New(slog.DiscardHandler)), *n
			seen.At = at.Add(time.Duration(i) * time.Hour)
			now = m.Update(&seen)
			m.Close()
		}
		return now
	}
	number := func(_ *testing.T, then, now *fabric.Node) *fabric.Node {
		p := *now.Policy
		p.ComputePorts = new(len(then.HCAs))
		return now.WithPolicy(&p)
	}
	manifest := func(_ *testing.T, then, now *fabric.Node) *fabric.Node {
		p, m := *now.Policy, node.NewManifest(then)
		p.Manifest = &m
		return now.WithPolicy(&p)
	}
	profile := func(_ *testing.T, then, now *fabric.Node) *fabric.Node {
		with := now.Copy()
		with.Profile = &fabric.Profile{Title: "DGX", Rails: []fabric.ProfileNIC{{Chips: []fabric.PCIID{{Vendor: 0x15b3, Device: 0x1021}}, Number: len(then.HCAs), Role: fabric.RoleCompute}}}
		with.Derive()
		return with
	}
	dead := func(device string) func(*simulator.Node) {
		return func(n *simulator.Node) { n.Unplug(device) }
	}
	for _, c := range []struct {
		name      string
		by        func(t *testing.T, then, now *fabric.Node) *fabric.Node
		then, now *fabric.Node
		critical  []string
		unknown   []string
	}{
		{name: "form, record", by: recorded, then: bonds(t, false), now: bonds(t, true)},
		{name: "dissolve, record", by: recorded, then: bonds(t, true), now: bonds(t, false)},
		{name: "form and lose, record", by: recorded, then: bonds(t, false), now: bonds(t, true, dead("mlx5_bond_2")), critical: []string{"hardware"}},
		{name: "dissolve and lose, record", by: recorded, then: bonds(t, true), now: bonds(t, false, dead("mlx5_4")), critical: []string{"hardware"}},
		{name: "form, manifest", by: manifest, then: bonds(t, false), now: bonds(t, true)},
		{name: "dissolve, manifest", by: manifest, then: bonds(t, true), now: bonds(t, false)},
		{name: "form and lose, manifest", by: manifest, then: bonds(t, false), now: bonds(t, true, dead("mlx5_bond_2")), critical: []string{"hardware"}},
		{name: "dissolve and lose, manifest", by: manifest, then: bonds(t, true), now: bonds(t, false, dead("mlx5_4"), dead("mlx5_5")), critical: []string{"hardware"}},
		{name: "lose one of a card, manifest", by: manifest, then: bonds(t, false), now: bonds(t, false, dead("mlx5_5")), critical: []string{"hardware"}},
		{name: "form, profile", by: profile, then: bonds(t, false), now: bonds(t, true)},
		{name: "form and lose, profile", by: profile, then: bonds(t, false), now: bonds(t, true, dead("mlx5_bond_2")), critical: []string{"compute_ports"}},
		{name: "form, number", by: number, then: bonds(t, false), now: bonds(t, true), unknown: []string{"compute_ports"}},
		{name: "dissolve, number", by: number, then: bonds(t, true), now: bonds(t, false), unknown: []string{"compute_ports"}},
		{name: "form and lose, number", by: number, then: bonds(t, false), now: bonds(t, true, dead("mlx5_bond_2")), critical: []string{"compute_ports"}},
		{name: "lose a bond, number", by: number, then: bonds(t, true), now: bonds(t, true, dead("mlx5_bond_2")), unknown: []string{"compute_ports"}},
		{name: "lose a bond, manifest", by: manifest, then: bonds(t, true), now: bonds(t, true, dead("mlx5_bond_2")), critical: []string{"hardware"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := c.by(t, c.then, c.now)
			var critical, unknown []string
			for _, v := range diagnose.Run(n, nil) {
				devices := slices.Contains([]string{"hardware", "compute_ports", "port_active", "port_rate", "gid"}, v.Check.ID)
				switch {
				case v.Status == verdict.Failed && v.Severity() == verdict.Critical:
					critical = append(critical, v.Check.ID)
					t.Log(v.Subject, v.What, v.Evidence)
				case v.Status == verdict.Unknown && devices:
					unknown = append(unknown, v.Check.ID)
					t.Log(v.Subject, v.What, v.Evidence)
					if len(c.now.HCAs) < len(c.then.HCAs) && !strings.Contains(v.Remedy, "--write-manifest") {
						t.Errorf("what would tell is not named: %s", v.Remedy)
					}
				}
			}
			if strings.Join(critical, " ") != strings.Join(c.critical, " ") || strings.Join(unknown, " ") != strings.Join(c.unknown, " ") {
				t.Errorf("critical: %v, unknown: %v", critical, unknown)
			}
		})
	}
}
