// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/status"
)

// withRanks is a node with these processes on its GPUs.
func withRanks(list ...fabric.RankCandidate) *fabric.Node {
	n := fabrictest.Healthy()
	n.GPUDriver.Loaded = fabric.Known(true, "nvml", n.At)
	n.Ranks = fabric.Known(list, "/proc", n.At)
	return n
}

func setOf(t *testing.T, names ...string) *collector.Set {
	t.Helper()
	set, err := collector.NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A job is shown after its first reading, and the page reloads itself for the second.
func TestLandingJobs(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	rank := fabric.RankCandidate{
		PID: 41200, User: 1000, Command: "python3", Limits: fabric.Known(fabric.ProcessLimits{Memlock: math.MaxUint64}, "limits", at), GPUs: fabric.Known([]string{"GPU-a"}, "nvml", at), Files: fabric.Known(fabric.OpenFiles{CUDA: true, Complete: true}, "fd", at),
		Workload: fabric.Known(fabric.Workload{Scheduler: "slurm", Job: "4242", Ranks: 16, Rank: 3}, "cgroup", at),
		Maps:     fabric.Known(fabric.MappedFiles{Version: "2.27.3", Segments: 1}, "maps", at),
		Settings: fabric.Known([]fabric.NCCLVariable{{Name: "NCCL_IB_DISABLED", Value: "1", Number: 1, IsNumber: true}}, "environ", at),
	}
	page := landingOf(t, func() *fabric.Node { return withRanks(rank) })
	contains(t, page, `<h2 id="jobs">Jobs</h2>`, "slurm/4242", "1 of 16 ranks", "user ID 1000", "unknown:</span> it was read once", "rank 3, PID 41200, python3", "reload this page</a> after 6 s",
		"NCCL_IB_DISABLED=", "<small>warning setting_unknown_variable</small>", `/alerts/runbooks/GpuFabricJobMisconfigured.md"`, "1 problem found", `<p class="remedy">Correct the variables where the job gets them`, `href="jobs.json"`)

	unset := rank
	unset.Settings = fabric.Known[[]fabric.NCCLVariable](nil, "environ", at)
	contains(t, landingOf(t, func() *fabric.Node { return withRanks(unset) }), "No problems found so far; jobs have been read once only")

	held := withRanks()
	held.GPUDriver.GPUs = []fabric.GPU{{UUID: "GPU-a", Processes: fabric.Known([]fabric.GPUProcess{{}}, "nvml", at)}}
	contains(t, landingOf(t, func() *fabric.Node { return held }), "GPUs are in use, by processes that this exporter does not see")

	contains(t, landingOf(t, func() *fabric.Node { return withRanks() }), "No process is known to hold a GPU of this node", "No problems found")
	hidden := withRanks()
	hidden.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonPrivilege, "/proc", hidden.At)
	contains(t, landingOf(t, func() *fabric.Node { return hidden }), "Jobs are unknown: the exporter lacks the privilege")
	lacks(t, landingOf(t, fabrictest.Healthy), `<h2 id="jobs">Jobs</h2>`)
	driverless := withRanks()
	driverless.GPUDriver.Loaded = fabric.Known(false, "module/nvidia", driverless.At)
	driverless.PCI = fabrictest.WithGPUs().PCI
	contains(t, landingOf(t, func() *fabric.Node { return driverless }), `<h2 id="jobs">Jobs</h2>`, "Jobs are unknown: no NVIDIA driver is loaded")
	lacks(t, landingOf(t, func() *fabric.Node { return withRanks(rank) }, func(o *LandingOptions) { o.Collectors = setOf(t, "hca") }), `<h2 id="jobs">Jobs</h2>`)
}

// Whatever the name of a job, the page stays well-formed and of bounded size.
func TestLandingHostileJobs(t *testing.T) {
	const evil = "</style><script>alert(1)</script>\u202e\x00\n"
	var list []fabric.RankCandidate
	for i := range 2000 {
		c := fabric.RankCandidate{PID: i + 1, Start: uint64(i), Command: evil, GPUs: fabric.Known([]string{"GPU-a"}, "nvml", time.Time{})}
		c.Workload = fabric.Known(fabric.Workload{Scheduler: evil, Job: strings.Repeat(evil, 100) + strconv.Itoa(i%100), Ranks: i}, "cgroup", time.Time{})
		c.Maps = fabric.Known(fabric.MappedFiles{Version: evil, NCCL: evil, Plugins: []string{evil}}, "maps", time.Time{})
		c.Settings = fabric.Known([]fabric.NCCLVariable{{Name: "NCCL_" + evil, Value: evil}}, "environ", time.Time{})
		list = append(list, c)
	}
	page := landingOf(t, func() *fabric.Node { return withRanks(list...) })
	lacks(t, page, "<script", "\u202e", "\x00", "ZgotmplZ")
	if strings.Count(page, "</style>") != 1 || len(page) > 2<<20 {
		t.Errorf("%d bytes, %d styles", len(page), strings.Count(page, "</style>"))
	}
	contains(t, page, "more processes are not shown")

	one := job.Job{Name: "none/" + evil, Ranks: make([]job.Rank, 100), Verdict: job.Verdict{Transport: job.Unknown, Evidence: []string{evil}}}
	if row := jobRowOf(&one, nil, nil); len(row.Ranks) != maxRankRows || row.More != 100-maxRankRows {
		t.Errorf("%d ranks are shown, %d more", len(row.Ranks), row.More)
	}
}

// The state of a job has one colour, and a setting that is wrong does not make good transport bad.
func TestJobClasses(t *testing.T) {
	for want, v := range map[string]job.Verdict{
		"bad":    {Transport: job.TCP, Way: job.WaySocket, Confirmed: true},
		"unsure": {Transport: job.Mixed},
		"good":   {Transport: job.RDMA},
		"":       {Transport: job.TCP, Way: job.WayTCPX},
	} {
		if got := transportCell(&v).Class; got != want {
			t.Errorf("%s is %q, expected %q", v.State(), got, want)
		}
	}
	row := jobRowOf(&job.Job{Verdict: job.Verdict{Transport: job.RDMA}, Findings: []job.Finding{{Severity: "warning", PIDs: []int{1}}}}, nil, nil)
	if row.Transport.Class != "good" || row.Class() != "unsure" {
		t.Errorf("%+v", row)
	}
}

// What is kept of a job that is not seen is shown, and is not good.
func TestJobThatIsNotSeen(t *testing.T) {
	v := job.Verdict{Transport: job.RDMA, Confirmed: true}
	j := job.Job{Verdict: v, Seen: time.Unix(60, 0), Unseen: job.Unreadable, Ranks: []job.Rank{{PID: 1, Verdict: v, Unseen: job.Unreadable}}}
	row := jobRowOf(&j, nil, nil)
	if row.Transport.Text != "rdma, confirmed, not seen now" || row.severity != "" || row.Ranks[0].Transport.Class != "" || row.Ranks[0].Transport.Note == "" ||
		len(row.Notes) != 1 || row.Notes[0].Label != "not seen now" {
		t.Errorf("%+v", row)
	}
	j.Verdict = job.Verdict{Transport: job.TCP, Confirmed: true}
	if row := jobRowOf(&j, nil, nil); row.Class() != "bad" {
		t.Errorf("TCP that is kept is %q", row.Class())
	}
	seen := time.Unix(1_700_000_000, 0)
	rank := fabric.RankCandidate{PID: 41200, Workload: fabric.Known(fabric.Workload{Scheduler: "slurm", Job: "4242"}, "cgroup", seen), GPUs: fabric.Known([]string{"GPU-a"}, "nvml", seen)}
	nodes := []*fabric.Node{withRanks(rank), withRanks()}
	nodes[1].Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonStuck, "/proc", nodes[1].At)
	set := setOf(t, "job")
	for _, n := range nodes {
		jobSectionOf(status.Of(&status.Inputs{Node: n}), n, set)
	}
	if s := jobSectionOf(status.Of(&status.Inputs{Node: nodes[1]}), nodes[1], set); s.Class != "unsure" || !strings.HasPrefix(s.Note, "Jobs are unknown") || len(s.Rows) != 1 {
		t.Errorf("%+v", s)
	}
}

// The setting that makes a job use TCP is named once, with the file that sets it, and not again as the cause.
func TestCauseOfTCPIsNamedOnce(t *testing.T) {
	for name, set := range map[string]string{"job-two": "NCCL_NET=Socket", "job-tcp": "NCCL_IB_DISABLE=1"} {
		s, err := simulator.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		l := pageAt(t, t, name, 0)
		nodes := simulatortest.Watch(t, s, 0, 15)
		l.Collectors.Jobs(nodes[0]) // jobs are judged by two readings
		var page strings.Builder
		if err := landingPage().Execute(&page, l.view(nodes[1])); err != nil {
			t.Fatal(err)
		}
		contains(t, page.String(), "A job uses TCP instead of RDMA")
		if n := strings.Count(page.String(), set); n != 1 {
			t.Errorf("%s: %s is there %d times", name, set, n)
		}
	}
}

// Programs get the same; if jobs are not looked for, the answer says so.
func TestJobsJSON(t *testing.T) {
	ask := func(set *collector.Set, n *fabric.Node) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		JobsJSON(func(context.Context) *fabric.Node { return n }, set, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/jobs.json", nil))
		return w
	}
	w := ask(setOf(t, "job"), withRanks())
	var d job.Document
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK || !d.Known || d.Jobs == nil || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v: %s", w.Code, err, w.Body)
	}
	without := withRanks()
	without.GPUDriver.Loaded = fabric.Known(false, "/proc/driver/nvidia/version", without.At)
	for why, w := range map[string]*httptest.ResponseRecorder{
		"the collector job is disabled by --no-collector.job":      ask(setOf(t, "hca"), withRanks()),
		"no NVIDIA driver is loaded (/proc/driver/nvidia/version)": ask(setOf(t, "job"), without),
	} {
		if w.Code != http.StatusNotFound || w.Body.String() != "jobs are not looked for: "+why+"\n" {
			t.Errorf("%d: %s, expected 404: %s", w.Code, w.Body, why)
		}
	}
}

// What logs of jobs show is explained, without a host, and never for certain: users write them.
func TestLogsOfJobs(t *testing.T) {
	n := withRanks()
	set := setOf(t, "job")
	section := func(last time.Time, ids ...string) string {
		var seen fabric.Failures
		for _, id := range ids {
			seen.Add(id, last, true)
		}
		n.Logs = fabric.Known(fabric.LogReading{Failures: seen}, "logs", n.At)
		return jobSectionOf(status.Of(&status.Inputs{Node: n}), n, set).Logged
	}
	got := section(n.At, "pytorch_watchdog_timeout", "async_event", "disk_full")
	if !strings.Contains(got, "show disk_full, likely: ") || !strings.Contains(got, "Next: ") {
		t.Errorf("%q", got)
	}
	for _, got := range []string{section(n.At), section(n.At, "async_event", "zzz"), section(n.At.Add(-2*time.Hour), "disk_full")} {
		if got != "" {
			t.Errorf("%q", got)
		}
	}
}
