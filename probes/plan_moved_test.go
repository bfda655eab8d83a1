// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// What NCCL chooses on the host says nothing of jobs in pods that have the devices, or the interfaces that carry them.
func TestNoProbeOfWhatPodsHave(t *testing.T) {
	n := gpuNode(8)
	if _, skip := NewPlan(Key{Kind: Transport}, n, Settings{}); skip != nil {
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
		for _, key := range []Key{{Kind: Transport}, {Kind: Rail, Device: "mlx5_0", Port: 1}} {
			if _, skip := NewPlan(key, n, Settings{}); skip == nil || skip.Why != SkipNoDevice {
				t.Errorf("%s: %v: %+v", name, key, skip)
			}
		}
		if _, skip := NewPlan(Key{Kind: Rail, Device: "mlx5_1", Port: 1}, n, Settings{}); skip != nil {
			t.Errorf("%s: another rail: %+v", name, skip)
		}
	}
}
