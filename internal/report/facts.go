// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// Version is that of Facts: it changes when a field is removed or changes its meaning.
const Version = 1

// Facts are all that a report says, for programs and for comparison with a later report. Rates and bandwidths
// in numbers are bytes per second; null and "unknown: REASON" are not known.
type Facts struct {
	Report  string    `json:"report"` // kind
	Version int       `json:"version"`
	Program string    `json:"program_version"`
	At      time.Time `json:"at"` // of the observation
	Node    Node      `json:"node"`
	// Configuration is where the expectations of the site are from. Note is a remark on the node.
	Configuration string `json:"configuration"`
	Note          string `json:"note,omitempty"`
	// JudgedBy is which sources state what the ports for training should be.
	JudgedBy string `json:"judged_by"`
	traffic  bool   // the counters were read twice

	Ports    []Port            `json:"ports"`
	GPUs     []GPU             `json:"gpus"`
	Settings []status.Variable `json:"settings"`
	// SettingsNote says why there may be more settings in effect.
	SettingsNote string `json:"settings_note"`
	GIDs         []GID  `json:"gids"`

	Passed   int           `json:"checks_passed"`
	Findings []Finding     `json:"findings"` // the worst first
	Unknown  []verdict.Gap `json:"unknown"`

	Jobs []Job `json:"jobs"` // that run now
	// JobsUnknown says why jobs, or some of them, are not known.
	JobsUnknown string `json:"jobs_unknown,omitempty"`

	Results []Result `json:"results"` // the newest of each probe, the good one and one that failed since
	// ResultsNote is the reason why there are no more, if it is known.
	ResultsNote string        `json:"results_note,omitempty"`
	Iteration   *Iteration    `json:"iteration,omitempty"`
	Log         *Log          `json:"log,omitempty"`
	Advice      advice.Advice `json:"advice"`
}

// kind is the value of Facts.Report.
const kind = "gpufabric_exporter report"

// Node is the host, or what was simulated.
type Node struct {
	Name      string   `json:"name"`
	Simulated string   `json:"simulated,omitempty"` // scenario; empty: a host
	GUIDs     []string `json:"node_guids"`          // of its RDMA devices: they identify the node
	Kernel    string   `json:"kernel"`
	Library   string   `json:"nccl_library"` // path and version of the host's
	Driver    string   `json:"gpu_driver"`
	CUDA      string   `json:"cuda"`
	Virtual   string   `json:"virtual_machine"` // yes, no
	GPUs      string   `json:"gpus_on_bus"`     // number
}

// Port is a port of an RDMA device, and the network interface that belongs to it.
type Port struct {
	Device   string   `json:"device"`
	Port     int      `json:"port"` // 0: its ports are not known
	Fabric   string   `json:"fabric"`
	Role     string   `json:"role"`
	State    string   `json:"state"`
	Rate     *float64 `json:"rate_bytes_per_second"`
	Expected *float64 `json:"expected_rate_bytes_per_second"`
	Driver   string   `json:"driver"`
	Firmware string   `json:"firmware"`
	PCI      string   `json:"pci_address"`
	NUMA     string   `json:"numa_node"`
	// physical one that another device has, too: their rates do not add up
	Shared string `json:"shared_port,omitempty"`

	Interface string `json:"interface"`
	MTU       string `json:"mtu_bytes"`
	GID       string `json:"gid"`     // that NCCL selects
	GIDWhy    string `json:"gid_why"` // one sentence
	RoCE      *RoCE  `json:"roce,omitempty"`
}

// RoCE is how the interface treats what NCCL sends.
type RoCE struct {
	Interface string `json:"interface"`
	Verdict   string `json:"verdict"`
	Class     string `json:"traffic_class"`
	From      string `json:"traffic_class_from"`
	DSCP      string `json:"dscp"`
	Priority  string `json:"priority"`
	Mode      string `json:"mode"` // pfc, ecn, pfc_ecn, none, unknown
	Steps     []Step `json:"steps"`
}

// Step is one of the chain of settings.
type Step struct {
	Name     string `json:"step"`
	Status   string `json:"status"`
	Evidence string `json:"evidence"`
	Source   string `json:"source"`
}

// GPU is a GPU and its way to the network.
type GPU struct {
	Name      string `json:"gpu"`
	Model     string `json:"model"`
	PCI       string `json:"pci_address"`
	NVLinks   string `json:"nvlinks"` // active of all
	NIC       string `json:"nic"`
	Distance  string `json:"distance"`
	GPUDirect string `json:"gpudirect_rdma"` // usable, slow, blocked, none, unknown
	Evidence  string `json:"gpudirect_evidence"`
}

// GID is an entry of a GID table.
type GID struct {
	Device    string `json:"device"`
	Port      int    `json:"port"`
	Index     int    `json:"index"`
	Address   string `json:"address"`
	Type      string `json:"type"`
	Interface string `json:"interface,omitempty"`
	Selected  bool   `json:"selected"`
}

// Finding is something that is wrong.
type Finding struct {
	ID       string   `json:"id"`   // of the check, the fault of a probe or the signature of a log
	From     string   `json:"from"` // check, job, probe, log, report
	Severity string   `json:"severity"`
	Subjects []string `json:"subjects"`
	What     string   `json:"what"`
	Causes   []string `json:"root_cause"` // kinds of fault that it can be
	Seen     []string `json:"seen"`       // what the node shows
	Evidence string   `json:"evidence"`   // where that was read
	Impact   string   `json:"impact"`
	Remedy   string   `json:"remedy"`             // empty where there is a cause: its remedy is that of both
	Remedies []string `json:"remedies,omitempty"` // instead, one for each subject, where they differ
	Runbook  string   `json:"runbook"`

	Devices []string `json:"devices,omitempty"` // RDMA devices that it is about
	Cause   string   `json:"cause,omitempty"`   // id of the check whose finding explains this one; empty: none
}

// Where findings are from.
const (
	fromCheck  = "check"
	fromJob    = "job"
	fromProbe  = "probe"
	fromLog    = "log"
	fromReport = "report" // the earlier one
)

// Result is one run of a probe.
type Result struct {
	Kind   string    `json:"kind"`
	Label  string    `json:"label,omitempty"` // in a comparison
	Device string    `json:"device,omitempty"`
	Port   int       `json:"port,omitempty"`
	At     time.Time `json:"at"`
	Source string    `json:"source"` // where the result was found

	Link      string   `json:"link"` // the link that carried the data: one of links, or another text; empty: unknown
	Network   string   `json:"network"`
	GPUDirect string   `json:"gpudirect_rdma"`
	NCCL      string   `json:"nccl_version"`
	Outcome   string   `json:"outcome"`
	Failure   string   `json:"failure,omitempty"`
	Error     string   `json:"error,omitempty"`
	NoDevices bool     `json:"no_rdma_device,omitempty"` // NCCL reported that it found none
	Op        string   `json:"op,omitempty"`
	Bytes     uint64   `json:"bytes,omitempty"`
	Ranks     int      `json:"ranks,omitempty"`
	BusBW     *float64 `json:"busbw_bytes_per_second"` // null: the probe moves nothing, or failed
	Expected  *float64 `json:"expected_ratio"`         // over what the line rate allows
	Baseline  *float64 `json:"baseline_bytes_per_second"`
	Ratio     *float64 `json:"baseline_ratio"`

	Faults []probes.Fault `json:"faults"`
}

// Iteration is how long an iteration of training takes, as the flag --iteration-ms says.
type Iteration struct {
	Before time.Duration `json:"before_nanoseconds"`
	After  time.Duration `json:"after_nanoseconds"`
}

// Log is what the log of a job shows.
type Log struct {
	File        string `json:"file"`
	Lines       int64  `json:"lines"`
	NCCLLines   int64  `json:"nccl_lines"`
	Versions    string `json:"nccl_versions"`
	Processes   int    `json:"processes"`
	Connections string `json:"connections"`
	GPUDirect   string `json:"gpudirect_rdma"`
	Undecided   string `json:"undecided,omitempty"`
	TCP         bool   `json:"tcp"` // connections over TCP
	Network     string `json:"network"`
	Devices     string `json:"devices"`
	// Disabled are HCAs that the job may use, and for which NCCL reports GPUDirect RDMA as disabled.
	Disabled []string `json:"gpudirect_disabled,omitempty"`
}
