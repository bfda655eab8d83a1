// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/verdict"
)

func jobsWith(v job.Verdict, findings ...job.Finding) job.Jobs {
	return job.Jobs{Known: true, At: time.Unix(0, 0), List: []job.Job{{
		Name: "slurm/7", Scheduler: "slurm", Size: 16, GPUs: []string{"GPU-1"}, Verdict: v, Findings: findings, Ranks: []job.Rank{{PID: 9, Rank: 0, Verdict: v}},
	}}}
}

// kept is a job that is not seen now, where no process could be looked for.
func kept(v job.Transport) job.Jobs {
	jobs := jobsWith(job.Verdict{Transport: v, Confirmed: true})
	jobs.Known, jobs.Reason, jobs.List[0].Seen, jobs.List[0].Unseen = false, job.Unreadable, time.Unix(60, 0), job.Unreadable
	return jobs
}

func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		jobs job.Jobs
		want int
	}{
		"rdma":          {jobsWith(job.Verdict{Transport: job.RDMA}), 0},
		"local":         {jobsWith(job.Verdict{Transport: job.Local}), 0},
		"TCP by design": {jobsWith(job.Verdict{Transport: job.TCP, Way: job.WayTCPX}), 0},
		"suspected":     {jobsWith(job.Verdict{Transport: job.TCP, Way: job.WaySocket}), 1},
		"mixed":         {jobsWith(job.Verdict{Transport: job.Mixed}), 1},
		"unknown":       {jobsWith(job.Verdict{Transport: job.Unknown, Reason: job.Idle}), 2},
		"info":          {jobsWith(job.Verdict{Transport: job.RDMA}, job.Finding{Severity: verdict.Info, PIDs: []int{9}}), 0},
		"misconfigured": {jobsWith(job.Verdict{Transport: job.Unknown}, job.Finding{Severity: verdict.Warning, PIDs: []int{9}}), 1},
		"no jobs":       {job.Jobs{Known: true}, 0},
		"kept":          {kept(job.RDMA), 2},
		"kept, TCP":     {kept(job.TCP), 1},
		"unreadable":    {job.Jobs{Reason: job.Privilege}, 2},
		"too many":      {job.Jobs{Known: true, Dropped: 1}, 2},
	} {
		if got := exitOf(c.jobs); got != c.want {
			t.Errorf("%s: exit code %d, expected %d", name, got, c.want)
		}
	}
}

func TestOutput(t *testing.T) {
	jobs := jobsWith(
		job.Verdict{Transport: job.TCP, Confirmed: true, Way: job.WaySocket, Cause: job.CauseNoDevices, Evidence: []string{"its sockets sent 5 GB/s"}},
		job.Finding{Rule: job.RuleMemlock, Severity: verdict.Warning, Text: "it may lock 65536 bytes", PIDs: []int{9}},
	)
	var text, document bytes.Buffer
	if err := errors.Join(printer{}.write(&text, jobs), printer{json: true}.write(&document, jobs)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"slurm/7  1 of 16  1     tcp, confirmed  socket  -", "seen: its sockets sent 5 GB/s", "cause: its container has no /dev/infiniband", "warning memlock: it may lock 65536 bytes (PID 9)",
		"cause: its container has no /dev/infiniband/uverbs*\n  warning memlock: it may lock 65536 bytes (PID 9)\n  do: Give the container the RDMA devices: --device=/dev/infiniband", "\n  do: Raise the limit of locked memory:",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("lacks %q:\n%s", want, text.String())
		}
	}
	var back job.Document
	if err := json.Unmarshal(document.Bytes(), &back); err != nil || len(back.Jobs) != 1 || back.Jobs[0].Transport != "tcp" || !back.Jobs[0].Confirmed || *back.Jobs[0].Ranks[0].Rank != 0 {
		t.Errorf("%v: %s", err, document.String())
	}
	if strings.Contains(document.String(), "null") {
		t.Errorf("a list is null: %s", document.String())
	}
	for _, c := range []struct {
		jobs job.Jobs
		says string
	}{{kept(job.RDMA), "rdma, confirmed, not seen now"}, {kept(job.RDMA), "not seen now: last seen 1970-01-01 00:01:00 UTC: a reading that decides failed"}, {job.Jobs{Known: true}, "No process"}, {job.Jobs{Reason: job.Privilege}, "could not be read: the exporter lacks the privilege"}} {
		text.Reset()
		if err := (printer{}).write(&text, c.jobs); err != nil || !strings.Contains(text.String(), c.says) {
			t.Errorf("%v: %s", err, text.String())
		}
	}
}

// A terminal shows one table, whatever was there before; elsewhere each has its time, and JSON is one line each.
func TestWatch(t *testing.T) {
	jobs := jobsWith(job.Verdict{Transport: job.RDMA})
	for name, c := range map[string]struct {
		p      printer
		screen bool
		begin  string
		lines  int
	}{
		"terminal":  {printer{watch: true}, true, cursorHome + eraseBelow, 0},
		"file":      {printer{watch: true}, false, jobs.At.Format(time.TimeOnly) + "\n", 0},
		"JSON":      {printer{watch: true, json: true}, false, "{", 1},
		"one table": {printer{}, false, "JOB", 0},
	} {
		var out bytes.Buffer
		if c.screen {
			c.p.screen = &out
		}
		if err := errors.Join(c.p.write(&out, jobs), c.p.write(&out, jobs)); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), c.begin) || c.lines > 0 && strings.Count(out.String(), "\n") != 2*c.lines || strings.Contains(out.String(), "\x1b") != c.screen {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// A reading that was late is made up for by a further one, and what cannot be known is not waited for.
func TestLateReadings(t *testing.T) {
	const late, gpus, idle, none, secret = "late", "GPUs late", "idle", "none", "secret"
	for name, c := range map[string]struct {
		looks []string // what each finds; the last one from then on
		want  int      // looks until the jobs are printed
	}{
		"in time":         {[]string{idle}, 2},
		"no jobs":         {[]string{none}, 2},
		"the first late":  {[]string{late, idle}, 3},
		"the second late": {[]string{idle, late, idle}, 3},
		"found later":     {[]string{none, idle}, 3},
		"GPUs late":       {[]string{idle, gpus, idle}, 3},
		"always late":     {[]string{late}, mostReadings},
		"no privilege":    {[]string{secret}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks, printed := 0, 0
				look := func(context.Context, fabric.Want, time.Duration) (*fabric.Node, error) {
					n := &fabric.Node{At: time.Now(), Policy: &fabric.Policy{}}
					what := c.looks[min(looks, len(c.looks)-1)]
					if what == gpus {
						n.Sources = []fabric.Source{{Name: fabric.SourceGPU, Reason: fabric.ReasonStuck}}
					}
					switch what {
					case late:
						n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonTimeout, "/proc", n.At)
					case secret:
						n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonPrivilege, "/proc", n.At)
					case none:
						n.Ranks = fabric.Known[[]fabric.RankCandidate](nil, "/proc", n.At)
					default:
						n.Ranks = fabric.Known(slices.Clone([]fabric.RankCandidate{{
							PID: 7, Start: 7, GPUs: fabric.Known([]string{"GPU-1"}, "nvml", n.At), Maps: fabric.Known(fabric.MappedFiles{Segments: 1}, "maps", n.At),
							Files: fabric.Known(fabric.OpenFiles{Complete: true}, "fd", n.At), Sockets: fabric.Known([]fabric.Socket{}, "sock_diag", n.At),
						}}), "/proc", n.At)
					}
					looks++
					return n, nil
				}
				k := &looking{interval: 5 * time.Second}
				_, err := k.print(t.Context(), look, func(job.Jobs, inquiry.Look) error { printed++; return nil })
				if err != nil || looks != c.want || printed != 1 {
					t.Errorf("%d looks, printed %d times, want %d and once: %v", looks, printed, c.want, err)
				}
			})
		})
	}
}
