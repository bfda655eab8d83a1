// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

func TestDevices(t *testing.T) {
	f, _ := mlx5("mlx5_1", mlx5PCI, "hca1").with(rxe("rxe0", 8), mlx5("mlx5_0", "pci0000:20/0000:20:01.0/0000:25:00.0", "hca0")).open(t)
	got, err := f.Devices()
	if want := []string{"mlx5_0", "mlx5_1", "rxe0"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Devices() = %q, %v, want %q", got, err, want)
	}
}

func TestDevicesWithoutRDMA(t *testing.T) {
	f, _ := tree{"class/net/": ""}.open(t)
	if got, err := f.Devices(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("kernel without RDMA class: %q, %v", got, err)
	}
	f, _ = tree{"class/infiniband/": ""}.open(t)
	if got, err := f.Devices(); err != nil || len(got) != 0 {
		t.Errorf("RDMA class without devices: %q, %v", got, err)
	}
	f, _ = tree{"etc/": ""}.open(t)
	if got, err := f.Devices(); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory that is no sysfs: %q, %v", got, err)
	}
	f, _ = tree{"class/infiniband": "a file"}.open(t)
	if got, err := f.Devices(); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file for the class: %q, %v", got, err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing root: %v", err)
	}
}

func TestDeviceNames(t *testing.T) {
	good := []string{`a "quoted" \ name`, "new\nline", "naïve_µ0", strings.Repeat("n", maxDeviceName)}
	bad := []string{strings.Repeat("n", maxDeviceName+1), "no-utf8\xff"}
	all := tree{}
	for i, name := range append(good, bad...) {
		all = all.with(mlx5(name, "pci0000:00/0000:00:0"+string(rune('1'+i))+".0", "eth0"))
	}
	f, _ := all.open(t)
	got, err := f.Devices()
	if len(got) != len(good) || err == nil {
		t.Fatalf("Devices() = %q, %v, want %q and an error", got, err, good)
	}
	for _, name := range bad {
		if _, err := f.Device(name); err == nil {
			t.Errorf("Device(%q) opens", name)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "../net/lo"} {
		if _, err := f.Device(name); err == nil {
			t.Errorf("Device(%q) opens", name)
		}
	}
	for _, name := range good {
		d, err := f.Device(name)
		if err != nil {
			t.Errorf("Device(%q): %v", name, err)
			continue
		}
		var h fabric.HCA
		must(t, d.Identify(&h, false, now))
		must(t, d.ReadPorts(&h, now))
		known(t, name, h.Ports[0].State, fabric.PortActive)
		if want := "class/infiniband/" + name + "/ports/1/state"; h.Ports[0].State.Source != want {
			t.Errorf("source %q, want %q", h.Ports[0].State.Source, want)
		}
		d.Close()
	}
}

func TestIdentify(t *testing.T) {
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	if h.Name != "mlx5_0" {
		t.Errorf("name %q", h.Name)
	}
	known(t, "node type", h.NodeType, fabric.NodeCA)
	known(t, "firmware", h.Firmware, "28.39.1002")
	known(t, "board", h.BoardID, "FAKE0000000001")
	known(t, "type", h.Type, "MT4129")
	known(t, "revision", h.Revision, "0")
	known(t, "GUID", h.NodeGUID, "344f:2fff:feb7:27f8")
	known(t, "image GUID", h.ImageGUID, "344f:2fff:feb7:27f8")
	known(t, "driver", h.Driver, "mlx5_core")
	known(t, "PCI", h.PCI, "0000:23:00.0")
	known(t, "NUMA node", h.NUMANode, 1)
	known(t, "function", h.Function, fabric.FunctionPF)
	known(t, "restricted", h.Restricted, false)
	if want := "devices/" + mlx5PCI + "/vpd"; h.Restricted.Source != want {
		t.Errorf("restricted was read from %q, want %q", h.Restricted.Source, want)
	}
}

func TestIdentifySoftwareDevice(t *testing.T) {
	for name, shape := range map[string]tree{"rxe0": rxe("rxe0", 8), "siw9": siw("siw9")} {
		d, _ := shape.device(t, name)
		h := all(t, d)
		absent(t, "firmware", h.Firmware)
		absent(t, "board", h.BoardID)
		absent(t, "type", h.Type)
		absent(t, "revision", h.Revision)
		absent(t, "driver", h.Driver)
		absent(t, "PCI", h.PCI)
		absent(t, "NUMA node", h.NUMANode)
		absent(t, "function", h.Function)
		known(t, "restricted", h.Restricted, false)
	}
}

func TestPlaceOnBus(t *testing.T) {
	files := mlx5Files().with(roce("100 Gb/sec (4X EDR)", gids(1)).under("ports/1"))
	without := func(t tree, names ...string) tree {
		for _, n := range names {
			delete(t, n)
		}
		return t
	}
	const nic = "pci0000:00/0000:00:05.0"
	for name, c := range map[string]struct {
		tree     tree
		driver   string
		pci      string
		function fabric.Fact[fabric.Function]
	}{
		"VF": {
			without(onPCI("x", nic, "mlx5_core", files, tree{"physfn": "-> ../0000:00:04.0"}), "devices/"+nic+"/sriov_totalvfs"),
			"mlx5_core", "0000:00:05.0",
			fabric.Fact[fabric.Function]{State: fabric.OK, Value: fabric.FunctionVF},
		},
		"VF in a guest": {
			without(onPCI("x", nic, "mlx5_core", files, nil), "devices/"+nic+"/sriov_totalvfs"),
			"mlx5_core", "0000:00:05.0",
			fabric.Fact[fabric.Function]{Reason: fabric.ReasonMissing},
		},
		"virtio": {
			without(onPCI("x", nic+"/virtio1", "virtio_rdma", files, tree{}), "devices/"+nic+"/virtio1/sriov_totalvfs", "devices/"+nic+"/virtio1/numa_node").
				with(tree{"devices/" + nic + "/numa_node": "1\n", "devices/" + nic + "/vendor": "0x1af4\n"}),
			"virtio_rdma", "0000:00:05.0",
			fabric.Fact[fabric.Function]{Reason: fabric.ReasonMissing},
		},
		"auxiliary": {
			without(onPCI("x", nic+"/ice.roce.0", "irdma.roce", files, tree{}), "devices/"+nic+"/ice.roce.0/sriov_totalvfs", "devices/"+nic+"/ice.roce.0/numa_node").
				with(tree{"devices/" + nic + "/numa_node": "1\n", "devices/" + nic + "/vendor": "0x8086\n", "devices/" + nic + "/sriov_totalvfs": "8\n"}),
			"irdma.roce", "0000:00:05.0",
			fabric.Fact[fabric.Function]{Reason: fabric.ReasonMissing},
		},
		// mlx5_core.sf.4 of commit 1958fc2f0712 (net/mlx5: SF, Add auxiliary device driver); sfnum is there from 5.12 on.
		"subfunction": {
			without(onPCI("x", nic+"/mlx5_core.sf.4", "mlx5_core.sf", files, tree{"sfnum": "88\n"}), "devices/"+nic+"/mlx5_core.sf.4/sriov_totalvfs", "devices/"+nic+"/mlx5_core.sf.4/numa_node").
				with(tree{"devices/" + nic + "/numa_node": "1\n", "devices/" + nic + "/vendor": "0x15b3\n", "devices/" + nic + "/sriov_totalvfs": "8\n"}),
			"mlx5_core.sf", "0000:00:05.0",
			fabric.Fact[fabric.Function]{State: fabric.OK, Value: fabric.FunctionSF},
		},
		"large domain": {
			onPCI("x", "pci10000:e0/10000:e1:00.0", "mlx5_core", files, nil),
			"mlx5_core", "10000:e1:00.0",
			fabric.Fact[fabric.Function]{State: fabric.OK, Value: fabric.FunctionPF},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := c.tree.device(t, "x")
			h := all(t, d)
			known(t, "driver", h.Driver, c.driver)
			known(t, "PCI", h.PCI, c.pci)
			known(t, "NUMA node", h.NUMANode, 1)
			known(t, "restricted", h.Restricted, false)
			if f := h.Function; f.State != c.function.State || f.Reason != c.function.Reason || f.Value != c.function.Value {
				t.Errorf("function = %+v, want %+v", f, c.function)
			}
		})
	}
}

func TestPlatformDevice(t *testing.T) {
	const at = "devices/platform/HISI00D1:00"
	d, _ := tree{
		"class/infiniband/hns_0":        "-> ../../" + at + "/infiniband/hns_0",
		at + "/infiniband/hns_0/device": "-> ../../../HISI00D1:00",
		at + "/infiniband/hns_0/ports/": "",
	}.device(t, "hns_0")
	h := all(t, d)
	absent(t, "PCI", h.PCI)
	absent(t, "NUMA node", h.NUMANode)
	absent(t, "driver", h.Driver)
	unknown(t, "GUID", h.NodeGUID, fabric.ReasonMissing)
	unknown(t, "firmware", h.Firmware, fabric.ReasonMissing)
	absent(t, "board", h.BoardID)
}

func TestNUMANodeUnknown(t *testing.T) {
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(tree{"devices/" + mlx5PCI + "/numa_node": "-1\n"}).device(t, "mlx5_0")
	h := all(t, d)
	unknown(t, "NUMA node", h.NUMANode, fabric.ReasonMissing)
}

func TestRestricted(t *testing.T) {
	const function = "devices/" + mlx5PCI
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	bridge := strings.Repeat("\x00", 300) + "SW_MNG\x90"
	for name, c := range map[string]struct {
		tree tree
		want fabric.Fact[bool]
	}{
		"bridge":      {tree{function + "/vpd": bridge}, fabric.Fact[bool]{State: fabric.OK, Value: true}},
		"other":       {tree{}, fabric.Fact[bool]{State: fabric.OK}},
		"no VPD":      {tree{function + "/vpd": ""}, fabric.Fact[bool]{State: fabric.OK}},
		"not root":    {tree{function + "/vpd": "!EACCES"}, fabric.Fact[bool]{Reason: fabric.ReasonPrivilege}},
		"broken VPD":  {tree{function + "/vpd": "!EIO"}, fabric.Fact[bool]{Reason: fabric.ReasonIO}},
		"not ours":    {tree{function + "/vpd": bridge, function + "/vendor": "0x8086\n"}, fabric.Fact[bool]{State: fabric.OK}},
		"odd vendor":  {tree{function + "/vendor": "0xlala\n"}, fabric.Fact[bool]{Reason: fabric.ReasonMalformed}},
		"beyond page": {tree{function + "/vpd": strings.Repeat("x", pageSize) + bridge}, fabric.Fact[bool]{State: fabric.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			d, root := base.with(c.tree).device(t, "mlx5_0")
			if name == "no VPD" {
				must(t, os.Remove(filepath.Join(root, function, "vpd")))
			}
			h := all(t, d)
			if r := h.Restricted; r.State != c.want.State || r.Reason != c.want.Reason || r.Value != c.want.Value {
				t.Errorf("restricted = %+v, want %+v", r, c.want)
			}
			if want := !c.want.Value; (len(h.Ports) == 1) != want {
				t.Errorf("%d ports", len(h.Ports))
			}
			known(t, "firmware", h.Firmware, "28.39.1002")
		})
	}
}

// TestRestrictedStaysUnread fails when anything below ports/ is read of a restricted device.
func TestRestrictedStaysUnread(t *testing.T) {
	f, root := mlx5("mlx5_0", mlx5PCI, "hca0").open(t)
	f.pread = func(fd int, p []byte, off int64) (int, error) {
		name, err := os.Readlink("/proc/self/fd/" + itoa(fd))
		must(t, err)
		if strings.Contains(name, "/ports/") || strings.HasSuffix(name, "/vpd") {
			t.Errorf("reads %s", strings.TrimPrefix(name, root))
		}
		return kernfs(fd, p, off)
	}
	d, err := f.Device("mlx5_0")
	must(t, err)
	defer d.Close()
	h := fabric.HCA{Ports: []fabric.Port{{Number: 1}}} // from before the site restricted it
	must(t, d.Identify(&h, true, now))
	must(t, d.ReadPorts(&h, now))
	must(t, d.ReadPortDetails(&h, now))
	must(t, d.ScanGIDs(&h, now))
	must(t, d.ReadGIDs(&h, now))
	known(t, "restricted", h.Restricted, true)
	known(t, "firmware", h.Firmware, "28.39.1002")
	if len(h.Ports) != 0 {
		t.Errorf("restricted device has ports: %+v", h.Ports)
	}
}

func TestVPDIsReadOnce(t *testing.T) {
	f, _ := mlx5("mlx5_0", mlx5PCI, "hca0").open(t)
	reads := 0
	f.pread = func(fd int, p []byte, off int64) (int, error) {
		if name, _ := os.Readlink("/proc/self/fd/" + itoa(fd)); strings.HasSuffix(name, "/vpd") {
			reads++
		}
		return kernfs(fd, p, off)
	}
	d, err := f.Device("mlx5_0")
	must(t, err)
	defer d.Close()
	for range 3 {
		all(t, d)
	}
	if reads != 1 {
		t.Errorf("VPD was read %d times", reads)
	}
}

func TestIdentifyKeepsPorts(t *testing.T) {
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	at := "devices/" + mlx5PCI + "/infiniband/mlx5_0/ports/"
	d, root := base.with(roce("100 Gb/sec (4X EDR)", gids(1)).under(at+"10"), roce("200 Gb/sec (4X HDR)", gids(1)).under(at+"2"),
		tree{at + "x/": "", at + "01/": "", at + "-1/": ""}).device(t, "mlx5_0")
	h := all(t, d)
	if len(h.Ports) != 3 || h.Ports[0].Number != 1 || h.Ports[1].Number != 2 || h.Ports[2].Number != 10 {
		t.Fatalf("ports %+v", h.Ports)
	}
	h.Ports[2].GIDs.Changes = 7
	must(t, os.RemoveAll(filepath.Join(root, at, "2")))
	wantGone(t, "Identify", d.Identify(&h, false, now)) // devices do not lose ports: this is another one
	d.Close()
	d, err := d.fs.Device("mlx5_0")
	must(t, err)
	defer d.Close()
	must(t, d.Identify(&h, false, now))
	if len(h.Ports) != 2 || h.Ports[1].GIDs.Changes != 7 {
		t.Fatalf("ports %+v", h.Ports)
	}
	known(t, "rate", h.Ports[1].Rate, fabric.Rate{BytesPerSecond: 12.5e9, Lanes: 4, Generation: "EDR"})
}

func TestLinkOutOfRoot(t *testing.T) {
	outside := t.TempDir()
	mlx5Files().under("dev").write(t, outside)
	for name, target := range map[string]string{
		"absolute": filepath.Join(outside, "dev"),
		"relative": "../../../" + filepath.Base(filepath.Dir(outside)) + "/" + filepath.Base(outside) + "/dev",
		"far":      strings.Repeat("../", 40) + "etc",
	} {
		t.Run(name, func(t *testing.T) {
			f, root := tree{"class/infiniband/evil": "-> " + target}.open(t)
			_, err := f.Device("evil")
			if err == nil {
				t.Fatal("the device opens")
			}
			if s := err.Error(); !strings.Contains(s, "class/infiniband/evil") || !strings.Contains(s, root) {
				t.Errorf("error %q does not name link and root", s)
			}
			if fabric.ReasonOf(err) != fabric.ReasonMalformed {
				t.Errorf("reason %s", fabric.ReasonOf(err))
			}
		})
	}
	t.Run("parent", func(t *testing.T) {
		d, root := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
		link := filepath.Join(root, "devices", mlx5PCI, "infiniband/mlx5_0/device")
		must(t, os.Remove(link))
		must(t, os.Symlink(outside, link))
		h := all(t, d)
		unknown(t, "PCI", h.PCI, fabric.ReasonMalformed)
		unknown(t, "driver", h.Driver, fabric.ReasonMalformed)
		known(t, "firmware", h.Firmware, "28.39.1002")
	})
	t.Run("loop", func(t *testing.T) {
		f, _ := tree{"class/infiniband/a": "-> b", "class/infiniband/b": "-> a"}.open(t)
		if _, err := f.Device("a"); err == nil {
			t.Error("the device opens")
		}
		if _, err := f.realPath("class/infiniband/a"); err == nil {
			t.Error("realPath follows a loop")
		}
	})
}

func TestIsPCIAddress(t *testing.T) {
	for s, want := range map[string]bool{
		"0000:23:00.0": true, "10000:e1:1f.7": true, "ffffffff:ff:ff.7": true,
		"": false, "pci0000:20": false, "0000:23:00": false, "0000:23:00.8": false, "000:23:00.0": false,
		"0000:2g:00.0": false, "0000:23-00.0": false, "virtio1": false, "0000:23:00.0.0": false, "0000:23:0é.0": false,
	} {
		if got := isPCIAddress(s); got != want {
			t.Errorf("isPCIAddress(%q) = %v", s, got)
		}
	}
}
