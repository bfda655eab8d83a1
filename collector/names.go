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

// Identity is a label that names a thing. It never names a thing of another kind.
type Identity struct {
	Label string
	Help  string
}

// Identities returns the labels that name things, in the order of documentation.
func Identities() []Identity {
	return []Identity{
		{"device", "RDMA device, such as `mlx5_0`; never another kind of device"},
		{"port", "port of the RDMA device, from 1; empty for the whole device"},
		{"netdev", "network interface"},
		{"uuid", "GPU, by the UUID that its driver reports"},
		{"pci_address", "PCI function, as in sysfs; in metrics of a GPU and a `device` it is the GPU"},
		{"probed_node", "node of a run of `probe cluster`, as the scheduler calls it; `node` is a label that many sites give to targets"},
		{trainingJob, "training job; omitted if no job is known. Prometheus reserves the label `job`"},
	}
}
