// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const otherPCI = "pci0000:20/0000:20:01.0/0000:25:00.0"

// verbs is the entry of a device in class/infiniband_verbs, which every namespace sees.
func verbs(entry, parent, device string) tree {
	at := "devices/" + parent + "/infiniband_verbs/" + entry
	return tree{"class/infiniband_verbs/" + entry: "-> ../../" + at, at + "/ibdev": device + "\n", "class/infiniband_verbs/abi_version": "6\n"}
}

// twoHere is a host with two devices.
func twoHere() tree {
	return mlx5("mlx5_0", mlx5PCI, "hca0").with(mlx5("mlx5_1", otherPCI, "hca1"), verbs("uverbs0", mlx5PCI, "mlx5_0"), verbs("uverbs1", otherPCI, "mlx5_1"))
}

// carryOff removes what sysfs shows of a device and its interface when they go to another network namespace:
// the directories that held them stay (get_device_parent of drivers/base/core.c).
func carryOff(t *testing.T, root, parent, device, netdev string) {
	t.Helper()
	for _, p := range []string{"class/infiniband/" + device, "class/net/" + netdev, "devices/" + parent + "/infiniband/" + device, "devices/" + parent + "/net/" + netdev} {
		must(t, os.RemoveAll(filepath.Join(root, p)))
	}
}

func TestMoved(t *testing.T) {
	f, root := twoHere().open(t)
	both := []string{"mlx5_0", "mlx5_1"}
	if got, err := f.Moved(both, false); err != nil || len(got) != 0 {
		t.Fatalf("all are here: %+v, %v", got, err)
	}
	carryOff(t, root, otherPCI, "mlx5_1", "hca1")
	want := []Moved{{Device: "mlx5_1", Address: "0000:25:00.0", Link: "class/infiniband_verbs/uverbs1"}}
	for range 2 {
		if got, err := f.Moved(both[:1], false); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	// The driver releases it, there as here: it is in neither class.
	must(t, os.Remove(filepath.Join(root, "class/infiniband_verbs/uverbs1")))
	must(t, os.RemoveAll(filepath.Join(root, "devices", otherPCI, "infiniband_verbs")))
	if got, err := f.Moved(both[:1], false); err != nil || len(got) != 0 {
		t.Errorf("a device that its driver released: %+v, %v", got, err)
	}
	verbs("uverbs1", otherPCI, "mlx5_9").write(t, root) // and comes back, renamed by its pod
	if got, err := f.Moved(both[:1], false); err != nil || len(got) != 1 || got[0].Device != "mlx5_9" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Two namespaces may each have a device of one name: their places distinguish them.
func TestMovedOfTheSameName(t *testing.T) {
	f, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(verbs("uverbs0", mlx5PCI, "mlx5_0"), verbs("uverbs1", otherPCI, "mlx5_0")).open(t)
	if got, err := f.Moved([]string{"mlx5_0"}, false); err != nil || len(got) != 1 || got[0].Address != "0000:25:00.0" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNothingIsMoved(t *testing.T) {
	for name, tr := range map[string]tree{
		"without ib_uverbs":                 mlx5("mlx5_0", mlx5PCI, "hca0"),
		"without a device":                  {"class/infiniband_verbs/abi_version": "6\n", "class/infiniband/": ""},
		"sysfs of a container":              verbs("uverbs0", mlx5PCI, "mlx5_0").with(tree{"class/infiniband/": "", "class/net/eth0": "-> ../../devices/virtual/net/eth0", "devices/virtual/net/eth0/": ""}),
		"software, here":                    rxe("rxe0", 8).with(tree{"class/infiniband_verbs/uverbs0": "-> ../../devices/virtual/infiniband_verbs/uverbs0", "devices/virtual/infiniband_verbs/uverbs0/ibdev": "rxe0\n"}),
		"a device that is being taken away": mlx5("mlx5_0", mlx5PCI, "hca0").with(verbs("uverbs0", mlx5PCI, "mlx5_0"), tree{"class/infiniband_verbs/uverbs1": "-> ../../devices/gone/infiniband_verbs/uverbs1"}),
	} {
		f, _ := tr.open(t)
		here, err := f.Devices()
		must(t, err)
		if got, err := f.Moved(here, false); err != nil || len(got) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := f.Moved(here, true); name == "sysfs of a container" && (err != nil || len(got) != 1) {
			t.Errorf("%s, asked for a job in it: %+v, %v", name, got, err)
		}
	}
}

// All devices of a host may be in pods. Its other hardware says that this is the host.
func TestAllAreMoved(t *testing.T) {
	f, _ := verbs("uverbs0", mlx5PCI, "mlx5_0").with(tree{
		"class/infiniband/": "", "class/net/eno1": "-> ../../devices/pci0000:00/0000:00:1f.6/net/eno1", "devices/pci0000:00/0000:00:1f.6/net/eno1/device": "-> ../..",
	}).open(t)
	if got, err := f.Moved(nil, false); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// An entry that cannot be read costs itself.
func TestOddVerbs(t *testing.T) {
	for _, text := range []string{"no-utf8\xff\n", "!EIO", "../x\n"} {
		f, root := twoHere().open(t)
		carryOff(t, root, mlx5PCI, "mlx5_0", "hca0")
		carryOff(t, root, otherPCI, "mlx5_1", "hca1")
		must(t, os.WriteFile(filepath.Join(root, "class/infiniband_verbs/uverbs0/ibdev"), []byte(text), 0o644))
		tree{"class/net/eno1": "-> ../../devices/pci0000:00/0000:00:1f.6/net/eno1", "devices/pci0000:00/0000:00:1f.6/net/eno1/device": "-> ../.."}.write(t, root)
		if got, err := f.Moved(nil, false); err == nil || len(got) != 1 || got[0].Device != "mlx5_1" {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// What costs a reading of a list that did not change is the list.
func TestMovedIsCheap(t *testing.T) {
	f, root := twoHere().open(t)
	carryOff(t, root, otherPCI, "mlx5_1", "hca1")
	first, err := f.Moved([]string{"mlx5_0"}, false)
	must(t, err)
	reads := 0
	f.pread = func(fd int, p []byte, offset int64) (int, error) { reads++; return unix.Pread(fd, p, offset) }
	again, err := f.Moved([]string{"mlx5_0"}, false)
	if err != nil || reads != 0 || !slices.Equal(first, again) {
		t.Errorf("%d reads, %+v, %v", reads, again, err)
	}
}

// An interface in the namespace of a pod is moved, whatever the pod calls it: the GID table still names it, by a name
// that may be another interface's here.
func TestNetDevMoved(t *testing.T) {
	for _, name := range []string{"hca0", "net1", "eth0"} {
		d, root := mlx5("mlx5_0", mlx5PCI, "hca0").with(tree{
			"class/net/eth0": "-> ../../devices/pci0000:00/0000:00:1f.6/net/eth0", "devices/pci0000:00/0000:00:1f.6/net/eth0/mtu": "1500\n",
		}).device(t, "mlx5_0")
		h := &fabric.HCA{}
		must(t, d.Identify(h, false, now))
		must(t, d.ReadPortDetails(h, now))
		if got := h.Ports[0].NetDev; got.Or("") != "hca0" {
			t.Fatalf("before: %+v", got)
		}
		for _, p := range []string{"class/net/hca0", "devices/" + mlx5PCI + "/net/hca0"} {
			must(t, os.RemoveAll(filepath.Join(root, p)))
		}
		must(t, os.WriteFile(filepath.Join(root, "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"), []byte(name+"\n"), 0o644))
		must(t, d.ReadPortDetails(h, now))
		if got := h.Ports[0].NetDev.Meta(); got.State != fabric.Unknown || got.Reason != fabric.ReasonMoved {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
