// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

func jobLines(t *testing.T, jobs job.Jobs) string {
	t.Helper()
	set := &Set{collectors: []collector{{
		About: About{Name: "job"}, families: jobFamilies(), supported: hasJobs,
		collect: func(_ *fabric.Node, emit emit) { collectJobs(jobs, emit) },
	}}}
	var lines []string
	for line := range strings.Lines(withoutHelp(text(t, set.Gather(&fabric.Node{Policy: &fabric.Policy{}}, ConfigState{})))) {
		if strings.HasPrefix(line, "gpufabric_job_") || strings.HasPrefix(line, "gpufabric_gpu_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// A job that fell back has the series that its alerts ask for; one that is not known has no confidence; TCPX
// is no fallback.
func TestJobs(t *testing.T) {
	got := jobLines(t, job.Jobs{Known: true, Dropped: 3, List: []job.Job{
		{
			Name: "slurm/7", Scheduler: "slurm", User: "ann", GPUs: []string{"GPU-a"}, Ranks: make([]job.Rank, 2),
			Verdict:  job.Verdict{Transport: job.TCP, Way: job.WaySocket, Confirmed: true, Cause: job.CauseNoDevices},
			Findings: []job.Finding{{Rule: job.RuleMemlock, Severity: verdict.Warning}},
		},
		{Name: "slurm/8", Scheduler: "slurm", Verdict: job.Verdict{Transport: job.Unknown, Reason: job.Moved}},
		{Name: "slurm/11", Verdict: job.Verdict{Transport: job.TCP, Confirmed: true}, Seen: time.Unix(1_700_000_000, 5e8), Unseen: job.Unreadable},
		{Name: "slurm/9", Scheduler: "slurm", Verdict: job.Verdict{Transport: job.TCP, Way: job.WayTCPX}},
		{Name: "slurm/10", Scheduler: "slurm", Devices: []string{"mlx5_0"}, Verdict: job.Verdict{Transport: job.RDMA}},
	}, Impaired: map[string]map[job.Impairment]float64{"GPU-a": {job.ImpairedTCP: 45}}})
	for _, want := range []string{
		`gpufabric_job_info{cause="no_rdma_devices_in_container",scheduler="slurm",training_job="slurm/7",user="ann",way="socket"} 1`,
		`gpufabric_job_device_info{device="mlx5_0",training_job="slurm/10"} 1`,
		`gpufabric_job_gpu_info{training_job="slurm/7",uuid="GPU-a"} 1`, `gpufabric_job_ranks{training_job="slurm/7"} 2`,
		`gpufabric_job_transport{training_job="slurm/7",transport="tcp"} 1`, `gpufabric_job_transport{training_job="slurm/7",transport="rdma"} 0`,
		`gpufabric_job_transport_confirmed{training_job="slurm/7"} 1`, `gpufabric_job_transport_by_design{training_job="slurm/7"} 0`,
		`gpufabric_job_misconfigured{rule="memlock",severity="warning",training_job="slurm/7"} 1`,
		`gpufabric_job_transport_unknown{reason="moved",training_job="slurm/8"} 1`, `gpufabric_job_transport_by_design{training_job="slurm/9"} 1`,
		`gpufabric_job_processes_dropped 3`,
		`gpufabric_job_transport{training_job="slurm/11",transport="tcp"} 1`, `gpufabric_job_transport_confirmed{training_job="slurm/11"} 1`,
		`gpufabric_job_transport_last_seen_timestamp_seconds{reason="unreadable",training_job="slurm/11"} 1.7000000005e+09`,
		`gpufabric_gpu_impaired_seconds_total{reason="tcp",uuid="GPU-a"} 45`, `gpufabric_gpu_impaired_seconds_total{reason="misconfigured",uuid="GPU-a"} 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Count(got, "last_seen") != 1 {
		t.Error("a job that is seen, or never was, has a time at which it was last seen")
	}
	if strings.Contains(got, `confirmed{training_job="slurm/8"}`) {
		t.Error("an unknown transport has a confidence")
	}
	if t.Failed() {
		t.Log(got)
	}
}

// A node with a job on all of its GPUs stays within the budget of series, and keeps the job if processes
// cannot be read.
func TestJobSeries(t *testing.T) {
	const budget = 2500
	s, err := simulator.Find("job-tcp")
	if err != nil {
		t.Fatal(err)
	}
	n := observeScenario(t, s)
	set := byDefault(t)
	out := text(t, set.Gather(n, ConfigState{}))
	series := 0
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	if series > budget || !strings.Contains(out, `gpufabric_job_transport{training_job="slurm/4242",transport="unknown"} 1`) {
		t.Errorf("%d series, the budget is %d", series, budget)
	}
	hidden := *n
	hidden.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonStuck, "/proc", n.At)
	hidden.At = n.At.Add(10 * time.Second)
	if out := text(t, set.Gather(&hidden, ConfigState{})); !strings.Contains(out, `gpufabric_job_transport{training_job="slurm/4242",transport="unknown"} 1`) {
		t.Error("a job has ended because processes could not be read")
	}
}

// What Inspector reports about a job has the labels of fixed lists, and refused files are counted, 0 included.
func TestCollectives(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := &fabric.Node{
		Policy: &fabric.Policy{}, Host: fabric.Host{BootTime: fabric.Known(now.Add(-time.Hour), "stat", now)},
		Ranks: fabric.Known([]fabric.RankCandidate{{PID: 9, User: 7, GPUs: fabric.Known([]string{"GPU-a"}, "nvml", now), Limits: fabric.Known(fabric.ProcessLimits{}, "limits", now)}}, "/proc", now),
		Inspector: fabric.Known(fabric.InspectorReading{Refused: map[fabric.Refusal]int{fabric.RefusedMalformed: 2}, Files: []fabric.InspectorFile{{
			PID: 9, Owner: 7, Written: now,
			Totals: []fabric.CollectiveTotal{
				{Collective: "AllReduce", Nodes: true, Recorded: 3, Seconds: 1.5, Launched: 4}, {Collective: "Send", Recorded: 7, Seconds: 0.5},
			},
			Samples: []fabric.CollectiveSample{{Collective: "AllReduce", Size: fabric.SizeLarge, Nodes: true, BusBandwidth: 2e11, Duration: 3 * time.Millisecond}},
		}, {GPU: "GPU-a", Owner: 8, Written: now}}}, "folder", now),
	}
	jobs := job.Jobs{List: []job.Job{{Name: "slurm/7", Ranks: []job.Rank{{PID: 9}}}}}
	set := &Set{collectors: []collector{{
		About: About{Name: "job"}, families: jobFamilies(), supported: everyNode,
		collect: func(n *fabric.Node, emit emit) { collectCollectives(jobs, n, emit) },
	}}}
	got := withoutHelp(text(t, set.Gather(n, ConfigState{})))
	const labels = `{collective="AllReduce",scope="nodes",size_class="from_256MiB",training_job="slurm/7",uuid="GPU-a"}`
	const counted = `{collective="AllReduce",scope="nodes",training_job="slurm/7",uuid="GPU-a"}`
	for _, want := range []string{
		"gpufabric_job_bus_bandwidth_bytes_per_second" + labels + " 2e+11", "gpufabric_job_collective_duration_seconds" + labels + " 0.003",
		`gpufabric_job_inspector_files_refused{reason="malformed"} 2`, `gpufabric_job_inspector_files_refused{reason="too_large"} 0`,
		`gpufabric_job_inspector_files_refused{reason="no_rank"} 1`,
		"gpufabric_job_collective_seconds_total" + counted + " 1.5", "gpufabric_job_collectives_recorded_total" + counted + " 3", "gpufabric_job_collectives_launched_total" + counted + " 4",
		`gpufabric_job_collectives_recorded_total{collective="Send",scope="node",training_job="slurm/7",uuid="GPU-a"} 7`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("lacks %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, `launched_total{collective="Send"`) {
		t.Errorf("sends have no numbers, and yet\n%s", got)
	}
	n.Inspector = fabric.Fact[fabric.InspectorReading]{}
	if got = withoutHelp(text(t, set.Gather(n, ConfigState{}))); strings.Contains(got, "gpufabric_job_") {
		t.Errorf("no folder is read, and yet\n%s", got)
	}
}
