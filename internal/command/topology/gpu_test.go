// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"encoding/json"
	"testing"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/status"
)

func render(t *testing.T, n *fabric.Node) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, false, status.TopologyOf(n, config.Report{})); err != nil {
		t.Fatal(err)
	}
	return words(b.String())
}

func TestTopologyOfGPUs(t *testing.T) {
	link := func(n *fabric.Node, gpu, k int) *fabric.NVLink { return &n.GPUDriver.GPUs[gpu].NVLinks.Value[k] }
	for _, test := range []struct {
		name  string
		edit  func(n *fabric.Node)
		gdr   func(*fabric.GDR)
		want  []string
		never []string
	}{
		{
			"H100", func(*fabric.Node) {}, fabrictest.Usable,
			[]string{
				"GPU0 X NV18 PIX SYS 0 0 mlx5_0 yes dmabuf\n", "GPU driver 580.65.06, CUDA up to 13.0.\n", "NV# number of active NVLinks",
				"GPU1 is 0000:9b:00.0, NVIDIA H100 80GB HBM3\n",
			},
			[]string{"not known", "No peer"},
		},
		{"a link is down", func(n *fabric.Node) { link(n, 1, 3).Active.Value = false }, fabrictest.Usable, []string{"GPU0 X NV17 ", "GPU1 NV17 X "}, nil},
		{"bridged", func(n *fabric.Node) {
			for i, to := range []string{"0000:9B:00.0", "0000:19:00.0"} {
				for k := range 18 {
					link(n, i, k).Active.Value = k < 12
					link(n, i, k).RemoteKind.Value, link(n, i, k).Remote.Value = fabric.NVLinkToGPU, to
				}
			}
		}, fabrictest.Usable, []string{"GPU0 X NV12 "}, nil},
		{"no NVLink", func(n *fabric.Node) {
			for i := range 2 {
				n.GPUDriver.GPUs[i].NVLinks = fabric.AbsentFact[[]fabric.NVLink]("", n.At)
			}
			n.GPUDriver.P2P[0].Write.Value = fabric.P2PChipsetNotSupported
		}, fabrictest.Usable, []string{"GPU0 X SYS PIX", "No peer-to-peer writes between GPU0 and GPU1: chipset not supported\n"}, []string{"NVLinks are"}},
		{"one link is unknown", func(n *fabric.Node) {
			link(n, 0, 3).Active = fabric.UnknownFact[bool](fabric.ReasonUnsupported, "", n.At)
		}, fabrictest.Usable, []string{"GPU0 X SYS ", "NVLinks of GPU0 are unknown: to them the table shows the PCIe path.\n"}, nil},
		{"no driver", func(n *fabric.Node) {
			n.GPUDriver = fabric.GPUDriver{Loaded: fabric.Known(false, "", n.At)}
		}, fabrictest.Blocked(fabric.GDRNoDriver, "no GPU driver is loaded"), []string{
			"GPU0 X SYS PIX SYS 0 0 mlx5_0 no driver\n", "No GPU driver responds.\n", "NVLinks are unknown: between GPUs the table shows the PCIe path.\n",
			"No GPUDirect RDMA: no GPU driver is loaded.\n", "GPU0 is 0000:19:00.0\n",
		}, nil},
		{"not asked", func(n *fabric.Node) { n.GPUDriver = fabric.GPUDriver{} }, func(g *fabric.GDR) {
			*g = fabric.GDR{GPU: g.GPU, NIC: g.NIC, Usable: fabric.UnknownFact[bool](fabric.ReasonNotRead, "", g.Usable.At)}
		}, []string{"mlx5_0 ?\n", "The GPU driver could not be queried: not read.\n", "Whether GPUDirect RDMA works is unknown: not read.\n", "GPU0 is 0000:19:00.0\n"}, nil},
		{"released", func(n *fabric.Node) {
			n.GPUDriver = fabric.GPUDriver{Released: "maintenance file /run/maintenance"}
		}, fabrictest.Usable, []string{"The exporter has released the GPUs: maintenance file /run/maintenance.\n"}, nil},
		{"unprivileged", func(n *fabric.Node) {
			for i := range n.PCI.Functions {
				n.PCI.Functions[i].Config = fabric.UnknownPCIConfig(fabric.ReasonPrivilege, "config", n.At)
			}
		}, fabrictest.Usable, []string{"Whether ACS redirects traffic between GPUs and NICs is unknown: not permitted for this user, requires root (CAP_SYS_ADMIN).\n"}, []string{"; whether"}},
		{"one is lost", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1] = fabric.GPU{Index: 1, Lost: fabric.Known(true, "", n.At)}
		}, fabrictest.Usable, []string{"GPU1 is 0000:9b:00.0; its driver has lost it\n", "NVLinks of GPU1 are unknown"}, nil},
		{"one is left out", func(n *fabric.Node) { n.GPUDriver.GPUs = n.GPUDriver.GPUs[:1] }, fabrictest.Usable, []string{"0000:9b:00.0 is 0000:9b:00.0\n"}, nil},
		{
			"NVML alone knows one", func(n *fabric.Node) { n.GPUDriver.GPUs[1].Address = "0001:00:00.0" }, fabrictest.Usable,
			[]string{"GPU1 is 0001:00:00.0, NVIDIA", "? unknown: this kernel or driver does not offer it"},
			nil,
		},
		{"AMD", func(n *fabric.Node) {
			n.GPUDriver = fabric.GPUDriver{}
			for _, g := range n.PCI.GPUs() {
				g.Vendor.Value = 0x1002
			}
		}, fabrictest.Usable, []string{"GPU0 is 0000:19:00.0\n"}, []string{"GPU driver", "NVLinks are"}},
		{"one is blocked, and has no fabric", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1].Fabric.Value.State = fabric.GPUFabricNotStarted
		}, func(g *fabric.GDR) {
			if g.GPU == "0000:9b:00.0" {
				fabrictest.Blocked(fabric.GDRACS, "ACS redirects")(g)
			}
		}, []string{"GPU1 is 0000:9b:00.0, NVIDIA H100 80GB HBM3; it has not joined its NVLink fabric: not started; GPUDirect RDMA is slow: ACS redirects\n"}, nil},
		{"module", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRModule, "Proprietary kernel module, no peer-memory module."), []string{
			"mlx5_0 no module\n", "No GPUDirect RDMA: Proprietary kernel module, no peer-memory module.\n",
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.WithGPUs()
			test.edit(n)
			fabrictest.Verdicts(n, test.gdr)
			got := render(t, n)
			commandtest.Contains(t, got, test.want...)
			commandtest.Lacks(t, got, test.never...)
		})
	}
}

func TestTopologyJSONOfGPUs(t *testing.T) {
	n := fabrictest.WithGPUs()
	n.GPUDirect.Peermem = fabric.Known(fabric.Peermem{Module: "nvidia_peermem", Bound: fabric.Known(false, "", n.At)}, "", n.At)
	g0 := n.PCI.Function("0000:19:00.0")
	g0.IOMMUType, g0.IOMMUGroup = fabric.Known("DMA-FQ", "", n.At), fabric.Known(17, "", n.At)
	n.PCI.NIC("mlx5_0").IOMMUType = fabric.AbsentFact[string]("", n.At)
	fabrictest.Verdicts(n, fabrictest.Blocked(fabric.GDRACS, "0000:17:00.0 redirects"))
	var b bytes.Buffer
	if err := write(&b, true, status.TopologyOf(n, config.Report{})); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Driver  map[string]any   `json:"gpu_driver"`
		Peermem map[string]any   `json:"peer_memory_module"`
		GPUs    []map[string]any `json:"gpus"`
		NICs    []map[string]any `json:"nics"`
		Pairs   []map[string]any `json:"distances"`
	}
	if err := json.Unmarshal(b.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	g, _ := json.Marshal([]any{r.Driver, r.Peermem, r.GPUs[0], r.Pairs[1], r.Pairs[2], r.NICs})
	const want = `[{"cuda_version":"13.0","loaded":true,"open_kernel_module":true,"text":"GPU driver 580.65.06, CUDA up to 13.0.","version":"580.65.06"},` +
		`{"bound":false,"loaded":true,"module":"nvidia_peermem","registered_regions":null},` +
		`{"acs_redirecting_bridges":[],"class":"PIX","gpudirect":{"blocked_by":"acs","evidence":"0000:17:00.0 redirects","send":null,"usable":false},"index":0,"iommu":"DMA-FQ","iommu_group":17,"lost":false,` +
		`"model":"NVIDIA H100 80GB HBM3","name":"GPU0","nearest_nics":["mlx5_0"],"nic":"mlx5_0","nic_shared":false,"numa_node":0,"nvlink_fabric":"completed","nvlinks":{"active":18,"total":18},` +
		`"pci_address":"0000:19:00.0","rail":0,"uuid":"GPU-aaaaaaaa"},` +
		`{"class":"SYS","from":"GPU0","nvlinks":18,"nvml_class":"SYS","p2p_write":"ok","to":"GPU1"},{"class":"PIX","from":"GPU0","to":"mlx5_0"},` +
		`[{"degraded_links":[],"iommu":"off","iommu_group":null,"name":"mlx5_0","numa_node":0,"pci_address":"0000:18:00.0","role":"compute"},` +
		`{"degraded_links":[],"iommu":null,"iommu_group":null,"name":"mlx5_1","numa_node":1,"pci_address":"0000:9a:00.0","role":"compute"}]]`
	if string(g) != want {
		t.Errorf("got  %s\nwant %s", g, want)
	}
}
