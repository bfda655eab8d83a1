// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"gpufabric_exporter/internal/fabric"
)

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
	Device string // RDMA device
	Port   int    // 0: the whole device
	GPU    string // UUID where NVML reports it, else the PCI address
	File   string // a file, or what else cannot be named so
	// Variable is that of NCCL which File sets; it is no part of the identity. Without a File the job sets it that is judged.
	Variable string
	// Name is what people call it, where that is not the same: "GPU3", "mlx5_4 port 2". It is no part of the identity.
	Name string
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
	Reads    string   // the facts that decide
	Guard    string   // when it gives no verdict, to avoid false alarms; empty: it always does
	Modes    []string // the failure modes that it finds (Modes)
	Rests    Rests    // what a failure rests on, if it is critical
	// Rate says that it compares readings. Such checks never become metrics: alert rules see more of the past.
	Rate bool

	judge func(n *fabric.Node, of *verdicts)
}

// Rests is what a failure of a critical check rests on beside what was read. Without a source that states it, nothing is critical: the
// verdict is unknown (unstated), and says what to state.
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
	// what to do about it, with exact commands where there are any. In these, <interface> and the like stand for names: see
	// FilledRemedy, and Group.Remedies for the texts that people read.
	Evidence, Consequence, Remedy string
	// Unstated says that no source states that this should be otherwise: what would have failed is unknown.
	Unstated bool
	// Anywhere says that this is wrong on any node, whatever the port is for.
	Anywhere bool
	// Mode is the kind of fault, one of the check's Modes, where it has several and this verdict shows which; empty: it does not.
	Mode string
	// Names are what stands in the place of such words, by word, where it does not follow from the subject.
	Names map[string][]string
	// Cause is the failure from which this one follows, nil: none that is known. It is no consequence itself. Its remedy is that of
	// both: a consequence has none.
	Cause *Verdict
}

// verdicts collects what one check finds.
type verdicts struct {
	check *Check
	node  *fabric.Node
	list  []Verdict
	gpus  []GPU // of the node, set by the first check that needs them
}

// ofGPUs returns the GPUs of the node, which many checks are about.
func (v *verdicts) ofGPUs(n *fabric.Node) []GPU {
	if v.gpus == nil {
		v.gpus = GPUs(n)
	}
	return v.gpus
}

// keepWorst leaves the worst of the verdicts from that one on, the first of several.
func (v *verdicts) keepWorst(from int) {
	if len(v.list) <= from {
		return
	}
	worst := from
	for i := from + 1; i < len(v.list); i++ {
		if v.list[i].Status.Worse(v.list[worst].Status) {
			worst = i
		}
	}
	v.list[from] = v.list[worst]
	v.list = v.list[:from+1]
}

func (v *verdicts) ok(s Subject) { v.list = append(v.list, v.check.ok(s)) }

// failed adds a verdict; what it leaves empty follows from the check.
func (v *verdicts) failed(s Subject, of Verdict) {
	v.list = append(v.list, v.stated(v.check.failed(s, of)))
}

// unknown adds a verdict about facts that are not known. There is none about what is in another network namespace: a pod
// has it, and nothing is wrong with the node for that (Elsewhere).
func (v *verdicts) unknown(s Subject, r fabric.Reason, evidence string) {
	if r == fabric.ReasonMoved {
		return
	}
	v.list = append(v.list, v.check.unknown(s, r, evidence))
}

func (c *Check) ok(s Subject) Verdict {
	return Verdict{Check: c, Subject: s, Status: OK, What: c.Title}
}

func (c *Check) failed(s Subject, of Verdict) Verdict {
	of.Check, of.Subject, of.Status, of.What = c, s, Failed, cmp.Or(of.What, c.Title)
	return of
}

func (c *Check) unknown(s Subject, r fabric.Reason, evidence string) Verdict {
	return Verdict{Check: c, Subject: s, Status: Unknown, Reason: cmp.Or(r, fabric.ReasonNotRead), What: c.Title, Evidence: evidence}
}

// when adds a failed verdict where bad is so, else a good one.
func (v *verdicts) when(bad bool, s Subject, of Verdict) {
	if bad {
		v.failed(s, of)
	} else {
		v.ok(s)
	}
}

// worstOf keeps the worst verdict on each subject, for checks that look at one several times.
type worstOf struct {
	*verdicts
	list []Verdict
}

func (w *worstOf) add(v Verdict) {
	i := slices.IndexFunc(w.list, func(o Verdict) bool { return o.Subject == v.Subject })
	switch {
	case i < 0:
		w.list = append(w.list, v)
	case v.Status.Worse(w.list[i].Status):
		w.list[i] = v
	}
}

func (w *worstOf) ok(s Subject)                 { w.add(w.check.ok(s)) }
func (w *worstOf) failed(s Subject, of Verdict) { w.add(w.stated(w.check.failed(s, of))) }
func (w *worstOf) unknown(s Subject, r fabric.Reason, evidence string) {
	if r != fabric.ReasonMoved {
		w.add(w.check.unknown(s, r, evidence))
	}
}

// status is the worst so far; empty without any.
func (w *worstOf) status(s Subject) Status {
	for _, v := range w.list {
		if v.Subject == s {
			return v.Status
		}
	}
	return ""
}

func (w *worstOf) done() { w.verdicts.list = append(w.verdicts.list, w.list...) }

// Run runs all checks, or those of the given list, and returns every verdict: what failed first, the worst before the
// rest, then what is unknown, then what is right.
func Run(n *fabric.Node, checks []*Check) []Verdict {
	if checks == nil {
		checks = catalogue()
	}
	v := verdicts{node: n, list: make([]Verdict, 0, usual*len(checks))}
	for _, c := range checks {
		if v.check = c; c.judge != nil {
			c.judge(n, &v)
		}
	}
	v.temper(n)
	v.sort()
	follow(n, v.list)
	return v.list
}

// sort puts each verdict where its turn is, those of one place in the order in which they were given. Verdicts are large:
// none is copied more often than it has to be, and no second list is made of them.
func (v *verdicts) sort() {
	var next [places + 1]int
	for i := range v.list {
		next[v.list[i].place()+1]++
	}
	for i := range places {
		next[i+1] += next[i]
	}
	to := make([]int, len(v.list))
	for i := range v.list {
		at := &next[v.list[i].place()]
		to[i] = *at
		*at++
	}
	for i := range to {
		for k := to[i]; k != i; k = to[i] {
			v.list[i], v.list[k] = v.list[k], v.list[i]
			to[i], to[k] = to[k], k
		}
	}
}

// usual is how many verdicts a check gives on a node of eight devices and GPUs, about: each scrape runs all checks.
const usual = 12

// places is how many different places there are: each severity of each status, with those that a check should not have.
const (
	severities = 4
	places     = 5 * severities
)

// place is where a verdict stands among others: by status, then by severity.
func (v *Verdict) place() int {
	return v.Status.Rank()*severities + v.Check.Severity.Rank()
}

// Failures returns the verdicts that failed.
func Failures(list []Verdict) []Verdict { return withStatus(list, Failed) }

// Unknowns returns the verdicts that are unknown.
func Unknowns(list []Verdict) []Verdict { return withStatus(list, Unknown) }

func withStatus(list []Verdict, s Status) []Verdict {
	return slices.DeleteFunc(slices.Clone(list), func(v Verdict) bool { return v.Status != s })
}

// Find returns the check with that ID, or nil. It is the same one each time.
func Find(id string) *Check {
	for _, c := range allChecks() {
		if strings.EqualFold(c.ID, id) {
			return c
		}
	}
	return nil
}

// Checks returns the checks with these IDs (Check*). It panics without one of them: a check that is renamed must not drop out.
func Checks(ids ...string) []*Check {
	list := make([]*Check, len(ids))
	for i, id := range ids {
		if list[i] = Find(id); list[i] == nil {
			panic("no check " + id)
		}
	}
	return list
}

// Catalogue returns every check, by topic: the same ones each time. The rows are read-only; the list is the caller's.
func Catalogue() []*Check { return slices.Clone(catalogue()) }

// catalogue is built once: a check is its own identity to those who remember what it found.
var catalogue = sync.OnceValue(func() []*Check {
	return slices.Concat(nodeChecks(), hardwareChecks(), hostChecks(), portChecks(), gidChecks(), roceChecks(), pcieChecks(), gpuChecks(), gpuDirectChecks(), ncclChecks(), manifestChecks())
})

// allChecks are those of the catalogue, and those of the place where a job runs.
var allChecks = sync.OnceValue(func() []*Check { return slices.Concat(catalogue(), insideChecks()) })
