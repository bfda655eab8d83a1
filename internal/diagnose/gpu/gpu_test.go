// SPDX-License-Identifier: Apache-2.0

package gpu_test

import (
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

func TestGPUTroubles(t *testing.T) {
	gpu := func(n *fabric.Node, i int) *fabric.GPU { return &n.GPUDriver.GPUs[i] }
	noDriver := func(n *fabric.Node) { n.GPUDriver = fabric.GPUDriver{Loaded: fabric.Known(false, "", n.At)} }
	links := func(n *fabric.Node, i, active int, to fabric.NVLinkEnd) {
		for k := range gpu(n, i).NVLinks.Value {
			l := &gpu(n, i).NVLinks.Value[k]
			l.Active.Value, l.RemoteKind.Value = k < active, to
		}
	}
	peermem := func(n *fabric.Node) {
		n.GPUDirect.Peermem = fabric.Known(fabric.Peermem{Module: "nvidia_peermem", Bound: fabric.Known(false, "", n.At)}, "", n.At)
	}
	for _, test := range []struct {
		name string
		edit func(n *fabric.Node)
		gdr  func(*fabric.GDR)
		want []string // none: nothing
	}{
		{"idle and healthy", func(*fabric.Node) {}, fabrictest.Usable, nil},
		{"nothing was read", func(n *fabric.Node) {
			n.PCI, n.GPUDriver, n.GPUDirect = fabric.PCI{}, fabric.GPUDriver{}, fabric.GPUDirect{}
		}, fabrictest.Usable, nil},
		{"lost", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1] = fabric.GPU{Index: 1, Lost: fabric.Known(true, "", n.At)}
		}, fabrictest.Usable, []string{"GPU1: The driver has lost the GPU", "Xid 79"}},
		{
			"NVLinks down", func(n *fabric.Node) { links(n, 1, 16, fabric.NVLinkToSwitch) }, fabrictest.Usable,
			[]string{"GPU1: The GPU has lost NVLinks", "16 are active; GPU0 has 18. Down: 16, 17.", "nvidia-smi nvlink -s"},
		},
		{"all NVLinks of one down", func(n *fabric.Node) { links(n, 1, 0, fabric.NVLinkToSwitch) }, fabrictest.Usable, []string{"GPU1: The GPU has lost NVLinks", "0 are active"}},
		{"not bridged", func(n *fabric.Node) { links(n, 0, 12, fabric.NVLinkToGPU); links(n, 1, 0, fabric.NVLinkToGPU) }, fabrictest.Usable, nil},
		{"bridge half plugged", func(n *fabric.Node) { links(n, 0, 12, fabric.NVLinkToGPU); links(n, 1, 8, fabric.NVLinkToGPU) }, fabrictest.Usable, []string{"8 are active; GPU0 has 12"}},
		{"another model", func(n *fabric.Node) {
			links(n, 1, 12, fabric.NVLinkToSwitch)
			gpu(n, 1).Name.Value = "NVIDIA A100-SXM4-80GB"
		}, fabrictest.Usable, nil},
		{"MIG", func(n *fabric.Node) { links(n, 1, 0, fabric.NVLinkToSwitch); gpu(n, 1).MIG.Value = true }, fabrictest.Usable, nil},
		{"one NVLink is unknown", func(n *fabric.Node) {
			links(n, 1, 3, fabric.NVLinkToSwitch)
			gpu(n, 1).NVLinks.Value[0].Active = fabric.UnknownFact[bool](fabric.ReasonUnsupported, "", n.At)
		}, fabrictest.Usable, nil},
		{"NVLink errors are of some time", func(n *fabric.Node) {
			gpu(n, 1).NVLinks.Value[0].Errors = []fabric.NVLinkErrors{{Kind: fabric.NVLinkCRC, Count: fabric.Known(uint64(9), "", n.At)}}
		}, fabrictest.Usable, nil},
		{
			"fabric manager not started", func(n *fabric.Node) { gpu(n, 0).Fabric.Value.State = fabric.GPUFabricNotStarted }, fabrictest.Usable,
			[]string{"GPU0: The GPU has not joined its NVLink fabric", "NVML reports not started.", "systemctl start nvidia-fabricmanager"},
		},
		{"IMEX", func(n *fabric.Node) {
			gpu(n, 0).Fabric.Value.State, gpu(n, 0).Name.Value = fabric.GPUFabricInProgress, "NVIDIA GB200"
		}, fabrictest.Usable, []string{"in progress", "systemctl start nvidia-imex", "switch trays"}},
		{"fabric failed", func(n *fabric.Node) { gpu(n, 0).Fabric.Value.Status = "Insufficient Resources" }, fabrictest.Usable, []string{"ended with \"Insufficient Resources\""}},
		{"fabric unhealthy", func(n *fabric.Node) { gpu(n, 0).Fabric.Value.Unhealthy = []string{"degraded_bandwidth"} }, fabrictest.Usable, []string{"health mask reports degraded bandwidth"}},
		{"no fabric", func(n *fabric.Node) { gpu(n, 0).Fabric = fabric.AbsentFact[fabric.GPUFabric]("", n.At) }, fabrictest.Usable, nil},
		{"NVML sees x8, and so does the bus", func(n *fabric.Node) {
			gpu(n, 0).PCIeWidth.Value = 8
			n.PCI.Function("0000:19:00.0").Link.Width.Value = 8
		}, fabrictest.Usable, []string{"GPU0: A PCIe link runs at x8 instead of x16", "Both ends of the link below 0000:17:01.0"}},
		{"NVML alone sees x8", func(n *fabric.Node) {
			gpu(n, 0).PCIeWidth.Value = 8
			n.PCI.Function("0000:19:00.0").Link.Width = fabric.UnknownFact[int](fabric.ReasonMissing, "", n.At)
		}, fabrictest.Usable, []string{"GPU0: A PCIe link runs at x8 instead of x16", "The expected width is what NVML reports"}},
		{
			"slow under load", func(n *fabric.Node) { gpu(n, 1).Utilization.Value = 0.97 }, fabrictest.Usable,
			[]string{"GPU1: The PCIe link of a busy GPU is slow", "generation 1 instead of 5 while the GPU is busy for 97 %"},
		},
		{"fast under load", func(n *fabric.Node) { gpu(n, 1).Utilization.Value, gpu(n, 1).PCIeGeneration.Value = 1, 5 }, fabrictest.Usable, nil},
		{"throttled", func(n *fabric.Node) { gpu(n, 1).ClockReasons.Value = 0x88 }, fabrictest.Usable, []string{"GPU1: The hardware throttles the GPU", "hardware slowdown, power brake"}},
		{"at its power limit", func(n *fabric.Node) { gpu(n, 1).ClockReasons.Value = 0x04 }, fabrictest.Usable, nil},
		{"no driver", func(n *fabric.Node) {
			noDriver(n)
			n.PCI.Function("0000:19:00.0").Driver = fabric.AbsentFact[string]("driver", n.At)
		}, fabrictest.Blocked(fabric.GDRNoDriver, ""), []string{"0000:19:00.0: The GPU has no driver", "modprobe nvidia"}},
		{"nouveau", func(n *fabric.Node) {
			noDriver(n)
			n.PCI.Function("0000:19:00.0").Driver.Value = "nouveau"
		}, fabrictest.Blocked(fabric.GDRNoDriver, ""), []string{"bound to nouveau", "blacklist nouveau"}},
		{"passed through", func(n *fabric.Node) {
			noDriver(n)
			for _, f := range n.PCI.GPUs() {
				f.Driver.Value = "vfio-pci"
			}
		}, fabrictest.Blocked(fabric.GDRNoDriver, ""), nil},
		{"one passed through", func(n *fabric.Node) {
			n.GPUDriver.GPUs = n.GPUDriver.GPUs[:1]
			n.PCI.Function("0000:9b:00.0").Driver.Value = "vfio-pci"
		}, fabrictest.Usable, nil},
		{
			"one left out", func(n *fabric.Node) { n.GPUDriver.GPUs = n.GPUDriver.GPUs[:1] }, fabrictest.Usable,
			[]string{"0000:9b:00.0: The driver does not show the GPU", "The PCI bus has 2 GPUs, NVML lists 1"},
		},
		{"NVML does not answer", func(n *fabric.Node) {
			n.GPUDriver.GPUs = nil
			n.Sources = append(n.Sources, fabric.Source{Name: fabric.SourceGPU, Reason: fabric.ReasonTimeout})
		}, fabrictest.Usable, nil},
		{"released", func(n *fabric.Node) { n.GPUDriver.GPUs, n.GPUDriver.Released = nil, "SIGUSR1" }, fabrictest.Usable, nil},
		{"no module", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRModule, "proprietary kernel module"), []string{"GPU0, GPU1: NCCL cannot use GPUDirect RDMA: neither dma-buf", "Proprietary kernel module.", "modprobe nvidia-peermem", "through host memory"}},
		{"level", func(n *fabric.Node) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_NET_GDR_LEVEL", Value: "LOC", Source: "/etc/nccl.conf:3"}}
		}, fabrictest.Blocked(fabric.GDRLevel, "level LOC, distance PIX"), []string{"GPU0, GPU1: NCCL_NET_GDR_LEVEL", "Remove it from /etc/nccl.conf:3 (NCCL_NET_GDR_LEVEL=LOC)"}},
		{"C2C", func(n *fabric.Node) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_NET_GDR_C2C", Value: "0", Source: "/etc/nccl.conf:4"}, {Name: "NCCL_NET_GDR_LEVEL", Value: "far", Source: "/etc/nccl.conf:3"}}
		}, func(g *fabric.GDR) {
			fabrictest.Blocked(fabric.GDRLevel, "no more than PXB is allowed")(g)
			g.Setting = "NCCL_NET_GDR_C2C"
		}, []string{"GPU0, GPU1: NCCL_NET_GDR_C2C", "Remove it from /etc/nccl.conf:4 (NCCL_NET_GDR_C2C=0)"}},
		{"ACS", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRACS, ""), []string{"mlx5_0, mlx5_1: ACS sends GPUDirect traffic"}},
		{"IOMMU", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRIOMMU, "DMA-FQ"), []string{"An IOMMU translates", "iommu=pt"}},
		{"all far", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRDistance, "NODE"), nil},
		{"one far", func(*fabric.Node) {}, func(g *fabric.GDR) {
			if g.GPU == "0000:9b:00.0" {
				fabrictest.Blocked(fabric.GDRDistance, "SYS")(g)
			}
		}, []string{"GPU1: The GPU is too far from its NIC", "Other GPUs of this node are nearer"}},
		{"GeForce", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRNoGPU, "NVIDIA GeForce RTX 4090"), nil},
		{"forbidden", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDROverride, "GrdmaPciTopoCheckOverride is 2"), []string{"GPU0, GPU1: The GPU driver is configured to forbid", "/etc/modprobe.d"}},
		{"virtual", func(*fabric.Node) {}, func(g *fabric.GDR) { g.Usable = fabric.UnknownFact[bool](fabric.ReasonVirtual, "", g.Usable.At) }, nil},
		{"peermem unbound", peermem, fabrictest.Blocked(fabric.GDRACS, ""), []string{"nvidia_peermem: The module is loaded", "modprobe nvidia-peermem", "mlx5_0, mlx5_1: ACS"}},
		{"peermem unbound, no dma-buf", peermem, fabrictest.Blocked(fabric.GDRModule, ""), []string{"nvidia_peermem: The module is loaded"}},
		{"peermem unbound, with dma-buf", peermem, fabrictest.Usable, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.WithGPUs()
			test.edit(n)
			fabrictest.Verdicts(n, test.gdr)
			got := diagnosetest.Describe(diagnose.Run(n, nil))
			diagnosetest.Contains(t, got, test.want...)
			if (got == "") != (test.want == nil) || strings.Count(got, "\n") > 1+strings.Count(test.name, "peermem unbound") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestGPUsUnchecked(t *testing.T) {
	n := fabrictest.WithGPUs()
	fabrictest.Verdicts(n, fabrictest.Usable)
	if got := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); got != "" {
		t.Errorf("healthy: %s", got)
	}
	fabrictest.Verdicts(n, func(g *fabric.GDR) { g.Usable = fabric.UnknownFact[bool](fabric.ReasonPrivilege, "", n.At) })
	diagnosetest.Contains(t, diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))), "GPU0, GPU1: Could not be checked: gpudirect_usable. Whether NCCL would use GPUDirect RDMA is unknown", "Reading ACS requires root")
	fabrictest.Verdicts(n, func(g *fabric.GDR) { g.Usable = fabric.UnknownFact[bool](fabric.ReasonVirtual, "", n.At) })
	if got := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); got != "" {
		t.Errorf("virtual: %s", got)
	}
	for what, loaded := range map[string]fabric.Fact[bool]{
		"it does not respond":                               fabric.Known(false, "nvmlInit", n.At),
		"its library libnvidia-ml.so.1 is not found here":   fabric.UnknownFact[bool](fabric.ReasonMissing, fabric.NVMLLibrary, n.At),
		"the device nodes /dev/nvidia* may be missing here": fabric.UnknownFact[bool](fabric.ReasonMissing, "nvmlInit", n.At),
	} {
		n.GPUDriver = fabric.GPUDriver{Loaded: loaded}
		diagnosetest.Contains(t, diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))), "0000:19:00.0, 0000:9b:00.0: Could not be checked: gpu_driver.", what, "enable the tier gpu")
	}
	n.Sources = append(n.Sources, fabric.Source{Name: fabric.SourceGPU, Reason: fabric.ReasonTimeout})
	diagnosetest.Contains(t, diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))), "GPU driver (NVML): Could not be read")
}

func TestGPUNotes(t *testing.T) {
	n := fabrictest.WithGPUs()
	fabrictest.Verdicts(n, fabrictest.Usable)
	if notes := gpu.Notes(n, verdict.GPUs(n)); len(notes) > 0 {
		t.Errorf("healthy: %v", notes)
	}
	fabrictest.Verdicts(n, fabrictest.Blocked(fabric.GDRDistance, "SYS"))
	if notes := gpu.Notes(n, verdict.GPUs(n)); len(notes) != 1 || !strings.Contains(notes[0], "this is the design of the machine") {
		t.Errorf("all far: %v", notes)
	}
	n.HCAs = slices.Delete(n.HCAs, 1, 2)
	n.PCI.Functions = slices.DeleteFunc(n.PCI.Functions, func(f fabric.PCIFunction) bool { return slices.Contains(f.HCAs, "mlx5_1") })
	fabrictest.Verdicts(n, fabrictest.Usable)
	if notes := gpu.Notes(n, verdict.GPUs(n)); len(notes) != 1 || !strings.Contains(notes[0], "GPU0, GPU1 share mlx5_0") {
		t.Errorf("one NIC: %v", notes)
	}
	if got := diagnosetest.Describe(diagnose.Run(n, nil)); got != "" {
		t.Errorf("one NIC by design: %s", got)
	}
}

// A node whose GPUs were not asked about has no verdicts on them, which must not look as if they were in order.
func TestGPUsNotAsked(t *testing.T) {
	n := fabrictest.WithGPUs()
	if note := gpu.GPUsNotAsked(n); note != "" {
		t.Errorf("asked: %s", note)
	}
	n.GPUDriver = fabric.GPUDriver{}
	diagnosetest.Contains(t, gpu.GPUsNotAsked(n), "NVML was not asked about the 2 GPUs on the PCI bus")
	n.PCI.Functions = nil
	if note := gpu.GPUsNotAsked(n); note != "" {
		t.Errorf("no GPUs: %s", note)
	}
}
