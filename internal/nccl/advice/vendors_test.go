// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
)

// The network of a plugin is not replaced: with IB, NCCL does not use the plugin.
func TestPluginNetworkStays(t *testing.T) {
	healthy := For(observed(t, "healthy"), Workload{NCCL: lint.Newest()})
	for _, name := range []string{"gIB", "IBext", "IBext_v10", "spcx", "UCX", "AWS Libfabric", "FasTrak", "FasTrak_v8"} {
		node := *observed(t, "healthy")
		node.NCCL.Variables = append([]fabric.NCCLVariable{{Name: "NCCL_NET", Value: name, Source: "/etc/nccl.conf:9"}}, node.NCCL.Variables...)
		slices.SortFunc(node.NCCL.Variables, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
		a := For(&node, Workload{NCCL: lint.Newest()})
		if got := lines(a); strings.Contains(got, "NCCL_NET=IB\n") || strings.Contains(got, "remove NCCL_NET=") {
			t.Errorf("%s: %s", name, got)
		}
		for _, d := range healthy.Departures([]fabric.NCCLVariable{{Name: "NCCL_NET", Value: name}}) {
			if d.Name == "NCCL_NET" {
				t.Errorf("a job with %s departs: %+v", name, d)
			}
		}
	}
	for _, name := range []string{"Socket", "eth0", "efa"} {
		found := false
		for _, d := range healthy.Departures([]fabric.NCCLVariable{{Name: "NCCL_NET", Value: name}}) {
			found = found || d.Name == "NCCL_NET"
		}
		if !found {
			t.Errorf("a job with %s does not depart", name)
		}
	}
}

// GPUs of another vendor are named as such, and not as none.
func TestGPUsOfAnotherVendor(t *testing.T) {
	node := *observed(t, "healthy-cpu-node")
	for range 8 {
		node.PCI.Functions = append(node.PCI.Functions, fabric.PCIFunction{
			Kind: fabric.PCIGPU, Vendor: fabric.Known(0x1002, "vendor", node.At), Class: fabric.Known(0x120000, "class", node.At), Driver: fabric.Known("amdgpu", "driver", node.At),
		})
	}
	a := For(&node, Workload{NCCL: lint.Newest()})
	if len(a.Unknown) != 1 || !strings.Contains(a.Unknown[0].Reason, "8 GPUs of another vendor than NVIDIA, which are not judged") || len(a.Settings) > 0 {
		t.Errorf("%+v", a.Unknown)
	}
}

// Two devices that share a port, as in a DGX Spark, have its rate once: as their card or the profile says.
func TestSharedPortCountsOnce(t *testing.T) {
	node := *observed(t, "healthy")
	node.HCAs = node.HCAs[:4:4]
	node.HCAs = append([]fabric.HCA{}, node.HCAs...)
	for i, address := range []string{"0000:01:00.0", "0000:01:00.1", "0002:01:00.0", "0002:01:00.1"} {
		node.HCAs[i].PCI.Value = address
	}
	rate := func() float64 {
		k := adviser{node: &node, base: &node}
		k.Workload.Fabric = RoCE
		l := k.between()
		if l.rate == nil {
			t.Fatal(l.basis)
		}
		return *l.rate
	}
	own := rate()
	node.Profile = &fabric.Profile{Normal: []fabric.ProfileNormal{{What: fabric.NormalSharedPort}}}
	if shared := rate(); shared != own/2 {
		t.Errorf("four devices of two ports: %g, four devices of four ports: %g", shared, own)
	}
	node.Profile = nil
	for i := range node.HCAs {
		node.HCAs[i].ImageGUID = node.HCAs[0].ImageGUID
	}
	if shared := rate(); shared != own/2 {
		t.Errorf("four devices of two ports of one card: %g, four devices of four ports: %g", shared, own)
	}
}
