// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/verdict"
)

// networks are those that NCCL has without a plugin (plugin/net.cc). It compares names without regard to case.
var networks = []string{"IB", "Socket"}

// pluginNetworks are the names of networks that plugins are known to have: of AWS, Google and HPC-X. Many end
// in the version of the plugin's interface.
var pluginNetworks = []string{
	"AWS Libfabric", "Libfabric", "FasTrak", "FastSocket", "GPUDirectTCPX", "gIB", "IBext",
	"spcx", "UCX", "UCX-RMA", "SHARP",
}

var (
	interfaceVersion = lazyregexp.New(`_v\d+$`)
	// noNetwork are devices, interfaces, protocols and files of plugins, whose names people write instead.
	noNetwork = lazyregexp.New(`(?i)^(mlx\d.*|bnxt_re.*|irdma.*|ib[ops]?\d.*|eth\d.*|en[opsx]\w+|bond.*|rdma.*|roce.*|tcp|ip|ipoib|verbs|ibverbs|infiniband|ethernet|efa|ofi|sockets?.+|net|auto|none|libnccl.*)$`)
)

// PluginNetwork reports whether a value of NCCL_NET may be the network of a plugin: it is none of NCCL's own,
// and not what people write for these.
func PluginNetwork(name string) bool {
	return name != "" && !hasNetwork(networks, name) &&
		(hasNetwork(pluginNetworks, interfaceVersion().ReplaceAllString(name, "")) || !noNetwork().MatchString(name))
}

func hasNetwork(list []string, name string) bool {
	return slices.ContainsFunc(list, func(n string) bool { return strings.EqualFold(n, name) })
}

// network judges a name in NCCL_NET that is none of NCCL's own: NCCL fails unless a plugin has it.
func (j job) network(in Input, lines []Line) {
	const name = "NCCL_NET"
	i, set := j[name]
	value, library := j.value(in, name), j.value(in, "NCCL_NET_PLUGIN")
	own := "NCCL itself has the networks " + strings.Join(networks, " and ")
	switch {
	case !set, value == "", hasNetwork(networks, value):
	// it is misread
	case slices.ContainsFunc(lines[i].Findings, func(f Finding) bool { return f.Severity.AtLeast(verdict.Warning) }):
	case strings.ContainsAny(value, "$`") || noNetwork().MatchString(value):
		add(&lines[i], Finding{
			Misread, verdict.Warning,
			fmt.Sprintf("No network has the name %s, and NCCL fails when it starts: %s, and plugins have others, such as %s",
				value, own, pluginNetworks[0]),
			"NCCL_NET=IB for InfiniBand and RoCE, or remove the line",
		})
	case library != "" && library != "none", hasNetwork(pluginNetworks, interfaceVersion().ReplaceAllString(value, "")):
	default:
		add(&lines[i], Finding{
			Undecided, verdict.Info,
			fmt.Sprintf("%s. Whether a plugin has %s is not known: without one, NCCL fails when it starts", own, value), "",
		})
	}
}
