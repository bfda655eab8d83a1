// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// level judges whether NCCL_NET_GDR_LEVEL lets GPUs and the NICs nearest to them use GPUDirect RDMA.
func (k *onNode) level() {
	const name = "NCCL_NET_GDR_LEVEL"
	value, set := k.value(name)
	if !set {
		return
	}
	gpus := verdict.GPUs(k.node)
	var off, hidden []string
	for i := range k.node.PCI.Rails {
		r := &k.node.PCI.Rails[i]
		if r.NIC == "" {
			continue
		}
		gpu := r.GPU
		if at := slices.IndexFunc(gpus, func(g verdict.GPU) bool {
			return g.Function != nil &&
				g.Function.Address == r.GPU
		}); at >= 0 {
			gpu = gpus[at].Name
		}
		pair := gpu + " and " + r.NIC
		d, known := r.Distance.Get()
		if nic := k.node.PCI.NIC(r.NIC); d == fabric.DistancePXB && nic != nil { // bridges of one switch are one to NCCL
			one := k.node.PCI.OneSwitch(k.node.PCI.Function(r.GPU), nic, k.node.At)
			if known = known && one.State != fabric.Unknown; one.Or(false) {
				d = fabric.DistancePIX
			}
		}
		standard, allowed := fabric.GDRAllows("", d), fabric.GDRAllows(value, d)
		switch {
		case !known:
			hidden = append(hidden, pair)
		case standard && !allowed:
			off = append(off, pair+" ("+d.String()+")")
		}
	}
	switch {
	case len(off) > 0:
		k.add(name, Finding{
			WrongHere, verdict.Critical,
			fmt.Sprintf("The level is nearer than %s: they do not use GPUDirect RDMA, and traffic goes through host memory",
				spelling.Few(off, few)), remove,
		})
	case len(hidden) > 0:
		k.add(name, Finding{Undecided, verdict.Info, "The distance of " + spelling.Few(hidden, few) + " is not known", ""})
	}
}

const noPeers = "NCCL_P2P_DISABLE"

// peers judges whether NCCL_P2P_DISABLE takes something away from the GPUs of the node.
func (k *onNode) peers() {
	if n, ok := k.job.number(k.in, noPeers); !ok || n != 1 {
		return
	}
	gpu := &k.node.GPUDriver
	linked, reach, apart, hidden := 0, 0, 0, len(gpu.P2P) == 0
	for i := range gpu.GPUs {
		if n, ok := gpu.GPUs[i].Active().Get(); ok && n > 0 {
			linked++
		}
	}
	for _, p := range gpu.P2P {
		switch status, ok := p.Write.Get(); {
		case !ok:
			hidden = true
		case status == fabric.P2POK:
			reach++
		default:
			apart++
		}
	}
	switch {
	case linked > 1:
		k.add(noPeers, Finding{
			WrongHere, verdict.Warning,
			fmt.Sprintf("%d GPUs of this node have NVLink, which NCCL then does not use", linked), remove,
		})
	case reach > 0:
		k.add(noPeers, Finding{
			WrongHere, verdict.Warning,
			"GPUs of this node reach each other directly, which NCCL then does not use", remove,
		})
	case hidden:
		k.add(noPeers, Finding{
			Undecided, verdict.Info, "Whether GPUs of this node reach each other directly is not known",
			"",
		})
	}
}

// plugin judges whether there is a network plugin where the settings need one. NCCL loads what
// NCCL_NET_PLUGIN names as it is written, else libnccl-net-<name>.so, else libnccl-net.so, and says nothing
// where there is none.
func (k *onNode) plugin() {
	network, named := k.value("NCCL_NET")
	list, listed := k.value("NCCL_NET_PLUGIN")
	listed = listed && list != "none"
	named = named && !hasNetwork(networks, network)
	if !named && !listed {
		return
	}
	name := "NCCL_NET_PLUGIN"
	if !listed {
		name = "NCCL_NET"
	}
	if k.node.Inside == nil {
		k.add(name, Finding{
			Undecided, verdict.Info,
			"Only the environment of the job shows whether the plugin is installed: run check --inside or lint --host --env there", "",
		})
		return
	}
	found, known := k.node.Inside.Plugins.Get()
	if !known {
		k.add(name, Finding{Undecided, verdict.Info, "The folders of the dynamic loader are not known here", ""})
		return
	}
	var missing []string
	for one := range strings.SplitSeq(list, ",") {
		switch {
		case one == "" || strings.EqualFold(one, "none"):
		case strings.Contains(one, "/") && !slices.Contains(found, one) && !k.in.environment:
			k.add(name, Finding{Undecided, verdict.Info, "Whether " + one +
				" exists is not known: only files named by the environment are looked for", ""})
		case !slices.ContainsFunc(found, func(file string) bool { return isPlugin(file, one) }):
			missing = append(missing, one)
		}
	}
	switch {
	case listed && named && len(missing) > 0:
		k.add(name, Finding{
			WrongHere, verdict.Critical,
			fmt.Sprintf("There is no plugin %s here, and NCCL itself has only the networks %s: with NCCL_NET=%s it fails",
				spelling.Few(missing, few), strings.Join(networks, " and "), network),
			"add its folder to LD_LIBRARY_PATH, or remove both lines",
		})
	case listed && len(missing) > 0:
		k.add(name, Finding{
			WrongHere, verdict.Warning,
			fmt.Sprintf("There is no plugin %s here: NCCL goes on without it, and uses its own networks",
				spelling.Few(missing, few)), "add its folder to LD_LIBRARY_PATH, or remove the line",
		})
	case named && !listed && len(found) == 0:
		k.add(name, Finding{
			WrongHere, verdict.Critical,
			fmt.Sprintf("There is no plugin libnccl-net.so here, and NCCL itself has only the networks %s: it fails",
				strings.Join(networks, " and ")), "install the plugin, add its folder to LD_LIBRARY_PATH, or remove the line",
		})
	}
}

// isPlugin reports whether NCCL loads that file for one of the names in NCCL_NET_PLUGIN.
func isPlugin(file, name string) bool {
	if strings.Contains(name, "/") {
		return file == name
	}
	base := path.Base(file)
	return base == name || base == "libnccl-net-"+name+".so"
}

// place judges settings that need RDMA where this process may not use it, as the checks of a job's place do.
func (k *onNode) place() {
	if k.node.Inside == nil {
		return
	}
	at := slices.IndexFunc(rdmaSettings, func(name string) bool { _, set := k.value(name); return set })
	if at < 0 {
		return
	}
	for _, v := range diagnose.Run(k.withJob(""), diagnose.Checks(verdict.CheckInsideVerbs, verdict.CheckInsideMemlock)) {
		k.verdict(rdmaSettings[at], &v, "")
	}
}

// rdmaSettings are what people set who want RDMA; what is wrong with the place is reported at the first one.
var rdmaSettings = []string{
	"NCCL_NET", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_SL",
	"NCCL_IB_TIMEOUT", "NCCL_IB_QPS_PER_CONNECTION",
}

// few is how many names of a list are shown.
const few = 8
