// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

const (
	reseat      = "Compare LnkCap and LnkSta (lspci -vv -s <address>). Reseat the card or riser, then update its firmware; if the problem remains, replace it."
	ofListed    = "GPUs that NVML lists and has not lost"
	topicGPU    = "gpu"
	topicNVLink = "nvlink"
)

func gpuChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckGPUDriver, Title: "The GPU has no driver that CUDA can use", Severity: verdict.Critical,
			Topic: topicGPU, Scope: verdict.ScopeGPU,
			Reads: "the driver that the PCI function is bound to, and whether NVML answers",
			Guard: "NVIDIA GPUs on the PCI bus; not those assigned to virtual machines (vfio-pci), and not while the exporter has released the GPUs",
			Modes: []verdict.Mode{{ID: "gpu_driver", Text: "A GPU has no driver that CUDA can use."}}, Judge: judgeGPUDriver,
		},
		{
			ID: "gpu_listed", Title: "The driver does not show the GPU", Severity: verdict.Critical, Topic: topicGPU,
			Scope: verdict.ScopeGPU,
			Reads: "GPUs on the PCI bus against those that NVML lists",
			Guard: "while NVML answers; not virtual functions, nor GPUs assigned to virtual machines",
			Modes: []verdict.Mode{node.ModeGPULost}, Judge: judgeGPUListed,
		},
		{
			ID: "gpu_lost", Title: "The driver has lost the GPU", Severity: verdict.Critical, Topic: topicGPU,
			Scope: verdict.ScopeGPU,
			Reads: "whether NVML reports the GPU as lost", Guard: "GPUs that NVML lists",
			Modes: []verdict.Mode{node.ModeGPULost},
			Judge: eachGPU(judgeGPULost),
		},
		{
			ID: verdict.CheckNVLinkFabric, Title: "The GPU has not joined its NVLink fabric", Severity: verdict.Critical,
			Topic: topicNVLink, Scope: verdict.ScopeGPU,
			Reads: "state, status and health of the registration with fabric manager or IMEX, as NVML reports them",
			Guard: ofListed + ", and that have NVSwitches that need fabric manager",
			Modes: []verdict.Mode{{ID: "fabric_manager", Text: "Fabric manager or IMEX has not registered a GPU."}},
			Judge: eachLiveGPU(judgeFabric),
		},
		{
			ID: verdict.CheckNVLinks, Title: "The GPU has lost NVLinks", Severity: verdict.Critical, Topic: topicNVLink,
			Scope: verdict.ScopeGPU,
			Reads: "number of active NVLinks, compared with the GPU of the same model that has the most",
			Guard: ofListed + "; not GPUs with MIG on, nor GPUs without NVLinks if others are bridged in pairs",
			Modes: []verdict.Mode{{ID: "nvlink_down", Text: "NVLinks of a GPU are down.", Alert: "GpuFabricNvlinkDown"}},
			Judge: judgeNVLinks,
		},
		{
			ID: verdict.CheckGPUPCIeLink, Title: "The PCIe link of the GPU is slow", Severity: verdict.Warning, Topic: "pcie",
			Scope: verdict.ScopeGPU,
			Reads: "width and generation of the link, and utilization of the GPU, as NVML reports them",
			Guard: ofListed +
				"; the width only if the bus does not report it (see pcie_link), the generation only while the GPU is busy, because idle links slow down",
			Modes: []verdict.Mode{modePCIeLink}, Judge: eachLiveGPU(judgeGPULink),
		},
		{
			ID: "gpu_divided", Title: "MIG is on for the GPU, but not for its peers", Severity: verdict.Warning,
			Topic: topicGPU, Scope: verdict.ScopeGPU,
			Reads: "whether MIG is on for each GPU, as NVML reports it",
			Guard: ofListed +
				" and that support MIG; not if MIG is on for half or more of the GPUs of the same model, which is taken as intended",
			Modes: []verdict.Mode{{ID: "gpu_divided", Text: "MIG is on for some GPUs of a node that trains on all of them."}},
			Judge: judgeDivided,
		},
		{
			ID: verdict.CheckGPUThrottled, Title: "The hardware throttles the GPU", Severity: verdict.Warning, Topic: topicGPU,
			Scope: verdict.ScopeGPU,
			Reads: "NVML's reasons for clocks below their maximum",
			Guard: ofListed + "; the software power cap is normal operation and not reported",
			Modes: []verdict.Mode{{ID: "gpu_throttled", Text: "A GPU is throttled because of heat or power."}},
			Judge: eachLiveGPU(judgeThrottled),
		},
	}
}

type judgeGPU func(n *fabric.Node, g verdict.GPU, v *verdict.Verdicts)

// eachGPU asks the GPUs that NVML lists.
func eachGPU(judge judgeGPU) func(*fabric.Node, *verdict.Verdicts) {
	return func(n *fabric.Node, v *verdict.Verdicts) {
		for _, g := range v.GPUs(n) {
			if g.Driver != nil {
				judge(n, g, v)
			}
		}
	}
}

// eachLiveGPU leaves out those that are lost.
func eachLiveGPU(judge judgeGPU) func(*fabric.Node, *verdict.Verdicts) {
	return eachGPU(func(n *fabric.Node, g verdict.GPU, v *verdict.Verdicts) {
		if !g.Lost() {
			judge(n, g, v)
		}
	})
}

func judgeGPUDriver(n *fabric.Node, v *verdict.Verdicts) {
	loaded, known := n.GPUDriver.Loaded.Get()
	why, unreached := n.GPUDriver.Unreached()
	if n.GPUDriver.Released != "" {
		return
	}
	for _, g := range v.GPUs(n) {
		if g.Function == nil || !g.Function.NVIDIA() || g.Function.PassedThrough() || g.Function.PF.State == fabric.OK {
			continue
		}
		s := g.Subject()
		s.Name = g.Function.Address // GPUs without a driver have no index
		driver, bound := g.Function.Driver.Get()
		w := verdict.Verdict{
			Evidence:    "It is on the PCI bus, bound to no driver, and no NVIDIA driver responds.",
			Consequence: "Jobs cannot use it.",
			Remedy:      "Run modprobe nvidia and check the kernel log (dmesg | grep -i nvrm); after a kernel update, build the driver for this kernel (dkms status).",
		}
		switch {
		case !known && !unreached:
			v.Hidden(s, n.GPUDriver.Loaded.Meta(), "Whether a GPU driver responds")
		case loaded:
			v.OK(s)
		case bound && driver == "nouveau":
			w.Evidence = "It is on the PCI bus, bound to nouveau, and no NVIDIA driver responds."
			w.Remedy = "Install NVIDIA's driver and keep nouveau from loading (blacklist nouveau in /etc/modprobe.d), then restart the node."
			v.Failed(s, w)
		case g.Function.Driver.State == fabric.Absent:
			v.Failed(s, w)
		case bound && driver == "nvidia":
			v.Unknown(s, fabric.ReasonMissing, "GPUs are bound to the driver, but "+cmp.Or(why, "it does not respond")+". "+
				"In a container, use the NVIDIA container runtime with NVIDIA_DRIVER_CAPABILITIES=utility; with systemd, enable the tier gpu.")
		case !bound:
			v.Unknown(s, g.Function.Driver.Meta().Reason,
				"No GPU driver responds, and the driver that the GPU is bound to is unknown: "+verdict.ReasonText(g.Function.Driver.Meta().Reason)+".")
		}
	}
}

// judgeGPUListed compares counts too: a GPU that NVML lists without an address cannot be identified.
func judgeGPUListed(n *fabric.Node, v *verdict.Verdicts) {
	gpus := v.GPUs(n)
	bus, listed := 0, len(n.GPUDriver.GPUs)
	for _, g := range gpus {
		if g.Listable(n) {
			bus++
		}
	}
	for _, g := range gpus {
		s := g.Subject()
		loaded, known := n.GPUDriver.Loaded.Get()
		candidate := g.Function != nil && g.Function.NVIDIA() && g.Function.PF.State != fabric.OK &&
			!g.Function.PassedThrough() && n.GPUDriver.Released == ""
		switch {
		case !candidate || known && !loaded: // gpu_driver reports it
		case !known:
			v.Hidden(s, n.GPUDriver.Loaded.Meta(), "Whether a GPU driver responds")
		case !g.Listable(n):
			for _, source := range n.Sources {
				if source.Name == fabric.SourceGPU && !source.Up {
					v.Unknown(s, source.Reason, "NVML does not respond: "+verdict.ReasonText(source.Reason)+".")
				}
			}
		case g.Driver != nil || listed >= bus:
			v.OK(s)
		case g.Function.Driver.State == fabric.Unknown && !verdict.Silent(g.Function.Driver.Meta()):
			v.Unknown(s, g.Function.Driver.Meta().Reason,
				"NVML does not list the GPU, and the driver that it is bound to is unknown.")
		case g.Function.PF.State == fabric.Unknown && !verdict.Silent(g.Function.PF.Meta()):
			v.Unknown(s, g.Function.PF.Meta().Reason,
				"NVML does not list the GPU, and it is unknown whether it is a virtual function.")
		default:
			v.Failed(s, verdict.Verdict{
				Evidence:    fmt.Sprintf("The PCI bus has %d GPUs, NVML lists %d.", bus, listed),
				Consequence: "Jobs cannot use the others.",
				Remedy: "Check the driver's messages (dmesg | grep -iE 'nvrm|xid'), then restart the node. If this exporter runs in a container, " +
					"give it all GPUs (NVIDIA_VISIBLE_DEVICES=all).",
			})
		}
	}
}

func judgeGPULost(_ *fabric.Node, g verdict.GPU, v *verdict.Verdicts) {
	lost, known := g.Driver.Lost.Get()
	if !known {
		v.Hidden(g.Subject(), g.Driver.Lost.Meta(), "Whether the driver has lost the GPU")
		return
	}
	v.When(lost, g.Subject(), verdict.Verdict{
		Evidence:    "NVML reports \"GPU is lost\": it fell off the bus or stopped responding.",
		Consequence: "Jobs on it fail, and their ranks on other nodes hang.",
		Remedy:      "Drain the node, look for Xid 79 (dmesg | grep -i xid) and power-cycle the node; if the error returns, reseat or replace the GPU.",
	})
}

// judgeFabric is about the registration with fabric manager, or with IMEX where NVLink reaches beyond the node.
func judgeFabric(_ *fabric.Node, g verdict.GPU, v *verdict.Verdicts) {
	f, known := g.Driver.Fabric.Get()
	rack := strings.HasPrefix(g.Driver.Name.Or(""), "NVIDIA GB") // NVL72: switches are in trays of their own
	remedy := "systemctl start nvidia-fabricmanager, and check why it did not run (journalctl -u nvidia-fabricmanager); its version must match the driver."
	if rack {
		remedy = "Fabric manager of this machine runs in the NVLink switch trays: check it there. Then run systemctl start nvidia-imex here, and check nvidia-imex-ctl -N."
	}
	switch {
	case g.Driver.Fabric.State == fabric.Absent:
	case !known:
		v.Hidden(g.Subject(), g.Driver.Fabric.Meta(), "Whether the GPU has joined its NVLink fabric")
	case f.State != fabric.GPUFabricCompleted:
		v.Failed(g.Subject(), verdict.Verdict{
			Evidence:    "NVML reports " + verdict.Spaced(string(f.State)) + ".",
			Consequence: "Until fabric manager has registered it, CUDA does not initialise (error 802, system not yet initialized): every job on it fails at once.",
			Remedy:      remedy,
		})
	case f.Status != "" && !strings.EqualFold(f.Status, "success"):
		v.Failed(g.Subject(), verdict.Verdict{
			What: "The GPU failed to register with its NVLink fabric", Evidence: "Its registration ended with \"" + f.Status +
				"\".",
			Consequence: "CUDA does not initialise on it, or does not use NVLink.", Remedy: remedy,
		})
	case len(f.Unhealthy) > 0:
		v.Failed(g.Subject(), verdict.Verdict{
			What:        "The NVLink fabric of the GPU is not healthy",
			Evidence:    "NVML's health mask reports " + verdict.Spaced(strings.Join(f.Unhealthy, ", ")) + ".",
			Consequence: "Collectives over NVLink are slow or fail.",
			Remedy:      "Look for NVLink and SXid errors (dmesg | grep -iE 'sxid|nvlink'), and check nvidia-smi -q | grep -A 12 Fabric; reset the GPUs when no job runs on the node.",
		})
	default:
		v.OK(g.Subject())
	}
}

// judgeGPULink is what NVML reports of the width where the bus does not report it, as in a virtual machine, and of the
// generation while the GPU works.
func judgeGPULink(n *fabric.Node, g verdict.GPU, v *verdict.Verdicts) {
	d, s := g.Driver, g.Subject()
	onBus := g.Function != nil && n.PCI.Shortfalls(g.Function, n.At).State == fabric.OK
	width, ok := d.PCIeWidth.Get()
	most, known := d.PCIeMaxWidth.Get()
	if !onBus && ok && known && width > 0 && width < most {
		v.Failed(s, verdict.Verdict{
			What:        fmt.Sprintf("A PCIe link runs at x%d instead of x%d", width, most),
			Evidence:    "The expected width is what NVML reports for GPU and slot.",
			Consequence: "The link limits transfers between the GPU and NICs or the host.", Remedy: reseat,
		})
		return
	}
	if !onBus {
		for _, m := range []fabric.Meta{d.PCIeWidth.Meta(), d.PCIeMaxWidth.Meta()} {
			if m.State == fabric.Unknown && !verdict.Silent(m) {
				v.Hidden(s, m, "The width of the PCIe link")
				return
			}
		}
	}
	judgeGeneration(g, v)
}

func judgeGeneration(g verdict.GPU, v *verdict.Verdicts) {
	d, s := g.Driver, g.Subject()
	generation, ok := d.PCIeGeneration.Get()
	most, known := d.PCIeMaxGen.Get()
	load, busy := d.Utilization.Get()
	switch {
	case ok && known && (generation <= 0 || generation >= most), busy && load < fabric.GPUUnderLoad:
		v.OK(s)
	case !ok:
		v.Hidden(s, d.PCIeGeneration.Meta(), "The generation of the PCIe link")
	case !known:
		v.Hidden(s, d.PCIeMaxGen.Meta(), "The generation that the PCIe link supports")
	case !busy:
		v.Hidden(s, d.Utilization.Meta(), "Whether the GPU with the slow PCIe link is busy")
	default:
		v.Failed(s, verdict.Verdict{
			What: "The PCIe link of a busy GPU is slow",
			Evidence: fmt.Sprintf("It runs at generation %d instead of %d while the GPU is busy for %.0f %% of the time.",
				generation, most, load*100),
			Consequence: "Only links of idle GPUs slow down to save power. The link limits transfers between the GPU and NICs or the host.", Remedy: reseat,
		})
	}
}

func judgeThrottled(_ *fabric.Node, g verdict.GPU, v *verdict.Verdicts) {
	mask, known := g.Driver.ClockReasons.Get()
	if !known {
		if g.Driver.ClockReasons.State == fabric.Unknown {
			v.Hidden(g.Subject(), g.Driver.ClockReasons.Meta(), "Whether the hardware throttles the GPU")
		}
		return
	}
	var reasons []string
	for _, r := range mask.Throttles() {
		if slices.Contains([]string{"hardware_slowdown", "hardware_thermal", "power_brake"}, r) {
			reasons = append(reasons, verdict.Spaced(r))
		}
	}
	v.When(len(reasons) > 0, g.Subject(), verdict.Verdict{
		Evidence:    "NVML's reason: " + strings.Join(reasons, ", ") + ".",
		Consequence: "Its clocks are at half or less, and every collective waits for the slowest GPU.",
		Remedy:      "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER shows whether heat or power is the cause: check fans, coolant and dust, or power supplies and cables.",
	})
}

// Checks returns the checks of this package.
func Checks() []*verdict.Check { return slices.Concat(pcieChecks(), gpuChecks(), gpuDirectChecks()) }
