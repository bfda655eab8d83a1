// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// Began reports whether the log shows that NCCL began.
func (r *Result) Began() bool { return r.Log.Version != "" || r.starts() }

// starts reports whether the log shows how NCCL begins to set itself up.
func (r *Result) starts() bool {
	l := &r.Log
	return l.Bootstrap != "" || l.Network != "" || l.NoDevices || len(l.Sockets)+len(l.Devices)+len(l.HCAs) > 0
}

// wentFurther reports whether the program shows progress after what NCCL logged of its set-up.
func (r *Result) wentFurther() bool { return r.said.progress > r.said.informed }

// leaveOpen takes what may be a failure where the log has none: a warning of NCCL without a signature, or a set-up that
// began and is not seen to go on.
func (r *reading) leaveOpen() {
	switch {
	case r.findFirst() >= 0 || r.Open() != nil:
	case r.alone():
		text := fmt.Sprintf("%d of %d processes announced themselves", len(r.said.members), r.said.expected)
		r.follow(&signature.MembersMissing, text).Open = true
	case len(r.Warnings) > 0:
		f := r.Warnings[0].finding
		file, _, _ := strings.Cut(f.Place, ":")
		f.Signature, f.Open = signature.Area(file, f.Text), true
		r.Warnings = r.Warnings[1:]
		r.find(f)
	case len(r.Communicators) == 0 && r.Log.Bootstrap != "" && !r.Cut && len(r.Log.Links) == 0 && !r.wentFurther() &&
		!r.said.connected && !r.tests.measured && !r.tests.began && !r.Tested() && !r.cutShort():
		text := fmt.Sprintf("NCCL began in %s, over %s, and no set-up of a communicator follows; the last line of NCCL: %s",
			spelling.Plural(r.Processes, "process", "processes"), r.chosenInterface(), shown(r.last))
		r.follow(&signature.SetupStalls, shown(text)).Open = true
	}
}

// cutShort reports whether the log ends after NCCL chose a network, and before it logs that a set-up begins, as
// releases do from 2.18 on: between these nothing waits for other ranks.
func (r *Result) cutShort() bool {
	if r.Log.Network == "" && !strings.HasPrefix(r.last, "NET/Plugin") || r.Log.Fallback || r.Log.Bootstrap == "" || len(r.Communicators) > 0 || len(r.Versions) == 0 || r.Open() != nil {
		return false
	}
	v, err := fabric.ParseNCCLVersion(r.Versions[0])
	return err == nil && v.AtLeast("2.18") && len(r.Findings) == 0
}

// chosenInterface is the one that ranks find each other over, "eth0 (10.0.0.1)".
func (r *Result) chosenInterface() string {
	one, _, _ := strings.Cut(strings.TrimPrefix(r.Log.Bootstrap, "[0]"), "<")
	name, address, found := strings.Cut(strings.TrimSpace(one), ":")
	if !found {
		return "the interface that it chose"
	}
	return shown(name + " (" + address + ")")
}

// judgeNotes takes back what a process went on after, and says of which GPU errors come again.
func (r *reading) judgeNotes() {
	for i := range r.Findings {
		f := &r.Findings[i]
		switch {
		case f.Signature == &signature.NVMLRefused && r.processes[f.process].ended > 0:
			f.Signature = &signature.NVMLIgnored
		case f.Signature.ID == "xid_application":
			r.xids.tell(f)
		}
	}
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Signature == &signature.NVMLRefused })
	if at >= 0 { // the same line was a note before
		line := r.Findings[at].order
		r.Findings = slices.DeleteFunc(r.Findings,
			func(f Finding) bool {
				return f.Signature.Unwound == &signature.NVMLRefused && f.order == line && f.Count == 1
			})
	}
}

// failPort takes a port that failed, and is not seen to come back, for what keeps a set-up from its end.
func (r *reading) failPort() {
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == "port_error" })
	if at < 0 || r.said.progress > r.Findings[at].order {
		return
	}
	back := func(f Finding) bool {
		return f.Signature.ID == "async_event" && strings.Contains(f.raw, "port active") && f.order > r.Findings[at].order
	}
	if !slices.ContainsFunc(r.Findings, back) {
		r.Findings[at].Signature = &signature.PortFailed
	}
}

// announced takes "Initializing distributed: GLOBAL_RANK: 7, MEMBER: 8/77".
func (s *said) announced(line string) {
	_, rest, _ := strings.Cut(line, "GLOBAL_RANK: ")
	rank, _, _ := strings.Cut(rest, ",")
	_, of, _ := strings.Cut(rest, "/")
	n, all := ordinalOf(rank), ordinalOf(of[:len(of)-len(strings.TrimLeft(of, digits))])
	if n == Unknown || all == Unknown || len(s.members) == maxWaiters {
		return
	}
	if s.members == nil {
		s.members = map[int]struct{}{}
	}
	s.members[n] = struct{}{}
	s.expected = max(s.expected, all)
}

// alone reports whether processes announced themselves, and others are missing when the log ends.
func (r *reading) alone() bool {
	s := &r.said
	return len(s.members) > 0 && len(s.members) < s.expected && !s.together && r.NCCLLines == 0 && s.progress == 0
}
