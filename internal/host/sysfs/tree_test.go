// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

var now = time.Date(2026, 11, 21, 2, 9, 0, 0, time.UTC)

// tree is a sysfs as data: what each file holds. "-> x" is a symbolic link, "!EINVAL" a file that cannot be
// read, and a name that ends in "/" a directory.
type tree map[string]string

func (t tree) with(others ...tree) tree {
	all := maps.Clone(t)
	for _, o := range others {
		maps.Copy(all, o)
	}
	return all
}

// under puts a prefix before all names.
func (t tree) under(prefix string) tree {
	all := tree{}
	for name, content := range t {
		all[prefix+"/"+name] = content
	}
	return all
}

func (t tree) write(tb testing.TB, root string) {
	tb.Helper()
	for name, content := range t {
		p := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			must(tb, os.MkdirAll(p, 0o755))
			continue
		}
		must(tb, os.MkdirAll(filepath.Dir(p), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			must(tb, os.Symlink(target, p))
			continue
		}
		must(tb, os.WriteFile(p, []byte(content), 0o644))
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// open writes the tree and opens it. Its files behave as those of kernfs.
func (t tree) open(tb testing.TB) (*FS, string) {
	tb.Helper()
	root := tb.TempDir()
	t.write(tb, root)
	f, err := Open(root)
	must(tb, err)
	f.pread = kernfs
	tb.Cleanup(func() { f.Close() })
	return f, root
}

// device opens the tree and a device in it.
func (t tree) device(tb testing.TB, name string) (*Device, string) {
	tb.Helper()
	f, root := t.open(tb)
	d, err := f.Device(name)
	must(tb, err)
	tb.Cleanup(d.Close)
	return d, root
}

// kernfs reads a plain file as if it were one of the kernel's: once removed it answers ENODEV, and "!EIO" in it
// stands for the error that its driver returns.
func kernfs(fd int, p []byte, offset int64) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if st.Nlink == 0 {
		return 0, unix.ENODEV
	}
	n, err := unix.Pread(fd, p, offset)
	if err == nil && n > 0 && p[0] == '!' {
		switch string(p[1:n]) {
		case "EINVAL":
			return 0, unix.EINVAL
		case "EIO":
			return 0, unix.EIO
		case "EACCES":
			return 0, unix.EACCES
		case "EPERM":
			return 0, unix.EPERM
		case "ENODEV":
			return 0, unix.ENODEV
		case "ENXIO":
			return 0, unix.ENXIO
		case "EOPNOTSUPP":
			return 0, unix.EOPNOTSUPP
		case "ENOSYS":
			return 0, unix.ENOSYS
		}
	}
	return n, err
}

// all reads everything of a device.
func all(t *testing.T, d *Device) fabric.HCA {
	t.Helper()
	var h fabric.HCA
	must(t, d.Identify(&h, false, now))
	must(t, d.ReadPorts(&h, now))
	must(t, d.ReadPortDetails(&h, now))
	must(t, d.ScanGIDs(&h, now))
	return h
}

func known[T any](t *testing.T, what string, got fabric.Fact[T], want T) {
	t.Helper()
	if got.State != fabric.OK || !reflect.DeepEqual(got.Value, want) {
		t.Errorf("%s = %+v, want %v", what, got, want)
	}
	sourced(t, what, got)
}

func absent[T any](t *testing.T, what string, got fabric.Fact[T]) {
	t.Helper()
	if got.State != fabric.Absent {
		t.Errorf("%s = %+v, want absent", what, got)
	}
	sourced(t, what, got)
}

func unknown[T any](t *testing.T, what string, got fabric.Fact[T], want fabric.Reason) {
	t.Helper()
	if got.State != fabric.Unknown || got.Reason != want {
		t.Errorf("%s = %+v, want unknown: %s", what, got, want)
	}
	sourced(t, what, got)
}

func sourced[T any](t *testing.T, what string, got fabric.Fact[T]) {
	t.Helper()
	if got.Source == "" || filepath.IsAbs(got.Source) || !got.At.Equal(now) {
		t.Errorf("%s has source %q and time %v, want a path below the root and %v", what, got.Source, got.At, now)
	}
}

func wantGone(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrGone) {
		t.Errorf("%s: error %v, want ErrGone", what, err)
	}
}

// The shapes of devices. Recorded from Linux 6.1 where a software or test device of the kind exists, else
// after the drivers' sources.

// onPCI is an RDMA device below a PCI function, with the links that the kernel makes.
func onPCI(name, parents, driver string, device, function tree) tree {
	at := "devices/" + parents + "/infiniband/" + name
	up := strings.Repeat("../", strings.Count("devices/"+parents, "/")+1)
	return tree{
		"class/infiniband/" + name:               "-> ../../" + at,
		at + "/device":                           "-> ../../../" + filepath.Base(parents),
		"devices/" + parents + "/driver":         "-> " + up + "bus/pci/drivers/" + driver,
		"bus/pci/drivers/" + driver + "/":        "",
		"devices/" + parents + "/numa_node":      "1\n",
		"devices/" + parents + "/vendor":         "0x15b3\n",
		"bus/pci/devices/":                       "",
		at + "/subsystem":                        "-> " + up + "../../class/infiniband",
		"devices/" + parents + "/vpd":            "\x82\x10\x00ConnectX-7 NDR\x90",
		"devices/" + parents + "/sriov_totalvfs": "16\n",
	}.with(device.under(at), function.under("devices/"+parents))
}

const zeroGID = "0000:0000:0000:0000:0000:0000:0000:0000\n"

// gids is a GID table whose first entries are occupied: each is "gid type netdev".
func gids(size int, entries ...[3]string) tree {
	t := tree{}
	for i := range size {
		gid, kind, netdev := zeroGID, "!EINVAL", "!EINVAL"
		if i < len(entries) {
			gid, kind, netdev = entries[i][0]+"\n", entries[i][1]+"\n", entries[i][2]+"\n"
		}
		t[fmt.Sprintf("gids/%d", i)] = gid
		if i > len(entries)+4 {
			continue // they are not read, and files cost time
		}
		t[fmt.Sprintf("gid_attrs/types/%d", i)] = kind
		t[fmt.Sprintf("gid_attrs/ndevs/%d", i)] = netdev
	}
	return t
}

// roce is a port with the attributes that all RoCE drivers have.
func roce(rate string, table tree) tree {
	return tree{
		"state": "4: ACTIVE\n", "phys_state": "5: LinkUp\n", "link_layer": "Ethernet\n", "rate": rate + "\n",
		"lid": "0x0\n", "sm_lid": "0x0\n", "lid_mask_count": "0\n", "cap_mask": "0x00000000\n", "pkeys/0": "0xffff\n",
	}.with(table)
}

const mlx5PCI = "pci0000:20/0000:20:00.0/0000:21:00.0/0000:22:00.0/0000:23:00.0"

// mlx5GIDs is the table of mlx5, of 255 entries in reality: RoCE v1 and v2 for each address, and again for a VLAN.
func mlx5GIDs(size int, netdev string) tree {
	return gids(size,
		[3]string{"fe80:0000:0000:0000:344f:2fff:feb7:27f8", "IB/RoCE v1", netdev},
		[3]string{"fe80:0000:0000:0000:344f:2fff:feb7:27f8", "RoCE v2", netdev},
		[3]string{"0000:0000:0000:0000:0000:ffff:c0a8:0701", "IB/RoCE v1", netdev},
		[3]string{"0000:0000:0000:0000:0000:ffff:c0a8:0701", "RoCE v2", netdev},
		[3]string{"fe80:0000:0000:0000:344f:2fff:feb7:27f8", "IB/RoCE v1", netdev + ".7"},
		[3]string{"fe80:0000:0000:0000:344f:2fff:feb7:27f8", "RoCE v2", netdev + ".7"},
		[3]string{"0000:0000:0000:0000:0000:ffff:c0a8:4d01", "IB/RoCE v1", netdev + ".7"},
		[3]string{"0000:0000:0000:0000:0000:ffff:c0a8:4d01", "RoCE v2", netdev + ".7"},
	)
}

func mlx5Files() tree {
	return tree{
		"node_type": "1: CA\n", "fw_ver": "28.39.1002\n", "board_id": "FAKE0000000001\n", "hca_type": "MT4129\n",
		"hw_rev": "0\n", "node_guid": "344f:2fff:feb7:27f8\n", "sys_image_guid": "344f:2fff:feb7:27f8\n",
		"node_desc": "fakehca\n",
	}
}

func mlx5(name, parents, netdev string) tree {
	return onPCI(name, parents, "mlx5_core",
		mlx5Files().with(roce("400 Gb/sec (4X NDR)", mlx5GIDs(12, netdev)).under("ports/1")),
		tree{"net/" + netdev + "/dev_port": "0\n", "net/" + netdev + "/dev_id": "0x0\n"})
}

// rxe has a table of 1024 entries in reality.
func rxe(name string, size int) tree {
	at := "devices/virtual/infiniband/" + name
	return tree{"class/infiniband/" + name: "-> ../../" + at}.with(tree{
		"node_type": "1: CA\n", "fw_ver": "\n", "node_guid": "a8d7:3cff:feac:c4b1\n", "parent": "rdma0\n",
		"sys_image_guid": "a8d7:3cff:feac:c4b1\n", "node_desc": "rxe\n",
	}.with(roce("10 Gb/sec (1X FDR10)", gids(size,
		[3]string{"fe80:0000:0000:0000:a8d7:3cff:feac:c4b1", "RoCE v2", "rdma0"},
		[3]string{"0000:0000:0000:0000:0000:ffff:0a00:000a", "RoCE v2", "rdma0"},
		[3]string{"fd00:0000:0000:0000:0000:0000:0000:0010", "RoCE v2", "rdma0"},
		[3]string{"0000:0000:0000:0000:0000:ffff:0a00:640a", "RoCE v2", "rdma0.100"},
		[3]string{"fe80:0000:0000:0000:a8d7:3cff:feac:c4b1", "RoCE v2", "rdma0.100"},
	)).under("ports/1")).under(at))
}

// siw has a MAC address in its only GID, of which the kernel says "IB/RoCE v1", and nothing that names its
// network interface.
func siw(name string) tree {
	at := "devices/virtual/infiniband/" + name
	return tree{"class/infiniband/" + name: "-> ../../" + at}.with(tree{
		"node_type": "4: RNIC\n", "fw_ver": "\n", "node_guid": "d815:83ff:fea8:6f99\n",
		"sys_image_guid": "d815:83ff:fea8:6f99\n", "node_desc": "Software iWARP stack\n",
	}.with(roce("10 Gb/sec (1X FDR10)", tree{
		"gids/0": "da15:83a8:6f99:0000:0000:0000:0000:0000\n", "gid_attrs/types/0": "IB/RoCE v1\n", "gid_attrs/ndevs/0": "!EINVAL",
	}).under("ports/1")).under(at))
}

// efa prints constants; its network interfaces belong to another PCI function.
func efa(name string) tree {
	return onPCI(name, "pci0000:00/0000:00:1d.0", "efa", tree{
		"node_type": "7: unspecified\n", "fw_ver": "0.0.0.0\n", "node_guid": "0000:0000:0000:0000\n",
		"sys_image_guid": "0000:0000:0000:0000\n", "node_desc": "rdmap0s29\n",
	}.with(tree{
		"state": "4: ACTIVE\n", "phys_state": "5: LinkUp\n", "link_layer": "Unknown\n", "rate": "100 Gb/sec (4X EDR)\n",
		"lid": "0x1\n", "sm_lid": "0x1\n", "pkeys/0": "0xffff\n",
		"gids/0": "fe80:0000:0000:0000:0cf0:1eff:fe00:0001\n", "gid_attrs/types/0": "IB/RoCE v1\n", "gid_attrs/ndevs/0": "!EINVAL",
	}.under("ports/1")), tree{"vendor": "0x1d0f\n"})
}

// infiniBand is an HCA with IPoIB interfaces.
func infiniBand(name string) tree {
	pkeys := tree{}
	for i := range 128 {
		pkeys[fmt.Sprintf("pkeys/%d", i)] = "!EIO" // they must not be read
	}
	table := gids(8, [3]string{"fe80:0000:0000:0000:b8ce:f603:0012:3456", "IB/RoCE v1", ""})
	table["gid_attrs/ndevs/0"] = "!EINVAL"
	return onPCI(name, mlx5PCI, "mlx5_core", mlx5Files().with(tree{
		"state": "4: ACTIVE\n", "phys_state": "5: LinkUp\n", "link_layer": "InfiniBand\n", "rate": "400 Gb/sec (4X NDR)\n",
		"lid": "0x1a\n", "sm_lid": "0x1\n",
	}.with(pkeys, table).under("ports/1")), tree{
		"net/ib0/dev_port": "0\n", "net/ib0/dev_id": "0x0\n", "net/ib0.8001/dev_port": "0\n", "net/ib0.8001/dev_id": "0x0\n",
	})
}
