// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
)

// BenchmarkScrape is what a scrape costs on a simulated H100 node with eight compute ports, two of storage and a bond,
// and eight GPUs with 18 NVLinks each, its drivers answering in this process (the cost of the worker that
// queries GPUs is measured with it): the usual one, which reads fast facts and statistics anew, the one in a
// minute that reads slow facts too, and the mean of a minute, four scrapes. cpu-us/scrape counts all threads,
// garbage collection included.
func BenchmarkScrape(b *testing.B) {
	for _, c := range []struct{ name, collectors, devices string }{
		{"default", "", ".*"},
		{"hca+counters", "hca counters", ".*"},
		{"roce+ethernet", "roce ethernet", ".*"},
		{"roce+ethernet, 8 ports", "roce ethernet", computePorts},
		{"gpus", "gpu nvlink gpudirect", ".*"},
		{"gpus+links", "gpu nvlink nvlink_links gpudirect", ".*"},
	} {
		names := strings.Fields(c.collectors)
		if c.collectors == "" {
			for _, about := range collector.Collectors() {
				if about.Default {
					names = append(names, about.Name)
				}
			}
		}
		usual := benchHandler(b, names, c.devices, time.Hour)
		slow := benchHandler(b, names, c.devices, time.Nanosecond)
		for _, k := range []struct {
			name  string
			turns []http.Handler
		}{{"usual", []http.Handler{usual}}, {"slow", []http.Handler{slow}}, {"minute", []http.Handler{usual, usual, usual, slow}}} {
			b.Run(c.name+"/"+k.name, func(b *testing.B) { benchScrapes(b, "identity", k.turns) })
			if c.collectors == "" {
				b.Run(c.name+", gzip/"+k.name, func(b *testing.B) { benchScrapes(b, "gzip", k.turns) })
			}
		}
	}
}

// computePorts are eight of the devices of the simulated node.
const computePorts = "mlx5_[0-7]"

// benchScrapes scrapes handlers in turn.
func benchScrapes(b *testing.B, encoding string, turns []http.Handler) {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	n := 0
	scrape := func() string {
		w := httptest.NewRecorder()
		turns[n%len(turns)].ServeHTTP(w, r)
		n++
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
		return w.Body.String()
	}
	series := 0
	for range 2 * len(turns) {
		series = strings.Count(scrape(), "\ngpufabric_")
	}
	r.Header.Set("Accept-Encoding", encoding)
	n = 0
	begin := cpuTime(b)
	for b.Loop() {
		scrape()
	}
	cpu := float64(cpuTime(b)-begin) / float64(n)
	b.ReportMetric(cpu/1e3, "cpu-us/scrape")
	b.ReportMetric(cpu/1e3/float64(series), "cpu-us/series")
	b.ReportMetric(float64(series), "series")
}

func benchHandler(b *testing.B, collectors []string, devices string, slow time.Duration) http.Handler {
	b.Helper()
	s, err := simulator.Find("healthy")
	if err != nil {
		b.Fatal(err)
	}
	tree, err := s.Build().Materialise(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	conf, err := config.Parse("", []byte(s.Config()))
	if err != nil {
		b.Fatal(err)
	}
	set, err := collector.NewSet(collectors)
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ob, err := observer.New(observer.Options{
		Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: keptStatistics{tree.Ethernet(), map[string][]fabric.Counter{}}, Policy: conf.Policy,
		Devices:      fabric.Filter{Include: regexp.MustCompile("^(" + devices + ")$")},
		GPUs:         &keptGPUs{GPUs: tree.GPUs()},
		FastInterval: time.Nanosecond, MediumInterval: time.Nanosecond, SlowInterval: slow, Log: log,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ob.Close)
	e := &Exporter{Site: new(site.Site), Web: Web{TelemetryPath: "/metrics", DisableExporterMetrics: true}}
	return newHandler(e, Node{Simulated: true}, set, ob, newReloader(Node{}, conf, ob, (*hostProber)(nil), nil, nil, log), log)
}

// keptStatistics has the statistics of simulated interfaces ready, as a kernel has: making them up would cost
// more than all that is measured.
type keptStatistics struct {
	*simulator.EthernetDrivers
	known map[string][]fabric.Counter
}

func (a keptStatistics) Statistics(netdev string, wanted func(string) bool, now time.Time) (_ []fabric.Counter, err error) {
	if a.known[netdev] == nil {
		a.known[netdev], err = a.EthernetDrivers.Statistics(netdev, wanted, now)
	}
	return slices.Clone(a.known[netdev]), err
}

// keptGPUs has the answers about simulated GPUs ready, as a worker has.
type keptGPUs struct {
	observer.GPUs
	known fabric.GPUDriver
}

func (g *keptGPUs) Read(_ fabric.GPUDriver, _ bool, now time.Time) (_ fabric.GPUDriver, err error) {
	if g.known.GPUs == nil {
		g.known, err = g.GPUs.Read(fabric.GPUDriver{}, true, now)
	}
	return g.known, err
}

// cpuTime is the CPU time of the process in nanoseconds.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
