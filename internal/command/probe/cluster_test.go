// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
)

// withoutScheduler hides what may have started the test.
func withoutScheduler(t *testing.T) {
	for _, name := range []string{"PMI_FD", "RANK", "MASTER_ADDR", "JOB_COMPLETION_INDEX", "PMIX_RANK", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"} {
		t.Setenv(name, "")
	}
}

// Outside of an allocation nothing is measured.
func TestClusterRefuses(t *testing.T) {
	withoutScheduler(t)
	b := newProbeBench(t, 8)
	code, out, errs := b.run("cluster")
	if code != 2 || out != "" || !strings.Contains(errs, "not started by a scheduler") || b.started > 0 {
		t.Errorf("exit code %d, %d ranks: %s%s", code, b.started, out, errs)
	}
	t.Setenv("PMIX_RANK", "0")
	if code, _, errs = b.run("cluster"); code != 2 || !strings.Contains(errs, "--mpi=pmi2") {
		t.Errorf("PMIx: exit code %d: %s", code, errs)
	}
	for _, args := range [][]string{{"cluster", "--op=reduce"}, {"cluster", "--bytes=8:16"}, {"node", "--drain-list"}, {"--seed=7"}, {"node", "--all-nodes"}, {"cluster", "--wait=1ms"}, {"cluster", "--push=http://user:secret@gateway:9091"}} {
		if code, _, errs := b.run(args...); code != 3 {
			t.Errorf("%q: exit code %d: %s", args, code, errs)
		}
	}
}

// A dry run says what it would cost, and starts nothing.
func TestClusterDryRun(t *testing.T) {
	withoutScheduler(t)
	t.Setenv("PMI_SIZE", "64")
	b := newProbeBench(t, 8)
	code, out, errs := b.run("cluster", "--dry-run", "--seed=7")
	if code != 0 || b.started > 0 {
		t.Errorf("exit code %d, %d ranks: %s", code, b.started, errs)
	}
	if strings.Contains(out, "all nodes together") {
		t.Error(out)
	}
	if _, out, _ := b.run("cluster", "--dry-run", "--all-nodes"); !strings.Contains(out, "then all nodes together, each GPU sends at most 43690 MiB within 5m0s") {
		t.Errorf("with all nodes together: %s", out)
	}
	commandtest.Contains(t, out, "64 nodes; each pair sends 2 GiB over each rail and 16 GiB over all", "at most 8 rounds", "seed 7",
		"rail 0: mlx5_0 port 1 with GPU", "all together: 8 GPUs")
}

// reported is a run with one of each verdict.
func reported() *cluster.Report {
	share := func(a, b float64) map[int]cluster.Share {
		return map[int]cluster.Share{0: {BusBW: a * 1e9, Ratio: a / 48}, search.All: {BusBW: b * 1e9, Ratio: b / 380}}
	}
	return &cluster.Report{
		Started: time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC), Wall: 94, By: "PMI", Size: 4, Rounds: 4, Missing: []int{3},
		Refused: map[wire.Reason]int{wire.ReasonSecret: 2},
		Nodes: []cluster.Node{
			{Name: "n0", Rails: []string{"mlx5_0"}, Shares: share(48, 380)},
			{Name: "n1", Rails: []string{"mlx5_0"}, Shares: share(44, 380)},
			{Name: `n"<2>`, Rails: []string{"mlx5_0"}},
		},
		Differences: []cluster.Difference{{What: "MTU", Most: "4096", Other: "1500", Nodes: []string{"n1"}}},
		Results:     []cluster.Result{{Round: 1, A: "n0", B: "n1", Rail: 0, BusBW: 44e9}, {Round: 1, A: "n0", B: `n"<2>`, Rail: search.All, Failure: "hang", Error: "rank 8 hangs"}},
		Verdicts: []cluster.Verdict{
			{Subject: search.OfRail, Level: search.Bad, Node: "n1", Rail: 0, Device: "mlx5_0", Loss: 0.083, Why: "confirmed"},
			{Subject: search.OfNode, Level: search.Failed, Node: `n"<2>`, Rail: search.All, Loss: 1, Failure: "hang", Why: "confirmed"},
		},
		AllNodes: &cluster.Whole{Nodes: []string{"n0", "n1"}, Result: &probes.Result{GPUs: make([]string, 16), Measurements: []probes.Measurement{
			{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 30, Count: 1 << 28, Ranks: 16, Iterations: 5, Time: 0.005, AlgBW: 214.75e9, BusBW: 402.65e9},
			{Op: probes.AllToAll, Type: probes.Float32, Bytes: 1 << 30, Count: 1 << 24, Ranks: 16, Iterations: 5, Time: 0.02, AlgBW: 53.69e9, BusBW: 50.33e9, Wrong: 3},
		}}},
	}
}

func TestClusterText(t *testing.T) {
	var b bytes.Buffer
	if err := writeCluster(&b, reported()); err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, b.String(), "3 of 4 nodes came (by PMI), 4 rounds in 94 s", "missing: processes [3]", "refused: 2 connections (secret)",
		"differs: MTU: 1500; most have 4096: n1", "44  92%", "rail bad: n1, rail 0 (mlx5_0): 8.3 % below others; confirmed", "node failed: n", "rank 8 hangs",
		"all nodes together: 2 nodes, 16 ranks, path unknown\n# all_reduce\n", "1073741824    268435456   float32     sum       5     5000.00    214.75    402.65        0\n# alltoall\n",
		"1073741824     16777216   float32    none       5    20000.00     53.69     50.33        3\n")
}

func TestClusterPage(t *testing.T) {
	var b bytes.Buffer
	if err := writeClusterPage(&b, reported()); err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, b.String(), `<td class="bad" title="bad">44  92%</td>`, `<td class="failed" title="failed">-</td>`, "2026-11-29 01:02:03 UTC", "n&#34;&lt;2&gt;",
		`<th scope="row">alltoall</th><td>1073741824</td><td>16777216</td><td>float32</td><td>none</td><td>20000.00</td><td>53.69</td><td>50.33</td><td>3</td>`)
	commandtest.Lacks(t, b.String(), "<2>", "http://", "https://", "<script")
}

// What is written and what is pushed are the same metrics. A Pushgateway that does not answer is named, and hides no fault.
func TestClusterTell(t *testing.T) {
	var put []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		put = append(put, r.Method+" "+r.URL.Path, string(body))
	}))
	defer gateway.Close()
	file := filepath.Join(t.TempDir(), "cluster.prom")
	p := &probing{flags: options{cluster: clusterOptions{textfile: file, push: gateway.URL, drainList: true}}}
	var out bytes.Buffer
	if err := p.tell(t.Context(), &command.Call{Stdout: &out}, reported()); err != nil {
		t.Fatal(err)
	}
	if want := "n\"<2>\nn1\n"; out.String() != want {
		t.Errorf("to drain: %q, expected %q", out.String(), want)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, string(text), `gpufabric_cluster_probe_fault_ratio{device="mlx5_0",level="bad",partner="",probed_node="n1",rail="0",subject="rail"} 0.083`)
	if len(put) != 2 || put[0] != "PUT /metrics/job/gpufabric_cluster_probe" || !strings.Contains(put[1], "gpufabric_cluster_probe_fault_ratio") {
		t.Errorf("pushed %q", put)
	}
	gateway.Close()
	if err := p.tell(t.Context(), &command.Call{Stdout: &out}, reported()); err == nil || !strings.Contains(err.Error(), "--push") {
		t.Errorf("%v", err)
	}
}

// What a Pushgateway answers is neither printed whole nor followed to a page that takes nothing.
func TestPushAnswers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"long": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("x", 4<<20))
		},
		"login": func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				http.Redirect(w, r, "/login", http.StatusFound)
			}
		},
	} {
		g := httptest.NewServer(answer)
		if err := pushMetrics(t.Context(), g.URL, []byte("up 1\n")); err == nil || len(err.Error()) > 1024 {
			t.Errorf("%s: %.100v", name, err)
		}
		g.Close()
	}
}

// A secret that all users can read keeps nobody out.
func TestExposedSecret(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := filepath.Join(t.TempDir(), "secret")
	o := &clusterOptions{secretFile: file}
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o606: true} {
		if err := errors.Join(os.WriteFile(file, []byte("0123456789abcdef"), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		if got := o.exposed(); (got != "") != want {
			t.Errorf("%o: %q", mode, got)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // of a container
	if got := o.exposed(); got != "" {
		t.Error(got)
	}
}

func TestClusterCode(t *testing.T) {
	whole := &cluster.Report{Size: 1, Nodes: []cluster.Node{{Name: "a", Shares: map[int]cluster.Share{0: {}}}}}
	if code := clusterCode(whole); code != 0 {
		t.Errorf("healthy: %d", code)
	}
	for level, want := range map[search.Level]int{search.Slow: 1, search.Bad: 1, search.Failed: 1, search.Unknown: 2} {
		whole.Verdicts = []cluster.Verdict{{Level: level}}
		if code := clusterCode(whole); code != want {
			t.Errorf("%s: %d, expected %d", level, code, want)
		}
	}
	whole.Verdicts, whole.Error = nil, "ended"
	if code := clusterCode(whole); code != 2 {
		t.Errorf("not finished: %d", code)
	}
}

func TestAllocatedGPUs(t *testing.T) {
	for list, want := range map[string]int{"": 0, "0-7": 8, "0,1,2": 3, "0-3,6": 5, "x": 0, "0-": 0} {
		if got := allocatedGPUs(func(name string) string { return map[string]string{"SLURM_JOB_GPUS": list}[name] }); got != want {
			t.Errorf("%q: %d, expected %d", list, got, want)
		}
	}
}
