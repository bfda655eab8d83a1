// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"time"
)

// The generation of a GPU's link counts while the GPU works, and at no other time.
func TestGPUShortfalls(t *testing.T) {
	busy := GPU{Utilization: Known(0.9, "", at), PCIeGeneration: Known(1, "", at), PCIeMaxGen: Known(5, "", at)}
	with := func(edit func(g *GPU)) *GPU {
		g := busy
		edit(&g)
		return &g
	}
	for _, c := range []struct {
		name string
		gpu  *GPU
		slow bool
	}{
		{"busy at generation 1", &busy, true},
		{"utilization not known", nil, false},
		{"idle", with(func(g *GPU) { g.Utilization.Value = 0 }), false},
		{"nvidia-smi woke it", with(func(g *GPU) { g.Utilization.Value = 0.02 }), false},
		{"busy at full speed", with(func(g *GPU) { g.PCIeGeneration.Value = 5 }), false},
		{"load unknown", with(func(g *GPU) { g.Utilization = UnknownFact[float64](ReasonStuck, "", at) }), false},
		{"maximum unknown", with(func(g *GPU) { g.PCIeMaxGen = UnknownFact[int](ReasonMissing, "", at) }), false},
		{"generation of a minute ago", with(func(g *GPU) { g.PCIeGeneration.At = at.Add(-time.Minute) }), false},
		{"a generation that is none", with(func(g *GPU) { g.PCIeGeneration.Value = 0 }), false},
		{"a generation that is not known", with(func(g *GPU) { g.PCIeMaxGen.Value = 99 }), false},
	} {
		p := railBus()
		list, known := p.GPUShortfalls(p.Function(railGPU), c.gpu, at).Get()
		if !known || len(list) > 0 != c.slow {
			t.Errorf("%s: %+v", c.name, list)
		}
		if c.slow && (list[0].Speed != 2.5e9 || list[0].MaxSpeed != 32e9 || list[0].Upper != "0000:17:03.0" || list[0].Width != 16 || list[0].Narrow) {
			t.Errorf("%s: %+v", c.name, list[0])
		}
	}
	p := railBus()
	p.Function(railGPU).Link.Width.Value = 8
	if list := p.GPUShortfalls(p.Function(railGPU), &busy, at).Or(nil); len(list) != 1 || !list[0].Narrow || !list[0].Slow {
		t.Errorf("narrow and slow: %+v", list)
	}
	flat := busOf(functionAt(PCIGPU, "05:00.0", -1)) // a guest does not see what is above
	if list := flat.GPUShortfalls(&flat.Functions[0], &busy, at).Or(nil); len(list) != 1 || list[0].Upper != "" {
		t.Errorf("flat: %+v", list)
	}
	if s := flat.GPUShortfalls(&flat.Functions[0], nil, at); s.Reason != ReasonVirtual {
		t.Errorf("flat, unknown whether virtual: %+v", s)
	}
}
