// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// enter begins a container, to which the settings belong that are read until the returned function is called.
func (in *Input) enter(c container) (leave func()) {
	before := in.within
	c.document = in.document
	in.containers = append(in.containers, c)
	in.within = len(in.containers)
	return func() { in.within = before }
}

// own gives settings from there on to the container that a command runs.
func (in *Input) own(from int, words []word) {
	c := ranContainer(words)
	if c == nil || len(in.settings) == from {
		return
	}
	in.enter(*c)()
	for i := from; i < len(in.settings); i++ {
		in.settings[i].within = len(in.containers)
	}
}

// containers returns the containers that a job runs in, as far as they are known. What a pod without GPUs
// launches runs in those of the document that have some.
func (j job) containers(in *Input) (list []container) {
	at, document := 0, 0
	for _, i := range j {
		at, document = max(at, in.settings[i].within), in.settings[i].document
	}
	if at == 0 {
		return in.users(document)
	}
	if c := in.containers[at-1]; !c.pod || c.gpus {
		return []container{c}
	}
	for _, c := range in.containers {
		if c.gpus && c.document == in.containers[at-1].document {
			list = append(list, c)
		}
	}
	return list
}

// users returns the containers with GPUs whose environment is the ConfigMap of a document.
func (in *Input) users(document int) (list []container) {
	name, is := in.maps[document]
	for _, c := range in.containers {
		if is && c.gpus && slices.Contains(c.from, name) {
			list = append(list, c)
		}
	}
	return list
}

// nodesOf returns what says that the jobs with the settings of a document have several nodes.
func (in *Input) nodesOf(document int) (several, bool) {
	if nodes, are := in.nodes[document]; are {
		return nodes, true
	}
	for _, c := range in.users(document) {
		if nodes, are := in.nodes[c.document]; are {
			return nodes, true
		}
	}
	return several{}, false
}

// need is something that a container needs for settings.
type need struct {
	lacks   func(container) bool
	finding Finding
	pod     string // what to do in a manifest of Kubernetes; empty: as finding has it
}

func without(c container) bool { return !c.devices && !c.open }

var (
	needsDevices = need{
		without,
		Finding{
			Ignored, verdict.Warning, "The container has no RDMA device: NCCL goes on over TCP, without an error",
			"give it the devices: --device /dev/infiniband, or devices of Compose",
		},
		"request the resource that is the RDMA device in this cluster, such as rdma/name",
	}
	needsLimit = need{
		func(c container) bool { return c.devices && !c.locks && c.locked > 0 && c.locked < 1<<30 },
		Finding{
			WrongHere, verdict.Warning, "The container may lock too little memory: NCCL fails when it registers its buffers",
			"--ulimit memlock=-1",
		},
		"",
	}
	needsMemory = need{
		func(c container) bool { return c.devices && !c.locks && !c.open && c.locked == 0 },
		Finding{
			Undecided, verdict.Info,
			"How much memory the container may lock depends on its runtime: with too little, NCCL fails when it registers its buffers",
			"--ulimit memlock=-1",
		},
		"add the capability IPC_LOCK, unless the nodes let containers lock memory",
	}
	needsNetwork = need{
		func(c container) bool { return !c.network },
		Finding{
			WrongHere, verdict.Warning,
			"The container has a network of its own, whose interface is eth0: NCCL finds none of that name, and does not start",
			"--network host, or NCCL_SOCKET_IFNAME=eth0",
		},
		"hostNetwork: true, or NCCL_SOCKET_IFNAME=eth0",
	}
)

// contained judges settings for which their container lacks something.
func (j job) contained(in *Input, lines []Line) {
	list := j.containers(in)
	if len(list) == 0 {
		return
	}
	judge := func(name string, n need) bool {
		i, set := j[name]
		if !set || slices.ContainsFunc(list, func(c container) bool { return !n.lacks(c) }) {
			return false
		}
		f := n.finding
		if list[0].pod && n.pod != "" {
			f.Better = n.pod
		}
		if n.finding == needsDevices.finding && list[0].volume {
			f.Reason += ". A volume of /dev/infiniband does not let it open them"
		}
		if name == "NCCL_NET" {
			f.Verdict, f.Severity = Refused, verdict.Critical
			f.Reason = "The container has no RDMA device: NCCL has no network IB, and fails when it starts"
		}
		replace(&lines[i], f)
		return true
	}
	if j.hostInterface(in) {
		judge("NCCL_SOCKET_IFNAME", needsNetwork)
	}
	for _, name := range j.wantsRDMA(in) {
		if judge(name, needsDevices) {
			continue
		}
		for _, n := range []need{needsLimit, needsMemory} {
			if judge(name, n) {
				return
			}
		}
	}
}

// hostInterface reports whether NCCL_SOCKET_IFNAME takes no interface that a container has of its own.
func (j job) hostInterface(in *Input) bool {
	value := j.value(*in, "NCCL_SOCKET_IFNAME")
	if len(value) < 2 || strings.HasPrefix(value, "^") {
		return false
	}
	names, exact := strings.CutPrefix(value, "=")
	return !slices.ContainsFunc(strings.Split(names, ","), func(name string) bool {
		return name == "eth0" || name == "lo" || !exact && strings.HasPrefix("eth0", name) || name == ""
	})
}

// wantsRDMA returns the settings of a job that want RDMA of NCCL itself: NCCL_NET=IB and the first one of its
// RDMA transport. That it is not disabled counts in a job of several nodes.
func (j job) wantsRDMA(in *Input) (names []string) {
	off, _ := j.number(*in, rdmaOff)
	if off != 0 || strings.EqualFold(j.value(*in, "NCCL_NET"), "Socket") || j.another(in) != "" {
		return nil
	}
	if strings.EqualFold(j.value(*in, "NCCL_NET"), "IB") {
		names = append(names, "NCCL_NET")
	}
	first, at := "", 0
	for name, i := range j {
		v, _ := settings.Describe(name)
		if strings.HasPrefix(name, "NCCL_IB_") && v.Status == settings.StatusCurrent && name != rdmaOff &&
			in.settings[i].Value != "" && (first == "" || i < at) {
			first, at = name, i
		}
	}
	if i, set := j[rdmaOff]; first == "" && set {
		if _, several := in.nodesOf(in.settings[i].document); several {
			first = rdmaOff
		}
	}
	if first != "" {
		names = append(names, first)
	}
	return names
}

// provider reports FI_PROVIDER=efa of a container that has no such device.
func (in *Input) provider(line int, value string) {
	if in.within == 0 || value != "efa" {
		return
	}
	if c := in.containers[in.within-1]; c.gpus && without(c) {
		in.append(setting{Setting: settings.Setting{Line: line}, findings: []Finding{{
			Ignored, verdict.Warning,
			fmt.Sprintf("FI_PROVIDER=%s, and the container has no EFA device: NCCL goes on over TCP, without an error", value),
			"request vpc.amazonaws.com/efa",
		}}})
	}
}
