// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const (
	reseat      = "Compare LnkCap and LnkSta (lspci -vv -s <address>). Reseat the card or riser, then update its firmware; if it stays, replace it."
	ofListed    = "asked of GPUs that NVML lists and has not lost"
	topicGPU    = "gpu"
	topicNVLink = "nvlink"
)

func gpuChecks() []*Check {
	return []*Check{
		{
			ID: CheckGPUDriver, Title: "The GPU has no driver that CUDA could use", Severity: Critical, Topic: topicGPU, Scope: ScopeGPU,
			Reads: "the driver that the PCI function is bound to, and whether NVML answers",
			Guard: "asked of NVIDIA GPUs on the PCI bus; not of those that were given to virtual machines (vfio-pci), nor while the exporter has let go of the GPUs",
			Modes: []string{ModeGPUDriver}, judge: judgeGPUDriver,
		},
		{
			ID: "gpu_listed", Title: "The driver does not show the GPU", Severity: Critical, Topic: topicGPU, Scope: ScopeGPU,
			Reads: "GPUs on the PCI bus against those that NVML lists",
			Guard: "asked while NVML answers; not of virtual functions, nor of GPUs that were given to virtual machines",
			Modes: []string{ModeGPULost}, judge: judgeGPUListed,
		},
		{
			ID: "gpu_lost", Title: "The driver has lost the GPU", Severity: Critical, Topic: topicGPU, Scope: ScopeGPU,
			Reads: "whether NVML answers that the GPU is lost", Guard: "asked of GPUs that NVML lists", Modes: []string{ModeGPULost},
			judge: eachGPU(judgeGPULost),
		},
		{
			ID: CheckNVLinkFabric, Title: "The GPU has not joined its NVLink fabric", Severity: Critical, Topic: topicNVLink, Scope: ScopeGPU,
			Reads: "state, status and health of the registration with fabric manager or IMEX, as NVML tells them",
			Guard: ofListed + ", and that have NVSwitches which need fabric manager", Modes: []string{ModeFabricManager}, judge: eachLiveGPU(judgeFabric),
		},
		{
			ID: CheckNVLinks, Title: "NVLinks are down", Severity: Critical, Topic: topicNVLink, Scope: ScopeGPU,
			Reads: "NVLinks that are active, against the GPU of the same name that has most",
			Guard: ofListed + "; not of divided GPUs (MIG), nor of those that have none where others are bridged in pairs",
			Modes: []string{ModeNVLinkDown}, judge: judgeNVLinks,
		},
		{
			ID: CheckGPUPCIeLink, Title: "The PCIe link of the GPU is slow", Severity: Warning, Topic: "pcie", Scope: ScopeGPU,
			Reads: "width and generation of the link, and how busy the GPU is, as NVML tells them",
			Guard: ofListed + "; the width where the bus does not tell it (see pcie_link), the generation while the GPU works, because idle links slow down",
			Modes: []string{ModePCIeLink}, judge: eachLiveGPU(judgeGPULink),
		},
		{
			ID: "gpu_divided", Title: "The GPU is divided (MIG), and its peers are not", Severity: Warning, Topic: topicGPU, Scope: ScopeGPU,
			Reads: "whether MIG is on for each GPU, as NVML tells it",
			Guard: ofListed + " and that can be divided; not where half of the GPUs of its name or more are: so the node is meant",
			Modes: []string{ModeGPUDivided}, judge: judgeDivided,
		},
		{
			ID: CheckGPUThrottled, Title: "The hardware slows the GPU down", Severity: Warning, Topic: topicGPU, Scope: ScopeGPU,
			Reads: "NVML's reasons for clocks below their maximum",
			Guard: ofListed + "; that software keeps the power below its limit is how GPUs work", Modes: []string{ModeGPUThrottled}, judge: eachLiveGPU(judgeThrottled),
		},
	}
}

// silent tells that nobody on this node can do anything about a fact that is not known: it was not asked for, or this
// kernel, driver or machine does not tell it. Such checks are not made.
func silent(m fabric.Meta) bool {
	switch m.Reason {
	case fabric.ReasonNotRead, fabric.ReasonMissing, fabric.ReasonUnsupported, fabric.ReasonVirtual, fabric.ReasonDriverConstant:
		return true
	}
	return false
}

// hidden adds an unknown verdict for a fact, unless it is silent.
func (v *verdicts) hidden(s Subject, m fabric.Meta, what string) {
	if !silent(m) {
		v.unknown(s, m.Reason, what+" is not known: "+ReasonText(m.Reason)+".")
	}
}

type judgeGPU func(n *fabric.Node, g GPU, v *verdicts)

// eachGPU asks the GPUs that NVML lists.
func eachGPU(judge judgeGPU) func(*fabric.Node, *verdicts) {
	return func(n *fabric.Node, v *verdicts) {
		for _, g := range v.ofGPUs(n) {
			if g.Driver != nil {
				judge(n, g, v)
			}
		}
	}
}

// eachLiveGPU leaves out those that are lost.
func eachLiveGPU(judge judgeGPU) func(*fabric.Node, *verdicts) {
	return eachGPU(func(n *fabric.Node, g GPU, v *verdicts) {
		if !g.Lost() {
			judge(n, g, v)
		}
	})
}

func judgeGPUDriver(n *fabric.Node, v *verdicts) {
	loaded, known := n.GPUDriver.Loaded.Get()
	if n.GPUDriver.Released != "" {
		return
	}
	for _, g := range v.ofGPUs(n) {
		if g.Function == nil || !isNVIDIA(g.Function) || passedThrough(g.Function) || g.Function.PF.State == fabric.OK {
			continue
		}
		s := g.Subject()
		s.Name = g.Function.Address // nobody counts GPUs without a driver
		driver, bound := g.Function.Driver.Get()
		w := Verdict{
			Evidence:    "It is on the PCI bus, bound to no driver, and no NVIDIA driver answers.",
			Consequence: "Jobs do not find it.",
			Remedy:      "modprobe nvidia, and see what it says (dmesg | grep -i nvrm); after a kernel update, build the driver for this kernel (dkms status).",
		}
		switch {
		case !known:
			v.hidden(s, n.GPUDriver.Loaded.Meta(), "Whether a GPU driver answers")
		case loaded:
			v.ok(s)
		case bound && driver == "nouveau":
			w.Evidence = "It is on the PCI bus, bound to nouveau, and no NVIDIA driver answers."
			w.Remedy = "Install NVIDIA's driver and keep nouveau from loading (blacklist nouveau in /etc/modprobe.d), then restart the node."
			v.failed(s, w)
		case g.Function.Driver.State == fabric.Absent:
			v.failed(s, w)
		case bound && driver == "nvidia":
			v.unknown(s, fabric.ReasonMissing, "GPUs are bound to the driver, but its library libnvidia-ml.so.1 is not here or does not work. "+
				"In a container, use NVIDIA's runtime and NVIDIA_DRIVER_CAPABILITIES=utility.")
		case !bound:
			v.unknown(s, g.Function.Driver.Meta().Reason, "No GPU driver answers, and what the GPU is bound to is not known: "+ReasonText(g.Function.Driver.Meta().Reason)+".")
		}
	}
}

// judgeGPUListed compares counts too: of a GPU that NVML lists without a place, nobody knows which it is.
func judgeGPUListed(n *fabric.Node, v *verdicts) {
	gpus := v.ofGPUs(n)
	bus, listed := 0, len(n.GPUDriver.GPUs)
	for _, g := range gpus {
		if g.Listable(n) {
			bus++
		}
	}
	for _, g := range gpus {
		s := g.Subject()
		loaded, known := n.GPUDriver.Loaded.Get()
		candidate := g.Function != nil && isNVIDIA(g.Function) && g.Function.PF.State != fabric.OK && !passedThrough(g.Function) && n.GPUDriver.Released == ""
		switch {
		case !candidate || known && !loaded: // gpu_driver tells
		case !known:
			v.hidden(s, n.GPUDriver.Loaded.Meta(), "Whether a GPU driver answers")
		case !g.Listable(n):
			for _, source := range n.Sources {
				if source.Name == fabric.SourceGPU && !source.Up {
					v.unknown(s, source.Reason, "NVML does not answer: "+ReasonText(source.Reason)+".")
				}
			}
		case g.Driver != nil || listed >= bus:
			v.ok(s)
		case g.Function.Driver.State == fabric.Unknown && !silent(g.Function.Driver.Meta()):
			v.unknown(s, g.Function.Driver.Meta().Reason, "NVML does not list the GPU, and what it is bound to is not known.")
		case g.Function.PF.State == fabric.Unknown && !silent(g.Function.PF.Meta()):
			v.unknown(s, g.Function.PF.Meta().Reason, "NVML does not list the GPU, and whether it is a virtual function is not known.")
		default:
			v.failed(s, Verdict{
				Evidence: fmt.Sprintf("The PCI bus has %d GPUs, NVML lists %d.", bus, listed), Consequence: "Jobs do not find the others.",
				Remedy: "See what the driver says (dmesg | grep -iE 'nvrm|xid'), then restart the node. If this exporter runs in a container, " +
					"give it all GPUs (NVIDIA_VISIBLE_DEVICES=all).",
			})
		}
	}
}

func judgeGPULost(_ *fabric.Node, g GPU, v *verdicts) {
	lost, known := g.Driver.Lost.Get()
	if !known {
		v.hidden(g.Subject(), g.Driver.Lost.Meta(), "Whether the driver has lost the GPU")
		return
	}
	v.when(lost, g.Subject(), Verdict{
		Evidence:    "NVML answers \"GPU is lost\": it fell off the bus or stopped to answer.",
		Consequence: "Jobs on it fail, and those on other nodes that wait for it hang.",
		Remedy:      "Take the node out of jobs, look for Xid 79 (dmesg | grep -i xid) and power-cycle the node; if it comes back, reseat or replace the GPU.",
	})
}

// judgeFabric is about the registration with fabric manager, or with IMEX where NVLink reaches beyond the node.
func judgeFabric(_ *fabric.Node, g GPU, v *verdicts) {
	f, known := g.Driver.Fabric.Get()
	rack := strings.HasPrefix(g.Driver.Name.Or(""), "NVIDIA GB") // NVL72: switches are in trays of their own
	remedy := "systemctl start nvidia-fabricmanager, and see why it did not run (journalctl -u nvidia-fabricmanager); its version must be that of the driver."
	if rack {
		remedy = "Fabric manager of this machine runs in the NVLink switch trays: see there. Then systemctl start nvidia-imex here, and look at nvidia-imex-ctl -N."
	}
	switch {
	case g.Driver.Fabric.State == fabric.Absent:
	case !known:
		v.hidden(g.Subject(), g.Driver.Fabric.Meta(), "Whether the GPU has joined its NVLink fabric")
	case f.State != fabric.GPUFabricCompleted:
		v.failed(g.Subject(), Verdict{
			Evidence:    "NVML says " + Spaced(string(f.State)) + ".",
			Consequence: "Until fabric manager has registered it, CUDA does not initialise (error 802, system not yet initialized): every job on it fails at once.",
			Remedy:      remedy,
		})
	case f.Status != "" && !strings.EqualFold(f.Status, "success"):
		v.failed(g.Subject(), Verdict{
			What: "The NVLink fabric did not take the GPU", Evidence: "Its registration ended with \"" + f.Status + "\".",
			Consequence: "CUDA does not initialise on it, or does without NVLink.", Remedy: remedy,
		})
	case len(f.Unhealthy) > 0:
		v.failed(g.Subject(), Verdict{
			What:        "The NVLink fabric of the GPU is not healthy",
			Evidence:    "NVML's health mask says " + Spaced(strings.Join(f.Unhealthy, ", ")) + ".",
			Consequence: "Collectives over NVLink are slower than they should be, or fail.",
			Remedy:      "Look for NVLink and SXid errors (dmesg | grep -iE 'sxid|nvlink'), and at nvidia-smi -q | grep -A 12 Fabric; reset the GPUs with no job on the node.",
		})
	default:
		v.ok(g.Subject())
	}
}

// judgeNVLinks compares with the GPU of the same name that has most active NVLinks. That a GPU has none, where others are
// bridged in pairs, is how it was built.
func judgeNVLinks(n *fabric.Node, v *verdicts) {
	all := v.ofGPUs(n)
	for _, g := range all {
		if g.Driver == nil || g.Lost() || g.Driver.MIG.Or(false) || g.Driver.NVLinks.State == fabric.Absent {
			continue
		}
		active, down, unread := countLinks(g.Driver)
		switch {
		case unread != nil:
			v.hidden(g.Subject(), *unread, "Which NVLinks are active")
		case len(down) == 0:
			v.ok(g.Subject())
		default:
			judgeLinksDown(g, all, active, down, v)
		}
	}
}

func judgeLinksDown(g GPU, all []GPU, active int, down []string, v *verdicts) {
	best, peer := active, GPU{}
	var unread *fabric.Meta // what may hide a better peer
	for _, p := range all {
		if p.Driver == nil || p.Lost() || p.Driver.MIG.Or(false) || p.Driver.Index == g.Driver.Index {
			continue
		}
		if name, ok := p.Driver.Name.Get(); !ok {
			unread = new(p.Driver.Name.Meta())
			continue
		} else if own, ok := g.Driver.Name.Get(); !ok {
			unread = new(g.Driver.Name.Meta())
			continue
		} else if own != name {
			continue
		}
		switch count, _, why := countLinks(p.Driver); {
		case why != nil && p.Driver.NVLinks.State != fabric.Absent:
			unread = why
		case why == nil && count > best:
			best, peer = count, p
		}
	}
	switched, unsure := false, false
	if peer.Driver != nil {
		switched, unsure = reachesSwitch(peer.Driver)
	}
	switch {
	case peer.Driver != nil && (active > 0 || switched):
		v.failed(g.Subject(), Verdict{
			Evidence:    fmt.Sprintf("%d are active, of %s there are %d. Down: %s.", active, peer.Name, best, strings.Join(down, ", ")),
			Consequence: "GPUs of one name in a node should have as many. Collectives go at the speed of the GPU with the fewest.",
			Remedy:      "nvidia-smi nvlink -s and -e show links and errors. Take the node out of jobs, nvidia-smi --gpu-reset or restart it; if they stay down, replace the GPU or its baseboard.",
		})
	case unsure:
		v.unknown(g.Subject(), fabric.ReasonIO, "It has no active NVLink, and what those of "+peer.Name+" lead to is not known.")
	case unread != nil:
		v.hidden(g.Subject(), *unread, "How many NVLinks its peers have")
	default:
		v.ok(g.Subject())
	}
}

// countLinks returns how many NVLinks are active and which are not, or what hides that.
func countLinks(g *fabric.GPU) (active int, down []string, unread *fabric.Meta) {
	all := g.Active()
	active, ok := all.Get()
	if !ok {
		return 0, nil, new(all.Meta())
	}
	for i := range g.NVLinks.Value {
		if l := &g.NVLinks.Value[i]; !l.Active.Value {
			down = append(down, strconv.Itoa(l.Number))
		}
	}
	return active, down, nil
}

// reachesSwitch tells whether NVLinks lead to a switch; unsure: none is known to, but one does not tell.
func reachesSwitch(g *fabric.GPU) (yes, unsure bool) {
	for _, l := range g.NVLinks.Or(nil) {
		kind, known := l.RemoteKind.Get()
		yes = yes || known && kind == fabric.NVLinkToSwitch
		unsure = unsure || !known && l.RemoteKind.State == fabric.Unknown && !silent(l.RemoteKind.Meta())
	}
	return yes, unsure && !yes
}

// judgeGPULink is what NVML says of the width where the bus does not tell, as in a virtual machine, and of the
// generation while the GPU works.
func judgeGPULink(n *fabric.Node, g GPU, v *verdicts) {
	d, s := g.Driver, g.Subject()
	onBus := g.Function != nil && n.PCI.Shortfalls(g.Function, n.At).State == fabric.OK
	width, ok := d.PCIeWidth.Get()
	most, known := d.PCIeMaxWidth.Get()
	if !onBus && ok && known && width > 0 && width < most {
		v.failed(s, Verdict{
			What:        fmt.Sprintf("A PCIe link runs at x%d instead of x%d", width, most),
			Evidence:    "NVML says so of what GPU and slot can do.",
			Consequence: "What the GPU exchanges with NICs and the host is limited by it.", Remedy: reseat,
		})
		return
	}
	if !onBus {
		for _, m := range []fabric.Meta{d.PCIeWidth.Meta(), d.PCIeMaxWidth.Meta()} {
			if m.State == fabric.Unknown && !silent(m) {
				v.hidden(s, m, "The width of the PCIe link")
				return
			}
		}
	}
	judgeGeneration(g, v)
}

func judgeGeneration(g GPU, v *verdicts) {
	d, s := g.Driver, g.Subject()
	generation, ok := d.PCIeGeneration.Get()
	most, known := d.PCIeMaxGen.Get()
	load, busy := d.Utilization.Get()
	switch {
	case ok && known && (generation <= 0 || generation >= most), busy && load < fabric.GPUUnderLoad:
		v.ok(s)
	case !ok:
		v.hidden(s, d.PCIeGeneration.Meta(), "The generation of the PCIe link")
	case !known:
		v.hidden(s, d.PCIeMaxGen.Meta(), "The generation that the PCIe link can do")
	case !busy:
		v.hidden(s, d.Utilization.Meta(), "Whether the GPU works, whose PCIe link is slow,")
	default:
		v.failed(s, Verdict{
			What:        "The PCIe link of a working GPU is slow",
			Evidence:    fmt.Sprintf("It runs at generation %d instead of %d while the GPU is busy for %.0f %% of the time.", generation, most, load*100),
			Consequence: "Only links of idle GPUs slow down to save power. What the GPU exchanges with NICs and the host is limited by it.", Remedy: reseat,
		})
	}
}

func judgeThrottled(_ *fabric.Node, g GPU, v *verdicts) {
	mask, known := g.Driver.ClockReasons.Get()
	if !known {
		if g.Driver.ClockReasons.State == fabric.Unknown {
			v.hidden(g.Subject(), g.Driver.ClockReasons.Meta(), "Whether the hardware slows the GPU down")
		}
		return
	}
	var reasons []string
	for _, r := range mask.Throttles() {
		if slices.Contains([]string{"hardware_slowdown", "hardware_thermal", "power_brake"}, r) {
			reasons = append(reasons, Spaced(r))
		}
	}
	v.when(len(reasons) > 0, g.Subject(), Verdict{
		Evidence:    "NVML's reason: " + strings.Join(reasons, ", ") + ".",
		Consequence: "Its clocks are at half or less, and every collective waits for the slowest GPU.",
		Remedy:      "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER tells heat from power: look at fans, coolant and dust, or at power supplies and cables.",
	})
}
