// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
)

func ofNVIDIA(_ machine, g *simulator.GPU) bool { return g.UUID != "" }

func gpuMutations() []mutation {
	bare := func(m machine, g *simulator.GPU) bool { return !m.Host.Virtual && m.Function(g.PCI).Link.Width == 16 }
	linked := func(_ machine, g *simulator.GPU) bool { return len(g.Links) > 0 && g.Links[0].Active }
	// The other end of the last link is down too, and shows it where it is a GPU.
	partner := func(m machine, at place) []finding {
		links := m.GPU(at.gpu).Links
		if l := links[len(links)-1]; m.GPU(l.Remote) != nil {
			return []finding{{what: "nvlink_down", gpu: l.Remote}}
		}
		return nil
	}
	return []mutation{
		{
			name: "gpu-x8", what: "pcie_link_degraded", touches: []string{"link"}, places: gpus(bare),
			edit: func(n *simulator.Node, at place) { n.Function(at.gpu).Link.Width = 8 },
		},
		{
			name: "gpu-gen1-loaded", what: "pcie_link_degraded", touches: []string{"link"},
			places: gpus(func(m machine, g *simulator.GPU) bool { return bare(m, g) && ofNVIDIA(m, g) && g.Load > 50 }),
			edit:   func(n *simulator.Node, at place) { n.Function(at.gpu).Link.Speed = "2.5 GT/s PCIe" },
		},
		{
			name: "nvlink-down", what: "nvlink_down", touches: []string{"nvlink"}, places: gpus(linked), more: partner,
			edit: func(n *simulator.Node, at place) {
				links := n.GPU(at.gpu).Links
				l := &links[len(links)-1]
				l.Active = false
				if other := n.GPU(l.Remote); other != nil {
					other.Links[len(other.Links)-1].Active = false
				}
			},
		},
		{
			name: "gpu-lost", what: "gpu_lost", touches: []string{"state"}, hides: ofGPU, last: true, places: gpus(ofNVIDIA),
			edit: func(n *simulator.Node, at place) { n.LoseGPU(at.gpu) },
		},
		{
			name: "power-brake", what: "gpu_throttled", touches: []string{"clocks"}, places: gpus(ofNVIDIA),
			edit: func(n *simulator.Node, at place) { n.GPU(at.gpu).ClockReasons = 0x88 },
		},
		{
			name: "mig-on", what: "mig_on", touches: []string{"nvlink", "link", "clocks", "mig"}, hides: []string{"nvlink_down"},
			places: gpus(func(m machine, g *simulator.GPU) bool { return g.Divisible && len(m.GPUs) >= 3 }),
			edit: func(n *simulator.Node, at place) {
				n.Idle(at.gpu)
				n.GPU(at.gpu).MIG = true
			},
		},
		{
			name: "fabric-left", what: "fabric_not_ready", touches: []string{"fabric", "link", "clocks"}, // an idle GPU lowers both
			places: gpus(func(_ machine, g *simulator.GPU) bool { return g.NVSwitch.State == fabric.GPUFabricCompleted }),
			edit: func(n *simulator.Node, at place) {
				n.Idle(at.gpu)
				n.GPU(at.gpu).NVSwitch = fabric.GPUFabric{State: fabric.GPUFabricInProgress}
			},
		},
	}
}

func nodeMutations() []mutation {
	by := func(path fabric.GDRPath) func(m machine) bool { // GPUs and NICs exchange data so
		return func(m machine) bool {
			label, ok := m.gdr("")
			return ok && label.Path == path
		}
	}
	either := func(m machine) bool { return by(fabric.GDRDMABuf)(m) || by(fabric.GDRPeermem)(m) }
	return []mutation{
		{
			name: "no-gpu-driver", what: "gpu_driver_missing", touches: []string{"gpudirect"}, hides: append([]string{"gpudirect_blocked"}, ofGPU...), last: true,
			places: node(func(m machine) bool { return m.Driver.Version != "" }),
			edit:   func(n *simulator.Node, _ place) { n.Driver = simulator.GPUDriver{} },
		},
		{
			name: "no-peermem", what: "gpudirect_blocked", touches: []string{"gpudirect"}, places: node(by(fabric.GDRPeermem)),
			edit: func(n *simulator.Node, _ place) {
				n.Driver.Peermem = simulator.Peermem{Clients: n.Driver.Peermem.Clients}
			},
		},
		{
			name: "proprietary-driver", what: "gpudirect_blocked", touches: []string{"gpudirect"}, places: node(by(fabric.GDRDMABuf)),
			edit: func(n *simulator.Node, _ place) { n.Driver.Open = false },
		},
		{
			name: "gdr-denied", what: "gpudirect_blocked", mode: gpu.ModeGDRConfig.ID, touches: []string{"gpudirect"}, places: node(by(fabric.GDRDMABuf)),
			edit: func(n *simulator.Node, _ place) { n.Driver.TopologyOverride = 2 },
		},
		{
			name: "gdr-level-loc", what: "gpudirect_blocked", mode: gpu.ModeGDRConfig.ID, touches: []string{"gpudirect"}, places: node(either),
			edit: func(n *simulator.Node, _ place) { configure(n, "NCCL_NET_GDR_LEVEL=LOC") },
		},
		{
			name: "iommu", what: "gpudirect_blocked", mode: gpu.ModeIOMMU.ID, touches: []string{"gpudirect"},
			places: node(func(m machine) bool {
				intel := slices.ContainsFunc(m.Functions, func(f simulator.Function) bool { return f.Chip.Vendor == 0x8086 && f.Chip.Driver == "pcieport" })
				return either(m) && intel && !m.Host.Virtual && strings.HasSuffix(strings.TrimSuffix(m.Host.Cmdline, " pci=realloc=off"), "ro iommu=pt")
			}),
			edit: func(n *simulator.Node, _ place) {
				n.Host.Cmdline = strings.Replace(n.Host.Cmdline, "iommu=pt", "intel_iommu=on", 1)
			},
		},
		{
			name: "unknown-variable", what: "nccl_line_ignored", touches: []string{"nccl-line"},
			places: node(func(m machine) bool { return m.Files[ncclConf] != "" }),
			edit:   func(n *simulator.Node, _ place) { configure(n, "NCCL_IB_TRAFFIC_CLASS=106") },
		},
		{
			name: "retry-count-100", what: "nccl_line_ignored", touches: []string{"nccl-line"},
			places: node(func(m machine) bool { return m.Files[ncclConf] != "" }),
			edit:   func(n *simulator.Node, _ place) { configure(n, "NCCL_IB_RETRY_CNT=100") },
		},
		{
			name: "algo-unknown", what: "nccl_value_refused", touches: []string{"nccl-algo"},
			places: node(func(m machine) bool { return m.Files[ncclConf] != "" }),
			edit:   func(n *simulator.Node, _ place) { configure(n, "NCCL_ALGO=Rings") },
		},
		{
			// Neither EFA, which NCCL itself cannot use, nor where nothing says that the NICs are for training.
			name: "rdma-off", what: "rdma_switched_off", touches: []string{"nccl-off"},
			places: node(func(m machine) bool {
				return m.Files[ncclConf] != "" && m.wants("compute_ports:") && slices.ContainsFunc(m.compute(), func(h *simulator.HCA) bool { return driver(m.Node, h) != "efa" })
			}),
			edit: func(n *simulator.Node, _ place) { configure(n, "NCCL_IB_DISABLE=1") },
		},
		{
			name: "old-device-name", what: "nccl_device_missing", touches: []string{"nccl-hca"},
			places: node(func(m machine) bool { return strings.Contains(m.Files[ncclConf], "NCCL_IB_HCA=") }),
			edit: func(n *simulator.Node, _ place) {
				n.Files[ncclConf] = regexp.MustCompile(`NCCL_IB_HCA=.*`).ReplaceAllString(n.Files[ncclConf], "$0,roceo1")
			},
		},
		{
			name: "old-interface-name", what: "socket_interface_missing", touches: []string{"nccl-socket"}, places: node(socketNamed),
			edit: func(n *simulator.Node, _ place) { nameSocket(n, "p1p1") },
		},
		{
			name: "socket-interface-down", what: "socket_interface_down", touches: []string{"nccl-socket"}, places: node(socketNamed),
			edit: func(n *simulator.Node, _ place) {
				n.NetDevs = append(n.NetDevs, simulator.NetDev{Name: "usb0", Index: 1 + len(n.NetDevs), Type: simulator.TypeEthernet, Address: "0a:11:22:33:44:55", MTU: 1500})
				nameSocket(n, "usb,=bond")
			},
		},
		{
			name: "memlock-8m", what: "memlock_low", touches: []string{"memlock"},
			places: node(func(m machine) bool { return slurmd(m.Node) != nil }),
			edit: func(n *simulator.Node, _ place) {
				slurmd(n).Memlock = simulator.Memlock{Soft: "8388608", Hard: "8388608"}
			},
		},
	}
}

func socketNamed(m machine) bool { return strings.Contains(m.Files[ncclConf], "NCCL_SOCKET_IFNAME=") }

// nameSocket changes the line that names interfaces: of several lines NCCL reads the first.
func nameSocket(n *simulator.Node, names string) {
	before, after, _ := strings.Cut(n.Files[ncclConf], "NCCL_SOCKET_IFNAME=")
	_, rest, _ := strings.Cut(after, "\n")
	n.Files[ncclConf] = before + "NCCL_SOCKET_IFNAME=" + names + "\n" + rest
}

// slurmd is the daemon of Slurm, or nil.
func slurmd(n *simulator.Node) *simulator.Daemon {
	i := slices.IndexFunc(n.Daemons, func(d simulator.Daemon) bool { return d.Name == "slurmd" })
	if i < 0 {
		return nil
	}
	return &n.Daemons[i]
}
