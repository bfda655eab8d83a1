// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// fullTable is a table as long as that of a ConnectX-7.
func fullTable() tree { return mlx5GIDs(255, "hca0").under(filepath.Clean(mlx5Port)) }

func TestGIDsRoCE(t *testing.T) {
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(fullTable()).device(t, "mlx5_0")
	got := all(t, d).Ports[0].GIDs
	local := netip.MustParseAddr("fe80::344f:2fff:feb7:27f8")
	known(t, "size", got.Size, 255)
	known(t, "entries", got.Entries, []fabric.GID{
		{Index: 0, Addr: local, Type: fabric.GIDRoCEv1, Family: fabric.FamilyLinkLocal, NetDev: "hca0"},
		{Index: 1, Addr: local, Type: fabric.GIDRoCEv2, Family: fabric.FamilyLinkLocal, NetDev: "hca0"},
		{Index: 2, Addr: netip.MustParseAddr("::ffff:192.168.7.1"), Type: fabric.GIDRoCEv1, Family: fabric.FamilyIPv4, NetDev: "hca0"},
		{Index: 3, Addr: netip.MustParseAddr("::ffff:192.168.7.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4, NetDev: "hca0"},
		{Index: 4, Addr: local, Type: fabric.GIDRoCEv1, Family: fabric.FamilyLinkLocal, NetDev: "hca0.7"},
		{Index: 5, Addr: local, Type: fabric.GIDRoCEv2, Family: fabric.FamilyLinkLocal, NetDev: "hca0.7"},
		{Index: 6, Addr: netip.MustParseAddr("::ffff:192.168.77.1"), Type: fabric.GIDRoCEv1, Family: fabric.FamilyIPv4, NetDev: "hca0.7"},
		{Index: 7, Addr: netip.MustParseAddr("::ffff:192.168.77.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4, NetDev: "hca0.7"},
	})
}

func TestGIDsOfSoftwareDevices(t *testing.T) {
	d, _ := rxe("rxe0", 1024).device(t, "rxe0")
	got := all(t, d).Ports[0].GIDs
	known(t, "size", got.Size, 1024)
	if g := got.Entries.Value; len(g) != 5 || g[2].Family != fabric.FamilyIPv6 || g[4].NetDev != "rdma0.100" {
		t.Errorf("GIDs of rxe: %+v", g)
	}
	d, _ = siw("siw9").device(t, "siw9")
	got = all(t, d).Ports[0].GIDs
	known(t, "size", got.Size, 1)
	if g := got.Entries.Value; len(g) != 1 || g[0].Type != fabric.GIDiWARP || g[0].Family != fabric.FamilyOther || g[0].NetDev != "" {
		t.Errorf("GIDs of siw: %+v", g)
	}
}

func TestGIDsInfiniBand(t *testing.T) {
	d, _ := infiniBand("mlx5_0").device(t, "mlx5_0")
	got := all(t, d).Ports[0].GIDs
	known(t, "size", got.Size, 8)
	if g := got.Entries.Value; len(g) != 1 || g[0].Type != fabric.GIDInfiniBand || g[0].NetDev != "" {
		t.Errorf("GIDs: %+v", g)
	}
}

// mlx4 answers for every slot of an InfiniBand port with the prefix of the subnet; those without a GUID are empty. The
// table is that of a ConnectX-3 in the test data of hwloc (tests/hwloc/linux, 128 slots of which one holds a GUID).
func TestEmptyGIDsOfInfiniBand(t *testing.T) {
	for name, prefix := range map[string]string{"the default subnet": "fe80:0000:0000:0000", "another subnet": "fec0:0000:0000:0001"} {
		t.Run(name, func(t *testing.T) {
			entries := make([][3]string, 128)
			for i := range entries {
				entries[i] = [3]string{prefix + ":0000:0000:0000:0000", "IB/RoCE v1", ""}
			}
			entries[0][0] = prefix + ":0002:c903:0012:3457"
			d, root := infiniBand("mlx5_0").with(gids(128, entries...).under(filepath.Clean(mlx5Port))).device(t, "mlx5_0")
			h := all(t, d)
			p := &h.Ports[0].GIDs
			known(t, "size", p.Size, 128)
			if g := p.Entries.Value; len(g) != 1 || g[0].Index != 0 {
				t.Errorf("%d entries, want the one with a GUID", len(g))
			}

			d.preads = 0
			must(t, d.ReadGIDs(&h, now))
			if d.preads > 3 { // gid, type, interface
				t.Errorf("%d preads where one entry is occupied", d.preads)
			}
			tree{mlx5Port + "gids/1": prefix + ":0002:c903:0012:3499\n"}.write(t, root)
			must(t, d.FindGIDs(&h, now))
			if g := p.Entries.Value; len(g) != 2 || g[1].Index != 1 {
				t.Errorf("a GUID was added: %d entries", len(g))
			}
			tree{mlx5Port + "gids/1": entries[1][0] + "\n"}.write(t, root)
			must(t, d.ReadGIDs(&h, now))
			if g := p.Entries.Value; len(g) != 1 {
				t.Errorf("the GUID is gone again: %d entries", len(g))
			}
		})
	}
}

func TestGIDsChange(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").with(fullTable()).device(t, "mlx5_0")
	set := func(i int, gid, kind, netdev string) {
		tree{fmt.Sprintf("gids/%d", i): gid + "\n", fmt.Sprintf("gid_attrs/types/%d", i): kind, fmt.Sprintf("gid_attrs/ndevs/%d", i): netdev}.
			write(t, filepath.Join(root, mlx5Port))
	}
	indexes := func(h fabric.HCA) (all []int) {
		for _, g := range h.Ports[0].GIDs.Entries.Value {
			all = append(all, g.Index)
		}
		return all
	}
	var h fabric.HCA
	must(t, d.Identify(&h, false, now))
	must(t, d.ReadGIDs(&h, now)) // scans
	p := &h.Ports[0].GIDs
	known(t, "size", p.Size, 255)
	first := p.Entries.Value
	if len(first) != 8 {
		t.Fatalf("entries %+v", first)
	}

	must(t, d.ReadGIDs(&h, now))
	if &p.Entries.Value[0] != &first[0] {
		t.Error("an unchanged table was copied")
	}

	set(3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2\n", "hca0\n")
	set(6, "0000:0000:0000:0000:0000:0000:0000:0000", "!EINVAL", "!EINVAL")
	set(200, "fd00:0000:0000:0000:0000:0000:0000:0010", "RoCE v2\n", "hca0\n")
	must(t, d.ReadGIDs(&h, now))
	if got := indexes(h); !reflect.DeepEqual(got, []int{0, 1, 2, 3, 4, 5, 7}) {
		t.Errorf("indexes %v", got)
	}
	if a := p.Entries.Value[3].Addr; a != netip.MustParseAddr("::ffff:10.0.0.1") {
		t.Errorf("entry 3 is %v", a)
	}
	if a := first[3].Addr; a != netip.MustParseAddr("::ffff:192.168.7.1") {
		t.Errorf("entries that were handed out changed: %v", a)
	}

	set(6, "fd00:0000:0000:0000:0000:0000:0000:0011", "RoCE v2\n", "hca0\n")
	must(t, d.ReadGIDs(&h, now))
	if got := indexes(h); !reflect.DeepEqual(got, []int{0, 1, 2, 3, 4, 5, 7}) {
		t.Errorf("indexes before the scan: %v", got)
	}
	must(t, d.ScanGIDs(&h, now))
	if got := indexes(h); !reflect.DeepEqual(got, []int{0, 1, 2, 3, 4, 5, 6, 7, 200}) {
		t.Errorf("indexes after the scan: %v", got)
	}

	set(0, "0000:0000:0000:0000:0000:0000:0000:0000", "!EINVAL", "!EINVAL")
	must(t, os.Remove(filepath.Join(root, mlx5Port, "gids/200")))
	must(t, d.ScanGIDs(&h, now))
	known(t, "size", p.Size, 254)
	if got := indexes(h); !reflect.DeepEqual(got, []int{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("indexes after the second scan: %v", got)
	}
}

// A search finds what the kernel may have added since, in a tenth of the table; what cannot come that way is left to
// the next scan.
func TestFindGIDs(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").with(fullTable()).device(t, "mlx5_0")
	set := func(i int, gid string) {
		tree{fmt.Sprintf("gids/%d", i): gid + "\n", fmt.Sprintf("gid_attrs/types/%d", i): "RoCE v2\n", fmt.Sprintf("gid_attrs/ndevs/%d", i): "hca0\n"}.
			write(t, filepath.Join(root, mlx5Port))
	}
	const empty = "0000:0000:0000:0000:0000:0000:0000:0000"
	h := all(t, d)
	p := &h.Ports[0].GIDs
	expect := func(when string, preads int, want ...int) {
		t.Helper()
		var got []int
		for _, g := range p.Entries.Value {
			got = append(got, g.Index)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: entries %v, want %v", when, got, want)
		}
		known(t, "size", p.Size, 255)
		if d.preads > preads {
			t.Errorf("%s: %d preads, want at most %d", when, d.preads, preads)
		}
		d.preads = 0
	}
	d.preads = 0
	must(t, d.FindGIDs(&h, now))
	expect("unchanged", 8+8+8*3, 0, 1, 2, 3, 4, 5, 6, 7)
	set(8, "fd00:0000:0000:0000:0000:0000:0000:0010")
	set(9, "fd00:0000:0000:0000:0000:0000:0000:0011")
	must(t, d.FindGIDs(&h, now))
	expect("two more", 10+8+10*3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	set(3, empty)
	must(t, d.ReadGIDs(&h, now))
	set(3, "fd00:0000:0000:0000:0000:0000:0000:0012")
	set(200, "fd00:0000:0000:0000:0000:0000:0000:0013")
	d.preads = 0
	must(t, d.FindGIDs(&h, now))
	expect("a hole is filled", 10+8+10*3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	must(t, d.ScanGIDs(&h, now))
	expect("after a scan", 255+11*3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 200)
	must(t, d.FindGIDs(&h, now))
	expect("what lies far out stays known", 255+11*3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 200)
}

func TestFindGIDsElsewhere(t *testing.T) {
	d, root := infiniBand("mlx5_0").device(t, "mlx5_0")
	h := all(t, d)
	tree{mlx5Port + "gids/7": "fd00:0000:0000:0000:0000:0000:0000:0010\n"}.write(t, root)
	must(t, d.FindGIDs(&h, now))
	if g := h.Ports[0].GIDs.Entries.Value; len(g) != 2 || g[1].Index != 7 {
		t.Errorf("the hardware chooses the slots of InfiniBand: %+v", g)
	}
	d, _ = mlx5("mlx5_0", mlx5PCI, "hca0").with(fullTable()).device(t, "mlx5_0")
	h = fabric.HCA{}
	must(t, d.Identify(&h, false, now))
	must(t, d.FindGIDs(&h, now)) // of a port never scanned
	known(t, "size", h.Ports[0].GIDs.Size, 255)
}

func TestGIDsUnreadable(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").with(tree{
		mlx5Port + "gid_attrs/types/1": "!EIO", mlx5Port + "gid_attrs/types/3": "RoCE v3\n",
		mlx5Port + "gid_attrs/ndevs/2": "!EIO", mlx5Port + "gid_attrs/ndevs/5": "no name\n", mlx5Port + "gids/9": "!EINVAL",
	}).device(t, "mlx5_0")
	h := all(t, d)
	p := &h.Ports[0].GIDs
	g := p.Entries.Value
	if len(g) != 8 || g[1].Type != fabric.GIDOther || g[3].Type != fabric.GIDOther || g[2].NetDev != "" || g[5].NetDev != "" {
		t.Fatalf("entries %+v", g)
	}

	tree{mlx5Port + "gids/3": "fe80::1\n"}.write(t, root)
	must(t, d.ReadGIDs(&h, now))
	unknown(t, "entries", p.Entries, fabric.ReasonMalformed)
	if want := "class/infiniband/mlx5_0/ports/1/gids/3"; p.Entries.Source != want {
		t.Errorf("source %q, want %q", p.Entries.Source, want)
	}
	must(t, d.ScanGIDs(&h, now))
	unknown(t, "entries", p.Entries, fabric.ReasonMalformed)
	known(t, "size", p.Size, 12)

	tree{mlx5Port + "gids/3": "0000:0000:0000:0000:0000:ffff:c0a8:0701\n"}.write(t, root)
	must(t, d.ReadGIDs(&h, now))
	if len(p.Entries.Value) != 8 {
		t.Errorf("entries %+v", p.Entries)
	}

	// Of the entry that NCCL would take, the type is not known: nothing says that it is the wrong one.
	tree{mlx5Port + "gid_attrs/types/3": "!EIO"}.write(t, root)
	must(t, d.ReadGIDs(&h, now))
	unknown(t, "entries", p.Entries, fabric.ReasonIO)
	if want := "class/infiniband/mlx5_0/ports/1/gid_attrs/types/3"; p.Entries.Source != want {
		t.Errorf("source %q, want %q", p.Entries.Source, want)
	}
	tree{mlx5Port + "gid_attrs/types/3": "!EINVAL"}.write(t, root)
	must(t, d.ReadGIDs(&h, now))
	if len(p.Entries.Value) != 8 || p.Entries.Value[3].Type != fabric.GIDOther {
		t.Errorf("entries %+v", p.Entries)
	}
	tree{mlx5Port + "gid_attrs/types/3": "RoCE v2\n"}.write(t, root)
	must(t, d.ReadGIDs(&h, now))
	if len(p.Entries.Value) != 8 || p.Entries.Value[3].Type != fabric.GIDRoCEv2 {
		t.Errorf("recovered: entries %+v", p.Entries)
	}
}

func TestGIDTableMissing(t *testing.T) {
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	for name := range base {
		if rel, err := filepath.Rel(mlx5Port+"gids", name); err == nil && filepath.IsLocal(rel) {
			delete(base, name)
		}
	}
	d, _ := base.device(t, "mlx5_0")
	h := all(t, d)
	unknown(t, "size", h.Ports[0].GIDs.Size, fabric.ReasonMissing)
	unknown(t, "entries", h.Ports[0].GIDs.Entries, fabric.ReasonMissing)
	must(t, d.ReadGIDs(&h, now))
	unknown(t, "entries", h.Ports[0].GIDs.Entries, fabric.ReasonMissing)
}

// TestGIDTableFull: a table with more entries than are kept open is read all the same.
func TestGIDTableFull(t *testing.T) {
	var entries [][3]string
	for i := range 2 * maxOpenSlots {
		entries = append(entries, [3]string{fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%04x", i+1), "RoCE v2", "hca0"})
	}
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(gids(2*maxOpenSlots, entries...).under(filepath.Clean(mlx5Port))).device(t, "mlx5_0")
	h := all(t, d)
	must(t, d.ReadGIDs(&h, now))
	if n := len(h.Ports[0].GIDs.Entries.Value); n != 2*maxOpenSlots {
		t.Errorf("%d entries", n)
	}
	if n := len(openFiles(t)); n > 3*maxOpenSlots+30 {
		t.Errorf("%d open files", n)
	}
}
