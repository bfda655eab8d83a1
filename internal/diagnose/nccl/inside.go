// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// modeDeviceNode is found by several checks.
var modeDeviceNode = verdict.Mode{
	ID:   "device_node_missing",
	Text: "Containers lack /dev/infiniband, RDMA devices or libibverbs.",
}

// WithoutFabric says where checks of a job do not apply.
const WithoutFabric = "not in jobs without GPUs (no /dev/nvidia<N>, CUDA_VISIBLE_DEVICES empty) or of one node (SLURM_STEP_NUM_NODES or SLURM_JOB_NUM_NODES is 1), " +
	"nor where no active RDMA device is for training, nor if NCCL_IB_DISABLE or NCCL_NET=Socket switches RDMA off"

// InsideChecks are those that are asked nowhere else.
func InsideChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckInsideVerbs, Title: "The job may not open RDMA devices", Severity: verdict.Critical,
			Topic: "inside", Scope: verdict.ScopeNode,
			Reads: "/dev/infiniband/uverbs*, which are opened and closed; their numbers in /sys/class/infiniband_verbs",
			Guard: WithoutFabric +
				". One device that opens is enough: a job may be given some of them. Without a device it fails only where NCCL_IB_HCA, NCCL_NET, FI_PROVIDER=efa, a device node or --expect-rdma says that there should be one",
			Modes: []verdict.Mode{modeDeviceNode}, Judge: judgeInsideVerbs,
		},
		{
			ID: "inside_gpus", Title: "The job has another number of GPUs than expected", Severity: verdict.Critical,
			Topic: "inside", Scope: verdict.ScopeNode,
			Reads: "GPUs given to the job (/dev/nvidia<N>, SLURM_STEP_GPUS, SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES)",
			Guard: "with --expect-gpus only",
			Modes: []verdict.Mode{modeDeviceNode}, Judge: judgeInsideGPUs,
		},
		{
			ID: "inside_devices", Title: "The job's network namespace has no RDMA device", Severity: verdict.Warning,
			Topic: "inside", Scope: verdict.ScopeNode,
			Reads: "/sys/class/infiniband and /sys/class/infiniband_verbs",
			Guard: WithoutFabric + ". Only if other network namespaces have RDMA devices near a GPU of the job",
			Modes: []verdict.Mode{modeDeviceNode}, Judge: judgeInsideDevices,
		},
		{
			ID: verdict.CheckInsideMemlock, Title: "The job cannot lock the memory that RDMA needs", Severity: verdict.Warning,
			Topic: "inside", Scope: verdict.ScopeNode,
			Reads: "RLIMIT_MEMLOCK and CAP_IPC_LOCK of this process", Guard: WithoutFabric +
				", nor with CAP_IPC_LOCK in the first user namespace",
			Modes: []verdict.Mode{node.ModeMemlock}, Judge: judgeInsideMemlock,
		},
		{
			ID: "inside_libibverbs", Title: "The job has no libibverbs", Severity: verdict.Critical, Topic: "inside",
			Scope: verdict.ScopeNode,
			Reads: "libibverbs.so.1 in LD_LIBRARY_PATH, the cache and the folders of the dynamic loader",
			Guard: WithoutFabric +
				", nor if all devices are EFA. A program with a search path of its own (RUNPATH) may find another library",
			Modes: []verdict.Mode{modeDeviceNode}, Judge: judgeInsideLibverbs,
		},
		{
			ID: "inside_provider", Title: "libibverbs has no driver for a device of the job", Severity: verdict.Critical,
			Topic: "inside", Scope: verdict.ScopeDevice,
			Reads: "lib<name>-rdmav<N>.so beside libibverbs and in the folders of the dynamic loader; the kernel driver of the device",
			Guard: WithoutFabric + ", nor EFA, nor kernel drivers whose library is not known here, nor without libibverbs",
			Modes: []verdict.Mode{modeDeviceNode}, Judge: judgeInsideProvider,
		},
		{
			ID: "inside_plugin", Title: "The job has EFA devices, and no plugin through which NCCL uses them",
			Severity: verdict.Critical, Topic: "inside", Scope: verdict.ScopeNode,
			Reads: "libnccl-net*.so in LD_LIBRARY_PATH, the cache and the folders of the dynamic loader; NCCL_NET_PLUGIN",
			Guard: WithoutFabric + "; only if all devices are EFA, which NCCL's own RDMA transport cannot use",
			Modes: []verdict.Mode{modeDeviceNode}, Judge: judgeInsidePlugin,
		},
		{
			ID: "inside_alignment", Title: "The job has a GPU without a NIC near it", Severity: verdict.Warning,
			Topic: "inside", Scope: verdict.ScopeGPU,
			Reads: "GPUs given to the job (/dev/nvidia<N>, SLURM_STEP_GPUS, SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES), RDMA devices that it may open, and their places on the PCI bus",
			Guard: WithoutFabric +
				", nor GPUs without a NIC below their PCIe switch, nor without any RDMA device (inside_verbs)",
			Modes: []verdict.Mode{{ID: "gpu_without_nic", Text: "A job has a GPU without a NIC near it."}},
			Judge: judgeAlignment,
		},
		{
			ID: verdict.CheckSettings, Title: "An NCCL setting of the job has no effect or the wrong one",
			Severity: verdict.Warning, Topic: "inside", Scope: verdict.ScopeFile,
			Reads: "NCCL variables of the environment, ~/.nccl.conf and /etc/nccl.conf, judged as by the command lint for this place and its NCCL library",
			Guard: "if there is such a setting",
			Modes: []verdict.Mode{modeNCCLConfig}, Judge: func(*fabric.Node, *verdict.Verdicts) {}, // see CheckSettings
		},
	}
}

// JobDevices returns the RDMA devices through which NCCL would send the traffic of a job between nodes, as
// far as this place shows them. applies is false where the job needs none.
func JobDevices(n *fabric.Node) (devices []*fabric.HCA, applies bool) {
	in := n.Inside
	if in == nil || in.OneNode() {
		return nil, false
	}
	if given, known := in.GivenGPUs().Get(); known && len(given) == 0 {
		return nil, false
	}
	if _, off, set := rdmaSetting(&n.NCCL); set && off {
		return nil, false
	}
	for h, p := range n.Ports {
		efa := h.Driver.Or("") == "efa"
		if efa || p.Carries() && p.MayServe(fabric.RoleCompute) && forTraining(n, h, p, false).Or(false) {
			if !slices.Contains(devices, h) {
				devices = append(devices, h)
			}
		}
	}
	return devices, true
}

// withVerbs are those that NCCL uses through libibverbs itself.
func withVerbs(devices []*fabric.HCA) []*fabric.HCA {
	return slices.DeleteFunc(slices.Clone(devices), func(h *fabric.HCA) bool { return h.Driver.Or("") == "efa" })
}

// verbsNodeOf returns the device node of an RDMA device.
func verbsNodeOf(in *fabric.Inside, device string) (fabric.VerbsNode, bool) {
	for _, v := range in.Verbs.Value {
		if v.Device == device {
			return v, true
		}
	}
	return fabric.VerbsNode{}, false
}

func deviceNames(list []*fabric.HCA) string {
	var all []string
	for _, h := range list {
		all = append(all, h.Name)
	}
	return verdict.Few(all)
}

// overTCP is what NCCL does without RDMA.
const overTCP = "NCCL uses TCP sockets without a word, unless NCCL_NET names another network: then it fails. Collectives between nodes have a fraction of the bandwidth."

func judgeInsideVerbs(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if len(devices) == 0 {
		judgeWithoutDevices(n, applies, v)
		return
	}
	in := n.Inside
	if in.Verbs.State == fabric.Unknown {
		v.Unknown(verdict.Subject{}, in.Verbs.Meta().Reason,
			"/dev/infiniband is unknown: "+verdict.ReasonText(in.Verbs.Meta().Reason)+".")
		return
	}
	var refused []string
	var unread *fabric.Meta
	for _, h := range devices {
		node, has := verbsNodeOf(in, h.Name)
		if !has {
			continue
		}
		switch usable, known := node.Usable.Get(); {
		case usable:
			v.OK(verdict.Subject{})
			return
		case !known:
			unread = new(node.Usable.Meta())
		default:
			refused = append(refused, "/dev/infiniband/"+node.Name+" ("+h.Name+")")
		}
	}
	switch {
	case unread != nil:
		v.Unknown(verdict.Subject{}, unread.Reason,
			"Whether device nodes of RDMA devices open is unknown: "+verdict.ReasonText(unread.Reason)+".")
	case len(refused) > 0:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			What: "The job is not permitted to open RDMA devices", Evidence: verdict.Few(refused) + ": permission denied.",
			Consequence: overTCP,
			Remedy: "Give the job the devices, not the folder alone: in Kubernetes a resource of an RDMA device plugin, with docker --device=/dev/infiniband (a bind mount does not permit opening), " +
				"with Slurm no ConstrainDevices for them. Otherwise correct the mode of the nodes: 0666 by the rules of rdma-core.",
		})
	default:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			What: "The job has no device node of an RDMA device", Evidence: "The kernel shows " + deviceNames(devices) +
				", and /dev/infiniband has no uverbs node of these.", Consequence: overTCP,
			Remedy: "In Kubernetes request a resource of an RDMA device plugin in this container; with docker and enroot mount or add /dev/infiniband.",
		})
	}
}

// judgeWithoutDevices is about a place without an RDMA device that NCCL would use: right, unless something
// says that there should be one.
func judgeWithoutDevices(n *fabric.Node, applies bool, v *verdict.Verdicts) {
	if n.Inside == nil {
		return
	}
	why := ""
	hca, named := n.NCCL.Lookup("NCCL_IB_HCA")
	net, _ := n.NCCL.Lookup("NCCL_NET")
	switch {
	case n.Inside.Expected.RDMA:
		why = "--expect-rdma says so"
	case !applies:
		return
	case named && hca.Value != "" && !strings.HasPrefix(hca.Value, "^"):
		why = "NCCL_IB_HCA names devices" + hca.From()
	case slices.ContainsFunc([]string{"ib", "ibext", "aws libfabric"},
		func(name string) bool { return strings.EqualFold(net.Value, name) }):
		why = "NCCL_NET is " + net.Value + net.From()
	case len(n.HCAs) == 0 && len(n.Inside.Verbs.Or(nil)) > 0: // with devices, these may be for another purpose
		why = "it was given /dev/infiniband/" + n.Inside.Verbs.Value[0].Name
	case strings.EqualFold(n.Inside.Environment[fabric.VarFabricProvider], "efa"):
		why = fabric.VarFabricProvider + " is efa"
	default:
		return
	}
	if n.ClassPresent.State == fabric.Unknown {
		v.Unknown(verdict.Subject{}, n.ClassPresent.Meta().Reason,
			"The job expects an RDMA device, because "+why+"; the list of devices cannot be read.")
		return
	}
	v.Failed(verdict.Subject{}, verdict.Verdict{
		What: "The job expects RDMA and has no RDMA device that NCCL would use", Evidence: "It is expected, because " +
			why + ". No device here is active and for training, or a setting switches RDMA off.",
		Consequence: overTCP,
		Remedy: "In Kubernetes request a resource of an RDMA device plugin, and a network that has the devices; with docker --device=/dev/infiniband and --network=host. " +
			"See rdma link on the node. If the job needs no RDMA, remove what expects it.",
	})
}

func judgeInsideGPUs(n *fabric.Node, v *verdict.Verdicts) {
	if n.Inside == nil || n.Inside.Expected.GPUs == nil {
		return
	}
	want, given := *n.Inside.Expected.GPUs, n.Inside.GivenGPUs()
	list, known := given.Get()
	if !known {
		v.Unknown(verdict.Subject{}, given.Meta().Reason,
			fmt.Sprintf("Which GPUs the job has is unknown, but %d are expected.", want))
		return
	}
	v.When(len(list) != want, verdict.Subject{}, verdict.Verdict{
		What:        fmt.Sprintf("The job has %s where %d are expected", spelling.Plural(len(list), "GPU", "GPUs"), want),
		Evidence:    "--expect-gpus says so; counted by " + given.Source + ".",
		Consequence: "Ranks without a GPU fail when they start, or share one.",
		Remedy:      "Compare the request of the job (nvidia.com/gpu, --gres, --gpus) with what it was given, and with nvidia-smi -L on the node.",
	})
}

func judgeInsideDevices(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if !applies {
		return
	}
	if len(devices) > 0 {
		v.OK(verdict.Subject{})
		return
	}
	given, known := n.Inside.GivenGPUs().Get()
	var away []string
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		if !h.Moved || f == nil {
			continue
		}
		for _, g := range given {
			gpu := n.PCI.Function(g.Address)
			known = known && gpu != nil
			if gpu != nil && n.Distance(gpu, f).Or(fabric.DistanceSYS) <= fabric.DistanceP2C {
				away = append(away, h.Name)
				break
			}
		}
	}
	if moved := n.Elsewhere(); len(away) == 0 && !known && len(moved) > 0 {
		v.Unknown(verdict.Subject{}, fabric.ReasonMissing,
			"Other network namespaces have RDMA devices such as "+moved[0].Device+"; whether they are near a GPU of the job is unknown.")
		return
	}
	if len(away) > 0 {
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Evidence:    verdict.Few(away) + " belong to other network namespaces, and no RDMA device to this one.",
			Consequence: overTCP,
			Remedy:      "Use the network of the host (hostNetwork: true), or have a CNI plugin move devices into the pod (host-device, SR-IOV).",
		})
	}
}

func judgeInsideMemlock(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if !applies || len(devices) == 0 {
		return
	}
	limit, known := n.Inside.Memlock.Get()
	all, lockKnown := n.Inside.LocksAll.Get()
	switch {
	case known && limit.Soft >= fabric.EnoughMemlock || lockKnown && all:
		v.OK(verdict.Subject{})
	case !known:
		v.Unknown(verdict.Subject{}, n.Inside.Memlock.Meta().Reason,
			"The memory lock limit is unknown: "+verdict.ReasonText(n.Inside.Memlock.Meta().Reason)+".")
	case !lockKnown:
		v.Unknown(verdict.Subject{}, n.Inside.LocksAll.Meta().Reason,
			"Whether the memory lock limit applies is unknown: "+verdict.ReasonText(n.Inside.LocksAll.Meta().Reason)+".")
	default:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Evidence:    fmt.Sprintf("The limit is %s, and %s at most.", verdict.Bytes(limit.Soft), verdict.Bytes(limit.Hard)),
			Consequence: "ibv_create_cq and ibv_reg_mr fail with ENOMEM, and NCCL fails.",
			Remedy: "In Kubernetes add the capability IPC_LOCK to the container; with docker --ulimit memlock=-1; with Slurm set LimitMEMLOCK=infinity in the unit of slurmd and " +
				"PropagateResourceLimitsExcept=MEMLOCK in slurm.conf.",
		})
	}
}

// InsideNote says in one line what a job finds here; empty without Node.Inside.
func InsideNote(n *fabric.Node) string {
	in := n.Inside
	if in == nil {
		return ""
	}
	var parts []string
	if l, ok := n.NCCL.Library.Get(); ok {
		parts = append(parts, strings.TrimSpace("NCCL "+l.Version)+" in "+l.Path)
	} else {
		parts = append(parts, "no libnccl.so.2 found, which PyTorch may have within itself")
	}
	if l, ok := in.Libverbs.Get(); ok {
		parts = append(parts, strings.TrimSpace("libibverbs "+l.Version)+" with "+cmp.Or(verdict.Few(in.Providers.Or(nil)),
			"no driver"))
	}
	if list := in.Plugins.Or(nil); len(list) > 0 {
		parts = append(parts, "plugins "+verdict.Few(list))
	}
	if gpus, ok := in.GivenGPUs().Get(); ok {
		parts = append(parts, fmt.Sprintf("%d GPUs", len(gpus)))
	}
	usable := 0
	for _, v := range in.Verbs.Or(nil) {
		if v.Usable.Or(false) {
			usable++
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%d RDMA devices that open", usable)), "; ") + "."
}
