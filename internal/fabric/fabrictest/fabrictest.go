// SPDX-License-Identifier: Apache-2.0

// Package fabrictest has nodes for tests, small enough to change one fact of and see what follows. Each call
// returns a new one.
package fabrictest

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// NoHardware is a node without RDMA.
func NoHardware() *fabric.Node {
	at := time.Unix(1_700_000_000, 0)
	n := &fabric.Node{
		At: at, Policy: &fabric.Policy{}, ClassPresent: fabric.Known(false, "class/infiniband", at),
		GPUs: fabric.Known(0, "bus/pci", at),
	}
	n.Derive()
	return n
}

// Healthy is a node with two RoCE ports of 400 Gb/s, which had a link before; the site calls all devices
// mlx5_0 to mlx5_9 compute.
func Healthy() *fabric.Node {
	n := NoHardware()
	n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile(`^mlx5_[0-9]$`), Role: fabric.RoleCompute}}
	n.ClassPresent.Value = true
	n.GPUs.Value = 8
	n.Host.Kernel = fabric.Known("6.8.0", "sys/kernel/osrelease", n.At)
	for _, name := range []string{"mlx5_0", "mlx5_1"} {
		netdev, address := "eth"+name[len(name)-1:], "::ffff:10.0."+name[len(name)-1:]+".1"
		gid := func(i int, t fabric.GIDType, f fabric.GIDFamily, addr string) fabric.GID {
			return fabric.GID{Index: i, Addr: netip.MustParseAddr(addr), Type: t, Family: f, NetDev: netdev}
		}
		n.HCAs = append(n.HCAs, fabric.HCA{
			Name: name, NodeType: fabric.Known(fabric.NodeCA, "node_type", n.At),
			BoardID:  fabric.Known("MT_0000000838", "board_id", n.At),
			Firmware: fabric.Known("28.39.1002", "fw_ver", n.At), PCI: fabric.Known("0000:1a:00.0", "device", n.At),
			Function: fabric.Known(fabric.FunctionPF, "device", n.At), Restricted: fabric.Known(false, "policy", n.At),
			Type: fabric.Known("MT4129", "hca_type", n.At),
			Ports: []fabric.Port{{
				Number: 1, State: fabric.Known(fabric.PortActive, "state", n.At),
				PhysState: fabric.Known(fabric.PhysLinkUp, "phys_state", n.At),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", n.At), NetDev: fabric.Known(netdev, "ndevs/0", n.At),
				Rate: fabric.Known(fabric.Rate{BytesPerSecond: 50e9, Lanes: 4, Generation: "NDR"}, "rate", n.At),
				Seen: fabric.PortHistory{Active: true, Last: n.At, Rate: 50e9},
				GIDs: fabric.GIDTable{Size: fabric.Known(256, "gids", n.At), Entries: fabric.Known([]fabric.GID{
					gid(0, fabric.GIDRoCEv1, fabric.FamilyLinkLocal, "fe80::1"),
					gid(1, fabric.GIDRoCEv2, fabric.FamilyLinkLocal, "fe80::1"),
					gid(2, fabric.GIDRoCEv1, fabric.FamilyIPv4, address), gid(3, fabric.GIDRoCEv2, fabric.FamilyIPv4, address),
				}, "gids", n.At)},
			}},
		})
		n.NetDevs = append(n.NetDevs, fabric.NetDev{
			Name: netdev, Speed: fabric.Known(50e9, "speed", n.At), MTU: fabric.Known(9000, "mtu", n.At),
			Upper: fabric.AbsentFact[string]("upper", n.At), DefaultRoute: fabric.Known(false, "net/route", n.At),
			PreferredRoute: fabric.Known(false, "net/route", n.At),
		})
	}
	n.Derive()
	return n
}

// WithBus puts each NIC of a healthy node below a switch of its own, with a GPU beside it.
func WithBus() *fabric.Node {
	n := Healthy()
	n.Host.Hypervisor = fabric.Known(false, "cpuinfo", n.At)
	for i, rail := range []struct{ root, port, up, toNIC, toGPU, nic, gpu string }{
		{"pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:17:01.0", "0000:18:00.0", "0000:19:00.0"},
		{"pci0000:97", "0000:97:01.0", "0000:98:00.0", "0000:99:00.0", "0000:99:01.0", "0000:9a:00.0", "0000:9b:00.0"},
	} {
		add := func(address string, kind fabric.PCIKind, bridges ...string) *fabric.PCIFunction {
			f := fabric.PCIFunction{Address: address, Kind: kind, Root: rail.root, Bridges: bridges}
			f = f.WithoutFacts(fabric.ReasonNotRead, n.At)
			f.NUMANode = fabric.Known(i, "numa_node", n.At)
			f.Link = fabric.PCILink{
				Speed: fabric.Known(32e9, "", n.At), MaxSpeed: fabric.Known(32e9, "", n.At), Width: fabric.Known(16, "", n.At),
				MaxWidth: fabric.Known(16, "", n.At),
			}
			f.Config.ACS = fabric.Known(fabric.ACS(0), "config", n.At)
			n.PCI.Functions = append(n.PCI.Functions, f)
			return &n.PCI.Functions[len(n.PCI.Functions)-1]
		}
		add(rail.port, fabric.PCIBridge)
		add(rail.up, fabric.PCIBridge, rail.port)
		add(rail.toNIC, fabric.PCIBridge, rail.port, rail.up)
		add(rail.toGPU, fabric.PCIBridge, rail.port, rail.up)
		add(rail.nic, fabric.PCINIC, rail.port, rail.up, rail.toNIC).HCAs = []string{n.HCAs[i].Name}
		add(rail.gpu, fabric.PCIGPU, rail.port, rail.up, rail.toGPU)
	}
	return n
}

// WithGPUs is WithBus with a driver that answers: two H100 with 18 NVLinks each into switches, and GPUDirect RDMA by
// dma-buf.
func WithGPUs() *fabric.Node {
	n := WithBus()
	n.GPUDriver = fabric.GPUDriver{
		Loaded: fabric.Known(true, "nvmlInit", n.At), Version: fabric.Known("580.65.06", "nvmlSystemGetDriverVersion", n.At),
		CUDA: fabric.Known("13.0", "nvmlSystemGetCudaDriverVersion", n.At),
	}
	n.GPUDirect = fabric.GPUDirect{
		Peermem:    fabric.AbsentFact[fabric.Peermem]("module", n.At),
		OpenModule: fabric.Known(true, "driver/nvidia/version", n.At),
		Driver:     fabric.Known("580.65.06", "module/nvidia/version", n.At),
	}
	for i, address := range []string{"0000:19:00.0", "0000:9b:00.0"} {
		n.PCI.Function(address).Vendor = fabric.Known(0x10de, "vendor", n.At)
		n.PCI.Function(address).Driver = fabric.Known("nvidia", "driver", n.At)
		g := fabric.GPU{
			Index: i, UUID: "GPU-" + strings.Repeat(string(rune('a'+i)), 8), Address: address,
			Lost: fabric.Known(false, "", n.At), Name: fabric.Known("NVIDIA H100 80GB HBM3", "nvmlDeviceGetName", n.At),
			Processes: fabric.Known[[]fabric.GPUProcess](nil, "", n.At), Utilization: fabric.Known(0.0, "", n.At),
			MIG:          fabric.Known(false, "", n.At),
			ClockReasons: fabric.Known(fabric.ClockReasons(1), "", n.At), PCIeGeneration: fabric.Known(1, "", n.At),
			PCIeMaxGen: fabric.Known(5, "", n.At),
			PCIeWidth:  fabric.Known(16, "", n.At), PCIeMaxWidth: fabric.Known(16, "", n.At),
			Fabric: fabric.Known(fabric.GPUFabric{State: fabric.GPUFabricCompleted, Status: "success"},
				"nvmlDeviceGetGpuFabricInfoV", n.At),
		}
		var links []fabric.NVLink
		for k := range 18 {
			links = append(links, fabric.NVLink{
				Number: k, Active: fabric.Known(true, "", n.At), Remote: fabric.Known("0000:05:00.0", "", n.At),
				RemoteKind: fabric.Known(fabric.NVLinkToSwitch, "", n.At),
			})
		}
		g.NVLinks = fabric.Known(links, "nvmlDeviceGetNvLinkState", n.At)
		n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, g)
	}
	n.GPUDriver.P2P = []fabric.GPUPair{{
		A: 0, B: 1, Write: fabric.Known(fabric.P2POK, "", n.At),
		Ancestor: fabric.Known(fabric.DistanceSYS, "", n.At),
	}}
	return n
}

// Verdicts gives each GPU a verdict, whatever Derive would say.
func Verdicts(n *fabric.Node, of func(*fabric.GDR)) {
	n.Derive()
	n.GDR = nil
	for _, r := range n.PCI.Rails {
		g := fabric.GDR{
			GPU: r.GPU, NIC: r.NIC, Usable: fabric.Known(true, "", n.At), Path: fabric.GDRDMABuf,
			Send: fabric.Known(true, "", n.At), Evidence: "open kernel module, " + r.Distance.Value.String(),
		}
		of(&g)
		n.GDR = append(n.GDR, g)
	}
}

// Usable is a verdict of Verdicts: GPUDirect RDMA works.
func Usable(*fabric.GDR) {}

// Blocked is one: it does not, for that reason.
func Blocked(by fabric.GDRBlock, evidence string) func(*fabric.GDR) {
	return func(g *fabric.GDR) {
		g.Usable.Value, g.Path, g.Block, g.Evidence, g.Send = false, "", by, evidence, fabric.Fact[bool]{State: fabric.Absent}
		if by == fabric.GDRLevel {
			g.Setting = "NCCL_NET_GDR_LEVEL"
		}
	}
}

// Lossless is Healthy, set up for lossless RoCE with DSCP 26 and priority 3, and expected to be.
func Lossless() *fabric.Node {
	n := Healthy()
	for i := range n.HCAs {
		n.HCAs[i].Driver = fabric.Known("mlx5_core", "driver", n.At)
		n.HCAs[i].Ports[0].TrafficClass = fabric.AbsentFact[fabric.TrafficClass]("tc/1/traffic_class", n.At)
		d := &n.NetDevs[i]
		d.Lower, d.Bond = fabric.Known([]string{}, "lower_*", n.At), fabric.Known(false, "bonding", n.At)
		d.QoS = fabric.QoS{
			PFC:   fabric.Known(fabric.PFC{Enabled: 1 << 3}, "DCB PFC", n.At),
			Pause: fabric.Known(fabric.Pause{}, "pause", n.At), ETS: fabric.Known(fabric.ETS{}, "DCB ETS", n.At),
			Apps: fabric.Known([]fabric.App{}, "DCB APP", n.At), Trust: fabric.Known(fabric.TrustDSCP, "qos/trust", n.At),
			DSCPPriority: fabric.Known([fabric.NumDSCP]int{26: 3, 48: 6}, "qos/dscp2prio", n.At),
			CNPDSCP:      fabric.Known(48, "cnp_dscp", n.At),
			NP:           fabric.Known(fabric.PriorityMask(8), "roce_np", n.At),
			RP:           fabric.Known(fabric.PriorityMask(8), "roce_rp", n.At),
			Buffers: fabric.Known(fabric.Buffers{OfPriority: [8]int{3: 1}, Bytes: [8]int{20_016, 156_096}}, "DCB buffer",
				n.At),
		}
	}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.Known(true, "etc/nccl.conf", n.At)}}
	n.NCCL.Variables = []fabric.NCCLVariable{{
		Name: "NCCL_IB_TC", Value: "106", Source: "/etc/nccl.conf:1", Number: 106,
		IsNumber: true,
	}}
	n.Policy.RoCE = fabric.RoCEPolicy{DSCP: new(26), Priority: new(3), Lossless: new(true), ECN: new(true)}
	return n
}

// Counted gives the interface of the second port two readings of its statistics, 15 s apart.
func Counted(n *fabric.Node, grown map[string]uint64) {
	reading := func(at time.Time, times uint64) fabric.Fact[[]fabric.Counter] {
		var list []fabric.Counter
		for p := range fabric.NumPriorities {
			for _, name := range []string{
				"tx_prio%d_bytes", "tx_prio%d_pause_duration", "rx_prio%d_pause_duration",
				"rx_prio%d_discards",
			} {
				name = fmt.Sprintf(name, p)
				list = append(list, fabric.Counter{Name: name, Value: fabric.Known(times*grown[name], "statistics", at)})
			}
		}
		list = append(list, fabric.Counter{
			Name:  "tx_vport_rdma_unicast_bytes",
			Value: fabric.Known(times*grown["rdma"], "statistics", at),
		})
		return fabric.Known(list, "statistics", at)
	}
	q := &n.NetDevs[1].QoS
	q.Before, q.Counters = reading(n.At.Add(-15*time.Second), 1), reading(n.At, 2)
}
