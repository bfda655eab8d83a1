// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
)

// As many devices are named as the node lacks, by names that no other device has, and only a source that is
// right about the node says so.
func TestGoneDevices(t *testing.T) {
	record := func(now, then int, missing ...fabric.Place) func(*fabric.Node) {
		return func(n *fabric.Node) {
			n.Remembered = []fabric.Remembered{{Kind: fabric.PCIGPU, Now: 7, Then: 8, Missing: []fabric.Place{"0000:99:00.0"}}}
			n.Remembered = append(n.Remembered, fabric.Remembered{Kind: fabric.PCINIC, Now: now, Then: then, Missing: missing})
			n.DevicesCompared = true
		}
	}
	manifest := func(board string) func(*fabric.Node) {
		return func(n *fabric.Node) {
			n.HCAs[0].BoardID = fabric.Known("B1", "", diagnosetest.At)
			n.Policy.Manifest = &fabric.Manifest{Devices: map[string]map[string]string{
				"mlx5_0": {"board": board, "port_1_role": "compute"}, "mlx5_1": {"board": board, "port_1_role": "storage"}, "mlx5_2": {"board": board, "port_1_role": "management"},
			}}
		}
	}
	for name, c := range map[string]struct {
		edit func(*fabric.Node)
		want []node.Gone
		all  bool
	}{
		"nothing states anything": {func(*fabric.Node) {}, nil, false},
		"nothing is gone":         {func(n *fabric.Node) { n.DevicesCompared = true }, nil, true},
		"by the record":           {record(1, 2, "0000:db:00.0 mlx5_1"), []node.Gone{{Device: "mlx5_1", By: fabric.ByRecord}}, true},
		"it may be in a bond":     {func(n *fabric.Node) { record(1, 2, "0000:db:00.0 mlx5_1")(n); n.Remembered[1].Doubtful = true }, nil, false},
		"in a bond, and the manifest knows nothing of it": {func(n *fabric.Node) {
			manifest("B1")(n)
			delete(n.Policy.Manifest.Devices, "mlx5_1")
			record(1, 2, "0000:db:00.0 mlx5_1")(n)
			n.Remembered[1].Doubtful = true
		}, nil, false},
		"virtual functions stand in for no device of the manifest": {func(n *fabric.Node) {
			manifest("B1")(n)
			vf := fabric.HCA{Name: "mlx5_8", BoardID: fabric.Known("B1", "", diagnosetest.At), Function: fabric.Known(fabric.FunctionVF, "", diagnosetest.At)}
			vf.Ports = []fabric.Port{{Number: 1, Role: fabric.Known(fabric.RoleUnused, "", diagnosetest.At)}}
			n.HCAs = append(n.HCAs, vf)
		}, []node.Gone{{Device: "mlx5_1", By: fabric.ByManifest}}, true},
		"another device has its name": {record(1, 2, "0000:db:00.0 mlx5_0"), []node.Gone{{Device: "0000:db:00.0", By: fabric.ByRecord}}, true},
		"places are counted anew":     {record(1, 2, "0000:da:00.0 mlx5_0", "0000:db:00.0 mlx5_1"), []node.Gone{{Device: "mlx5_1", By: fabric.ByRecord}}, true},
		"the record could not be compared, and the manifest lacks nothing": {func(n *fabric.Node) {
			manifest("B1")(n)
			delete(n.Policy.Manifest.Devices, "mlx5_1")
			n.DevicesUnread = true
		}, nil, false},
		"the record is compared, and the manifest that lists another is that of another node": {func(n *fabric.Node) { manifest("B2")(n); n.DevicesCompared = true }, nil, false},
		"since this process runs":                 {func(n *fabric.Node) { record(1, 2, "0000:db:00.0 mlx5_1")(n); n.DevicesCompared = false }, []node.Gone{{Device: "mlx5_1", By: fabric.ByRecord}}, false},
		"by the manifest, training and storage":   {manifest("B1"), []node.Gone{{Device: "mlx5_1", By: fabric.ByManifest}}, true},
		"the manifest is that of another node":    {manifest("B2"), nil, false},
		"the list of devices could not be read":   {func(n *fabric.Node) { manifest("B1")(n); n.ClassPresent.State = fabric.Unknown }, nil, false},
		"the record and the manifest have it":     {func(n *fabric.Node) { manifest("B1")(n); record(1, 2, "0000:db:00.0 mlx5_1")(n) }, []node.Gone{{Device: "mlx5_1", By: fabric.ByRecord}}, true},
		"the manifest excludes nothing, flags do": {func(n *fabric.Node) { manifest("B1")(n); n.Excluded = []string{"mlx5_1"} }, nil, true},
	} {
		n := nodeWith(8, "mlx5_0")
		c.edit(n)
		if got, all := node.GoneDevices(n); !slices.Equal(got, c.want) || all != c.all {
			t.Errorf("%s: got %v, all %t; want %v, %t", name, got, all, c.want, c.all)
		}
	}
}
