// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// What no check judges is listed, and only that.
func TestUnproven(t *testing.T) {
	storage := func(n *fabric.Node) {
		for i := range n.HCAs {
			n.HCAs[i].Ports[0].Role = fabric.Known(fabric.RoleStorage, "", n.At)
		}
	}
	hidden := func(r fabric.Reason) func(*fabric.Node) {
		return func(n *fabric.Node) {
			for i := range n.GDR {
				n.GDR[i].Usable = fabric.UnknownFact[bool](r, "", n.At)
			}
		}
	}
	const noPort, noGDR = "No port for training was found", "GPUDirect RDMA is unknown"
	for name, c := range map[string]struct {
		edit func(*fabric.Node)
		want string
	}{
		"healthy":              {func(*fabric.Node) {}, ""},
		"no port for training": {storage, noPort},
		"as the site says":     {func(n *fabric.Node) { storage(n); n.Policy.ComputePorts = new(0) }, ""},
		"one GPU":              {func(n *fabric.Node) { storage(n); n.PCI.Functions = nil; n.GPUDriver.GPUs = n.GPUDriver.GPUs[:1] }, ""},
		"a role is not known": {func(n *fabric.Node) {
			storage(n)
			n.HCAs[0].Ports[0].Role = fabric.UnknownFact[fabric.Role](fabric.ReasonStuck, "", n.At)
		}, ""},
		"no device, and the list was read": {func(n *fabric.Node) {
			n.HCAs, n.Sources = nil, []fabric.Source{{Name: fabric.SourceClass, Up: true}}
		}, noPort},
		"ports cannot be read": {func(n *fabric.Node) { storage(n); n.HCAs[0].Ports = nil }, ""},
		"no device was read":   {func(n *fabric.Node) { n.HCAs, n.Sources = nil, nil }, ""},
		"hidden by hypervisor": {hidden(fabric.ReasonVirtual), noGDR},
		"the collector is off": {hidden(fabric.ReasonNotRead), ""},
		"a check is unknown":   {hidden(fabric.ReasonPrivilege), ""},
		"GPUs of another vendor": {func(n *fabric.Node) {
			hidden(fabric.ReasonUnsupported)(n)
			n.GPUDriver.GPUs = nil
			for _, g := range n.PCI.GPUs() {
				g.Vendor = fabric.Known(0x1002, "", n.At)
			}
		}, noGDR},
		"the driver has no way": {hidden(fabric.ReasonMissing), noGDR},
	} {
		n := fabrictest.WithGPUs()
		fabrictest.Verdicts(n, fabrictest.Usable)
		c.edit(n)
		got := ""
		if all := diagnose.Unproven(n); len(all) > 0 {
			got = all[0].What
		}
		if got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
		if note := diagnose.UnprovenNote(n); !strings.HasPrefix(note, c.want) || (note == "") != (c.want == "") || strings.HasPrefix(note, noGDR) && !strings.HasPrefix(note, noGDR+" (GPU0") {
			t.Errorf("%s: note %q", name, note)
		}
	}
}
