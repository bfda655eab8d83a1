// SPDX-License-Identifier: Apache-2.0

// Package collector turns a *fabric.Node into metrics.
//
// A collector is a pure function of the node: no I/O, no clock, no goroutine; job also keeps earlier
// readings. It may emit only its rows, which are in the same file and are also the source of docs/METRICS.md.
// docs/CONTRIBUTING.md describes how to add one.
//
// Names are Prefix, a subsystem (Subsystems), what is measured, its base unit, and _total for counters. Of
// the labels that name things each names one kind of thing: device is an RDMA device and nothing
// else. job and instance belong to Prometheus. Stability states what may change.
//
// A Set is immutable and may gather for any number of goroutines. There are no errors: unknown facts
// emit nothing, and a collector that panics loses its own series and reports success 0.
package collector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// About describes a collector to users.
type About struct {
	Name    string
	Help    string
	Default bool
}

// emit gives one series to the scrape; labels are the values of f.Labels, which it keeps.
type emit func(f *Family, value float64, labels ...string)

// putHistogram gives one histogram to the scrape, as emit does; it is not changed any more.
type putHistogram func(f *Family, h *dto.Histogram, labels ...string)

// collector is a subject: what it needs and how it turns that to metrics.
type collector struct {
	About
	want    fabric.Want
	sources []string // names of the sources it lives on
	// families are its rows, in the order of documentation. A row that is in no list is not emitted.
	families []*Family
	collect  func(n *fabric.Node, emit emit)
	// supported reports whether the node has what the collector is for, and if not, why.
	supported func(n *fabric.Node) (bool, string)
	jobs      func(n *fabric.Node) job.Jobs // of the collector job
	ras       func() progress.Status        // of the collector job; nil: no job is asked
	// histograms puts what is no number; nil: there is none.
	histograms func(put putHistogram)
}

// collectors returns all of them, in the order of documentation.
func collectors() []collector {
	return []collector{
		{
			About:    About{Name: "hca", Help: "RDMA devices and ports: identity, states, rate, role.", Default: true},
			want:     fabric.WantHCA,
			sources:  []string{fabric.SourceClass, fabric.SourceHCA, fabric.SourceNetDev},
			families: hcaFamilies(),
			collect:  collectHCA, supported: hasRDMA,
		},
		{
			About:    About{Name: "gid", Help: "GID tables, and the GID selected by NCCL.", Default: true},
			want:     fabric.WantHCA | fabric.WantGID | fabric.WantNCCL,
			sources:  []string{fabric.SourceClass, fabric.SourceGID},
			families: gidFamilies(),
			collect:  collectGID, supported: hasRDMA,
		},
		{
			About:    About{Name: "nccl", Help: "NCCL configuration files of the host.", Default: true},
			want:     fabric.WantNCCL,
			sources:  []string{fabric.SourceNCCL},
			families: ncclFamilies(),
			collect:  collectNCCL, supported: hasNCCLFile,
		},
		{
			About: About{
				Name: "counters",
				Help: "Counters of ports and devices: traffic, loss, retries, congestion, link errors.", Default: true,
			},
			want:     fabric.WantHCA | fabric.WantCounters,
			sources:  []string{fabric.SourceClass, fabric.SourceCounters},
			families: countersFamilies(),
			collect:  collectCounters(), supported: hasCounters,
		},
		{
			About:    About{Name: "cm", Help: "Messages of the connection manager."},
			want:     fabric.WantHCA | fabric.WantCM,
			sources:  []string{fabric.SourceClass, fabric.SourceCM},
			families: cmFamilies(),
			collect:  collectCM, supported: hasCM,
		},
		{
			About: About{
				Name:    "ethernet",
				Help:    "Statistics of the Ethernet interfaces of RDMA ports: pauses, discards, priorities, link errors, PCIe.",
				Default: true,
			},
			want:     fabric.WantHCA | fabric.WantQoS | fabric.WantNetStats, // QoS: which priorities have PFC, what FEC corrects
			sources:  []string{fabric.SourceClass, fabric.SourceQoS, fabric.SourceNetStats},
			families: ethernetFamilies(),
			collect:  collectEthernet, supported: hasEthernetPort,
		},
		{
			About: About{
				Name: "roce",
				Help: "How the network treats RoCE: traffic class, DSCP, priority, PFC, ECN, and whether these settings are consistent.", Default: true,
			},
			want:     fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantQoS,
			sources:  []string{fabric.SourceClass, fabric.SourceQoS},
			families: roceFamilies(),
			collect:  collectRoCE, supported: hasRoCE,
		},
		{
			About:    About{Name: "dcqcn", Help: "Parameters of RoCE congestion control."},
			want:     fabric.WantHCA | fabric.WantDCQCN,
			sources:  []string{fabric.SourceClass, fabric.SourceQoS},
			families: dcqcnFamilies(),
			collect:  collectDCQCN, supported: hasRoCE,
		},
		{
			About: About{
				Name:    "pcie",
				Help:    "PCIe links, errors and settings of GPUs and compute NICs, and how far they are from each other.",
				Default: true,
			},
			want:     fabric.WantHCA | fabric.WantPCI,
			sources:  []string{fabric.SourceClass, fabric.SourcePCI},
			families: pcieFamilies(),
			collect:  collectPCIe, supported: hasPCIe,
		},
		{
			About: About{
				Name:    "gpu",
				Help:    "GPUs as NVIDIA's driver shows them: identity, use, memory, throttling, registration with NVSwitches.",
				Default: true,
			},
			want:     fabric.WantGPU,
			sources:  []string{fabric.SourceGPU},
			families: gpuFamilies(),
			collect:  collectGPU, supported: asksGPUDriver,
		},
		{
			About:    About{Name: "nvlink", Help: "NVLinks of each GPU: how many are up, how fast, errors.", Default: true},
			want:     fabric.WantGPU,
			sources:  []string{fabric.SourceGPU},
			families: nvlinkFamilies(),
			collect:  collectNVLink, supported: hasNVLink,
		},
		{
			About:    About{Name: "nvlink_links", Help: "Each NVLink: what it leads to, whether it is up, errors."},
			want:     fabric.WantGPU,
			sources:  []string{fabric.SourceGPU},
			families: nvlinkLinksFamilies(),
			collect:  collectNVLinkLinks, supported: hasNVLink,
		},
		{
			About: About{
				Name: "gpudirect",
				Help: "Whether NCCL would use GPUDirect RDMA between each GPU and its NIC, and if not, why not.", Default: true,
			},
			want:     fabric.WantHCA | fabric.WantPCI | fabric.WantNCCL | fabric.WantGPU,
			sources:  []string{fabric.SourceClass, fabric.SourceHost, fabric.SourceNCCL, fabric.SourcePCI, fabric.SourceGPU},
			families: gpudirectFamilies(),
			collect:  collectGPUDirect, supported: hasGPUDirect,
		},
		jobCollector(),
		{
			About: About{
				Name:    "log",
				Help:    "Failures that lines of logs of jobs and messages of the kernel show, where the configuration names them.",
				Default: true,
			},
			want:     fabric.WantLogs,
			sources:  []string{fabric.SourceLogs, fabric.SourceKernel},
			families: logFamilies(),
			collect:  collectLog, supported: hasLog,
		},
		probeCollector(noProbes),
		pingCollector(noPing),
		{
			About: About{
				Name:    checkName,
				Help:    "Verdicts of the checks on this node. It reads what they need, also for collectors that are switched off.",
				Default: true,
			},
			want:     checkWants,
			sources:  checkSources(),
			families: checkFamilies(),
			collect:  collectChecks(func(*fabric.Node, []verdict.Verdict) {}), supported: everyNode,
		},
	}
}

func hasRDMA(n *fabric.Node) (bool, string) {
	switch present, known := n.ClassPresent.Get(); {
	case !known:
		return false, "the list of RDMA devices cannot be read: " + string(n.ClassPresent.Meta().Reason)
	case !present:
		return false, "this kernel has no RDMA devices (no " + n.ClassPresent.Source + ")"
	case len(n.HCAs) == 0 && len(n.Excluded) > 0:
		return false, fmt.Sprintf("all %d RDMA devices are excluded by flags", len(n.Excluded))
	case len(n.HCAs) == 0:
		return false, "no RDMA device is registered (" + n.ClassPresent.Source + " is empty)"
	}
	return true, ""
}

// Collectors describes all collectors.
func Collectors() []About {
	var list []About
	for _, c := range collectors() {
		list = append(list, c.About)
	}
	return list
}

// Set is a selection of collectors.
type Set struct{ collectors []collector }

// NewSet returns the collectors of these names. An unknown name is an error that lists the valid ones.
func NewSet(names []string) (*Set, error) {
	return (&Set{collectors: collectors()}).Select(names)
}

// Select returns the part of the set with these names. A name that is not in the set is an error that lists
// those that are.
func (s *Set) Select(names []string) (*Set, error) {
	var unknown []string
	hint := ""
	for _, n := range names {
		if !slices.Contains(s.Names(), n) {
			unknown = append(unknown, fmt.Sprintf("%.64q", n))
			hint = cmp.Or(hint, spelling.Hint(n, s.Names()))
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown or disabled collector %s, expected one of: %s%s", strings.Join(unknown, ", "),
			strings.Join(s.Names(), ", "), hint)
	}
	sub := &Set{}
	for _, c := range s.collectors {
		if slices.Contains(names, c.Name) {
			sub.collectors = append(sub.collectors, c)
		}
	}
	return sub, nil
}

// Names returns the names of the set.
func (s *Set) Names() []string {
	var names []string
	for _, c := range s.collectors {
		names = append(names, c.Name)
	}
	return names
}

// Want returns what the set needs to be observed.
func (s *Set) Want() fabric.Want {
	var w fabric.Want
	for _, c := range s.collectors {
		w |= c.want
	}
	return w
}
