// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
)

// mostGrowth is how many bytes may be left over after any number of rounds: a buffer or two that were in use
// before, or are now.
const mostGrowth = 128 << 10

// grows runs rounds and fails if they leave memory behind: few in each run of the tests, and full under
// FULL=1, as make load-test does. The first rounds, in which caches get their size, do not count.
func grows(t *testing.T, name string, few, full int, round func(i int)) {
	t.Helper()
	rounds := few
	if os.Getenv("FULL") != "" {
		rounds = full
	}
	next := 0 // of the rounds
	after := func(n int) float64 {
		for range n {
			round(next)
			next++
		}
		for range 3 { // pools are empty after the second one
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	begin := after(rounds/4 + 4)
	half := after(rounds / 2)
	end := after(rounds / 2)
	first, second := half-begin, end-half
	t.Logf("%-44s %5d rounds: %+8.1f KiB, %+8.1f KiB of them in the second half", name, rounds, (first+second)/1024, second/1024)
	if first+second > mostGrowth && second > mostGrowth/4 {
		t.Errorf("%s: %d rounds left %.1f KiB behind, the second half of them %.1f KiB", name, rounds, (first+second)/1024, second/1024)
	}
}

// life is a simulated node that is served, in fake time.
type life struct {
	t        *testing.T
	tree     *simulator.Tree
	settings string // its configuration
	watch    *inquiry.Watch
	*handler
}

// live has a scenario observed and served with all collectors, in a bubble of synctest.
func live(t *testing.T, tree *simulator.Tree, settings string) *life {
	t.Helper()
	l := &life{t: t, tree: tree, settings: settings}
	conf, err := config.Parse("site.yml", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ob, err := observer.New(observer.Options{
		Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Ranks: tree.Ranks(),
		Policy: conf.Policy, NCCL: conf.NCCL, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range collector.Collectors() {
		names = append(names, c.Name)
	}
	set, err := collector.NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := &Exporter{Site: new(site.Site), Web: Web{TelemetryPath: "/metrics", EnablePprof: true}}
	n := Node{Sysfs: tree.Sysfs(), Title: "node", Simulated: true, Config: func() (config.Config, error) { return config.Parse("site.yml", []byte(l.settings)) }}
	n.RAS = &inquiry.Options{
		Asker: progress.Asker{NetNS: simulator.HostNetNS, Version: func(c *fabric.RankCandidate) string { return c.Maps.Or(fabric.MappedFiles{}).Version }},
		Ask: func(_ context.Context, target progress.Target) (fabric.RASAnswer, error) {
			return tree.AskRAS(target.PID)
		},
	}
	l.watch = e.watch(ctx, n, set, ob, log)
	askIf(conf.AskRAS, l.watch, log)
	set = set.WithRAS(l.watch.Status)
	l.handler = newHandler(e, n, set, ob, newReloader(n, conf, ob, (*hostProber)(nil), nil, l.watch, log), log)
	t.Cleanup(func() {
		l.watch.Close()
		ob.Close()
		cancel()
	})
	return l
}

// get requests a path, and returns the status.
func (l *life) get(method, target string, header ...string) int {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Code
}

// look looks at everything that the exporter shows of a node.
func (l *life) look() {
	l.t.Helper()
	time.Sleep(10 * time.Second)
	for _, path := range []string{"/metrics", "/", "/status.json", "/jobs.json", "/probes", "/probes.json"} {
		if code := l.get(http.MethodGet, path); code != http.StatusOK {
			l.t.Fatal(path, code)
		}
	}
}

// laidOut lays a scenario out.
func laidOut(t *testing.T, name string) (simulator.Scenario, *simulator.Tree) {
	t.Helper()
	s, err := simulator.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(filepath.Join(t.TempDir(), "node"))
	if err != nil {
		t.Fatal(err)
	}
	return s, tree
}

// No request leaves memory behind, whatever it asks for and however.
func TestNoEndpointGrows(t *testing.T) {
	s, tree := laidOut(t, "job-tcp")
	synctest.Test(t, func(t *testing.T) {
		l := live(t, tree, s.ConfigOf(tree))
		l.look()
		for _, r := range l.routes() {
			method, path := r.request()
			if strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") {
				continue // it lasts a second and more, and nothing of it stays
			}
			variants := []func(i int){
				func(int) { l.get(method, path) },
				func(int) { l.get(method, path, "Accept-Encoding", "gzip") },
				func(int) { l.get(http.MethodHead, path) },
				func(int) { l.get(http.MethodPost, path, "Origin", "http://elsewhere") },
				func(int) { l.get(method, path, "Accept", "application/openmetrics-text;version=1.0.0") },
				func(i int) {
					l.get(method, path, "If-None-Match", strconv.Itoa(i), "Range", fmt.Sprintf("bytes=%d-", i))
				},
				func(i int) { l.get(method, path+fmt.Sprintf("?collect[]=none%d&name[]=n%d&%%zz=%d", i, i, i)) },
				func(i int) { l.get(method, fmt.Sprintf("%s/none%d", path, i)) },
				func(i int) {
					l.get(method, path+fmt.Sprintf("?name[]=n%d", i), "X-Prometheus-Scrape-Timeout-Seconds", strconv.Itoa(i))
				},
				func(i int) { l.get(method, path+"?collect[]="+collector.Collectors()[i%5].Name) },
			}
			grows(t, path, 6*len(variants), 2000, func(i int) { variants[i%len(variants)](i) })
		}
	})
}

// What was there and is no more leaves no memory behind.
func TestNothingStaysOfWhatWent(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make load-test runs it without")
	}
	for name, of := range map[string]struct {
		scenario  string
		few, full int
		round     func(l *life, i int)
	}{
		"devices that come and go": {"port-down", 8, 350, func(l *life, i int) {
			for _, change := range []func(string) error{l.tree.Remove, l.tree.Add} {
				if err := change("mlx5_" + strconv.Itoa(i%4)); err != nil {
					l.t.Fatal(err)
				}
				l.look()
			}
		}},
		"devices with new names": {"port-down", 8, 350, func(l *life, i int) {
			l.edit(func(n *simulator.Node) { n.HCAs[i%4].Name = fmt.Sprintf("mlx5_%d", 1000+i) })
			l.look()
		}},
		"jobs": {"job-tcp", 12, 350, func(l *life, i int) {
			l.edit(func(n *simulator.Node) { nextJob(n, i) })
			l.look()
		}},
		"logs": {"job-log-retries", 12, 350, func(l *life, i int) {
			l.edit(func(n *simulator.Node) {
				nextJob(n, i)
				for k := range n.Logs {
					if dir, ok := strings.CutSuffix(n.Logs[k].Path, filepath.Base(n.Logs[k].Path)); ok && !strings.Contains(n.Logs[k].Path, "kmsg") {
						n.Logs[k].Path = dir + "job-" + strconv.Itoa(i) + ".log"
					}
				}
			})
			l.look()
		}},
		"answers of RAS": {"job-hang", 2, 40, func(l *life, i int) {
			l.edit(func(n *simulator.Node) { nextJob(n, i) })
			for step := range 16 {
				if err := l.tree.Step(step * 10); err != nil {
					l.t.Fatal(err)
				}
				l.look()
			}
			if i == 0 && len(l.watch.Status().Jobs) == 0 {
				l.t.Error("no job is suspected")
			}
		}},
		"configurations": {"port-down", 8, 350, func(l *life, i int) {
			l.settings = fmt.Sprintf("expected: {compute_ports: %d}\nroles: [{device: mlx5_%d, role: unused}]\n", i+1, i)
			if i%3 == 0 {
				l.settings = "no: [such, " + strconv.Itoa(i)
			}
			if err := l.config.reload(l.t.Context(), false); (err != nil) != (i%3 == 0) {
				l.t.Fatal(l.settings, err)
			}
			l.look()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, tree := laidOut(t, of.scenario)
			synctest.Test(t, func(t *testing.T) {
				l := live(t, tree, s.ConfigOf(tree))
				grows(t, name, of.few, of.full, func(i int) { of.round(l, i) })
			})
		})
	}
}

func (l *life) edit(edit func(*simulator.Node)) {
	l.t.Helper()
	if err := l.tree.Edit(edit); err != nil {
		l.t.Fatal(err)
	}
}

// nextJob replaces the job of a node by another one.
func nextJob(n *simulator.Node, number int) {
	pid := func(old int) int { return 100_000 + number*100 + old%100 }
	for g := range n.GPUs {
		for p := range n.GPUs[g].Processes {
			n.GPUs[g].Processes[p].PID = pid(n.GPUs[g].Processes[p].PID)
		}
	}
	job := n.Jobs[0]
	job.Job = strconv.Itoa(5000 + number)
	job.Ranks = slices.Clone(job.Ranks)
	for r := range job.Ranks {
		is := &job.Ranks[r].Is
		is.PID = pid(is.PID)
		is.Workload.Value.Job = job.Job
	}
	n.Jobs[0] = job
}
