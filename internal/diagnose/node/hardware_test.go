// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// nodeWith is a node on whose bus so many GPUs were found, and which has as many RDMA devices as names.
func nodeWith(gpus int, devices ...string) *fabric.Node {
	n := &fabric.Node{
		Policy: &fabric.Policy{}, ClassPresent: fabric.Known(len(devices) > 0, "", time.Time{}), GPUs: fabric.Known(gpus, "", time.Time{}),
		Sources: []fabric.Source{{Name: fabric.SourceClass, Up: true}, {Name: fabric.SourceHost, Up: true}, {Name: fabric.SourcePCI, Up: true}},
	}
	for i := range gpus {
		f := fabric.PCIFunction{Address: "0000:1" + string(rune('a'+i)) + ":00.0", Kind: fabric.PCIGPU}
		f.PF.State = fabric.Absent
		n.PCI.Functions = append(n.PCI.Functions, f)
	}
	for _, name := range devices {
		n.HCAs = append(n.HCAs, fabric.HCA{Name: name})
	}
	return n
}

// TestHardware: what shows nothing is no all-clear and no failure; less than before is one.
func TestHardware(t *testing.T) {
	for _, test := range []struct {
		name string
		node *fabric.Node
		edit func(*fabric.Node)
		want verdict.Status
		says string
	}{
		{"GPUs and RDMA", nodeWith(2, "mlx5_0"), nil, verdict.OK, ""},
		{"RDMA alone, as nodes for data have it", nodeWith(0, "mlx5_0"), nil, verdict.OK, ""},
		{"GPUs alone, as a workstation has them", nodeWith(1), nil, verdict.OK, ""},
		{"neither", nodeWith(0), nil, verdict.Unknown, "expected.gpus: 0"},
		{"neither, as the site says", nodeWith(0), func(n *fabric.Node) { n.Policy.GPUs = new(0) }, verdict.OK, ""},
		{"neither, and the site expects some", nodeWith(0), func(n *fabric.Node) { n.Policy.GPUs = new(8) }, verdict.Unknown, "neither"},
		{"GPUs that the driver alone lists", nodeWith(0), func(n *fabric.Node) { n.GPUDriver.GPUs = make([]fabric.GPU, 2) }, verdict.OK, ""},
		{"all devices excluded", nodeWith(0), func(n *fabric.Node) { n.Excluded = []string{"mlx5_0"} }, verdict.Unknown, "excluded by flags"},
		{"devices cannot be listed", nodeWith(0), func(n *fabric.Node) {
			n.Policy.GPUs = new(0)
			n.ClassPresent = fabric.UnknownFact[bool](fabric.ReasonIO, "", time.Time{})
		}, verdict.Unknown, "Whether the node has RDMA devices is unknown: the read fails"},
		{"the bus cannot be read", nodeWith(0), func(n *fabric.Node) {
			n.Policy.GPUs = new(0)
			n.Sources[2] = fabric.Source{Name: fabric.SourcePCI, Reason: fabric.ReasonIO}
		}, verdict.Unknown, "whether it has GPUs is unknown"},
		{"the record cannot be compared", nodeWith(8, "mlx5_0"), func(n *fabric.Node) {
			n.Sources[2] = fabric.Source{Name: fabric.SourcePCI, Reason: fabric.ReasonIO}
			n.DevicesUnread = true
		}, verdict.Unknown, "had RDMA devices (record of this node), and which it has cannot be told: the read fails"},
		{"the record cannot be compared, because some are excluded", nodeWith(8, "mlx5_0"), func(n *fabric.Node) {
			n.DevicesUnread, n.Excluded = true, []string{"mlx5_1"}
		}, verdict.OK, ""},
		{"fewer than before", nodeWith(7, "mlx5_0"), func(n *fabric.Node) {
			n.RememberedIn = "/var/lib/x"
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCIGPU, Now: 7, Then: 8, Seen: time.Unix(1.7e9, 0), Missing: []fabric.Place{"0000:db:00.0"}}}
		}, verdict.Failed, "The node has 7 GPUs; at 2023-11-14 22:13 UTC it had 8 (record of this node), including 0000:db:00.0."},
		{"a device is gone, and as many are left as the site expects", nodeWith(8, "mlx5_0"), func(n *fabric.Node) {
			n.Policy.ComputePorts = new(1)
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCINIC, Now: 1, Then: 2, Seen: time.Unix(1.7e9, 0), Missing: []fabric.Place{"0000:db:00.0 mlx5_1"}}}
		}, verdict.Failed, "including 0000:db:00.0 mlx5_1"},
		{"a device may be in a bond", nodeWith(8, "mlx5_bond_0"), func(n *fabric.Node) {
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCINIC, Now: 1, Then: 2, Missing: []fabric.Place{"0000:1a:00.1 mlx5_1"}, Doubtful: true}}
		}, verdict.Unknown, "including 0000:1a:00.1 mlx5_1. It may be in the bond of another device of its card"},
		{"one may have been exchanged", nodeWith(8, "mlx5_0"), func(n *fabric.Node) {
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCINIC, Now: 8, Then: 8, New: 1, Missing: []fabric.Place{"0000:1a:00.0 mlx5_1"}, Doubtful: true}}
		}, verdict.Unknown, "The node has 8 RDMA devices, 1 of them new; before it had 8 (record of this node), including 0000:1a:00.0 mlx5_1. A new one may"},
		{"one may be in a bond, and a GPU is gone", nodeWith(7, "mlx5_bond_0"), func(n *fabric.Node) {
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCINIC, Now: 1, Then: 2, Doubtful: true}, {Kind: fabric.PCIGPU, Now: 7, Then: 8}}
		}, verdict.Failed, "The node has 7 GPUs; before it had 8 (record of this node)."},
		{"a bond is gone", nodeWith(8, "mlx5_bond_0"), func(n *fabric.Node) {
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCINIC, Now: 2, Then: 4, Bonded: true}}
		}, verdict.Failed, "The node has 2 PCI functions with an RDMA device of their own or of their bond; before it had 4"},
		{"fewer than before, as the site says", nodeWith(7, "mlx5_0"), func(n *fabric.Node) {
			n.Policy.GPUs = new(7)
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCIGPU, Now: 7, Then: 8}}
		}, verdict.OK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.edit != nil {
				test.edit(test.node)
			}
			list := diagnose.Run(test.node, []*verdict.Check{diagnose.Find("hardware")})
			if len(list) != 1 || list[0].Status != test.want || !strings.Contains(list[0].Evidence, test.says) {
				t.Errorf("got %+v, want %s: %q", list, test.want, test.says)
			}
		})
	}
}

// The number of ports for training that the site expects replaces that of the profile, and nothing else: GPUs
// are by the profile still, and a NIC for storage that is gone by the record.
func TestNumberBesideProfile(t *testing.T) {
	chip := fabric.PCIID{Vendor: 0x15b3, Device: 0x1021}
	for _, test := range []struct {
		name            string
		number          *int
		gpus            int
		ports, hardware verdict.Status
		missing         verdict.Status // of gpus
		gone            []fabric.Remembered
	}{
		{"by the profile", nil, 8, verdict.Failed, verdict.OK, verdict.OK, nil},
		{"by the configuration", new(1), 8, verdict.OK, verdict.OK, verdict.OK, nil},
		{"a GPU is gone", new(1), 7, verdict.OK, verdict.OK, verdict.Failed, nil},
		{"a NIC for storage is gone", new(1), 8, verdict.OK, verdict.Failed, verdict.OK, []fabric.Remembered{{Kind: fabric.PCINIC, Now: 1, Then: 2}}},
	} {
		n := nodeWith(test.gpus, "mlx5_0")
		n.Policy.ComputePorts, n.Remembered = test.number, test.gone
		n.Profile = &fabric.Profile{
			Title: "DGX", GPUs: &fabric.ProfileGPUs{Number: 8}, Rails: []fabric.ProfileNIC{{Chips: []fabric.PCIID{chip}, Number: 2, Role: fabric.RoleCompute}},
			Others: []fabric.ProfileNIC{{Number: 4, Role: fabric.RoleStorage}},
		}
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: "0000:2a:00.0", Kind: fabric.PCINIC, HCAs: []string{"mlx5_0"}, Vendor: fabric.Known(int(chip.Vendor), "", diagnosetest.At), Device: fabric.Known(int(chip.Device), "", diagnosetest.At),
		})
		n.HCAs[0].Ports = []fabric.Port{{Number: 1, State: fabric.Known(fabric.PortActive, "", diagnosetest.At)}}
		n.Derive()
		for id, want := range map[string]verdict.Status{"compute_ports": test.ports, "hardware": test.hardware, "gpus": test.missing} {
			if v := diagnosetest.Alone(t, n, id); v.Status != want {
				t.Errorf("%s: %s is %s, want %s: %+v", test.name, id, v.Status, want, v)
			}
		}
	}
}

// TestExpectedGPUs: fewer than the site says is as bad as missing ports, more is a wrong configuration, and
// what cannot be read is neither.
func TestExpectedGPUs(t *testing.T) {
	virtual := func(n *fabric.Node) { n.PCI.Functions[0].PF = fabric.Known("0000:01:00.0", "", time.Time{}) }
	hidden := func(n *fabric.Node) { n.Sources[2] = fabric.Source{Name: fabric.SourcePCI, Reason: fabric.ReasonIO} }
	for _, test := range []struct {
		name          string
		gpus          int
		expect        *int
		edit          func(*fabric.Node)
		fewer, beyond verdict.Status // empty: not asked
	}{
		{"not said", 8, nil, nil, "", ""},
		{"as many", 8, new(8), nil, verdict.OK, verdict.OK},
		{"none, as on a CPU node", 0, new(0), nil, verdict.OK, verdict.OK},
		{"fewer", 7, new(8), nil, verdict.Failed, verdict.OK},
		{"none where some are expected", 0, new(8), nil, verdict.Failed, verdict.OK},
		{"more", 8, new(4), nil, verdict.OK, verdict.Failed},
		{"one on a CPU node", 1, new(0), nil, verdict.OK, verdict.Failed},
		{"a virtual function is no GPU of its own", 3, new(2), virtual, verdict.OK, verdict.OK},
		{"fewer can be read", 7, new(8), hidden, verdict.Unknown, verdict.Unknown},
		{"as many can be read", 8, new(8), hidden, verdict.OK, verdict.Unknown},
		{"more can be read", 8, new(4), hidden, verdict.OK, verdict.Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := nodeWith(test.gpus, "mlx5_0")
			n.Policy.GPUs = test.expect
			if test.edit != nil {
				test.edit(n)
			}
			for id, want := range map[string]verdict.Status{"gpus": test.fewer, "gpus_surplus": test.beyond} {
				var got verdict.Status
				for _, v := range diagnosetest.Ask(n, id) {
					got = v.Status
				}
				if got != want {
					t.Errorf("%s: %q, want %q", id, got, want)
				}
			}
		})
	}
}
