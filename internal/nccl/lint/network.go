// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
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

const rdmaOff = "NCCL_IB_DISABLE"

// another names what shows that the job has a network of a plugin; empty: nothing does.
func (j job) another(in *Input) string {
	if name := j.value(*in, "NCCL_NET"); name != "" && !hasNetwork(networks, name) {
		return "NCCL_NET=" + name
	}
	for library := range strings.SplitSeq(j.value(*in, "NCCL_NET_PLUGIN"), ",") {
		if library != "" && !strings.EqualFold(library, "none") {
			return "NCCL_NET_PLUGIN=" + library
		}
	}
	for _, software := range []string{ofEFA, ofLibfabric, ofTCPX, ofTCPXO, ofGIB} {
		if slices.Contains(in.traces, software) {
			return software
		}
	}
	return ""
}

// overTCP judges NCCL_IB_DISABLE in a job of several nodes: their traffic goes over TCP then, unless it has
// another network, or NVLink between nodes.
func (j job) overTCP(in *Input, lines []Line) {
	n, set := j.number(*in, rdmaOff)
	if !set || n == 0 || strings.EqualFold(j.value(*in, "NCCL_NET"), "Socket") { // who names TCP wants it
		return
	}
	i := j[rdmaOff]
	nodes, are := in.nodesOf(in.settings[i].document)
	nvlink, _ := j.number(*in, "NCCL_MNNVL_ENABLE")
	switch another := j.another(in); {
	case another != "" && nvlink != 1:
		replace(&lines[i], Finding{
			Ignored, verdict.Info,
			"It is for NCCL's own RDMA transport. The job has another network: " + another, remove,
		})
	case !are:
	case nvlink == 1:
		replace(&lines[i], Finding{
			Works, verdict.Info,
			"Traffic between nodes goes over NVLink alone: between domains of NVLink it goes over TCP", "",
		})
	default:
		replace(&lines[i], Finding{
			WrongHere, verdict.Warning,
			fmt.Sprintf("The job has several nodes (%s). Without a network plugin, all traffic between them goes over TCP", nodes.at()), remove,
		})
	}
}

// at says where it stands that a job has several nodes.
func (s several) at() string {
	if s.line == 0 {
		return s.text
	}
	return fmt.Sprintf("line %d: %s", s.line, s.text)
}

// interfaceName matches names of network interfaces, which are those of no RDMA device.
var interfaceName = lazyregexp.New(`^(?:ib\d+|eth\d+|en[ops]\d\w*|bond\d+)$`)

// misnamed judges the names in a list of devices or interfaces.
func misnamed(s setting, v settings.Variable) []Finding {
	names := strings.Split(strings.TrimLeft(s.Value, "^="), ",")
	for i, name := range names {
		bare, _, _ := strings.Cut(name, ":")
		switch {
		case i > 0 && strings.HasPrefix(name, "^"):
			return []Finding{{
				Misread, verdict.Warning, "^ counts at the beginning alone, for the whole list: " + name + " is a name that nothing has",
				s.Name + "=^" + strings.ReplaceAll(strings.Join(names, ","), "^", ""),
			}}
		case v.Type == "hcalist" && interfaceName().MatchString(bare):
			return []Finding{{
				Misread, verdict.Warning, bare + " is the name of a network interface, which no RDMA device has: NCCL does not take it",
				"name the device (rdma link shows it), or remove the line",
			}}
		}
	}
	return nil
}
