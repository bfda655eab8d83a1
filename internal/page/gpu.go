// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strconv"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// gpuSection is what the page shows of GPUs.
type gpuSection struct {
	Driver string // whether there is one, and which; empty without GPUs of NVIDIA
	Rows   []gpuRow
	Notes  []string
}

type gpuRow struct {
	Name                     string
	Model, Place, Links      cell
	PCIe, NIC, GPUDirect, In cell
}

// gpuSectionOf is empty on a node without GPUs, and where nobody looks at them.
func gpuSectionOf(n *fabric.Node, bad failing) gpuSection {
	gpus := diagnose.GPUs(n)
	if len(gpus) == 0 {
		return gpuSection{}
	}
	s := gpuSection{Notes: diagnose.GPUNotes(n, gpus)}
	if diagnose.HasNVIDIA(gpus) {
		s.Driver = diagnose.DriverText(&n.GPUDriver)
	}
	for _, g := range gpus {
		s.Rows = append(s.Rows, gpuRow{
			Name: g.Name, Model: modelCell(n, g, bad), Place: placeCell(g), Links: nvLinkCell(g, bad), PCIe: widthCell(g, bad),
			NIC: nicCell(g), GPUDirect: gpuDirectCell(g, bad), In: useCell(g),
		})
	}
	return s
}

// ofDriver makes a cell of what NVML says, and without NVML one that says why.
func ofDriver[T any](g diagnose.GPU, fact func(*fabric.GPU) fabric.Fact[T], text func(T) string) cell {
	if g.Driver == nil {
		return cell{Text: "unknown", Class: "unsure"}
	}
	if f := fact(g.Driver); f.State == fabric.Unknown && g.Driver.Lost.Or(false) {
		return cell{Text: "unknown", Note: "lost", Class: "unsure"}
	}
	return show(fact(g.Driver), text)
}

func modelCell(n *fabric.Node, g diagnose.GPU, bad failing) cell {
	if g.Driver == nil {
		switch {
		case bad.of(g.Subject(), diagnose.CheckGPUDriver):
			return cell{Text: "no driver", Class: "bad"}
		case g.Listable(n):
			return cell{Text: "unknown", Note: "not listed by its driver", Class: "bad"}
		case g.Function.Driver.Or("") == "vfio-pci":
			return cell{Text: "unknown", Note: "assigned to a virtual machine", Class: "quiet"}
		}
		return cell{Text: "unknown", Class: "unsure"}
	}
	if g.Driver.Lost.Or(false) {
		return cell{Text: "lost", Note: "unreachable for its driver", Class: "bad"}
	}
	c := show(g.Driver.Name, text)
	c.Title = g.Driver.UUID
	if bad.of(g.Subject(), diagnose.CheckGPUThrottled) {
		c.Note, c.Class = "throttled by hardware", "bad"
	}
	return c
}

// placeCell is the PCI address with the NUMA node below.
func placeCell(g diagnose.GPU) cell {
	if g.Function == nil {
		return cell{Text: g.Driver.Address, Note: "not on the visible PCI bus", Class: "unsure"}
	}
	c := cell{Text: g.Function.Address, Note: "NUMA unknown"}
	if numa, ok := g.Function.NUMANode.Get(); ok {
		c.Note = "NUMA " + strconv.Itoa(numa)
	}
	return c
}

// nvLinkCell shows active links of all, and the fabric where it is not in order.
func nvLinkCell(g diagnose.GPU, bad failing) cell {
	if g.Driver == nil && !g.IsNVIDIA() {
		return cell{Text: "none", Class: "quiet"}
	}
	total := 0
	if g.Driver != nil {
		_, total = g.NVLinks()
	}
	c := ofDriver(g, (*fabric.GPU).Active, func(n int) string { return fmt.Sprintf("%d of %d", n, total) })
	if g.Driver == nil {
		return c
	}
	if bad.of(g.Subject(), diagnose.CheckNVLinks) {
		c.Class = "bad"
	}
	if bad.of(g.Subject(), diagnose.CheckNVLinkFabric) {
		f := g.Driver.Fabric.Value
		c.Class, c.Note = "bad", "fabric: "+diagnose.Spaced(string(f.State))
		switch {
		case f.State == fabric.GPUFabricCompleted && len(f.Unhealthy) > 0:
			c.Note = "fabric: not healthy"
		case f.State == fabric.GPUFabricCompleted:
			c.Note = "fabric: " + f.Status
		}
	}
	return c
}

// widthCell shows the width of the link as the bus tells it, else as NVML does, and its generation.
func widthCell(g diagnose.GPU, bad failing) cell {
	width := func(w int) string { return "x" + strconv.Itoa(w) }
	var c cell
	if g.Function != nil && (g.Function.Link.Width.State == fabric.OK || g.Driver == nil) {
		c = show(g.Function.Link.Width, width)
	} else {
		c = ofDriver(g, func(d *fabric.GPU) fabric.Fact[int] { return d.PCIeWidth }, width)
	}
	if bad.of(g.Subject(), diagnose.CheckPCIeLink, diagnose.CheckGPUPCIeLink) {
		c.Class = "bad"
	}
	if g.Driver == nil {
		return c
	}
	if generation, ok := g.Driver.PCIeGeneration.Get(); ok {
		c.Note = "generation " + strconv.Itoa(generation)
		if most, ok := g.Driver.PCIeMaxGen.Get(); ok && most != generation {
			c.Note += " of " + strconv.Itoa(most)
		}
	}
	return c
}

// nicCell is the NIC that the GPU is dealt, how far it is, and its rail.
func nicCell(g diagnose.GPU) cell {
	if g.Rail == nil {
		return cell{Text: "unknown", Class: "unsure"}
	}
	c := show(g.Rail.Distance, func(d fabric.Distance) string { return g.Rail.NIC })
	if d, ok := g.Rail.Distance.Get(); ok {
		c.Note = fmt.Sprintf("%v, rail %d", d, g.Rail.Number)
		if g.Rail.Shared {
			c.Note += ", shared"
		}
	}
	return c
}

func gpuDirectCell(g diagnose.GPU, bad failing) cell {
	if g.GDR == nil {
		return cell{Text: "unknown", Class: "unsure"}
	}
	c := show(g.GDR.Usable, func(usable bool) string {
		switch {
		case !usable:
			return "no: " + string(g.GDR.Block)
		case g.GDR.Path == fabric.GDRDMABuf:
			return "yes, dma-buf"
		case g.GDR.Path == fabric.GDRPeermem:
			return "yes, peer-memory module"
		default:
			return "yes"
		}
	})
	block, blocked := g.Blocked()
	if g.GDR.Evidence != "" {
		c.Title = g.GDR.Evidence
		if blocked || g.GDR.Usable.State == fabric.Unknown {
			c.Note, c.Title = g.GDR.Evidence, ""
		}
	}
	switch {
	case bad.of(g.Subject(), diagnose.CheckGPUDirect), blocked && block == fabric.GDRACS && bad.of(diagnose.Subject{Device: g.GDR.NIC}, diagnose.CheckACS),
		blocked && block == fabric.GDRModule && bad.of(diagnose.Subject{}, diagnose.CheckPeermem):
		c.Class = "bad"
	case blocked:
		c.Class = "quiet"
	case g.GDR.Usable.State == fabric.OK:
		c.Class = "good"
	}
	return c
}

// useCell counts processes: one may be there as a client of MPS and for itself.
func useCell(g diagnose.GPU) cell {
	c := ofDriver(g, func(d *fabric.GPU) fabric.Fact[[]fabric.GPUProcess] { return d.Processes }, func(list []fabric.GPUProcess) string {
		pids := map[int]bool{}
		for _, p := range list {
			pids[p.PID] = true
		}
		switch len(pids) {
		case 0:
			return "no process"
		case 1:
			return "1 process"
		default:
			return strconv.Itoa(len(pids)) + " processes"
		}
	})
	if g.Driver == nil {
		return c
	}
	if load, ok := g.Driver.Utilization.Get(); ok {
		c.Note = fmt.Sprintf("busy %.0f %%", load*100)
	}
	if g.Driver.MIG.Or(false) {
		c.Note = "MIG on"
	}
	return c
}
