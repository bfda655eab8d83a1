// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// That a GPU has fewer NICs than another is open as long as nothing states what the node has. A record that
// began with this start of the node states nothing.
func TestSharesAndRecord(t *testing.T) {
	const file = "/var/lib/gpufabric_exporter/inventory.json"
	for name, c := range map[string]struct {
		in, lacks string
		open      bool
	}{
		"no record":    {"", "", true},
		"new record":   {file, "There is no record of this node from before it was started.", true},
		"older record": {file, "", false},
	} {
		n := fabrictest.WithGPUs()
		n.Policy, n.NCCL.Variables = &fabric.Policy{}, nil
		n.RememberedIn, n.Unrecorded = c.in, c.lacks
		n.Derive()
		n.PCI.Rails = []fabric.Rail{{GPU: "0000:19:00.0", Nearest: []string{"mlx5_0", "mlx5_1"}}, {GPU: "0000:9b:00.0", Nearest: []string{"mlx5_2"}}}
		open := false
		for _, v := range diagnosetest.Ask(n, "compute_ports") {
			open = open || strings.Contains(v.What, "has fewer NICs for training than others")
		}
		if open != c.open {
			t.Errorf("%s: open is %t", name, open)
		}
	}
}

// Without a port for training, a node with GPUs is no all-clear until something states that it has none: all
// of them may be gone.
func TestNoPortForTraining(t *testing.T) {
	zero := 0
	for name, c := range map[string]struct {
		change func(n *fabric.Node)
		open   bool
	}{
		"nothing is stated":       {func(*fabric.Node) {}, true},
		"none is expected":        {func(n *fabric.Node) { n.Policy.ComputePorts = &zero }, false},
		"a record from before":    {func(n *fabric.Node) { n.RememberedIn = "/var/lib/gpufabric_exporter/inventory.json" }, false},
		"no GPU":                  {func(n *fabric.Node) { n.GPUs = fabric.Known(0, "bus/pci/devices", n.At) }, false},
		"GPUs that are not known": {func(n *fabric.Node) { n.GPUs = fabric.UnknownFact[int](fabric.ReasonMissing, "bus/pci/devices", n.At) }, false},
	} {
		n := fabrictest.WithGPUs()
		n.Policy, n.NCCL.Variables, n.HCAs = &fabric.Policy{}, nil, nil
		c.change(n)
		n.Derive()
		open := false
		for _, v := range diagnosetest.Ask(n, "compute_ports") {
			open = open || v.Unstated && strings.Contains(v.What, "no port is for training")
		}
		if open != c.open {
			t.Errorf("%s: open is %t", name, open)
		}
	}
}
