// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// What a probe shows follows from a failure only if that explains all of it: another device, another GPU and
// a greater loss are another fault.
func TestExplains(t *testing.T) {
	slowPort := func(n *fabric.Node) {
		n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
		n.HCAs[0].Ports[0].Rate.Value.BytesPerSecond, n.NetDevs[0].Speed.Value = 25e9, 25e9
	}
	narrow := func(n *fabric.Node) {
		for _, address := range []string{"0000:17:00.0", "0000:18:00.0"} {
			n.PCI.Function(address).Link.Width.Value = 8
		}
	}
	lostLink := func(n *fabric.Node) { n.GPUDriver.GPUs[0].NVLinks.Value[7].Active.Value = false }
	off := func(n *fabric.Node) {
		n.Policy.ComputePorts = new(2)
		for i := range n.HCAs {
			n.HCAs[i].Driver = fabric.Known("mlx5_core", "driver", n.At)
		}
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_DISABLE", Value: "1", Number: 1, IsNumber: true, Source: "/etc/nccl.conf:1"}}
	}
	one := func(n *fabric.Node) { n.Policy.ComputePorts, n.HCAs = new(2), n.HCAs[:1] }
	none := func(n *fabric.Node) { n.Policy.ComputePorts, n.HCAs = new(2), nil }
	hidden := func(n *fabric.Node) {
		one(n)
		n.HCAs[0].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonIO, "state", n.At)
	}
	notReady := func(n *fabric.Node) { n.GPUDriver.GPUs[0].Fabric.Value.State = "in_progress" }
	fine := func(*fabric.Node) {}
	firstGPU := func(g *fabric.GDR) {
		if g.NIC == "mlx5_0" {
			fabrictest.Blocked(fabric.GDRLevel, "LOC")(g)
		}
	}
	acs := fabrictest.Blocked(fabric.GDRACS, "")
	rail := func(device string, s fabric.Symptom) fabric.Symptom {
		s.Device, s.Port = device, 1
		return s
	}
	slow := func(ratio float64) fabric.Symptom { return fabric.Symptom{Slow: true, Ratio: ratio} }
	node := func(ratio float64) fabric.Symptom {
		return fabric.Symptom{Within: true, Slow: true, Ratio: ratio, GPUs: []string{"GPU-aaaaaaaa", "GPU-bbbbbbbb"}}
	}
	for _, c := range []struct {
		name  string
		edit  func(*fabric.Node)
		gdr   func(*fabric.GDR)
		shown fabric.Symptom
		cause string // ID of the check; empty: the probe has a fault of its own
	}{
		{"half of the rate, half of the bandwidth", slowPort, fabrictest.Usable, rail("mlx5_0", slow(0.5)), "port_rate"},
		{"half of the rate, a third of the bandwidth", slowPort, fabrictest.Usable, rail("mlx5_0", slow(0.33)), ""},
		{"half of the rate since before the baseline", slowPort, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{Slow: true, Ratio: 0.5, Baseline: 22e9}), ""},
		{"half of the rate after the baseline", slowPort, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{Slow: true, Ratio: 0.5, Baseline: 44e9}), "port_rate"},
		{"half of the rate, the other rail is slow", slowPort, fabrictest.Usable, rail("mlx5_1", slow(0.5)), ""},
		{"half of the rate, the other port is slow", slowPort, fabrictest.Usable, fabric.Symptom{Device: "mlx5_0", Port: 2, Slow: true, Ratio: 0.5}, ""},
		{"half of the rate, a baseline that drifted", slowPort, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{Slow: true, Ratio: 0.5, Other: true}), ""},
		{"half of the rate, TCP", slowPort, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{TCP: true, Slow: true, Ratio: 0.5}), ""},
		{"half of the rate, without GPUDirect RDMA", slowPort, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{NoGPUDirect: true, Slow: true, Ratio: 0.5}), ""},
		{"half of the lanes", narrow, fabrictest.Usable, rail("mlx5_0", slow(0.58)), "pcie_link"},
		{"half of the lanes, a third of the bandwidth", narrow, fabrictest.Usable, rail("mlx5_0", slow(0.33)), ""},
		{"half of the lanes since before the baseline", narrow, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{Slow: true, Ratio: 0.58, Baseline: 22e9}), ""},
		{"an NVLink of 18", lostLink, fabrictest.Usable, node(0.944), "nvlink_active"},
		{"an NVLink of 18, half of the bandwidth", lostLink, fabrictest.Usable, node(0.5), ""},
		{"an NVLink of 18, a slow rail", lostLink, fabrictest.Usable, rail("mlx5_0", slow(0.944)), ""},
		{"an NVLink of 18, a hang", lostLink, fabrictest.Usable, fabric.Symptom{Within: true, Other: true}, ""},
		{"RDMA is off", off, fabrictest.Usable, rail("mlx5_0", fabric.Symptom{TCP: true, Slow: true, Ratio: 0.07}), "nccl_rdma_off"},
		{"RDMA is off, and NCCL has no device", off, fabrictest.Usable, fabric.Symptom{TCP: true, NoDevice: true}, ""},
		{"no port, and NCCL has no device", none, fabrictest.Usable, fabric.Symptom{TCP: true, NoDevice: true, Slow: true, Ratio: 0.07}, "compute_ports"},
		{"no port, and NCCL says nothing of devices", none, fabrictest.Usable, fabric.Symptom{TCP: true}, ""},
		{"no port, and a wrong sum", none, fabrictest.Usable, fabric.Symptom{TCP: true, NoDevice: true, Other: true}, ""},
		{"one port of two, and NCCL has no device", one, fabrictest.Usable, fabric.Symptom{TCP: true, NoDevice: true}, ""},
		{"one port of unknown state, and NCCL has no device", hidden, fabrictest.Usable, fabric.Symptom{TCP: true, NoDevice: true}, ""},
		{"RDMA is off, a slow run over RDMA", off, fabrictest.Usable, rail("mlx5_0", slow(0.5)), ""},
		{"fabric manager", notReady, fabrictest.Usable, fabric.Symptom{NotReady: true}, "nvlink_fabric"},
		{"CUDA alone", fine, fabrictest.Usable, fabric.Symptom{NotReady: true}, ""},
		{"GPUDirect RDMA is forbidden", fine, firstGPU, rail("mlx5_0", fabric.Symptom{NoGPUDirect: true, Slow: true, Ratio: 0.42}), "gpudirect_usable"},
		{"GPUDirect RDMA is forbidden, and the probe used it", fine, firstGPU, rail("mlx5_0", slow(0.42)), ""},
		{"GPUDirect RDMA is forbidden for the other GPU", fine, firstGPU, rail("mlx5_1", fabric.Symptom{NoGPUDirect: true, GPUs: []string{"GPU-bbbbbbbb"}}), ""},
		{"GPUDirect RDMA is forbidden since before the baseline", fine, firstGPU, rail("mlx5_0", fabric.Symptom{NoGPUDirect: true, Slow: true, Ratio: 0.42, Baseline: 18e9}), ""},
		{"GPUDirect RDMA is forbidden after the baseline", fine, firstGPU, rail("mlx5_0", fabric.Symptom{NoGPUDirect: true, Slow: true, Ratio: 0.42, Baseline: 44e9}), "gpudirect_usable"},
		{"ACS redirects since before the baseline", fine, acs, rail("mlx5_0", fabric.Symptom{Slow: true, Ratio: 0.5, Baseline: 20e9}), ""},
		{"ACS redirects after the baseline", fine, acs, rail("mlx5_0", fabric.Symptom{Slow: true, Ratio: 0.5, Baseline: 44e9}), "pcie_acs"},
		{"ACS redirects, a baseline that is not known", fine, acs, rail("mlx5_0", slow(0.5)), "pcie_acs"},
		{"GPUDirect RDMA is forbidden, a twentieth of the bandwidth", fine, firstGPU, rail("mlx5_0", fabric.Symptom{NoGPUDirect: true, Slow: true, Ratio: 0.05}), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := fabrictest.WithGPUs()
			c.edit(n)
			fabrictest.Verdicts(n, c.gdr)
			cause := ""
			if v := diagnose.Explains(n, diagnose.Run(n, nil), &c.shown); v != nil {
				cause = v.Check.ID
			}
			if cause != c.cause {
				t.Errorf("it follows from %q, expected %q", cause, c.cause)
			}
		})
	}
}

// A slow probe that lost GPUDirect RDMA has one fault only if its baseline was measured with it, and nothing
// else is wrong.
func TestSlowWithoutGPUDirect(t *testing.T) {
	lost := func(ratio, baseline float64) fabric.Symptom {
		return fabric.Symptom{Device: "mlx5_0", Port: 1, NoGPUDirect: true, Slow: true, Ratio: ratio, Baseline: baseline}
	}
	far, drifted, elsewhere, used := lost(0.42, 44e9), lost(0.42, 44e9), lost(0.42, 44e9), lost(0.42, 44e9)
	drifted.Other, elsewhere.Device, used.NoGPUDirect = true, "", false
	for _, c := range []struct {
		name  string
		gdr   func(*fabric.GDR)
		shown fabric.Symptom
		want  bool
	}{
		{"lost after the baseline", fabrictest.Usable, lost(0.42, 44e9), true},
		{"lost before the baseline", fabrictest.Usable, lost(0.42, 18e9), false},
		{"a baseline that is not known", fabrictest.Usable, lost(0.42, 0), false},
		{"slower than host memory", fabrictest.Usable, lost(0.2, 44e9), false},
		{"a baseline that drifted", fabrictest.Usable, drifted, false},
		{"no rail", fabrictest.Usable, elsewhere, false},
		{"not lost", fabrictest.Usable, used, false},
		{"without it by design", fabrictest.Blocked(fabric.GDRDistance, "NODE"), far, false},
	} {
		n := fabrictest.WithGPUs()
		fabrictest.Verdicts(n, c.gdr)
		if got := diagnose.SlowWithoutGPUDirect(n, &c.shown); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A storm explains a slow rail only if the baseline was measured without it.
func TestStormExplains(t *testing.T) {
	for baseline, explains := range map[float64]bool{20e9: false, 44e9: true, 0: true} {
		n := fabrictest.Lossless()
		fabrictest.Counted(n, map[string]uint64{"tx_prio3_pause_duration": 12e6})
		n.Derive()
		v := diagnose.Explains(n, diagnose.Run(n, nil), &fabric.Symptom{Device: "mlx5_1", Port: 1, Slow: true, Ratio: 0.1, Baseline: baseline})
		if (v != nil) != explains {
			t.Errorf("baseline %g: it follows from %+v", baseline, v)
		}
	}
}

// A failed check follows from another one where that is the whole cause.
func TestFindings(t *testing.T) {
	const lines = "/etc/nccl.conf:1"
	listed := func(names ...string) func(*fabric.Node) {
		return func(n *fabric.Node) {
			n.Policy.ComputePorts = new(3)
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "=" + strings.Join(names, ","), Source: lines}}
		}
	}
	misreported := func(n *fabric.Node) {
		n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
		n.HCAs[0].Ports[0].Rate.Value.BytesPerSecond = 1.25e9
	}
	pinned := func(n *fabric.Node) {
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_GID_INDEX", Value: "0", IsNumber: true, Source: lines}}
	}
	for _, c := range []struct {
		name string
		edit func(*fabric.Node)
		want string // findings, each with what follows from it
	}{
		{"a device is gone", listed("mlx5_0", "mlx5_1", "mlx5_2"), "compute_ports(nccl_devices)"},
		{"a device is gone, and two names are wrong", listed("mlx5_0", "mlx5_1", "mlx5_7", "mlx5_8"), "compute_ports nccl_devices"},
		{"a device is gone, and a name is of another kind", listed("mlx5_0", "mlx5_1", "bnxt_re0"), "compute_ports nccl_devices"},
		{"RDMA misreports the rate", misreported, "port_rate_agrees"},
		{"an index is pinned", pinned, "nccl_gid_index(gid_usable)"},
		{"an index is pinned, and the port has no IPv4 address", func(n *fabric.Node) {
			pinned(n)
			p := &n.HCAs[0].Ports[0]
			p.GIDs.Entries.Value = slices.DeleteFunc(slices.Clone(p.GIDs.Entries.Value), func(g fabric.GID) bool { return g.Family == fabric.FamilyIPv4 })
			p.GIDs.Entries.Value = append(p.GIDs.Entries.Value, fabric.GID{Index: 5, Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv6, Addr: netip.MustParseAddr("fd00::1")})
		}, "gid_usable nccl_gid_index(gid_usable)"},
		{"the interface is slow, too", func(n *fabric.Node) {
			misreported(n)
			n.NetDevs[0].Speed.Value = 25e9
		}, "port_rate port_rate_agrees"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := fabrictest.Healthy()
			c.edit(n)
			n.Derive()
			var got []string
			for _, f := range verdict.Findings(diagnose.Run(n, nil)) {
				got = append(got, f.Check.ID)
				for _, g := range f.Consequences {
					got[len(got)-1] += "(" + g.Check.ID + ")"
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("found %s, expected %s", got, c.want)
			}
		})
	}
}
