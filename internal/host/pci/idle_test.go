// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// A NIC without an RDMA device may get one: it is known what it is and which driver has it. Nothing else is
// read of it or of what is above it, and no more often.
func TestNICWithoutDevice(t *testing.T) {
	tr, b := newTree(t)
	const idle = "pci0000:40/0000:40:01.0/0000:41:00.0"
	for place, class := range map[string]string{
		"pci0000:40/0000:40:01.0": "0x060400", idle: "0x020700", "pci0000:50/0000:50:00.0": "0x020000",
		"pci0000:50/0000:51:00.0": "0x028000", "pci0000:50/0000:52:00.0": "0x010802",
	} {
		tr.function(place, "0x15b3", class)
	}
	tr.link("devices/pci0000:50/0000:50:00.0/driver", "../../../../bus/pci/drivers/vfio-pci")
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	f, other := p.Function("0000:41:00.0"), p.Function("0000:50:00.0")
	if err != nil || len(p.Functions) != 6 || f == nil || other == nil {
		t.Fatalf("%v: %+v", err, p)
	}
	want := fabric.PCIFunction{Address: "0000:41:00.0", Kind: fabric.PCINIC, Root: "pci0000:40", Bridges: []string{"0000:40:01.0"}}
	want.Vendor, want.Device, want.Class = f.Vendor, f.Device, f.Class
	want.SubsystemVendor, want.SubsystemDevice, want.NUMANode = f.SubsystemVendor, f.SubsystemDevice, f.NUMANode
	want.Driver, want.PF, want.IOMMUGroup, want.IOMMUType = f.Driver, f.PF, f.IOMMUGroup, f.IOMMUType
	if !reflect.DeepEqual(*f, want) || f.Driver.State != fabric.Absent || f.Class.Value != 0x020700 || !other.PassedThrough() {
		t.Errorf("%+v\n%+v", f, other)
	}
	for _, name := range []string{"vendor", "driver", "class"} {
		tr.write("devices/"+idle+"/"+name, "not read again")
	}
	if again, err := b.Read(p, fabric.PCILinks, nics(t, tr.dir), now); err != nil || !reflect.DeepEqual(again.Function("0000:41:00.0"), f) {
		t.Errorf("%v: %+v", err, again.Function("0000:41:00.0"))
	}
	tr.write("devices/"+idle+"/class", "0x020700\n")
	tr.link("class/infiniband/mlx5_1", "../../devices/"+idle+"/infiniband/mlx5_1")
	with, err := b.Read(p, fabric.PCILinks, nics(t, tr.dir), now)
	if f := with.NIC("mlx5_1"); err != nil || len(with.Functions) != 7 || f == nil || f.Link.Width.Value != 8 || f.Config.ACS.State != fabric.OK {
		t.Errorf("with a device: %v: %+v", err, with)
	}
}

// A NIC at an odd place costs nothing while it has no RDMA device.
func TestNICAtOddPlace(t *testing.T) {
	tr, b := newTree(t)
	tr.function("platform/0000:61:00.0", "0x8086", "0x020000")
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	if err != nil || len(p.Functions) != 4 {
		t.Errorf("%v: %+v", err, p)
	}
}

// Virtual functions may be thousands. What has an RDMA device is known beside any number of them.
func TestManyNICsWithoutDevice(t *testing.T) {
	tr, b := newTree(t)
	for i := range maxIdle + 10 {
		place := fmt.Sprintf("pci0000:10/0000:1%x:%02x.%d", i/256, i/8%32, i%8)
		tr.write("devices/"+place+"/class", "0x020000\n")
		tr.link("bus/pci/devices/"+filepath.Base(place), "../../../devices/"+place)
	}
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	if err != nil || len(p.Functions) != maxIdle+4 || p.NIC("mlx5_0") == nil || len(p.GPUs()) != 1 {
		t.Errorf("%v: %d functions", err, len(p.Functions))
	}
}
