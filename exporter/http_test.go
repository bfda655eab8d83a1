// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMetrics(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	status, body, header := p.Get("/metrics")
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%d %s", status, header)
	}
	contains(t, body, `gpufabric_hca_port_state{device="mlx5_0",port="1",state="active"} 1`, "gpufabric_scrape_collector_success", "gpufabric_exporter_config_last_reload_successful 1",
		"go_goroutines ", "process_open_fds ", "promhttp_metric_handler_requests_in_flight 1", "gpufabric_exporter_build_info{")
	last := ""
	for line := range strings.Lines(body) {
		if name, found := strings.CutPrefix(line, "# TYPE "); found {
			name, _, _ = strings.Cut(name, " ")
			if name <= last {
				t.Errorf("%s after %s: not sorted, or twice", name, last)
			}
			last = name
		}
	}
}

func TestOpenMetrics(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	_, body, header := p.Get("/metrics", "Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
	if c := header.Get("Content-Type"); !strings.HasPrefix(c, "application/openmetrics-text; version=1.0.0") {
		t.Errorf("content type %q", c)
	}
	if !strings.HasSuffix(body, "\n# EOF\n") {
		t.Errorf("ends with %q", body[max(0, len(body)-100):])
	}
}

func TestDisableExporterMetrics(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.disable-exporter-metrics")
	_, body, _ := p.Get("/metrics")
	lacks(t, body, "\ngo_", "\nprocess_", "\npromhttp_")
	contains(t, body, "\ngpufabric_exporter_build_info{", "gpufabric_hca_port_state", "gpufabric_exporter_config_last_reload_successful 1")
	for range 2 { // the names in one request do not apply to the next
		_, body, _ = p.Get("/metrics?name[]=gpufabric_hca_port_state")
		lacks(t, body, "build_info")
	}
	_, body, _ = p.Get("/metrics?name[]=gpufabric_exporter_build_info")
	contains(t, body, "gpufabric_exporter_build_info{")
	lacks(t, body, "gpufabric_hca_port_state")
}

func TestSelectCollectors(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--no-collector.nccl")
	has := func(query string, want ...string) {
		t.Helper()
		status, body, _ := p.Get("/metrics?" + query)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", query, status, body)
		}
		for _, name := range []string{"hca", "gid", "nccl"} {
			wanted := strings.Contains(" "+strings.Join(want, " ")+" ", " "+name+" ")
			if strings.Contains(body, `gpufabric_scrape_collector_success{collector="`+name+`"}`) != wanted {
				t.Errorf("%s: collector %s: want it %v", query, name, wanted)
			}
		}
	}
	has("", "hca", "gid")
	has("collect[]=gid", "gid")
	has("collect[]=gid&collect[]=hca&collect[]=gid", "gid", "hca")
	has("exclude[]=gid", "hca")
	for query, want := range map[string]string{
		"collect[]=nosuch":              `"nosuch", expected one of: hca, gid`,
		"exclude[]=nosuch":              `"nosuch", expected one of: hca, gid`,
		"collect[]=hca&collect[]=nccl":  `"nccl", expected one of: hca, gid`, // disabled
		"collect[]=%3Cb%3E":             `"<b>"`,
		"collect[]=hca&exclude[]=gid":   "collect[] and exclude[]: expected at most one",
		"collect[]=hca&exclude[]=other": "collect[] and exclude[]: expected at most one",
	} {
		status, body, header := p.Get("/metrics?" + query)
		if status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q", query, status, body)
		}
		if !strings.HasPrefix(header.Get("Content-Type"), "text/plain") || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", query, header)
		}
	}
	if _, body, _ := p.Get("/metrics?name[]=gpufabric_hca_port_state"); strings.Contains(body, "go_goroutines") || !strings.Contains(body, "gpufabric_hca_port_state{") {
		t.Errorf("name[]:\n%s", body)
	}
}

func TestScrapeTimeout(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":          10 * time.Second,
		"15":        14500 * time.Millisecond,
		"1.25":      750 * time.Millisecond,
		"0.5":       100 * time.Millisecond,
		"0.000001":  100 * time.Millisecond,
		"0":         10 * time.Second,
		"-3":        10 * time.Second,
		"NaN":       10 * time.Second,
		"3600":      59500 * time.Millisecond, // one that waits for what hangs has a place for so long
		"+Inf":      59500 * time.Millisecond,
		"1e300":     59500 * time.Millisecond,
		"10s":       10 * time.Second,
		"garbage\n": 10 * time.Second,
	} {
		h := http.Header{}
		if header != "" {
			h.Set("X-Prometheus-Scrape-Timeout-Seconds", header)
		}
		if got := scrapeTimeout(h, 500*time.Millisecond); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestScrapeDeadline(t *testing.T) {
	ob := &fakeObserver{node: healthy, asked: make(chan context.Context, 16)}
	p := start(t, ob)
	<-ob.asked
	begin := time.Now()
	p.Get("/metrics", "X-Prometheus-Scrape-Timeout-Seconds", "3.5")
	deadline, ok := (<-ob.asked).Deadline()
	if d := deadline.Sub(begin); !ok || d < 3*time.Second || d > 3*time.Second+time.Since(begin) {
		t.Errorf("deadline after %s", d)
	}
}

func TestMethods(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"HEAD", "/metrics", 200, ""},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"DELETE", "/", 405, "GET, HEAD"},
		{"POST", "/-/healthy", 405, "GET, HEAD"},
		{"GET", "/-/reload", 405, "POST"},
		{"POST", "/-/reload", 200, ""},
		{"GET", "/nosuch", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"GET", "/debug/pprof/cmdline", 404, ""},
	} {
		status, _, header := p.Do(test.method, test.path)
		if status != test.status || header.Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, allow %q", test.method, test.path, status, header.Get("Allow"))
		}
	}
	if status, _, _ := p.Do("POST", "/-/reload", "Origin", "https://elsewhere.example.com"); status != http.StatusForbidden {
		t.Errorf("reload from another site: %d", status)
	}
}

func TestMaxRequests(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{}), asked: make(chan context.Context, 16)}
	p := start(t, ob, "--web.max-requests=1")
	<-ob.asked
	done := make(chan int)
	go func() {
		r, err := p.Client.Get(p.URL + "/metrics")
		if err != nil {
			done <- 0
			return
		}
		io.Copy(io.Discard, r.Body) // to the end: by then the place is free again
		r.Body.Close()
		done <- r.StatusCode
	}()
	<-ob.asked
	if status, body, _ := p.Get("/metrics"); status != http.StatusServiceUnavailable || body != "too many requests at once (--web.max-requests), try again later\n" {
		t.Errorf("second request: %d %q", status, body)
	}
	if status, _, _ := p.Get("/-/healthy"); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	close(ob.hold)
	if status := <-done; status != http.StatusOK {
		t.Errorf("first request: %d", status)
	}
	if status, _, _ := p.Get("/metrics"); status != http.StatusOK {
		t.Errorf("third request: %d", status)
	}
}

func TestPaths(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.external-url=https://proxy.example.com/fabric/", "--web.telemetry-path=/m", "--web.enable-pprof")
	for path, want := range map[string]int{
		"/fabric/m": 200, "/fabric/": 200, "/fabric/-/healthy": 200, "/fabric/debug/pprof/": 200, "/fabric/debug/pprof/cmdline": 200, "/fabric/debug/pprof/heap": 200, // and / leads to /fabric/
		"/": 200, "/m": 404, "/metrics": 404, "/fabric/metrics": 404, "/-/healthy": 404,
	} {
		if status, _, _ := p.Get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	_, page, _ := p.Get("/fabric/")
	contains(t, page, `href="m"`, `href="-/ready"`, `href="debug/pprof/"`)

	p = start(t, &fakeObserver{node: healthy}, "--web.telemetry-path=/")
	if _, body, _ := p.Get("/"); !strings.Contains(body, "gpufabric_hca_port_state") {
		t.Error("no metrics at /")
	}
}

func TestHeaders(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	for _, path := range []string{"/", "/metrics", "/-/healthy", "/nosuch"} {
		_, _, h := p.Get(path)
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// TestNothingAccumulates makes sure that scrapes leave nothing behind.
func TestNothingAccumulates(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	p.Get("/metrics")
	before := runtime.NumGoroutine()
	for range 100 {
		p.Get("/metrics")
		p.Get("/")
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // those that end are given time
		after := runtime.NumGoroutine()
		if after <= before+10 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, then %d", before, after)
		}
	}
}
