// SPDX-License-Identifier: Apache-2.0

package page

import (
	"regexp"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// gpuTable is the rows of the page's table of GPUs, a cell in brackets with its class before it.
func gpuTable(t *testing.T, page string) string {
	t.Helper()
	_, table, found := strings.Cut(page, "<h2>GPUs</h2>")
	table, _, ended := strings.Cut(table, "</section>")
	if !found || !ended {
		t.Fatal("no table of GPUs")
	}
	table = regexp.MustCompile(` title="[^"]*"`).ReplaceAllString(table, "")
	table = regexp.MustCompile(`<td(?: class="(\w*)")?>`).ReplaceAllString(table, "$1[")
	table = strings.NewReplacer("</td>", "]", "<small>", " / ").Replace(table)
	return strings.TrimSpace(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(table, ""))
}

func TestLandingOfGPUs(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(n *fabric.Node)
		gdr  func(*fabric.GDR)
		want []string
	}{
		{"healthy", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1].Processes.Value = []fabric.GPUProcess{{PID: 7, Kind: fabric.GPUCompute}, {PID: 8}, {PID: 7, Kind: fabric.GPUMPS}}
		}, fabrictest.Usable, []string{
			"GPU driver 580.65.06, CUDA up to 13.0.", "GPU0", "[NVIDIA H100 80GB HBM3]", "[0000:19:00.0 / NUMA 0]", "[18 of 18][x16 / generation 1 of 5]",
			"[mlx5_0 / PIX, rail 0][no process / busy 0 %]good[yes, dma-buf]", "[2 processes / busy 0 %]",
		}},
		{"down, narrow, blocked", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1].NVLinks.Value[4].Active.Value = false
			n.PCI.Function("0000:9b:00.0").Link.Width.Value = 8
			n.GPUDriver.GPUs[0].ClockReasons.Value = 0x40
		}, fabrictest.Blocked(fabric.GDRModule, "no module"), []string{
			"bad[17 of 18]bad[x8 / generation 1 of 5]", "bad[no: module / no module]", "bad[NVIDIA H100 80GB HBM3 / throttled by hardware]",
		}},
		{"divided", func(n *fabric.Node) { n.GPUDriver.GPUs[0].MIG.Value = true }, fabrictest.Usable, []string{"[no process / MIG on]"}},
		{"lost, without a fabric", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1] = fabric.GPU{Index: 1, Lost: fabric.Known(true, "", n.At)}
			n.GPUDriver.GPUs[0].Fabric.Value.State = fabric.GPUFabricNotStarted
		}, fabrictest.Usable, []string{"bad[lost / unreachable for its driver]", "bad[18 of 18 / fabric: not started]", "unsure[unknown / lost]"}},
		{"nobody asked", func(n *fabric.Node) { n.GPUDriver = fabric.GPUDriver{} }, func(g *fabric.GDR) { *g = fabric.GDR{GPU: g.GPU} }, []string{
			"The GPU driver could not be queried: not read.", "unsure[unknown]", "[0000:9b:00.0 / NUMA 1]", "[x16]", "unsure[unknown / not read]",
		}},
		{"bare", func(n *fabric.Node) {
			n.GPUDriver = fabric.GPUDriver{Loaded: fabric.Known(false, "", n.At)}
			n.PCI.Function("0000:9b:00.0").Driver = fabric.None[string]("", n.At)
			n.PCI.Function("0000:19:00.0").Driver.Value = "vfio-pci"
		}, fabrictest.Blocked(fabric.GDRNoDriver, "none"), []string{"No GPU driver responds.", "bad[no driver]", "quiet[unknown / assigned to a virtual machine]", "quiet[no: driver / none]"}},
		{"by design", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRDistance, "NODE"), []string{"quiet[no: distance / NODE]", "this is the design of the machine"}},
		{"NVML alone", func(n *fabric.Node) { n.PCI = fabric.PCI{} }, fabrictest.Usable, []string{"unsure[0000:9b:00.0 / not on the visible PCI bus]", "[x16 / generation"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := func() *fabric.Node {
				n := fabrictest.WithGPUs()
				test.edit(n)
				fabrictest.Verdicts(n, test.gdr)
				return n
			}
			contains(t, gpuTable(t, landingOf(t, node)), test.want...)
		})
	}
}

// A driver that lies cannot put markup into the page, and a node without GPUs has no empty table.
func TestLandingOfGPUsEscapes(t *testing.T) {
	const evil = `</style><script>alert("1")</script>'"{{.}}`
	node := func() *fabric.Node {
		n := fabrictest.WithGPUs()
		g := &n.GPUDriver.GPUs[0]
		n.GPUDriver.Version.Value, n.GPUDriver.CUDA.Value, g.UUID, g.Name.Value, g.Fabric.Value.Status = evil, evil, evil, evil, evil
		g.Fabric.Value.Unhealthy = []string{evil}
		n.PCI.Function("0000:19:00.0").Driver.Value = evil
		fabrictest.Verdicts(n, fabrictest.Blocked(fabric.GDRModule, evil))
		return n
	}
	page := landingOf(t, node)
	lacks(t, page, "<script", "ZgotmplZ")
	if n := strings.Count(page, "&lt;script&gt;"); n < 6 {
		t.Errorf("%d escaped texts", n)
	}
	page = landingOf(t, fabrictest.Healthy)
	lacks(t, page, "<h2>GPUs</h2>")
}
