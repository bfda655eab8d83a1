// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// modeDeviceGone is found by several checks.
var modeDeviceGone = verdict.Mode{
	ID: "device_gone", Text: "A NIC left the bus, or its driver did not start.",
	Alert: "GpuFabricDeviceGone",
}

func nodeChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckReads, Title: "Reads do not return", Severity: verdict.Critical, Topic: "node",
			Scope: verdict.ScopeDevice,
			Reads: "pending reads of the device or the node, and when they began; whether the device lists a port",
			Guard: "always, to reads that last for 5 s, and for up to 15 s more in which the exporter waited for a processor",
			Modes: []verdict.Mode{{
				ID: "driver_hung", Text: "A driver or its firmware does not respond.",
				Alert: "GpuFabricDeviceStuck",
			}},
			Judge: judgeReads,
		},
		{
			ID: verdict.CheckComputePorts, Title: "Training ports are missing", Severity: verdict.Critical,
			Expects: "compute_ports", Topic: "node", Scope: verdict.ScopeNode,
			Reads: "the ports of role compute and who states that, expected.compute_ports of the configuration, else the profile of the platform",
			Guard: "only if the configuration or the profile of the platform states the number; port_active reports ports that are there and should have a link. If more are active than expected and nothing states which are for training, it is unknown. " +
				"If nothing states what the node has, it is unknown without a compute port beside GPUs, and where one GPU has fewer NICs near than another. So it is with a stated number if roles has the next number of the kernel, which no device has",
			Rests: verdict.OnExpectation,
			Modes: []verdict.Mode{modeDeviceGone},
			Judge: judgeComputePorts,
		},
		{
			ID: verdict.CheckSurplusPorts, Title: "More ports count as compute than the site expects",
			Severity: verdict.Warning, Expects: "compute_ports", Topic: "node", Scope: verdict.ScopeNode,
			Reads: "the active ports of role compute and who states that, expected.compute_ports of the configuration",
			Guard: "only if the configuration sets the expected number; ports without a link do not count, and if nothing states the roles, compute_ports is unknown instead",
			Modes: []verdict.Mode{{ID: "surplus_port", Text: "More ports count as ports for training than the site has."}},
			Judge: judgeSurplus,
		},
	}
}

// judgeReads gives one verdict for each device and one for each source of the whole node: the worst of its sources.
func judgeReads(n *fabric.Node, of *verdict.Verdicts) {
	at := map[string]int{} // device, or source of the whole node: its place in worst
	var worst []*fabric.Source
	for i := range n.Sources {
		s := &n.Sources[i]
		if s.OfNetDev() {
			continue // the reading of all interfaces covers them
		}
		key := s.Device
		if key == "" {
			key = "node/" + s.Name // no device has a slash in its name
		}
		k, seen := at[key]
		switch {
		case !seen:
			at[key], worst = len(worst), append(worst, s)
		case statusOf(s).Worse(statusOf(worst[k])):
			worst[k] = s
		}
	}
	for _, s := range worst {
		subject := verdict.Subject{Device: s.Device}
		if s.Device == "" {
			subject.File = verdict.SourceWords(s.Name)
		}
		switch statusOf(s) {
		case verdict.Failed:
			of.Failed(subject, verdict.Verdict{
				Evidence:    "The kernel has not responded since " + s.Since.UTC().Format("15:04:05 UTC") + ".",
				Consequence: "No facts are available until it does.",
				Remedy:      "Check dmesg -T | grep -iE 'hung|blocked for|health|firmware'. Drain the node, and restart it if the device does not recover.",
			})
		case verdict.Unknown:
			evidence := verdict.Sentence(verdict.ReasonText(s.Reason))
			if s.Err != nil {
				evidence += " (" + strings.ReplaceAll(s.Err.Error(), "\n", "; ") + ")" // errors that are joined have a line each
			}
			of.Unknown(subject, s.Reason, evidence)
		default:
			if h := n.HCA(s.Device); h != nil && !h.Moved && h.PortsHidden() {
				of.Unknown(subject, fabric.ReasonMissing,
					"It shows no port: /sys/class/infiniband/"+h.Name+"/ports is empty or cannot be read.")
				continue
			}
			of.OK(subject)
		}
	}
}

// statusOf is that of what a source is read from.
func statusOf(s *fabric.Source) verdict.Status {
	switch {
	case s.Up:
		return verdict.OK
	case s.Stuck():
		return verdict.Failed
	}
	return verdict.Unknown
}

// judgeShares keeps a node of which nothing states what it has from an all-clear where a device seems to be
// gone: no port is for training, or one GPU has fewer NICs for training than the others. Either may as well
// be how the machine is made.
func judgeShares(n *fabric.Node, of *verdict.Verdicts) {
	if n.NamesDevices() || n.HasRecord() || n.Policy.Manifest != nil {
		return
	}
	_, moved := n.MovedCompute()
	if c := CountPorts(n); c.There == 0 && c.hidden == "" && moved == 0 && n.GPUs.Or(0) > 0 {
		of.Failed(verdict.Subject{}, verdict.Verdict{
			Unstated: true, What: "no port is for training, as far as is known",
			Evidence: fmt.Sprintf("The node has %s and %s. Nothing states whether ports for training are gone.",
				spelling.Plural(n.GPUs.Value, "GPU", "GPUs"), spelling.Plural(len(n.HCAs), "RDMA device", "RDMA devices")),
			Remedy: "If the node is not meant to have any, state expected.compute_ports: 0. If virtual functions or other ports are for training, " +
				"state their role (roles of the configuration), or name them in NCCL_IB_HCA of the host. Otherwise: " + goneRemedy,
		})
		return
	}
	least, most, uneven := shares(n)
	if !uneven {
		return
	}
	of.Failed(verdict.Subject{}, verdict.Verdict{
		Unstated: true, What: fmt.Sprintf("GPU %s has fewer NICs for training than others", least.GPU),
		Evidence: fmt.Sprintf("Nearest to it are %s, and to GPU %s %s. Nothing states whether a device is gone, or the machine is made so.",
			nearestText(least), most.GPU, nearestText(most)),
		Remedy: goneRemedy + " If the machine is made so, state expected.compute_ports.",
	})
}

// shares returns the GPUs with the fewest and with the most NICs for training near, and whether they differ.
func shares(n *fabric.Node) (least, most fabric.Rail, uneven bool) {
	rails := n.PCI.Rails
	if len(rails) == 0 {
		return least, most, false
	}
	by := func(a, b fabric.Rail) int {
		return cmp.Or(cmp.Compare(nearby(a), nearby(b)), cmp.Compare(share(n, a), share(n, b)))
	}
	least, most = slices.MinFunc(rails, by), slices.MaxFunc(rails, by)
	return least, most, by(least, most) != 0 && !slices.Equal(least.Nearest, most.Nearest)
}

// nearestText names the NICs nearest to a GPU, and how far they are.
func nearestText(r fabric.Rail) string {
	d, known := r.Distance.Get()
	if !known || len(r.Nearest) == 0 {
		return cmp.Or(verdict.Few(r.Nearest), "none that is known")
	}
	return verdict.Few(r.Nearest) + " (" + d.String() + ")"
}

// nearby is 1 if a GPU has NICs below a PCIe switch that it is below, else 0.
func nearby(r fabric.Rail) int {
	if d, known := r.Distance.Get(); known && d <= fabric.DistancePXB {
		return 1
	}
	return 0
}

// share is how many NICs a GPU has for itself, in ways in which GPUs share the same ones.
func share(n *fabric.Node, r fabric.Rail) float64 {
	users := 0
	for _, o := range n.PCI.Rails {
		if slices.Equal(o.Nearest, r.Nearest) {
			users++
		}
	}
	return float64(len(r.Nearest)) / float64(users)
}

// shortList names the first of a list, with the verb.
func shortList(names []string) string {
	const most = 4
	switch {
	case len(names) == 1:
		return names[0] + " is"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more are", len(names)-most)
	}
	return strings.Join(names, ", ") + " are"
}

// Checks returns the checks of this package but that of the manifest, which is the last of the catalogue.
func Checks() []*verdict.Check { return slices.Concat(nodeChecks(), hardwareChecks(), hostChecks()) }
