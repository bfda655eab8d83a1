// SPDX-License-Identifier: Apache-2.0

package gpu_test

import (
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestDividedGPUs(t *testing.T) {
	node := func(mig string) *fabric.Node { // a letter a GPU: on, off, none, unknown, a for another model
		n := &fabric.Node{Policy: &fabric.Policy{}}
		n.GPUDriver.Loaded = fabric.Known(true, "", diagnosetest.At)
		for i, c := range mig {
			g := fabric.GPU{Index: i, UUID: "GPU-" + string(rune('a'+i)), Name: fabric.Known("NVIDIA A100", "", diagnosetest.At), MIG: fabric.Known(c == '+', "", diagnosetest.At), Lost: fabric.Known(false, "", diagnosetest.At)}
			switch c {
			case '0':
				g.MIG = fabric.AbsentFact[bool]("", diagnosetest.At)
			case '?':
				g.MIG = fabric.UnknownFact[bool](fabric.ReasonIO, "", diagnosetest.At)
			case 'a':
				g.Name.Value = "NVIDIA H100"
			}
			n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, g)
		}
		return n
	}
	for mig, want := range map[string]verdict.Status{
		"+-------": verdict.Failed, "+++-----": verdict.Failed, "++++----": verdict.OK, "+++++---": verdict.OK, "++++++++": verdict.OK, "+": verdict.OK, "--------": verdict.OK,
		"+0000000": verdict.OK, "+aaaaaaa": verdict.OK, "+aaaaaa-": verdict.OK, "+aaaaa--": verdict.Failed,
		"+-?": verdict.Unknown, "+---?": verdict.Failed, "+?": verdict.OK, "++-?": verdict.OK, "++--?": verdict.Unknown, "?-------": verdict.Unknown,
	} {
		var first verdict.Status
		for _, v := range diagnose.Run(node(mig), []*verdict.Check{diagnose.Find("gpu_divided")}) {
			if v.Subject.GPU == "GPU-a" {
				first = v.Status
			}
		}
		if first != want {
			t.Errorf("%s: %q, want %q", mig, first, want)
		}
	}
	if list := diagnose.Run(node("0000"), []*verdict.Check{diagnose.Find("gpu_divided")}); len(list) > 0 {
		t.Errorf("GPUs that cannot be divided: %v", list)
	}
}
