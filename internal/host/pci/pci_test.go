// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// tree is a sysfs being made.
type tree struct {
	*testing.T
	dir string
}

func (t tree) write(name, text string) {
	t.Helper()
	p := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (t tree) link(name, target string) {
	t.Helper()
	p := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, p); err != nil {
		t.Fatal(err)
	}
}

// function adds a function at a place below devices/.
func (t tree) function(place, vendor, class string) {
	t.Helper()
	dir, address := "devices/"+place, filepath.Base(place)
	for name, text := range map[string]string{
		"vendor": vendor, "device": "0x0001", "class": class, "subsystem_vendor": "0x15b3", "subsystem_device": "0x0002", "numa_node": "1",
		"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "8", "max_link_width": "16",
		"power/runtime_status": "active", "aer_dev_correctable": "RxErr 2\nTOTAL_ERR_COR 3", "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 1", "aer_dev_fatal": "TOTAL_ERR_FATAL 0",
	} {
		t.write(dir+"/"+name, text+"\n")
	}
	t.write(dir+"/config", string(space(0x5936, 0x1d)))
	t.link("bus/pci/devices/"+address, "../../../"+dir)
}

const (
	port = "pci0000:20/0000:20:00.0"
	nic  = port + "/0000:21:00.0"
	gpu  = "pci0000:20/0000:20:01.0/0000:25:00.0"
)

func newTree(t *testing.T) (tree, *Bus) {
	tr := tree{t, t.TempDir()}
	tr.function(port, "0x8086", "0x060400")
	tr.function("pci0000:20/0000:20:01.0", "0x8086", "0x060400")
	tr.function("pci0000:00/0000:00:02.0", "0x1a03", "0x030000") // the display of a management controller
	tr.function(nic, "0x15b3", "0x020000")
	tr.function(gpu, "0x10de", "0x030200")
	tr.link("devices/"+nic+"/driver", "../../../../bus/pci/drivers/mlx5_core")
	tr.link("devices/"+nic+"/iommu_group", "../../../../kernel/iommu_groups/17")
	tr.write("kernel/iommu_groups/17/type", "DMA-FQ\n")
	tr.link("class/infiniband/mlx5_0", "../../devices/"+nic+"/infiniband/mlx5_0")
	tr.link("class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0")
	b, err := Open(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return tr, b
}

// nics are the RDMA devices of a sysfs.
func nics(tb testing.TB, dir string) []NIC {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "class/infiniband"))
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	var list []NIC
	for _, e := range entries {
		list = append(list, NIC{Device: e.Name(), Link: "class/infiniband/" + e.Name()})
	}
	return list
}

func TestRead(t *testing.T) {
	tr, b := newTree(t)
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	if err != nil || len(p.Functions) != 4 {
		t.Fatalf("%v: %+v", err, p)
	}
	f := p.NIC("mlx5_0")
	for name, ok := range map[string]bool{
		"kind": f.Kind == fabric.PCINIC && f.Root == "pci0000:20" && slices.Equal(f.Bridges, []string{"0000:20:00.0"}), "vendor": f.Vendor.Value == 0x15b3,
		"driver": f.Driver.Value == "mlx5_core", "group": f.IOMMUGroup.Value == 17, "type": f.IOMMUType.Value == "DMA-FQ", "no PF": f.PF.State == fabric.Absent,
		"NUMA": f.NUMANode.Value == 1, "awake": f.Asleep == fabric.Known(false, "devices/"+nic+"/power/runtime_status", now),
		"link": f.Link.Speed.Value == 16e9 && f.Link.MaxSpeed.Value == 32e9 && f.Link.Width.Value == 8 && f.Link.MaxWidth.Value == 16,
		"AER":  f.AER.Correctable.Value == 3 && f.AER.NonFatal.Value == 1 && f.AER.Fatal.State == fabric.OK, "config": f.Config.MaxReadRequest.Value == 4096,
	} {
		if !ok {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for name, r := range f.Unknowns() {
		t.Errorf("%s is unknown: %s", name, r)
	}
	g := p.Function("0000:25:00.0")
	if g.Kind != fabric.PCIGPU || g.Driver.State != fabric.Absent || g.IOMMUGroup.State != fabric.Absent || g.IOMMUType.State != fabric.Absent {
		t.Errorf("%+v", g)
	}
	if p, err := b.Read(p, fabric.PCILinks, nil, now); err != nil || p.NIC("mlx5_0") != nil || len(p.Functions) != 3 {
		t.Errorf("excluded: %v %+v", err, p)
	}
}

// Two functions whose NUMA node the firmware does not report do not share it.
func TestNUMANodeUnknown(t *testing.T) {
	tr, b := newTree(t)
	tr.write("devices/"+nic+"/numa_node", "-1\n")
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	want := fabric.UnknownFact[int](fabric.ReasonMissing, "devices/"+nic+"/numa_node", now)
	if got := p.NIC("mlx5_0").NUMANode; err != nil || got != want {
		t.Errorf("%v: %+v, want %+v", err, got, want)
	}
}

func TestReadAgain(t *testing.T) {
	tr, b := newTree(t)
	first, _ := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	tr.write("devices/"+nic+"/current_link_width", "4\n")
	tr.write("devices/"+nic+"/aer_dev_fatal", "TOTAL_ERR_FATAL 9\n")
	tr.write("devices/"+nic+"/config", string(space(0x5936, 0)))
	again, _ := b.Read(first, fabric.PCILinks, nics(t, tr.dir), now)
	if f := again.NIC("mlx5_0"); f.Link.Width.Value != 4 || f.AER.Fatal.Value != 9 || f.Config.ACS.Value != 0x1d {
		t.Errorf("%+v", f)
	}
	all, _ := b.Read(again, fabric.PCIEverything, nics(t, tr.dir), now)
	if f := all.NIC("mlx5_0"); f.Config.ACS.Value != 0 {
		t.Errorf("%+v", f)
	}
	tr.function("pci0000:20/0000:20:01.0/0000:25:00.1", "0x1002", "0x120000")
	tr.write("devices/"+nic+"/config", string(space(0x5936, 4)))
	more, _ := b.Read(all, fabric.PCILinks, nics(t, tr.dir), now)
	if f := more.NIC("mlx5_0"); len(more.GPUs()) != 2 || f.Config.ACS.Value != 4 {
		t.Errorf("the new GPU is missing: %+v", more)
	}
}

// What sleeps is not woken, and is read in full when it woke up.
func TestSuspended(t *testing.T) {
	tr, b := newTree(t)
	tr.write("devices/"+port+"/power/runtime_status", "suspended\n")
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	f := p.NIC("mlx5_0")
	var wakes []string
	for name, r := range f.Unknowns() {
		if wakes = append(wakes, name); r != fabric.ReasonSuspended {
			t.Errorf("%s is unknown: %s", name, r)
		}
	}
	if want := "Speed MaxSpeed Width MaxWidth MaxPayload MaxReadRequest RelaxedOrdering NoSnoop ACS"; err != nil || strings.Join(wakes, " ") != want {
		t.Errorf("%v: unknown are %v, want %s", err, wakes, want)
	}
	if g := p.Function("0000:25:00.0"); g.Config.ACS.State != fabric.OK {
		t.Errorf("the neighbour is awake: %+v", g)
	}
	tr.write("devices/"+port+"/power/runtime_status", "active\n")
	p, _ = b.Read(p, fabric.PCILinks, nics(t, tr.dir), now)
	if f := p.NIC("mlx5_0"); f.Config.ACS.State != fabric.OK || f.Link.MaxSpeed.State != fabric.OK {
		t.Errorf("%+v", f)
	}
}

// Whatever a tree holds costs only those facts.
func TestBadInput(t *testing.T) {
	tr, b := newTree(t)
	bad := "devices/" + nic
	for _, name := range []string{"vendor", "numa_node", "current_link_speed", "power/runtime_status"} {
		tr.write(bad+"/"+name, "\xff\x00nonsense")
	}
	tr.write(bad+"/config", strings.Repeat("\x50", 4096))
	if err := os.Remove(filepath.Join(tr.dir, bad, "aer_dev_fatal")); err != nil {
		t.Fatal(err)
	}
	tr.link(bad+"/aer_dev_fatal", "/etc/passwd")
	tr.link("class/infiniband/evil", "../../../../../etc")
	tr.link("bus/pci/devices/0000:99:00.0", "../../../../outside")
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	for _, want := range []string{
		`class/infiniband/evil: not what sysfs promises: leads to "../../../../../etc", expected a place below devices/`,
		`bus/pci/devices/0000:99:00.0: not what sysfs promises: leads to "../../../../outside", expected`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f := p.NIC("mlx5_0")
	for name, m := range map[string]fabric.Meta{"vendor": f.Vendor.Meta(), "numa": f.NUMANode.Meta(), "speed": f.Link.Speed.Meta(), "power": f.Asleep.Meta(), "acs": f.Config.ACS.Meta()} {
		if m.Reason != fabric.ReasonMalformed {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if f.AER.Fatal.State != fabric.Unknown || f.Link.Width.Value != 8 || p.Function("0000:25:00.0").Config.ACS.State != fabric.OK {
		t.Errorf("%+v", f)
	}
}

// An entry of the list that is no device is reported elsewhere: here it costs nothing.
func TestOddEntryAmongDevices(t *testing.T) {
	tr, b := newTree(t)
	tr.write("class/infiniband/file", "")
	tr.write("class/infiniband/no-utf8\xff", "")
	tr.link("class/infiniband/dangling", "../../nothing/here")
	if err := os.Mkdir(filepath.Join(tr.dir, "class/infiniband/directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	if err != nil || len(p.Functions) != 4 || p.NIC("mlx5_0") == nil {
		t.Errorf("%v: %+v", err, p)
	}
}

// A device in another network namespace has its function still: class/infiniband_verbs leads there.
func TestMovedDeviceKeepsItsFunction(t *testing.T) {
	tr, b := newTree(t)
	before, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(tr.dir, "class/infiniband/mlx5_0")); err != nil {
		t.Fatal(err)
	}
	tr.link("class/infiniband_verbs/uverbs0", "../../devices/"+nic+"/infiniband_verbs/uverbs0")
	after, err := b.Read(before, fabric.PCIPlaces, []NIC{{"mlx5_0", "class/infiniband_verbs/uverbs0"}}, now)
	if err != nil || after.NIC("mlx5_0") == nil || after.NIC("mlx5_0").Address != before.NIC("mlx5_0").Address {
		t.Errorf("%v: %+v", err, after)
	}
}

// Where everything is hardly ever changes. While it does not, the list of functions is not made anew.
func TestPlacesAreKept(t *testing.T) {
	tr, b := newTree(t)
	first, err := b.Read(fabric.PCI{}, fabric.PCIPlaces, nics(t, tr.dir), now)
	if err != nil || len(first.Functions) != 4 {
		t.Fatalf("%v: %+v", err, first)
	}
	same, err := b.Read(first, fabric.PCIPlaces, nics(t, tr.dir), now)
	if err != nil || len(same.Functions) != 4 || &same.Functions[0] != &first.Functions[0] {
		t.Errorf("made anew: %v: %+v", err, same)
	}
	tr.function("pci0000:20/0000:20:01.0/0000:25:00.1", "0x1002", "0x120000")
	more, err := b.Read(same, fabric.PCIPlaces, nics(t, tr.dir), now)
	if f := more.Function("0000:25:00.1"); err != nil || f == nil || f.Link.Width.State != fabric.OK {
		t.Errorf("nothing is known of the new function: %v: %+v", err, more)
	}
	again, err := b.Read(fabric.PCI{}, fabric.PCIPlaces, nics(t, tr.dir), now) // a reader without a last answer gets everything
	if f := again.NIC("mlx5_0"); err != nil || f == nil || f.Link.Width.State != fabric.OK {
		t.Errorf("%v: %+v", err, again)
	}
}

// TestListFails: while the functions cannot be listed, it stays known where they were, and nothing else.
func TestListFails(t *testing.T) {
	tr, b := newTree(t)
	list := filepath.Join(tr.dir, "bus/pci/devices")
	first, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nics(t, tr.dir), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(list, list+".away"); err != nil {
		t.Fatal(err)
	}
	tr.write("bus/pci/devices", "")
	p, err := b.Read(first, fabric.PCILinks, nics(t, tr.dir), now)
	f := p.NIC("mlx5_0")
	if err == nil || len(p.Functions) != 4 || f == nil || f.Root != "pci0000:20" || f.Link.Width.State != fabric.Unknown || f.NUMANode.State != fabric.Unknown {
		t.Fatalf("%v: %+v", err, p)
	}
	if err := errors.Join(os.Remove(list), os.Rename(list+".away", list)); err != nil {
		t.Fatal(err)
	}
	p, err = b.Read(p, fabric.PCILinks, nics(t, tr.dir), now)
	if f := p.NIC("mlx5_0"); err != nil || f.Link.Width.Value != 8 || f.NUMANode.Value != 1 || f.Vendor.Value != 0x15b3 {
		t.Errorf("recovered: %v: %+v", err, f)
	}
}

func TestNoPCI(t *testing.T) {
	b, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if p, err := b.Read(fabric.PCI{}, fabric.PCIEverything, nil, now); err != nil || len(p.Functions) != 0 {
		t.Errorf("%v: %+v", err, p)
	}
	if _, err := Open("/nosuch"); err == nil {
		t.Error("opened what is not there")
	}
}

func TestParsers(t *testing.T) {
	for text, want := range map[string]float64{"32.0 GT/s PCIe\n": 32e9, "2.5 GT/s PCIe\n": 2.5e9, "8 GT/s\n": 8e9, "Unknown\n": 0, "Unknown speed\n": 0} {
		if v, ok := parseSpeed([]byte(text)); !ok || v != want {
			t.Errorf("%q: %v, %v", text, v, ok)
		}
	}
	for _, text := range []string{"", "32.0", "0 GT/s", "-1 GT/s", "1e9 GT/s", "32.0 MT/s", "1.2.3 GT/s"} {
		if v, ok := parseSpeed([]byte(text)); ok {
			t.Errorf("%q: %v", text, v)
		}
	}
	for text, want := range map[string]int{"16\n": 16, "1\n": 1, "0\n": 0, "255\n": 0} {
		if v, ok := parseWidth([]byte(text)); !ok || v != want {
			t.Errorf("%q: %v, %v", text, v, ok)
		}
	}
	for _, text := range []string{"", "x16", "-1", "33", "256"} {
		if v, ok := parseWidth([]byte(text)); ok {
			t.Errorf("%q: %v", text, v)
		}
	}
	table := "Receiver Error 2\nBad TLP 1\nTOTAL_ERR_COR 3\n"
	if v, ok := parseErrors("TOTAL_ERR_COR")([]byte(table)); !ok || v != 3 {
		t.Errorf("%v, %v", v, ok)
	}
	for _, text := range []string{"", "TOTAL_ERR_COR\n", "TOTAL_ERR_COR -1\n", "TOTAL_ERR_FATAL 3\n"} {
		if v, ok := parseErrors("TOTAL_ERR_COR")([]byte(text)); ok {
			t.Errorf("%q: %v", text, v)
		}
	}
}
