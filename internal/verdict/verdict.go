// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// Same reports whether two verdicts are those of one check on one subject.
func (v *Verdict) Same(o *Verdict) bool {
	return v.Check == o.Check && v.Subject.Key() == o.Subject.Key()
}

// Severity is how bad it is when a check fails.
type Severity string

// Severities, as alert rules know them.
const (
	Critical Severity = "critical" // training on this node fails or crawls
	Warning  Severity = "warning"  // it works, worse than it should, or is about to break
	Info     Severity = "info"     // worth knowing
)

// Severities returns all of them, the worst first.
func Severities() []Severity { return []Severity{Critical, Warning, Info} }

// Rank orders severities: 0 is the worst.
func (s Severity) Rank() int {
	list := Severities()
	if i := slices.Index(list, s); i >= 0 {
		return i
	}
	return len(list)
}

// AtLeast reports whether s is as bad as least, or worse.
func (s Severity) AtLeast(least Severity) bool { return s.Rank() <= least.Rank() }

// Status is what a check found about one subject. Its order is that of fabric.
type Status = fabric.Status

// Statuses of verdicts.
const (
	OK      = fabric.StatusOK
	Failed  = fabric.StatusFailed
	Unknown = fabric.StatusUnknown
)

// Scope is what one verdict of a check is about.
type Scope string

// Scopes.
const (
	ScopeNode   Scope = "node"
	ScopeDevice Scope = "device" // an RDMA device
	ScopePort   Scope = "port"   // a port of one
	ScopeGPU    Scope = "gpu"
	ScopeFile   Scope = "file"
)

// Subject is what a verdict is about. What does not apply is empty.
type Subject struct {
	Device string `json:"device,omitempty"` // RDMA device
	Port   int    `json:"port,omitempty"`   // 0: the whole device
	GPU    string `json:"gpu,omitempty"`    // UUID where NVML reports it, else the PCI address
	File   string `json:"file,omitempty"`   // a file, or what else cannot be named so
	// Variable is that of NCCL which File sets; it is no part of the identity. Without a File the job sets it
	// that is judged.
	Variable string `json:"-"`
	// Name is what people call it, where that is not the same: "GPU3", "mlx5_4 port 2". It is no part of the identity.
	Name string `json:"-"`
}

// Key is the subject without the name that people give it: what identifies it from one reading to the next.
func (s Subject) Key() Subject {
	s.Name, s.Variable = "", ""
	return s
}

// String names the subject for people: the port only where the device has several.
func (s Subject) String() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Device != "":
		return s.Device
	case s.GPU != "":
		return "GPU " + s.GPU
	case s.File != "":
		return s.File
	}
	return "node"
}

// Check is one row of the catalogue.
type Check struct {
	ID       string // stable: a label value, and what --only takes
	Title    string // what is so when it fails
	Severity Severity
	Topic    string // the page of the runbook: alerts/runbooks/check-<topic>.md
	Scope    Scope
	Reads    string // the facts that decide
	Guard    string // when it gives no verdict, to avoid false alarms; empty: it always does
	Modes    []Mode // the failures that it finds
	Rests    Rests  // what a failure rests on, if it is critical
	Expects  string // the key below expected of the configuration that it compares the node with; empty: none
	// Rate says that it compares readings. Such checks never become metrics: alert rules see more of the past.
	Rate bool

	Judge func(n *fabric.Node, of *Verdicts)
}

// ExpectsRate stands for the expected rates, which have a key for each role.
const ExpectsRate = "port_rate"

// Rests is what a failure of a critical check rests on beside what was read. Without a source that states it,
// nothing is critical: the Rests is unknown (unstated), and says what to state.
type Rests string

// What failures rest on.
const (
	OnNothing     Rests = ""            // wrong on any node
	OnRole        Rests = "role"        // that the port is for training
	OnExpectation Rests = "expectation" // what should be there; the check says so itself, by Verdict.Unstated
)

// Verdict is what a check found about one subject.
type Verdict struct {
	Check   *Check
	Subject Subject
	Status  Status
	Reason  fabric.Reason // why the status is unknown
	// What is the title, with numbers where they make it one; never empty. It is equal for subjects with the same
	// trouble, so that they can be reported together.
	What string
	// Evidence is what was read, and where; it may differ from subject to subject. Consequence is what follows, Remedy
	// what to do about it, with exact commands where there are any. In these, <interface> and the like stand for
	// names: see FilledRemedy, and Group.Remedies for the texts that people read.
	Evidence, Consequence, Remedy string
	// Unstated says that no source states that this should be otherwise: what would have failed is unknown.
	Unstated bool
	// Anywhere says that this is wrong on any node, whatever the port is for.
	Anywhere bool
	// Mode is the kind of fault, one of the check's Modes, where it has several and this verdict shows which;
	// empty: it does not.
	Mode string
	// Names are what stands in the place of such words, by word, where it does not follow from the subject.
	Names map[string][]string
	// Cause is the failure from which this one follows, nil: none that is known. It is no consequence itself.
	// Its remedy is that of both: a consequence has none.
	Cause *Verdict
}
