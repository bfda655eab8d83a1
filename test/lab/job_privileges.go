// SPDX-License-Identifier: Apache-2.0

package lab

// jobCell is what is said of a job that uses TCP or RDMA by an exporter of some privilege in the PID
// namespace of the host.
type jobCell struct {
	tier, words string
	// TCP in the network namespace of the host, in one of a pod; RDMA over Soft-RoCE, which is suspected at most
	host, pod, rxe string
}

// jobCells is the table of docs/JOBS.md, which TestLab/job_privileges holds against a kernel.
var jobCells = []jobCell{
	{"root", "root", "tcp, confirmed", "tcp, confirmed", "rdma, suspected"},
	{"setns", "`CAP_SYS_PTRACE`, `CAP_DAC_READ_SEARCH` and `CAP_SYS_ADMIN`", "tcp, confirmed", "tcp, confirmed", "rdma, suspected"},
	{"files", "`CAP_SYS_PTRACE` and `CAP_DAC_READ_SEARCH`", "tcp, confirmed", "tcp, suspected", "rdma, suspected"},
	{"ptrace", "`CAP_SYS_PTRACE`", "tcp, suspected", "tcp, suspected", "rdma, suspected"},
	{"none", "none", "tcp, suspected", "unknown", "rdma, suspected"},
}
