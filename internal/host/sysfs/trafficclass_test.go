// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

const (
	tclassFile = mlx5Device + "tc/1/traffic_class"
	tosFile    = "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
)

func trafficClasses(t *testing.T, d *Device) fabric.Port {
	t.Helper()
	var h fabric.HCA
	must(t, d.Identify(&h, false, now))
	must(t, d.ReadTrafficClass(&h, now))
	return h.Ports[0]
}

func TestTrafficClass(t *testing.T) {
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	d, root := base.device(t, "mlx5_0")
	p := trafficClasses(t, d)
	unknown(t, "traffic class without MLNX_OFED", p.TrafficClass, fabric.ReasonMissing)
	unknown(t, "ToS without configfs", p.DefaultToS, fabric.ReasonMissing)
	if p.TrafficClass.Source != "class/infiniband/mlx5_0/tc/1/traffic_class" || p.DefaultToS.Source != tosFile {
		t.Errorf("sources %q and %q", p.TrafficClass.Source, p.DefaultToS.Source)
	}
	tree{"kernel/config/rdma_cm/": ""}.write(t, root)
	unknown(t, "ToS without a folder", trafficClasses(t, d).DefaultToS, fabric.ReasonMissing)
	if made, err := os.ReadDir(filepath.Join(root, configRDMACM)); err != nil || len(made) != 0 { // the kernel's would be a device of its own
		t.Errorf("made %v, %v", made, err)
	}

	tree{tclassFile: "", tosFile: "0\n"}.write(t, root) // as after boot, and after the folder was created
	p = trafficClasses(t, d)
	absent(t, "traffic class", p.TrafficClass)
	known(t, "ToS", p.DefaultToS, 0)
	tree{tclassFile: "Global tclass=106\n", tosFile: "106\n"}.write(t, root)
	p = trafficClasses(t, d)
	known(t, "traffic class", p.TrafficClass, fabric.TrafficClass{Global: 106})
	known(t, "ToS", p.DefaultToS, 106)
	tree{tclassFile: "dst_ip=10.0.0.0/8,tclass=96\n"}.write(t, root)
	known(t, "traffic class", trafficClasses(t, d).TrafficClass, fabric.TrafficClass{Global: -1, Rules: 1})

	for content, want := range map[string]fabric.Reason{
		"Global tclass=256\n": fabric.ReasonMalformed, "256\n": fabric.ReasonMalformed, "-1\n": fabric.ReasonMalformed, "\x00": fabric.ReasonMalformed,
		strings.Repeat("1", 10<<20): fabric.ReasonMalformed, "!EACCES": fabric.ReasonPrivilege, "!ENODEV": fabric.ReasonGone,
	} {
		tree{tclassFile: content, tosFile: content}.write(t, root)
		p = trafficClasses(t, d)
		unknown(t, "traffic class", p.TrafficClass, want)
		unknown(t, "ToS", p.DefaultToS, want)
	}
	tree{tosFile: ""}.write(t, root)
	unknown(t, "empty ToS", trafficClasses(t, d).DefaultToS, fabric.ReasonMalformed)
	if got := d.Commands(); len(got) != 0 {
		t.Errorf("commands %v", got)
	}

	must(t, os.Remove(filepath.Join(root, "class/infiniband/mlx5_0")))
	must(t, os.RemoveAll(filepath.Join(root, "devices", mlx5PCI)))
	h := fabric.HCA{Ports: []fabric.Port{{Number: 1}}}
	wantGone(t, "ReadTrafficClass", d.ReadTrafficClass(&h, now))
}

func TestTrafficClassOfInfiniBand(t *testing.T) {
	d, _ := infiniBand("mlx5_0").with(tree{tclassFile: "Global tclass=106\n", tosFile: "106\n"}).device(t, "mlx5_0")
	p := trafficClasses(t, d)
	known(t, "traffic class", p.TrafficClass, fabric.TrafficClass{Global: 106})
	absent(t, "ToS", p.DefaultToS)
}

// TestTrafficClassRefused: the file of the device is left alone after a refusal.
func TestTrafficClassRefused(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").with(tree{tclassFile: "!EINVAL"}).device(t, "mlx5_0")
	unknown(t, "traffic class", trafficClasses(t, d).TrafficClass, fabric.ReasonUnsupported)
	tree{tclassFile: "Global tclass=106\n"}.write(t, root)
	h := fabric.HCA{Ports: []fabric.Port{{Number: 1}}}
	unknown(t, "within a minute", trafficClasses(t, d).TrafficClass, fabric.ReasonUnsupported)
	must(t, d.ReadTrafficClass(&h, now.Add(firstPause)))
	if c := h.Ports[0].TrafficClass; c.Value.Global != 106 {
		t.Errorf("after a minute: %+v", c)
	}
}

// TestCostOfTrafficClass counts what is opened and read of a device.
func TestCostOfTrafficClass(t *testing.T) {
	for what, c := range map[string]struct {
		files tree
		want  calls
	}{
		"none": {nil, calls{missed: 1}}, // of tc; configfs is looked for by path
		// tc, its port and the file; the device, its ports, its port and the file.
		"both": {tree{tclassFile: "Global tclass=106\n", tosFile: "106\n"}, calls{opened: 3 + 4, preads: 2}},
		// configfs without a folder of this device
		"no folder": {tree{tclassFile: "", "kernel/config/rdma_cm/other/": ""}, calls{opened: 3, missed: 1, preads: 1}},
	} {
		f, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(c.files).open(t)
		got := counted(f)
		d, err := f.Device("mlx5_0")
		must(t, err)
		h := fabric.HCA{Ports: []fabric.Port{{Number: 1, LinkLayer: fabric.Known(fabric.LinkEthernet, "", now)}}}
		for range 2 {
			*got = calls{}
			before := len(openFiles(t))
			must(t, d.ReadTrafficClass(&h, now))
			if *got != c.want {
				t.Errorf("%s costs %+v, want %+v", what, *got, c.want)
			}
			if after := len(openFiles(t)); after != before {
				t.Errorf("%s leaves %d files open", what, after-before)
			}
		}
		d.Close()
	}
}
