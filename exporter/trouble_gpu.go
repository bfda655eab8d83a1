// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// underLoad is the utilisation from which on a GPU is taken to be working: links of idle ones slow down, and NVML's
// utilisation is that of the last sample period, in which the work may have ended.
const underLoad = 0.5

// gpuTroubles tells what is wrong with GPUs themselves and with what links them. Counters of NVLink errors are none of
// it: they say nothing of when. Alert rules see them grow.
func gpuTroubles(n *fabric.Node) []trouble {
	gpus := gpusOf(n)
	var list []trouble
	for _, t := range []func(*fabric.Node, []gpuView) (trouble, bool){driverless, leftOut} {
		if t, bad := t(n, gpus); bad {
			list = append(list, t)
		}
	}
	for _, g := range gpus {
		for _, t := range oneGPU(n, g, gpus) {
			t.Where = []string{g.Name}
			list = append(list, t)
		}
	}
	return append(list, gpuDirectTroubles(n, gpus)...)
}

// oneGPU is what is wrong with a GPU that NVML lists. Of one that is lost, nothing else can be told.
func oneGPU(n *fabric.Node, g gpuView, all []gpuView) []trouble {
	if g.Driver == nil {
		return nil
	}
	if g.Driver.Lost.Or(false) {
		return []trouble{{
			What: "The driver has lost the GPU",
			Why: "NVML answers \"GPU is lost\": it fell off the bus or stopped to answer. Jobs on it fail, and those on other nodes that " +
				"wait for it hang.",
			Remedy: "Take the node out of jobs, look for Xid 79 (dmesg | grep -i xid) and power-cycle the node; if it comes back, reseat or replace the GPU.",
		}}
	}
	var list []trouble
	for _, t := range []func() (trouble, bool){
		func() (trouble, bool) { return fabricTrouble(g.Driver) },
		func() (trouble, bool) { return nvLinksDown(g, all) },
		func() (trouble, bool) { return narrowGPU(n, g) },
		func() (trouble, bool) { return slowGPU(g.Driver) },
		func() (trouble, bool) { return throttled(g.Driver) },
	} {
		if t, bad := t(); bad {
			list = append(list, t)
		}
	}
	return list
}

// driverless tells that GPUs are bound to no driver. What a virtual machine was given (vfio-pci) is meant to be so.
func driverless(n *fabric.Node, gpus []gpuView) (trouble, bool) {
	if loaded, known := n.GPUDriver.Loaded.Get(); !known || loaded || n.GPUDriver.Released != "" {
		return trouble{}, false
	}
	var names, drivers []string
	for _, g := range gpus {
		if g.Function == nil || !isNVIDIA(g.Function) {
			continue
		}
		driver, bound := g.Function.Driver.Get()
		switch {
		case bound && driver == "nouveau":
			drivers = append(drivers, driver)
			fallthrough
		case g.Function.Driver.State == fabric.Absent:
			names = append(names, g.Function.Address)
		}
	}
	t := trouble{
		Where: names, What: "The GPU has no driver that CUDA could use",
		Why:    "It is on the PCI bus, bound to no driver, and no NVIDIA driver answers: jobs do not find it.",
		Remedy: "modprobe nvidia, and see what it says (dmesg | grep -i nvrm); after a kernel update, build the driver for this kernel (dkms status).",
	}
	if len(drivers) > 0 {
		t.Why = "It is on the PCI bus, bound to nouveau, and no NVIDIA driver answers: jobs do not find it."
		t.Remedy = "Install NVIDIA's driver and keep nouveau from loading (blacklist nouveau in /etc/modprobe.d), then restart the node."
	}
	return t, len(names) > 0
}

// leftOut tells that NVML lists fewer GPUs than are bound to the driver.
func leftOut(n *fabric.Node, gpus []gpuView) (trouble, bool) {
	var missing []string
	bus := 0
	for _, g := range gpus {
		if g.isListable(n) {
			bus++
			if g.Driver == nil {
				missing = append(missing, g.Function.Address)
			}
		}
	}
	listed := len(n.GPUDriver.GPUs)
	return trouble{
		Where: missing, What: "The driver does not show the GPU",
		Why: fmt.Sprintf("The PCI bus has %d GPUs, NVML lists %d: jobs do not find the others.", bus, listed),
		Remedy: "See what the driver says (dmesg | grep -iE 'nvrm|xid'), then restart the node. If this exporter runs in a container, " +
			"give it all GPUs (NVIDIA_VISIBLE_DEVICES=all).",
	}, listed < bus && len(missing) > 0
}

// isListable tells that NVML answers and should list the GPU. Virtual functions, and what was given to virtual machines,
// are not its to list.
func (g gpuView) isListable(n *fabric.Node) bool {
	return n.GPUDriver.Loaded.Or(false) && n.GPUDriver.Released == "" && sourceUp(n, fabric.SourceGPU) &&
		g.Function != nil && isNVIDIA(g.Function) && g.Function.PF.State != fabric.OK && g.Function.Driver.Or("nvidia") != "vfio-pci"
}

// sourceUp tells that a source answered, or that there is no word of it.
func sourceUp(n *fabric.Node, name string) bool {
	return !slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return s.Name == name && !s.Up })
}

// fabricTrouble is about the registration with fabric manager, or with IMEX where NVLink reaches beyond the node.
func fabricTrouble(g *fabric.GPU) (trouble, bool) {
	f, ok := g.Fabric.Get()
	rack := strings.HasPrefix(g.Name.Or(""), "NVIDIA GB") // NVL72: switches are in trays of their own
	remedy := "systemctl start nvidia-fabricmanager, and see why it did not run (journalctl -u nvidia-fabricmanager); its version must be that of the driver."
	if rack {
		remedy = "Fabric manager of this machine runs in the NVLink switch trays: see there. Then systemctl start nvidia-imex here, and look at nvidia-imex-ctl -N."
	}
	switch {
	case !ok:
		return trouble{}, false
	case f.State != fabric.GPUFabricCompleted:
		return trouble{
			What:   "The GPU has not joined its NVLink fabric",
			Seen:   "NVML says " + spaced(string(f.State)) + ".",
			Why:    "Until fabric manager has registered it, CUDA does not initialise (error 802, system not yet initialized): every job on it fails at once.",
			Remedy: remedy,
		}, true
	case f.Status != "" && !strings.EqualFold(f.Status, "success"):
		return trouble{
			What:   "The NVLink fabric did not take the GPU",
			Seen:   "Its registration ended with \"" + f.Status + "\".",
			Why:    "CUDA does not initialise on it, or does without NVLink.",
			Remedy: remedy,
		}, true
	case len(f.Unhealthy) > 0:
		return trouble{
			What:   "The NVLink fabric of the GPU is not healthy",
			Seen:   "NVML's health mask says " + spaced(strings.Join(f.Unhealthy, ", ")) + ".",
			Why:    "Collectives over NVLink are slower than they should be, or fail.",
			Remedy: "Look for NVLink and SXid errors (dmesg | grep -iE 'sxid|nvlink'), and at nvidia-smi -q | grep -A 12 Fabric; reset the GPUs with no job on the node.",
		}, true
	}
	return trouble{}, false
}

// nvLinksDown compares with the GPU of the same name that has most active NVLinks. That a GPU has none, where others are
// bridged in pairs, is how it was built.
func nvLinksDown(g gpuView, all []gpuView) (trouble, bool) {
	active, down, ok := countLinks(g.Driver)
	if !ok || len(down) == 0 {
		return trouble{}, false
	}
	best, peer, switched := active, "", false
	for _, p := range all {
		if p.Driver == nil || p.Driver.Name.Or("") != g.Driver.Name.Or("") {
			continue
		}
		if n, _, ok := countLinks(p.Driver); ok && n > best {
			best, peer, switched = n, p.Name, reachesSwitch(p.Driver)
		}
	}
	if peer == "" || active == 0 && !switched {
		return trouble{}, false
	}
	return trouble{
		What:   "NVLinks are down",
		Seen:   fmt.Sprintf("%d are active, of %s there are %d. Down: %s.", active, peer, best, strings.Join(down, ", ")),
		Why:    "GPUs of one name in a node should have as many. Collectives go at the speed of the GPU with the fewest.",
		Remedy: "nvidia-smi nvlink -s and -e show links and errors. Take the node out of jobs, nvidia-smi --gpu-reset or restart it; if they stay down, replace the GPU or its baseboard.",
	}, true
}

// countLinks returns how many NVLinks are active and which are not. Those of a divided GPU (MIG) are not judged.
func countLinks(g *fabric.GPU) (active int, down []string, ok bool) {
	if _, named := g.Name.Get(); !named || g.MIG.Or(false) || g.Lost.Or(false) {
		return 0, nil, false
	}
	n, ok := g.Active().Get()
	if !ok {
		return 0, nil, false
	}
	for i := range g.NVLinks.Value {
		if l := &g.NVLinks.Value[i]; !l.Active.Value {
			down = append(down, strconv.Itoa(l.Number))
		}
	}
	return n, down, true
}

func reachesSwitch(g *fabric.GPU) bool {
	return slices.ContainsFunc(g.NVLinks.Or(nil), func(l fabric.NVLink) bool { return l.RemoteKind.Or("") == fabric.NVLinkToSwitch })
}

// narrowGPU is what NVML says of the width where the bus does not tell, as in a virtual machine.
func narrowGPU(n *fabric.Node, g gpuView) (trouble, bool) {
	if g.Function != nil && n.PCI.Shortfalls(g.Function, n.At).State == fabric.OK {
		return trouble{}, false // narrowLinks says it, with the link
	}
	width, ok := g.Driver.PCIeWidth.Get()
	most, known := g.Driver.PCIeMaxWidth.Get()
	return trouble{
		What:   fmt.Sprintf("A PCIe link runs at x%d instead of x%d", width, most),
		Why:    "NVML says so of what GPU and slot can do. What the GPU exchanges with NICs and the host is limited by it.",
		Remedy: reseat,
	}, ok && known && width > 0 && width < most
}

// slowGPU judges the generation while the GPU works.
func slowGPU(g *fabric.GPU) (trouble, bool) {
	generation, ok := g.PCIeGeneration.Get()
	most, known := g.PCIeMaxGen.Get()
	load := g.Utilization.Or(0)
	return trouble{
		What:   "The PCIe link of a working GPU is slow",
		Seen:   fmt.Sprintf("It runs at generation %d instead of %d while the GPU is busy for %.0f %% of the time.", generation, most, load*100),
		Why:    "Only links of idle GPUs slow down to save power. What the GPU exchanges with NICs and the host is limited by it.",
		Remedy: reseat,
	}, ok && known && generation > 0 && generation < most && load >= underLoad
}

// throttled tells that the hardware slows the GPU down. That software keeps its power below the limit is how GPUs work.
func throttled(g *fabric.GPU) (trouble, bool) {
	var reasons []string
	for _, r := range g.ClockReasons.Or(0).Throttles() {
		switch r {
		case "hardware_slowdown", "hardware_thermal", "power_brake":
			reasons = append(reasons, spaced(r))
		}
	}
	return trouble{
		What:   "The hardware slows the GPU down",
		Seen:   "NVML's reason: " + strings.Join(reasons, ", ") + ".",
		Why:    "Its clocks are at half or less, and every collective waits for the slowest GPU.",
		Remedy: "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER tells heat from power: look at fans, coolant and dust, or at power supplies and cables.",
	}, len(reasons) > 0
}

// gpuUnchecked is what of the GPUs could not be looked at, where somebody can do something about it: not what the driver
// does not have, nor what a hypervisor hides.
func gpuUnchecked(n *fabric.Node) []trouble {
	gpus := gpusOf(n)
	var list []trouble
	answers, known := n.GPUDriver.Loaded.Get()
	bound := slices.ContainsFunc(gpus, func(g gpuView) bool { return g.Function != nil && g.Function.Driver.Or("") == "nvidia" })
	if known && !answers && bound && n.GPUDriver.Released == "" {
		list = append(list, trouble{
			Where: []string{"GPU driver (NVML)"}, What: "Could not be asked",
			Why: "GPUs are bound to it, but its library libnvidia-ml.so.1 is not here or does not work. In a container, use NVIDIA's runtime " +
				"and NVIDIA_DRIVER_CAPABILITIES=utility.",
		})
	}
	for _, g := range gpus {
		if g.GDR == nil || g.GDR.Usable.State != fabric.Unknown {
			continue
		}
		switch r := g.GDR.Usable.Meta().Reason; r {
		case fabric.ReasonNotRead, fabric.ReasonMissing, fabric.ReasonVirtual, fabric.ReasonStuck:
		case fabric.ReasonPrivilege:
			list = append(list, trouble{
				Where: []string{g.Name}, What: "Whether NCCL would use GPUDirect RDMA is not known", Why: sentence(reasonText(r)) + " ACS takes root (CAP_SYS_ADMIN).",
			})
		default:
			list = append(list, trouble{Where: []string{g.Name}, What: "Whether NCCL would use GPUDirect RDMA is not known", Why: sentence(reasonText(r))})
		}
	}
	return list
}
