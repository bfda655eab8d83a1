// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

// probedAt is the time at which these tests request the pages.
func probedAt() time.Time { return time.Unix(1_700_000_000, 0) }

func probedResult(kind probes.Kind, ago time.Duration) probes.Result {
	at := probedAt().Add(-ago)
	return probes.Result{
		Key: probes.Key{Kind: kind}, At: at, Wall: 3.2, GPUTime: 24, GPUs: []string{"GPU-a", "GPU-b"}, Outcome: probes.OK,
		NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0", Path: probes.Known(probes.PathP2P, "NCCL log", at), Network: "IB",
		GPUDirect: probes.Known(true, "NCCL log", at), NVLS: probes.Known(false, "NCCL log", at), SHARP: probes.UnknownFact[bool](fabric.ReasonMissing, "NCCL log", at),
		Channels: probes.Known(4, "NCCL log", at), Init: 1.2, Connect: 0.09,
		Measurements: []probes.Measurement{
			{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 10, Count: 256, Ranks: 2, Iterations: 20, Time: 14e-6, DeviceTime: probes.Known(probes.Seconds(12e-6), "CUDA", at), AlgBW: 73e6, BusBW: 73e6},
			{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Count: 16 << 20, Ranks: 2, Iterations: 12, Time: 340e-6, AlgBW: 197e9, BusBW: 197e9},
		},
		Comparison: probes.Comparison{
			Fingerprint: "node all_reduce float32", Samples: 40, Median: probes.Known(200e9, "baseline", at), MAD: probes.Known(1e9, "baseline", at), Ratio: probes.Known(0.985, "baseline", at),
			Best: probes.Known(201e9, "baseline", at),
			Latency: &probes.LatencyComparison{
				Samples: 40, Median: probes.Known(probes.Seconds(13e-6), "baseline", at), MAD: probes.Known(probes.Seconds(500e-9), "baseline", at),
				Ratio: probes.Known(1.08, "baseline", at),
			},
		},
		Expected: probes.AbsentFact[float64]("plan", at), Release: probes.Known(probes.Seconds(0.24), "NVML", at),
		Settings: []string{"NCCL_DEBUG=INFO", "NCCL_IB_TC=106"}, Log: "node17:1:1 [0] NCCL INFO Using network IB\n",
	}
}

// probedStatus has a probe that is well, one that fell back to TCP, one that fails, and one that never ran.
func probedStatus() probes.Status {
	now := probedAt()
	node := probedResult(probes.Node, time.Hour)

	before, rail := probedResult(probes.Rail, 30*time.Hour), probedResult(probes.Rail, 2*time.Hour)
	rail.Path, rail.Network, rail.GPUDirect = probes.Known(probes.PathSocket, "NCCL log", now), "Socket", probes.AbsentFact[bool]("NCCL log", now)
	rail.Settings = []string{"NCCL_DEBUG=INFO", "NCCL_IB_DISABLE=1"}
	rail.Measurements, rail.Comparison.Latency = rail.Measurements[1:], nil
	rail.Measurements[0].BusBW = 5e9
	rail.Comparison.Ratio, rail.Comparison.Regressed = probes.Known(0.025, "baseline", now), true
	rail.Comparison.Below, rail.Comparison.Collapsed = 4, 3
	rail.Expected = probes.Known(0.11, "plan", now)
	key := probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}
	before.Key, rail.Key = key, key

	failed := probes.Result{
		Key: probes.Key{Kind: probes.Socket}, At: now.Add(-20 * time.Minute), Wall: 30, GPUTime: 58, GPUs: []string{"GPU-a", "GPU-b"},
		Outcome: probes.Failed, Failure: probes.FailureHang, Error: "rank 1: connect: no answer within 21s; NCCL warned: socketStartConnect: Connect to 10.0.0.7<41> failed",
		NCCL: "2.28.3", Log: "node17:1:1 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.7<41> failed\n", Settings: []string{"NCCL_DEBUG=INFO"},
	}
	aborted := failed
	aborted.Outcome, aborted.Failure, aborted.Error, aborted.At = probes.Aborted, probes.FailureIntruder, "compute process 4711 came to the GPUs", now.Add(-time.Hour)
	aborted.Intrusion = &probes.Intrusion{Who: "compute process 4711", Killed: 0.003, Gone: 0.041}
	aborted.Left = "500 MiB are used on GPU-a, expected 64 at most: context deadline exceeded"
	socketGood := probedResult(probes.Socket, 26*time.Hour)

	return probes.Status{
		Enabled: true, Since: now.Add(-100 * time.Hour), GPUs: 2, GPUTime: 5 * time.Minute,
		Probes: []probes.ProbeStatus{
			{
				Key: probes.Key{Kind: probes.Transport}, Every: 2 * time.Hour, LastSkip: &probes.Skipped{Why: probes.SkipSlurm, Detail: "1 job, 4242 is one", At: now.Add(-3 * time.Minute)},
				Skips: map[probes.Skip]uint64{probes.SkipSlurm: 14, probes.SkipDuty: 1}, NextRun: now.Add(7 * time.Minute),
			},
			{Key: node.Key, Every: 4 * time.Hour, Runs: 44, Judged: 39, Slow: 2, Late: 1, Last: &node, LastGood: &node, LastRun: node.At, NextRun: now.Add(3 * time.Hour), Baselines: 1},
			{Key: key, Every: 12 * time.Hour, Runs: 9, Last: &rail, LastGood: &rail, Before: &before, Kept: []probes.Result{rail}, LastRun: rail.At, NextRun: now.Add(10 * time.Hour), Baselines: 2},
			{
				Key: failed.Key, Runs: 5, Failures: map[probes.Failure]uint64{probes.FailureHang: 2, probes.FailureIntruder: 1}, Wrong: 3,
				Last: &failed, LastGood: &socketGood, Kept: []probes.Result{aborted, failed}, LastRun: failed.At,
			},
		},
	}
}

func pagesOf(s probes.Status, c *probes.Config) *Probes {
	return NewProbes(ProbesOptions{
		Title: "node17", Status: func() probes.Status { return s }, Config: func() *probes.Config { return c }, Log: slog.New(slog.DiscardHandler),
		Observe: func(context.Context) *fabric.Node { return fabrictest.Healthy() },
	})
}

func pageText(t *testing.T, p *Probes) string {
	t.Helper()
	var b strings.Builder
	v := p.view(fabrictest.Healthy(), nil, probedAt())
	v.CSS, v.Version = "", ""
	if err := probesPage().Execute(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func jsonText(t *testing.T, s probes.Status, c *probes.Config) string {
	t.Helper()
	text, err := json.MarshalIndent(statusJSON(s, c, probedAt()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// The page and the JSON of some results, to the letter.
func TestProbesPage(t *testing.T) {
	c := probes.DefaultConfig()
	page := pageText(t, pagesOf(probedStatus(), &c))
	golden(t, "testdata/probes.html", page)
	contains(t, page, "2 of 4 probes have a problem", "uses socket", "0.042 % of the time of 2 GPUs, 0.1 % allowed", "far slower than before", "below 80 % of its baseline 3 times in a row", "39 compared with a baseline (2 slow, 1 late)", "14.00 µs<small>all_reduce of 1 KiB, 108 % of its baseline",
		"idle 240ms after its ranks were killed or asked to close", "not confirmed idle: 500 MiB are used on GPU-a", "2.5 %", "in 3 hours", "3 minutes ago: 1 job,",
		"<th scope=\"row\">path</th><td>p2p</td><td>socket</td>", "<th scope=\"row\">NCCL_IB_TC</th><td>106</td><td>not set</td>",
		"bus bandwidth</th><td>197 GB/s</td><td>5 GB/s (-97 %)</td>", "Connect to 10.0.0.7&lt;41&gt; failed", "ranks killed after 3ms, exited after 41ms",
		"14 times", "64 MiB", "<strong>Kept</strong>")
	lacks(t, page, "ZgotmplZ", "&lt;no value", "<script", "http://", "https://")

	body := jsonText(t, probedStatus(), &c)
	golden(t, "testdata/probes.json", body)
}

// What is not known, or never was, is no 0 on the page and null in the JSON.
func TestProbesPageKnowsNothing(t *testing.T) {
	c := probes.DefaultConfig()
	for name, test := range map[string]struct {
		status probes.Status
		config *probes.Config
		want   []string
	}{
		"off":     {probes.Status{}, nil, []string{"Probes are disabled", "does not enable probes"}},
		"at once": {probes.Status{Enabled: true, Since: probedAt()}, &c, []string{"No probe has run yet", "0.0 s of GPU time"}},
		"by hand": {probes.Status{Since: probedAt()}, &c, []string{"Probes run on demand only"}},
		"state":   {probes.Status{Enabled: true, State: fabric.ReasonMalformed}, &c, []string{"The probe history is not saved", "State file /var/lib/gpufabric_exporter/probes.json: "}},
		"bare":    {probes.Status{Enabled: true, Probes: []probes.ProbeStatus{{Key: probes.Key{Kind: probes.Node}, Last: &probes.Result{At: probedAt()}}}}, &c, []string{"unknown"}},
		"no GPU": {
			probes.Status{Enabled: true, Probes: []probes.ProbeStatus{{Key: probes.Key{Kind: probes.Node}, LastSkip: &probes.Skipped{Why: probes.SkipNoGPU, Detail: "no GPU driver is loaded", At: probedAt()}}}},
			&c,
			[]string{"No probe has run yet", "<p>No GPU driver is loaded. The driver must be loaded"},
		},
		"no device": {probes.Status{Enabled: true, Probes: []probes.ProbeStatus{{Key: probes.Key{Kind: probes.Rail}, Every: time.Hour}}}, &c, []string{"not due"}},
	} {
		t.Run(name, func(t *testing.T) {
			page := pageText(t, pagesOf(test.status, test.config))
			contains(t, page, test.want...)
			lacks(t, page, "0001-01-01", "ZgotmplZ", "NaN", "Inf")
			lacks(t, jsonText(t, test.status, test.config), "0001-01-01", `"gpudirect_rdma": false`, `"channels": 0`)
		})
	}
}

// Hostile logs, libraries and nodes add no markup to the page, and do not make it larger than what a Prober keeps.
func TestProbesPageEscapes(t *testing.T) {
	const evil = `</style></pre><script>alert("1")</script>'"{{.}}` + "\x1b[2J"
	r := probedResult(probes.Kind(evil), time.Hour)
	r.Device, r.Error, r.NCCL, r.Driver, r.CUDA, r.Network, r.Log = evil, evil, evil, evil, evil, evil, strings.Repeat(evil+"\n", 16<<10/len(evil))
	r.Outcome, r.Failure, r.Path.Value = probes.Failed, probes.Failure(evil), probes.Path(evil)
	r.GPUs, r.Comparison.Fingerprint, r.Intrusion = []string{evil}, evil, &probes.Intrusion{Who: evil}
	r.Measurements[0].Op, r.Measurements[0].Type = probes.Op(evil), probes.DType(evil)
	for i := range 100 {
		r.Settings = append(r.Settings, fmt.Sprint("NCCL_", i, "=", evil, strings.Repeat("x", 400)))
	}
	other := r
	other.NCCL, other.Settings = "2.27.3", []string{evil + "=" + evil}
	older := r
	older.At = r.At.Add(-time.Hour)
	s := probes.Status{Enabled: true, State: fabric.Reason(evil)}
	for i := range 8 {
		s.Probes = append(s.Probes, probes.ProbeStatus{
			Key: probes.Key{Kind: probes.Rail, Device: evil, Port: i}, Last: &r, LastGood: &other, Kept: []probes.Result{older, older, older, older, r},
			LastSkip: &probes.Skipped{Why: probes.Skip(evil), Detail: evil, At: probedAt()}, Skips: map[probes.Skip]uint64{probes.Skip(evil): 1},
			Failures: map[probes.Failure]uint64{probes.Failure(evil): 1},
		})
	}
	c := probes.DefaultConfig()
	c.NCCL, c.EnvFile = evil, evil
	p := pagesOf(s, &c)
	p.Title = evil
	w := httptest.NewRecorder()
	p.ServePage(w, httptest.NewRequest(http.MethodGet, "/probes", nil))
	page := w.Body.String()
	if w.Code != http.StatusOK || strings.Count(page, "</style>") != 1 {
		t.Errorf("status %d, %d styles", w.Code, strings.Count(page, "</style>"))
	}
	if len(page) > 16<<20 {
		t.Errorf("%d MiB", len(page)>>20)
	}
	for _, markup := range []string{"<script", "ZgotmplZ", `title="</style`} {
		if strings.Contains(page, markup) {
			t.Errorf("has %q", markup)
		}
	}
	if n := strings.Count(page, "&lt;script&gt;"); n < 1000 {
		t.Errorf("%d escaped texts", n)
	}
	w = httptest.NewRecorder()
	p.ServeJSON(w, nil)
	if !json.Valid(w.Body.Bytes()) || strings.Contains(w.Body.String(), "<script") {
		t.Error("the JSON is none, or has markup")
	}
}

// The example in the document has the defaults, and the document names everything that results can say.
func TestDocumentOfProbes(t *testing.T) {
	raw, err := os.ReadFile("../../docs/PROBES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no example")
	}
	c, err := config.Parse("docs/PROBES.md", []byte(example))
	if err != nil || c.Probes == nil || !reflect.DeepEqual(*c.Probes, probes.DefaultConfig()) {
		t.Errorf("%+v, %v", c.Probes, err)
	}
	for _, list := range [][]string{
		spelling.Names(probes.Kinds()), spelling.Names(probes.Ops()), spelling.Names(probes.DTypes()), spelling.Names(probes.Failures()), spelling.Names(probes.Skips()), spelling.Names(probes.Paths()),
	} {
		for _, name := range list {
			if !strings.Contains(string(raw), "`"+name+"`") && !strings.Contains(string(raw), " "+name) {
				t.Errorf("%s is not named", name)
			}
		}
	}
	var skipped map[string]any
	if text, err := json.Marshal(probes.Skipped{}); err != nil || json.Unmarshal(text, &skipped) != nil {
		t.Fatal(err)
	}
	for name := range skipped {
		if !strings.Contains(string(raw), name) {
			t.Errorf("the document does not have %q", name)
		}
	}
	for _, v := range []any{
		probesStatusJSON{},
		probeStateJSON{},
		probeChangedJSON{},
		probes.Result{},
		probes.Key{},
		probes.Intrusion{},
		probes.Measurement{},
		probes.Comparison{},
		probes.LatencyComparison{},
		probes.Change{},
	} {
		for field := range reflect.TypeOf(v).Fields() {
			if field.Anonymous {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || !strings.Contains(string(raw), name) {
				t.Errorf("%T: the document does not have %q", v, name)
			}
		}
	}
}

// What others chose neither hides nor turns what the page shows, in any cell, title or log; the lines of a log stay.
func TestProbesPageIsLegible(t *testing.T) {
	const evil = "a\x1b[31m\a\u202eb"
	s := probedStatus()
	for i := range s.Probes {
		if r := s.Probes[i].Last; r != nil {
			r.Comparison.Fingerprint, r.Network, r.Error, r.Settings, r.Log = evil, evil, evil, []string{evil}, "one\n\ttwo "+evil+"\n"
		}
	}
	p := pagesOf(s, nil)
	for name, serve := range map[string]http.HandlerFunc{"page": p.ServePage, "JSON": p.ServeJSON} {
		w := httptest.NewRecorder()
		serve(w, httptest.NewRequest(http.MethodGet, "/probes", nil))
		if body := w.Body.String(); w.Code != http.StatusOK || strings.ContainsAny(body, "\x1b\a\u202e") {
			t.Errorf("%s: %d: control characters are left", name, w.Code)
		} else if name == "page" && !strings.Contains(body, "one\n\ttwo a\uFFFD[31m\uFFFD\uFFFDb\n") {
			t.Errorf("the log is not as it was:\n%s", body)
		}
	}
}

// Whoever states that a node has ports for training, its probes over TCP are wrong; on a guess they may be as
// they should.
func TestRailsAreStated(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(n *fabric.Node)
		want bool
	}{
		"guesses": {func(n *fabric.Node) { n.Policy.Roles = nil }, false},
		"roles":   {func(*fabric.Node) {}, true},
		"NCCL_IB_HCA": {func(n *fabric.Node) {
			n.Policy.Roles, n.NCCL.Variables = nil, []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "mlx5_0"}}
		}, true},
		"compute_ports": {func(n *fabric.Node) { n.HCAs, n.Policy.ComputePorts = nil, new(2) }, true},
	} {
		n := fabrictest.Healthy()
		c.edit(n)
		n.DerivePorts()
		r := probedResult(probes.Rail, 0)
		r.Path = probes.Known(probes.PathSocket, "NCCL log", r.At)
		if got := status.ProbesOf([]probes.ProbeStatus{{Last: &r}}, n, nil)[0].TCP; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
