// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// told is what a line of the kernel says of: its host, time and process, as far as it does.
type told struct {
	host, time string
	pid        int
}

// span are the first and last times of lines that are of the job; empty: none has one.
type span struct{ from, until string }

func (s *span) add(stamp string) {
	if stamp == "" {
		return
	}
	if s.from == "" || stamp < s.from {
		s.from = stamp
	}
	s.until = max(s.until, stamp)
}

// within reports whether a time is at most so long before or after the span, and whether times are known at all.
func (s *span) within(stamp string, most time.Duration) (in, known bool) {
	t, err := time.Parse(time.DateTime, stamp)
	from, wrong := time.Parse(time.DateTime, s.from)
	until, bad := time.Parse(time.DateTime, s.until)
	if err != nil || wrong != nil || bad != nil {
		return false, false
	}
	return !t.Before(from.Add(-most)) && !t.After(until.Add(most)), true
}

// killer is how lines of the kernel on its memory killer are known.
var killer = []string{"invoked oom-killer", "oom-kill:", "Killed process "}

// ofKernel reports whether a line is of the kernel, which writes of all jobs of a host.
func (f *Finding) ofKernel() bool {
	return f.Signature.Source == signature.Kernel || f.Signature.ID == "host_out_of_memory" && has(f.raw, killer)
}

// tell notes what a line of the kernel says of.
func (f *Finding) tell(host string) {
	if !f.ofKernel() {
		f.own = true
		return
	}
	t := told{host: host, time: f.time, pid: log.Unknown}
	for _, before := range []string{"pid=", "Killed process "} {
		_, rest, _ := strings.Cut(f.raw, before)
		rest = strings.TrimLeft(rest, "'")
		if n, err := strconv.Atoi(rest[:len(rest)-len(strings.TrimLeft(rest, digits))]); err == nil {
			t.pid = n
		}
	}
	f.told = []told{t}
}

// untie takes what the kernel says for open where nothing ties it to the job: what its memory killer did without a
// process of the job, or its host and time; and all of other hosts and days, or in a log of work or tests that ended.
func (r *reading) untie() {
	killed := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == "process_killed" })
	ended := r.said.worked > 0 || r.Tested() || r.said.passes()
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.own || len(f.told) == 0 || slices.ContainsFunc(f.told, func(t told) bool { return r.tied(f, t) }) {
			continue
		}
		loose := f.Signature.Source != signature.Kernel && len(r.processes) > 0 && !killed
		apart := !slices.ContainsFunc(f.told, func(t told) bool { return !r.otherDay(t) })
		abroad := !slices.ContainsFunc(f.told, func(t told) bool { return !r.otherHost(t) })
		f.untied = loose || apart || abroad || ended
		f.Open = f.Open || f.untied
		r.said.loose = r.said.loose || f.untied && !apart && !ended
	}
}

// tied reports whether a line of the kernel is of a process of the job, or of one of its hosts while it ran.
func (r *reading) tied(f *Finding, t told) bool {
	of := process{}
	several := false
	for p := range r.processes {
		if p.pid == t.pid && (t.host == "" || t.host == p.host) {
			several = several || of.host != ""
			of = p
		}
	}
	if of.host != "" {
		if !several && f.Host == "" && f.Rank == log.Unknown {
			f.Host, f.Rank = of.host, r.processes[of].rank
		}
		return true
	}
	in, _ := r.span.within(t.time, time.Hour)
	return in && r.ofJob(t.host)
}

// otherDay reports whether a line of the kernel is of a day on which the job did not run; clocks may be of other zones.
func (r *reading) otherDay(t told) bool {
	const day = 24 * time.Hour
	in, known := r.span.within(t.time, day)
	return known && !in
}

// otherHost reports whether it is of a host that NCCL does not name, at a time that is not known: at one that is, the
// job may be in a pod, which has another name.
func (r *reading) otherHost(t told) bool {
	_, known := r.span.within(t.time, 0)
	return !known && t.host != "" && len(r.hosts) > 0 && !r.ofJob(t.host)
}

// ofJob reports whether NCCL logged on a host.
func (r *reading) ofJob(host string) bool {
	short, _, _ := strings.Cut(host, ".")
	for h := range r.hosts {
		if name, _, _ := strings.Cut(h, "."); name == short && host != "" {
			return true
		}
	}
	return false
}
