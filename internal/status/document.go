// SPDX-License-Identifier: Apache-2.0

// Package status builds the status document: what a node is and what is wrong with it, as one value. The
// landing page shows it, and /status.json has it as JSON (docs/STATUS.md).
//
// A Document is plain data and safe for concurrent reading. Of does not fail: unknown values are marked as
// such. Texts and lists in it are bounded and hold no control characters, whatever the node, its users or its
// jobs put into names.
package status

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/verdict"
)

// Version is that of the schema. Fields may be added without a new version; none is removed or changes its meaning.
const Version = 1

// Document is the status of a node at one time. No list in it is null. What /status.json lacks is for other documents.
type Document struct {
	Version  int       `json:"version"`
	Exporter string    `json:"exporter_version"`
	Time     time.Time `json:"time"`
	Node     Node      `json:"node"`
	// Verdict is as bad as the worst finding, probe or job.
	Verdict    Verdict   `json:"verdict"`
	Findings   []Finding `json:"findings"`
	NotChecked []Gap     `json:"not_checked"`
	// NotYetJudged are checks that compare two readings of counters, if there is only one yet; RetryAfter is
	// after how many seconds there can be another.
	NotYetJudged []string `json:"not_yet_judged"`
	RetryAfter   int      `json:"retry_after_seconds,omitempty"`
	// Checks are all that were made, which explain weighs reasons by.
	Checks    []Check    `json:"checks"`
	NUMANodes []NUMANode `json:"numa_nodes"`
	Groups    []Group    `json:"pcie_groups"`
	GPUs      []GPU      `json:"gpus"`
	Devices   []Device   `json:"devices"`
	NVLink    NVLink     `json:"nvlink"`
	NCCL      []Variable `json:"nccl_variables"`
	// Jobs are null where they are not looked for.
	Jobs   *progress.JobsDocument `json:"jobs"`
	Probes []Probe                `json:"probes"`
	// Troubles are what is wrong with results of probes, alike ones together.
	Troubles []Finding `json:"-"`
	// Worst is the severity of the worst finding, probe or job.
	Worst verdict.Severity `json:"-"`
	// LeftOut counts what was left out of lists that are too long.
	LeftOut int `json:"entries_left_out"`
}

// Node is the machine.
type Node struct {
	Name      string       `json:"name"`
	Note      string       `json:"note,omitempty"`
	Kernel    Fact[string] `json:"kernel"`
	Virtual   Fact[bool]   `json:"virtual_machine"`
	GPUs      Fact[int]    `json:"gpus_on_pci_bus"`
	GPUDriver string       `json:"gpu_driver,omitempty"` // in words
	Elsewhere string       `json:"elsewhere,omitempty"`  // devices of pods, in words
	Excluded  []string     `json:"excluded_devices"`
	Missing   []string     `json:"missing_devices"` // RDMA devices that the node should have, by their last names
	Notes     []string     `json:"notes"`           // sentences about how the node is built
	JudgedBy  JudgedBy     `json:"judged_by"`

	GUIDs    []string             `json:"-"` // of its RDMA devices, in order
	NotAsked string               `json:"-"` // GPUs of which no driver was asked, in words
	Driver   string               `json:"-"` // GPUDriver also where nothing needs one
	CUDA     Fact[string]         `json:"-"`
	Library  Fact[fabric.Library] `json:"-"` // NCCL of the host
	Files    []fabric.NCCLFile    `json:"-"` // that may set variables
}

// Verdict is a status in one sentence.
type Verdict struct {
	Status string `json:"status"` // Status*
	Text   string `json:"text"`
}

// Statuses of the node, of its parts, and of ways between them.
const (
	StatusOK      = "ok"
	StatusFailed  = "failed"
	StatusUnknown = "unknown" // a fact that decides is not known
	StatusPartly  = "partly"  // no problem in what could be read, some checks could not be made
	StatusNone    = "none"    // no check applies
)

// Part is a part of the node that checks are about.
type Part struct {
	ID       string   `json:"id"` // unique in the document; the anchor on the page
	Name     string   `json:"name"`
	Status   string   `json:"status"`             // Status*
	Severity string   `json:"severity,omitempty"` // of the worst finding
	Findings []string `json:"findings"`           // their IDs
}

// Finding is what one check found wrong with one or more parts.
type Finding struct {
	ID          string     `json:"id"`
	Check       string     `json:"check"`
	Severity    string     `json:"severity"`
	What        string     `json:"what"`
	Subjects    []Subject  `json:"subjects"`
	Since       *time.Time `json:"since"` // when this exporter saw it first; null: it did not see it fail
	AtLeast     bool       `json:"since_at_least"`
	Evidence    string     `json:"evidence"`
	Consequence string     `json:"consequence,omitempty"`
	Remedy      string     `json:"remedy,omitempty"` // empty where subjects have their own
	Cause       string     `json:"cause,omitempty"`  // ID of the finding from which this one follows
	Runbook     string     `json:"runbook"`          // address or path
	Dashboard   string     `json:"dashboard,omitempty"`
}

// Check is what a check found on all its subjects together.
type Check struct {
	ID     string `json:"id"`
	Status string `json:"status"` // failed, else unknown, else ok
}

// Subject is what a finding is about.
type Subject struct {
	Name   string `json:"name"`
	Part   string `json:"part,omitempty"` // ID; empty: the node or a file
	Remedy string `json:"remedy,omitempty"`

	key verdict.Subject
}

// Gap is what could not be checked.
type Gap struct {
	Subjects []Subject `json:"subjects"`
	What     string    `json:"what"`
	Why      string    `json:"why"`
}

// NUMANode is a NUMA node with devices below its processor.
type NUMANode struct {
	ID     string `json:"id"`
	Number *int   `json:"number"` // null: the firmware does not say, for what is below it
}

// Group is what is below one PCIe switch, or below the host bridges of a NUMA node without a switch.
type Group struct {
	ID       string         `json:"id"`
	NUMANode string         `json:"numa_node"`        // ID
	Switch   string         `json:"switch,omitempty"` // address of its upstream port; empty: no switch
	ACS      Fact[[]string] `json:"acs_redirecting_bridges"`
}

// Variable is a NCCL variable of the host.
type Variable struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Probe is what became of a probe.
type Probe struct {
	Name     string     `json:"name"`
	Kind     string     `json:"kind"`
	Device   string     `json:"device,omitempty"`
	Port     int        `json:"port,omitempty"`
	Status   string     `json:"status"`             // Status*; none: it has not run
	Severity string     `json:"severity,omitempty"` // of the alert, if the status is failed
	Result   string     `json:"result"`
	Cause    string     `json:"cause,omitempty"`   // ID of the finding from which the result follows
	Skipped  string     `json:"skipped,omitempty"` // why it has never run
	LastRun  *time.Time `json:"last_run"`
	// BusBandwidth and Ratio are of the last good result, in bytes per second and relative to the baseline.
	BusBandwidth *float64 `json:"bus_bandwidth_bytes_per_second"`
	Ratio        *float64 `json:"baseline_ratio"`
	Transport    string   `json:"transport"`
	// History has the results that the baseline is made of, oldest first, in bytes per second.
	History []Sample `json:"history"`
}

// Sample is the bandwidth of one run.
type Sample struct {
	Time  time.Time `json:"time"`
	Value float64   `json:"bus_bandwidth_bytes_per_second"`
}
