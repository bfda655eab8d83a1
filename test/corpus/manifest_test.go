// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"slices"
	"testing"

	nodechecks "gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
)

// A manifest alone makes nothing of the node critical that it was written on, and what it lists is missed.
// Names that changed all at once are no loss, and a manifest with other boards may be that of another node.
func TestManifestAlone(t *testing.T) {
	for _, name := range []string{"dgx-h100-ib", "never-cabled", "rails-with-dhcp", "nics-far-from-gpus", "storage-of-the-same-board"} {
		s := platformStage{stage: newStage(t), layout: layoutNamed(t, name)}
		good := s.observe(t, byNothing, nil, s.layout.Build())
		train := training(s.observe(t, byConfiguration, nil, s.layout.Build()))
		lost := train[len(train)/2]
		manifest := nodechecks.NewManifest(good)
		s.manifest = &manifest
		foreign := nodechecks.NewManifest(good)
		reflashed := nodechecks.NewManifest(good)
		foreign.Devices[train[0]]["board"], reflashed.Devices[train[0]]["board"] = "another", "another"
		for _, e := range foreign.Devices {
			e[fabric.ManifestGUID] = "b8ce:f603:0000:0001"
		}
		for what, c := range map[string]struct {
			manifest *fabric.Manifest
			happen   func(n *simulator.Node)
			is       bool // critical: hardware
			unknown  bool
		}{
			"healthy": {&manifest, func(*simulator.Node) {}, false, false},
			"gone":    {&manifest, func(n *simulator.Node) { n.Unplug(lost) }, true, false},
			"renamed": {&manifest, func(n *simulator.Node) {
				for i := range n.HCAs {
					n.HCAs[i].Name = "rdma" + n.HCAs[i].Name
				}
			}, false, false},
			"gone, and a board is another":  {&reflashed, func(n *simulator.Node) { n.Unplug(lost) }, true, false},
			"gone, by that of another node": {&foreign, func(n *simulator.Node) { n.Unplug(lost) }, false, true},
		} {
			n := s.layout.Build()
			c.happen(n)
			s.manifest = c.manifest
			o := outcomeOf(s.observe(t, byNothing, nil, n))
			if is := slices.Contains(o.critical, "hardware node"); is != c.is || !is && len(o.critical) > 0 || slices.Contains(o.unstated, "hardware node") != c.unknown {
				t.Errorf("%s, %s: critical %v, unknown %v", name, what, o.critical, o.unstated)
			}
		}
	}
}

// NCCL_IB_HCA=mlx5_1 takes mlx5_10 where mlx5_1 is gone, which is missed nevertheless.
func TestAnotherTakesTheName(t *testing.T) {
	l := *layoutNamed(t, "seventeen-ports")
	l.List = "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"
	s := platformStage{stage: newStage(t), layout: &l}
	n := l.Build()
	if o := outcomeOf(s.observe(t, byList, nil, n)); len(o.critical) > 0 {
		t.Errorf("healthy: %v", o.critical)
	}
	n.Unplug("mlx5_1")
	if o := outcomeOf(s.observe(t, byList, nil, n)); !slices.Contains(o.critical, "nccl_devices /etc/nccl.conf:1") {
		t.Errorf("critical %v, unknown %v", o.critical, o.unstated)
	}
}

// Pods have all devices for training, one of which is far from all GPUs: none is missing.
func TestMovedFarFromGPUs(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "storage-of-the-same-board"), config: "expected: {compute_ports: 9}\n"}
	n := s.layout.Build()
	for _, h := range slices.Clone(n.HCAs) {
		n.Move(h.Name)
	}
	if o := outcomeOf(s.observe(t, byNothing, nil, n)); len(o.critical) > 0 || !slices.Contains(o.unstated, "compute_ports node") {
		t.Errorf("critical %v, unknown %v", o.critical, o.unstated)
	}
}
