// SPDX-License-Identifier: Apache-2.0

// Package fabrictest has nodes for tests: small, made by hand, and derived. Each call makes a new one, to be broken as the
// test likes; Node.Derive then has to be called again. The simulator has whole machines.
package fabrictest

import (
	"fmt"
	"net/netip"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// NoHardware is a node without RDMA.
func NoHardware() *fabric.Node {
	at := time.Unix(1_700_000_000, 0)
	n := &fabric.Node{At: at, Policy: &fabric.Policy{}, ClassPresent: fabric.Known(false, "class/infiniband", at), GPUs: fabric.Known(0, "bus/pci", at)}
	n.Derive()
	return n
}

// Healthy is a node with two RoCE ports of 400 Gb/s.
func Healthy() *fabric.Node {
	n := NoHardware()
	n.ClassPresent.Value = true
	n.GPUs.Value = 8
	n.Host.Kernel = fabric.Known("6.8.0", "sys/kernel/osrelease", n.At)
	for _, name := range []string{"mlx5_0", "mlx5_1"} {
		netdev := "eth" + name[len(name)-1:]
		gid := func(i int, t fabric.GIDType, f fabric.GIDFamily, addr string) fabric.GID {
			return fabric.GID{Index: i, Addr: netip.MustParseAddr(addr), Type: t, Family: f, NetDev: netdev}
		}
		n.HCAs = append(n.HCAs, fabric.HCA{
			Name: name, NodeType: fabric.Known(fabric.NodeCA, "node_type", n.At), BoardID: fabric.Known("MT_0000000838", "board_id", n.At),
			Firmware: fabric.Known("28.39.1002", "fw_ver", n.At), PCI: fabric.Known("0000:1a:00.0", "device", n.At),
			Function: fabric.Known(fabric.FunctionPF, "device", n.At), Restricted: fabric.Known(false, "policy", n.At), Type: fabric.Known("MT4129", "hca_type", n.At),
			Ports: []fabric.Port{{
				Number: 1, State: fabric.Known(fabric.PortActive, "state", n.At), PhysState: fabric.Known(fabric.PhysLinkUp, "phys_state", n.At),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", n.At), NetDev: fabric.Known(netdev, "ndevs/0", n.At),
				Rate: fabric.Known(fabric.Rate{BytesPerSecond: 50e9, Lanes: 4, Generation: "NDR"}, "rate", n.At),
				GIDs: fabric.GIDTable{Size: fabric.Known(256, "gids", n.At), Entries: fabric.Known([]fabric.GID{
					gid(0, fabric.GIDRoCEv1, fabric.FamilyLinkLocal, "fe80::1"), gid(1, fabric.GIDRoCEv2, fabric.FamilyLinkLocal, "fe80::1"),
					gid(2, fabric.GIDRoCEv1, fabric.FamilyIPv4, "::ffff:10.0.0.1"), gid(3, fabric.GIDRoCEv2, fabric.FamilyIPv4, "::ffff:10.0.0.1"),
				}, "gids", n.At)},
			}},
		})
		n.NetDevs = append(n.NetDevs, fabric.NetDev{
			Name: netdev, Speed: fabric.Known(50e9, "speed", n.At), MTU: fabric.Known(9000, "mtu", n.At), OperState: fabric.Known("up", "operstate", n.At),
			Upper: fabric.None[string]("upper", n.At), DefaultRoute: fabric.Known(false, "net/route", n.At),
		})
	}
	n.Derive()
	return n
}

// Lossless is Healthy, set up for lossless RoCE with DSCP 26 and priority 3, and expected to be.
func Lossless() *fabric.Node {
	n := Healthy()
	for i := range n.HCAs {
		n.HCAs[i].Driver = fabric.Known("mlx5_core", "driver", n.At)
		n.HCAs[i].Ports[0].TrafficClass = fabric.None[fabric.TrafficClass]("tc/1/traffic_class", n.At)
		d := &n.NetDevs[i]
		d.Lower, d.Bond = fabric.Known([]string{}, "lower_*", n.At), fabric.Known(false, "bonding", n.At)
		d.QoS = fabric.QoS{
			PFC: fabric.Known(fabric.PFC{Enabled: 1 << 3}, "DCB PFC", n.At), Pause: fabric.Known(fabric.Pause{}, "pause", n.At), ETS: fabric.Known(fabric.ETS{}, "DCB ETS", n.At),
			Apps: fabric.Known([]fabric.App{}, "DCB APP", n.At), Trust: fabric.Known(fabric.TrustDSCP, "qos/trust", n.At),
			DSCPPriority: fabric.Known([fabric.NumDSCP]int{26: 3, 48: 6}, "qos/dscp2prio", n.At), CNPDSCP: fabric.Known(48, "cnp_dscp", n.At),
			NP: fabric.Known(fabric.PriorityMask(8), "roce_np", n.At), RP: fabric.Known(fabric.PriorityMask(8), "roce_rp", n.At),
			Buffers: fabric.Known(fabric.Buffers{OfPriority: [8]int{3: 1}, Bytes: [8]int{20_016, 156_096}}, "DCB buffer", n.At),
		}
	}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.Known(true, "etc/nccl.conf", n.At)}}
	n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_TC", Value: "106", Source: "/etc/nccl.conf:1", Number: 106, IsNumber: true}}
	n.Policy.RoCE = fabric.RoCEPolicy{DSCP: new(26), Priority: new(3), Lossless: new(true), ECN: new(true)}
	return n
}

// Count gives the network interface of the second port two readings of its statistics, 15 s apart, between which those in
// grown grew by that much.
func Count(n *fabric.Node, grown map[string]uint64) {
	reading := func(at time.Time, times uint64) fabric.Fact[[]fabric.Counter] {
		var list []fabric.Counter
		for p := range fabric.NumPriorities {
			for _, name := range []string{"tx_prio%d_bytes", "tx_prio%d_pause_duration", "rx_prio%d_pause_duration", "rx_prio%d_discards"} {
				name = fmt.Sprintf(name, p)
				list = append(list, fabric.Counter{Name: name, Value: fabric.Known(times*grown[name], "statistics", at)})
			}
		}
		list = append(list, fabric.Counter{Name: "tx_vport_rdma_unicast_bytes", Value: fabric.Known(times*grown["rdma"], "statistics", at)})
		return fabric.Known(list, "statistics", at)
	}
	q := &n.NetDevs[1].QoS
	q.Before, q.Counters = reading(n.At.Add(-15*time.Second), 1), reading(n.At, 2)
}
