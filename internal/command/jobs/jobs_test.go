// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/job"
)

func jobsWith(v job.Verdict, findings ...job.Finding) job.Jobs {
	return job.Jobs{Known: true, At: time.Unix(0, 0), List: []job.Job{{
		Name: "slurm/7", Scheduler: "slurm", Size: 16, GPUs: []string{"GPU-1"}, Verdict: v, Findings: findings, Ranks: []job.Rank{{PID: 9, Rank: 0, Verdict: v}},
	}}}
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
		"info":          {jobsWith(job.Verdict{Transport: job.RDMA}, job.Finding{Severity: diagnose.Info, PIDs: []int{9}}), 0},
		"misconfigured": {jobsWith(job.Verdict{Transport: job.Unknown}, job.Finding{Severity: diagnose.Warning, PIDs: []int{9}}), 1},
		"no jobs":       {job.Jobs{Known: true}, 0},
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
		job.Finding{Rule: job.RuleMemlock, Severity: diagnose.Warning, Text: "it may lock 65536 bytes", PIDs: []int{9}},
	)
	var text, document bytes.Buffer
	if err := errors.Join(printer{}.write(&text, jobs), printer{json: true}.write(&document, jobs)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"slurm/7  1 of 16  1     tcp, confirmed  socket  -", "seen: its sockets sent 5 GB/s", "cause: its container has no /dev/infiniband", "warning memlock: it may lock 65536 bytes (PID 9)",
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
	}{{job.Jobs{Known: true}, "No process"}, {job.Jobs{Reason: job.Privilege}, "could not be read: the exporter lacks the privilege"}} {
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
