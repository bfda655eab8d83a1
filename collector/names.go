// SPDX-License-Identifier: Apache-2.0

package collector

import "strings"

// Subsystem is the first word of a metric's name, which says what the metric is about.
type Subsystem struct {
	Name string
	Help string
}

// Subsystems returns all of them. The name of each metric begins with one.
func Subsystems() []Subsystem {
	return []Subsystem{
		{"exporter", "the exporter itself: its sources, its configuration, its load on drivers"},
		{"scrape", "the result of each collector in a scrape; names as in node_exporter"},
		{"node", "the node as a whole"},
		{"hca", "an RDMA device; `hca_port`: one of its ports, with the counters of the InfiniBand standard"},
		{"gid", "the GID table of a port"},
		{"cm", "the connection manager of a port"},
		{"ethernet", "the network interface of a port"},
		{"roce", "how the network treats RoCE: priorities, PFC, ECN"},
		{"pcie", "the PCIe link and settings of an RDMA device or a GPU"},
		{"gpu", "a GPU"},
		{"nvlink", "the NVLinks of a GPU"},
		{"gpudirect", "GPUDirect RDMA between a GPU and an RDMA device"},
		{"nccl", "the NCCL configuration of the host"},
		{"job", "a training job on the node"},
		{"log", "lines of logs of jobs and messages of the kernel"},
		{"probe", "results of NCCL probes"},
		{"cluster", "probes between nodes, one series for each node; in files and pushes of `probe cluster` only"},
		{"ping", "small RDMA messages to other nodes"},
		{"check", "verdicts of the checks"},
	}
}

// Subsystem returns the subsystem of the metric, or an empty one for a name that begins with none.
func (f *Family) Subsystem() Subsystem {
	first, _, _ := strings.Cut(f.Name, "_")
	for _, s := range Subsystems() {
		if s.Name == first {
			return s
		}
	}
	return Subsystem{}
}

// trainingJob is the label of what is about a training job, left out where no job is known. Prometheus reserves the
// label job for that of the scrape.
const trainingJob = "training_job"
