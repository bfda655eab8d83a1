// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// What logs say is unused is reported where the node has what it needs, and nowhere else.
func TestOffloads(t *testing.T) {
	ok := func(link fabric.LinkLayer) fabric.HCA {
		return fabric.HCA{Name: "mlx5_0", Ports: []fabric.Port{{
			State: fabric.Known(fabric.PortActive, "", diagnosetest.At), Role: fabric.Known(fabric.RoleCompute, "", diagnosetest.At), LinkLayer: fabric.Known(link, "", diagnosetest.At),
		}}}
	}
	node := func() *fabric.Node {
		n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: []fabric.HCA{ok(fabric.LinkInfiniBand), ok(fabric.LinkInfiniBand)}}
		n.GPUDriver.GPUs = []fabric.GPU{{ComputeCap: fabric.Known(90, "", diagnosetest.At), NVLinks: fabric.Known([]fabric.NVLink{{
			Active: fabric.Known(true, "", diagnosetest.At), RemoteKind: fabric.Known(fabric.NVLinkToSwitch, "", diagnosetest.At),
		}}, "", diagnosetest.At)}}
		return n
	}
	nvls, sharp, pxn := fabric.Offloads{NVLS: fabric.OffloadUnused}, fabric.Offloads{SHARP: fabric.OffloadUnused}, fabric.Offloads{PXN: fabric.OffloadOff}
	gpu := func(n *fabric.Node) *fabric.GPU { return &n.GPUDriver.GPUs[0] }
	for what, c := range map[string]struct {
		logs []fabric.Offloads
		edit func(n *fabric.Node)
		want verdict.Status
		says string // in What, Evidence and Remedy
	}{
		"no logs":          {nil, nil, "", ""},
		"a log of nothing": {[]fabric.Offloads{{}}, nil, "", ""},
		"all used":         {[]fabric.Offloads{{NVLS: fabric.OffloadUsed}}, nil, verdict.OK, ""},
		"NVLS unused":      {[]fabric.Offloads{nvls, nvls, {}}, nil, verdict.Failed, "NVLS is not used by jobs that could use it|made no channels for it (2 logs)."},
		"NVLS off":         {[]fabric.Offloads{{NVLS: fabric.OffloadOff}}, nil, verdict.Failed, "Jobs set NCCL_NVLS_ENABLE=0 (1 log)."},
		"one job of two":   {[]fabric.Offloads{{NVLS: fabric.OffloadUsed}, nvls}, nil, verdict.Failed, "(1 log)"},
		"SHARP in vain":    {[]fabric.Offloads{sharp}, nil, verdict.Failed, "SHARP is not used|nccl-rdma-sharp-plugins"},
		"PXN off":          {[]fabric.Offloads{pxn}, nil, verdict.Failed, "PXN is not used|Jobs set NCCL_PXN_DISABLE=1 (1 log)."},
		"all three":        {[]fabric.Offloads{nvls, sharp, pxn}, nil, verdict.Failed, "NVLS, SHARP and PXN are not used by jobs that could use them"},

		"no NVSwitch": {[]fabric.Offloads{nvls}, func(n *fabric.Node) {
			gpu(n).NVLinks.Value[0].RemoteKind = fabric.Known(fabric.NVLinkToGPU, "", diagnosetest.At)
		}, "", ""},
		"before Hopper": {[]fabric.Offloads{nvls}, func(n *fabric.Node) { gpu(n).ComputeCap.Value = 80 }, "", ""},
		"GPUs unknown":  {[]fabric.Offloads{nvls, pxn}, func(n *fabric.Node) { n.GPUDriver.GPUs = nil }, "", ""},
		"PCIe cards":    {[]fabric.Offloads{nvls, pxn}, func(n *fabric.Node) { gpu(n).NVLinks = fabric.AbsentFact[[]fabric.NVLink]("", diagnosetest.At) }, "", ""},
		"NVLinks down":  {[]fabric.Offloads{nvls, pxn}, func(n *fabric.Node) { gpu(n).NVLinks.Value[0].Active.Value = false }, "", ""},
		"RoCE":          {[]fabric.Offloads{sharp}, func(n *fabric.Node) { n.HCAs = []fabric.HCA{ok(fabric.LinkEthernet)} }, "", ""},
		"ports of storage": {[]fabric.Offloads{sharp, pxn}, func(n *fabric.Node) {
			for i := range n.HCAs {
				n.HCAs[i].Ports[0].Role.Value = fabric.RoleStorage
			}
		}, "", ""},
		"one NIC": {[]fabric.Offloads{pxn}, func(n *fabric.Node) { n.HCAs = n.HCAs[:1] }, "", ""},
		"not named": {[]fabric.Offloads{nvls}, func(n *fabric.Node) {
			n.Logs = fabric.UnknownFact[fabric.LogReading](fabric.ReasonNotRead, "logs", diagnosetest.At)
		}, "", ""},
		"unreadable": {[]fabric.Offloads{nvls}, func(n *fabric.Node) {
			n.Logs = fabric.UnknownFact[fabric.LogReading](fabric.ReasonStuck, "logs", diagnosetest.At)
		}, verdict.Unknown, ""},
	} {
		n := node()
		var r fabric.LogReading
		for _, o := range c.logs {
			r.Files = append(r.Files, fabric.LogFile{Offloads: o})
		}
		n.Logs = fabric.Known(r, "logs", diagnosetest.At)
		if c.edit != nil {
			c.edit(n)
		}
		v := diagnosetest.Alone(t, n, "offload_unused")
		if v.Status != c.want || v.Status == verdict.Failed && v.Check.Severity != verdict.Info {
			t.Errorf("%s: %+v", what, v)
		}
		for part := range strings.SplitSeq(c.says, "|") {
			if all := v.What + "\n" + v.Evidence + "\n" + v.Remedy; !strings.Contains(all, part) {
				t.Errorf("%s: %q is not in\n%s", what, part, all)
			}
		}
	}
}
