// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

func TestNVLink(t *testing.T) {
	const of0 = `{uuid="GPU-0"} `
	errors := func(kind, value string) string {
		return `nvlink_errors_total{kind="` + kind + `",uuid="GPU-0"} ` + value
	}
	well := []string{
		"nvlink_links" + of0 + "18", "nvlink_links_active" + of0 + "18", "nvlink_bytes_per_second" + of0 + "4.78116e+11",
		errors("replay", "153"), errors("recovery", "153"), errors("crc", "153"),
	}
	equal(t, linesOf(t, gpuNode(1), "nvlink"), well...)

	for _, c := range []struct {
		name string
		edit func(l []fabric.NVLink)
		want []string
	}{
		{"one is down", func(l []fabric.NVLink) {
			l[3].Active, l[3].Speed = known(false), fabric.AbsentFact[float64]("test", now)
		}, []string{
			"nvlink_links" + of0 + "18", "nvlink_links_active" + of0 + "17", "nvlink_bytes_per_second" + of0 + "4.51554e+11",
			errors("replay", "153"), errors("recovery", "153"), errors("crc", "153"),
		}},
		{"one does not say", func(l []fabric.NVLink) { l[3].Active = no[bool]() }, []string{
			"nvlink_links" + of0 + "18", errors("replay", "153"), errors("recovery", "153"), errors("crc", "153"), `exporter_facts_unknown{device="",reason="io_error",uuid="GPU-0"} 1`,
		}},
		{"the speed of one is unknown", func(l []fabric.NVLink) { l[3].Speed = no[float64]() }, []string{
			"nvlink_links" + of0 + "18", "nvlink_links_active" + of0 + "18",
			errors("replay", "153"), errors("recovery", "153"), errors("crc", "153"), `exporter_facts_unknown{device="",reason="io_error",uuid="GPU-0"} 1`,
		}},
		{"a count of one is unknown", func(l []fabric.NVLink) { l[3].Errors[0].Count = no[uint64]() }, append(slices.Clone(well[:3]),
			errors("recovery", "153"), errors("crc", "153"), `exporter_facts_unknown{device="",reason="io_error",uuid="GPU-0"} 1`)},
		{"a count of one is not there", func(l []fabric.NVLink) { l[3].Errors = l[3].Errors[1:] }, append(slices.Clone(well[:3]),
			errors("recovery", "153"), errors("crc", "153"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := gpuNode(1)
			c.edit(n.GPUDriver.GPUs[0].NVLinks.Value)
			equal(t, linesOf(t, n, "nvlink"), c.want...)
		})
	}
}

func TestEachNVLink(t *testing.T) {
	n := gpuNode(1)
	links := n.GPUDriver.GPUs[0].NVLinks.Value[:3]
	n.GPUDriver.GPUs[0].NVLinks.Value = links
	links[0].Errors = links[0].Errors[:1]
	links[1] = fabric.NVLink{
		Number: 1, Active: known(false), Remote: no[string](), RemoteKind: no[fabric.NVLinkEnd](), Speed: no[float64](),
		Errors: []fabric.NVLinkErrors{{Kind: fabric.NVLinkReplay, Count: no[uint64]()}},
	}
	links[2].Number = 1 // as another one has
	got := slices.DeleteFunc(linesOf(t, n, "nvlink_links"), func(line string) bool { return strings.HasPrefix(line, "exporter_facts_unknown") })
	equal(t, got,
		`nvlink_link_info{end="switch",link="0",remote="0000:c0:00.0",uuid="GPU-0"} 1`, `nvlink_link_info{end="",link="1",remote="",uuid="GPU-0"} 1`,
		`nvlink_link_active{link="0",uuid="GPU-0"} 1`, `nvlink_link_active{link="1",uuid="GPU-0"} 0`,
		`nvlink_link_bytes_per_second{link="0",uuid="GPU-0"} 2.6562e+10`, `nvlink_link_errors_total{kind="replay",link="0",uuid="GPU-0"} 0`)
}

func TestNVLinkHealth(t *testing.T) {
	why := func(edit func(d *fabric.GPUDriver)) string {
		n := gpuNode(2)
		edit(&n.GPUDriver)
		_, why := hasNVLink(n)
		return why
	}
	without := fabric.AbsentFact[[]fabric.NVLink]("test", now)
	for want, edit := range map[string]func(d *fabric.GPUDriver){
		"":                               func(*fabric.GPUDriver) {},
		"no GPU has NVLinks":             func(d *fabric.GPUDriver) { d.GPUs[0].NVLinks, d.GPUs[1].NVLinks = without, without },
		"the driver has no":              func(d *fabric.GPUDriver) { d.GPUs = nil },
		"no NVIDIA driver is":            func(d *fabric.GPUDriver) { d.Loaded = known(false) },
		"NVIDIA's driver is not queried": func(d *fabric.GPUDriver) { *d = fabric.GPUDriver{} },
	} {
		if got := why(edit); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := why(func(d *fabric.GPUDriver) { d.GPUs[0].NVLinks, d.GPUs[1].NVLinks = without, no[[]fabric.NVLink]() }); got != "" {
		t.Errorf("one GPU does not say: %q", got)
	}
}
