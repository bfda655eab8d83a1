// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// Certainty is how sure a reason is.
type Certainty string

// Certainties.
const (
	Certain  Certainty = "certain"  // the log has facts that no other reason explains
	Likely   Certainty = "likely"   // the usual one with what the log shows
	Possible Certainty = "possible" // the log neither supports nor excludes it
)

// Stated is a reason with how sure it is.
type Stated struct {
	Certainty           Certainty `fixed:""`
	Cause, Remedy, Test string    `fixed:""`
	Evidence            string    // what the node of --host, --capture or --status shows of it; empty: nothing
}

// bySurety orders reasons, the surest first.
func bySurety(a, b Stated) int {
	rank := map[Certainty]int{Certain: 0, Likely: 1, Possible: 2}
	return cmp.Compare(rank[a.Certainty], rank[b.Certainty])
}

// firstOfNetworks is the first error of the system that is of networks: of programs the others may be of anything.
const firstOfNetworks = 97

// maxReasons is how many are stated.
const maxReasons = 4

// reasons are what may be behind a finding, the surest first.
func (r *Result) reasons(f *Finding) []Stated {
	s := f.Signature
	list := r.stated(s.Reasons, f)
	vague := !slices.ContainsFunc(list, func(one Stated) bool { return one.Certainty != Possible })
	if area := signature.Area(placed(f.Place), ""); vague && s.Source == signature.NCCL && s.Generic && len(s.Codes) == 0 && area.Files != nil {
		list = append(r.stated(area.Reasons, f), list...) // the place in the source says more
		vague = list[0].Certainty == Possible
	}
	least := 1
	if s.Source == signature.Program {
		least = firstOfNetworks
	}
	alone := vague && len(list) < 2 && !s.Sure && !signature.IsArea(s)
	if alone && s.Kind == signature.Cause && Errno(f.raw) >= least {
		list = append(list, r.stated(signature.Errnos(s), f)...)
	}
	slices.SortStableFunc(list, bySurety)
	list = r.chosenWay(f, list)
	switch {
	case s == &signature.WrongResults: // that is certain, and what changed them is not
		list = slices.Insert(list, 0, Stated{Certainty: Certain, Cause: s.Cause, Remedy: s.Remedy})
	case len(list) == 0 && s.Sure:
		list = []Stated{{Certainty: Certain, Cause: s.Cause, Remedy: s.Remedy}}
	case len(list) == 0 && (s.Generic || f.Guessed):
		list = []Stated{{Certainty: Possible, Cause: s.Cause, Remedy: s.Remedy}}
	case len(list) == 0:
		list = []Stated{{Certainty: Likely, Cause: s.Cause, Remedy: s.Remedy}}
	case list[0].Certainty == Certain:
		list = list[:1]
	case len(list) == 1 && list[0].Certainty == Possible && len(s.Reasons) == 1: // the row knows no other
		list[0].Certainty = Likely
	}
	for i := range list {
		if f.untied {
			list[i].Certainty = Possible
		}
	}
	return list[:min(len(list), maxReasons)]
}

// stated are those of the reasons that may be behind a finding.
func (r *Result) stated(reasons []signature.Reason, f *Finding) (list []Stated) {
	for _, reason := range reasons {
		if len(reason.If) > 0 && !r.all(reason.If, f) {
			continue
		}
		one := Stated{
			Certainty: Possible, Cause: r.filled(reason.Cause, f),
			Remedy: r.undone(r.filled(reason.Remedy, f)), Test: r.undone(r.filled(reason.Test, f)),
		}
		if reason.Test != "" && one.Test == "" { // its test is what the job did
			continue
		}
		switch {
		case r.all(reason.Certain, f):
			one.Certainty = Certain
		case r.all(reason.Likely, f):
			one.Certainty = Likely
		}
		list = append(list, one)
	}
	return list
}

// placed is the file of a place, "init.cc" of "init.cc:77".
func placed(place string) string {
	e := log.Entry{Place: place}
	return e.File()
}

// slow is the class of what follows from the connections.
const slow = 4

// class orders failures: what a host says of itself, what else may be a cause, and what follows.
func class(s *signature.Signature) int {
	const local, other, follows, vague = 0, 1, 2, 3
	switch {
	case s.Kind == signature.Note:
		return -1
	case slices.Contains(signature.Judgements(), s):
		return slow
	case s.Kind == signature.Consequence && s.Generic:
		return vague
	case s.Kind == signature.Consequence:
		return follows
	case s.Generic || s.Remote || signature.IsArea(s):
		return other
	}
	return local
}

// First returns the first failure: a cause before its consequences, and these before what follows from the
// connections, which makes a job slow and does not end it. nil: the log shows none.
func (r *Result) First() *Finding {
	if r.first < 0 {
		return nil
	}
	return &r.Findings[r.first]
}

// findFirst is the place of the first failure; -1: the log shows none.
func (r *Result) findFirst() int {
	best := -1
	for i := range r.Findings {
		f := &r.Findings[i]
		if class(f.Signature) < 0 || f.Open {
			continue
		}
		if best < 0 || r.earlier(f, &r.Findings[best]) {
			best = i
		}
	}
	if best < 0 {
		return best
	}
	first := &r.Findings[best]
	for i := range r.Findings {
		f := &r.Findings[i]
		switch before := f.order < first.order && f.Line > 0; {
		case !before:
		case class(first.Signature) == 0 && signature.IsArea(f.Signature) && f.Host != "" && f.process == first.process:
			return i // the same process warned before of something unknown, and failed
		case !first.Signature.Remote && !unexplaining(first.Signature) || !f.Signature.Leads:
		case f.Signature.Source == signature.NCCL || f.shortly(first):
			return i // an event of a device comes before the requests that fail
		}
	}
	for i := range r.Findings { // what the driver says of an error of the hardware tells more than what CUDA does
		f := &r.Findings[i]
		if reported(first.Signature) && f.Signature.Source == signature.Kernel && class(f.Signature) == 0 && !f.after(first) {
			return i
		}
		if first.Signature.ID == "xid_application" && f.Signature.ID == "gpu_program_error" && !f.Open && r.xids.repeated() == nil { // and of one of a program less
			return i
		}
	}
	return best
}

// reported reports whether a signature is of an error of the hardware, as CUDA tells programs.
func reported(s *signature.Signature) bool {
	return s.ID == "gpu_hardware" || s.ID == "gpu_contained" || s.ID == "gpu_faulty"
}

// after reports whether a failure came a while after another, by their times.
func (f *Finding) after(other *Finding) bool {
	a, err := time.Parse(time.DateTime, f.time)
	b, wrong := time.Parse(time.DateTime, other.time)
	const near = 30 * time.Second
	return err == nil && wrong == nil && a.Sub(b) > near
}

// late reports whether the kernel reports a failure a while after a program failed, which it cannot have caused.
func (f *Finding) late(other *Finding) bool {
	const causes = 1 // classes
	return f.Signature.Source == signature.Kernel && other.Signature.Source != signature.Kernel &&
		class(other.Signature) >= 0 && class(other.Signature) <= causes && f.after(other)
}

// shortly reports whether a failure came shortly before another, by their times.
func (f *Finding) shortly(other *Finding) bool {
	a, err := time.Parse(time.DateTime, f.time)
	b, wrong := time.Parse(time.DateTime, other.time)
	const shortly = 10 * time.Minute
	return err == nil && wrong == nil && !a.After(b) && b.Sub(a) < shortly
}

// Kind is what a finding means beside the first failure: a generic one follows from one that is not, and from one of
// NCCL where a program tells it; what came a while later caused nothing.
func (r *Result) Kind(f *Finding) signature.Kind {
	first := r.First()
	switch {
	case f.Open && f.Signature.ID == "nic_failing": // it is in use again
		return signature.Note
	case first == nil || f == first || f.Signature.Kind != signature.Cause || !f.Signature.Generic:
	case class(first.Signature) == 0, f.after(first),
		f.Signature.Source == signature.Program && first.Signature.Source != signature.Program:
		return signature.Consequence
	}
	return f.Signature.Kind
}

// Slow reports whether the first failure makes the job slow, and does not end it.
func (r *Result) Slow() bool {
	f := r.First()
	if f == nil {
		return false
	}
	switch f.Signature {
	case &signature.TCP, &signature.NoGPUDirect, &signature.NoMNNVL:
		return true
	}
	if f.Signature.ID == "nic_failing" { // the others carry its traffic
		return true
	}
	return r.Log.Fallback && r.Log.Failed == "" && goesOn(f.Signature)
}

// goesOn reports whether NCCL goes on with another network after a failure.
func goesOn(s *signature.Signature) bool {
	return s.ID == "ib_device_unusable" || s.ID == "ofi_provider" || s.ID == "ofi_failed" || s.ID == "ib_library_missing"
}

// earlier reports whether one failure explains the log better than another.
func (r *Result) earlier(a, b *Finding) bool {
	switch {
	case a.late(b):
		return false
	case b.late(a):
		return true
	}
	if by := cmp.Compare(class(a.Signature), class(b.Signature)); by != 0 {
		return by < 0
	}
	if a.File != b.File && a.time != "" && b.time != "" && a.time != b.time {
		return a.time < b.time
	}
	return a.order < b.order
}

// Failed reports whether the log shows a failure.
func (r *Result) Failed() bool { return r.First() != nil }

// Open returns what would be a failure where ranks are on several hosts, or elsewhere than on these; nil: nothing is.
func (r *Result) Open() *Finding {
	if r.said.lived { // the cause of what the program survived
		var best *Finding
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Open && (best == nil || r.earlier(f, best)) {
				best = f
			}
		}
		return best
	}
	if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Open }); i >= 0 {
		return &r.Findings[i]
	}
	return nil
}

// Harmless reports whether all that NCCL warned of is known to be harmless, and it warned; not where it began to set
// itself up and no line shows that the program went on.
func (r *Result) Harmless() bool {
	if r.Began() && !r.wentFurther() && !r.tests.measured {
		return false
	}
	warned := false
	for i := range r.Findings {
		if f := &r.Findings[i]; !f.Signature.Harmless || f.Line == 0 {
			return false
		}
		warned = true
	}
	return warned && r.Unknown == 0 && r.Log.Failed == "" && !r.Cut && !r.Full
}

// Unseen says what a log that shows no failure does not show either.
func (r *Result) Unseen() string {
	var parts []string
	missing := 0
	for i := range r.Communicators {
		missing = max(missing, r.Communicators[i].Ranks-r.Communicators[i].Started)
	}
	if missing > 0 {
		parts = append(parts, "the set-up of "+spelling.Plural(missing, "rank", "ranks")+" that the log does not have")
	}
	if r.Transports() == (Transports{}) {
		parts = append(parts, "which way the connections go")
	}
	parts = append(parts, "what the program did after the set-up, as far as NCCL does not log it")
	text := fmt.Sprintf("Not seen: %s.", spelling.Few(parts, 4))
	if hosts := strings.Fields(r.tests.first); len(hosts) > 1 {
		text = fmt.Sprintf("Each of %s ran a test of its own, and nothing went between them: nccl-tests are built without MPI (make clean; make MPI=1). ",
			r.hidden.text(shown(spelling.Few(hosts, 4)))) + text
	}
	if r.tests.apart && len(strings.Fields(r.tests.first)) < 2 {
		text = "A test has two results where one run has one: if one was meant, its processes ran each on its own, and nothing went between them. Then nccl-tests are built without MPI (make clean; make MPI=1), and the numbers say nothing on the network. " + text
	}
	text += r.slower()
	if t := r.Transports(); t.P2P > 0 && t.RDMA+t.TCP+t.Plugin == 0 && r.Log.NVLSChannels <= 0 {
		text += " If the job hangs after it, NCCL_P2P_DISABLE=1 for one run shows whether P2P between GPUs stalls (ACS, IOMMU)."
	}
	return text
}
