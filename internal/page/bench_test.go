// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/demo"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/probes"
)

// pageOf is the page of a simulated node that was observed twice.
func pageOf(tb testing.TB, t *testing.T, scenario string) *Landing {
	tb.Helper()
	return pageAt(tb, t, scenario, 0, 15)
}

// pageAt is the page of a simulated node that was observed at these seconds.
func pageAt(tb testing.TB, t *testing.T, scenario string, seconds ...int) *Landing {
	tb.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		tb.Fatal(err)
	}
	nodes := simulatortest.Watch(t, s, seconds...)
	return pageFrom(tb, t, s, nodes[len(nodes)-1])
}

// pageFrom is the page of a simulated node that was observed.
func pageFrom(tb testing.TB, t *testing.T, s simulator.Scenario, n *fabric.Node) *Landing {
	tb.Helper()
	var names []string
	for _, c := range collector.Collectors() {
		if c.Default {
			names = append(names, c.Name)
		}
	}
	set, err := collector.NewSet(names)
	if err != nil {
		tb.Fatal(err)
	}
	return NewLanding(LandingOptions{
		Title: "node17", Observe: func(context.Context) *fabric.Node { return n }, Collectors: set, NoDevice: func(*fabric.Node) (string, bool) { return "", false },
		Config: siteOf(t, ""), Seen: new(Sightings), Log: slog.New(slog.DiscardHandler), Probes: pagesOf(past(tb, s, n), nil),
	})
}

// past are the probes of a simulated node, with their history.
func past(tb testing.TB, s simulator.Scenario, n *fabric.Node) probes.Status {
	tb.Helper()
	built := s.Build()
	if len(built.GPUs) == 0 {
		return probes.Status{}
	}
	r, err := demo.NewRehearsal(func() simulator.NCCL { return built.NCCL }, s.Healthy())
	if err != nil {
		tb.Fatal(err)
	}
	return r.Past(n, n.At)
}

// The page of many devices is bounded, and has no cell without a word.
func TestPageWeight(t *testing.T) {
	for _, c := range []struct {
		scenario   string
		page, json int // bytes at most
	}{{"healthy", 200 << 10, 200 << 10}, {"healthy-128-ports", 600 << 10, 2 << 20}, {"port-down-of-128", 600 << 10, 2 << 20}} {
		l := pageOf(t, t, c.scenario)
		page, document := httptest.NewRecorder(), httptest.NewRecorder()
		l.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
		l.ServeJSON(document, httptest.NewRequest(http.MethodGet, "/status.json", nil))
		t.Logf("%s: page %d KiB, status.json %d KiB", c.scenario, page.Body.Len()>>10, document.Body.Len()>>10)
		if page.Code != http.StatusOK || document.Code != http.StatusOK || page.Body.Len() > c.page || document.Body.Len() > c.json {
			t.Errorf("%s: %d, %d bytes; %d, %d bytes", c.scenario, page.Code, page.Body.Len(), document.Code, document.Body.Len())
		}
		lacks(t, page.Body.String(), "<script", "http-equiv", "ZgotmplZ", "&lt;nil&gt;", "%!")
		ids := map[string]bool{}
		for _, part := range strings.Split(page.Body.String(), ` id="`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			if ids[id] {
				t.Errorf("%s: id %s twice", c.scenario, id)
			}
			ids[id] = true
		}
		for _, part := range strings.Split(page.Body.String(), ` href="#`)[1:] {
			if id, _, _ := strings.Cut(part, `"`); !ids[id] {
				t.Errorf("%s: a link to #%s, which is not there", c.scenario, id)
			}
		}
	}
}

func BenchmarkPage(b *testing.B) {
	for _, scenario := range []string{"healthy", "healthy-128-ports"} {
		var l *Landing
		if !testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: scenario, F: func(t *testing.T) { l = pageOf(b, t, scenario) }}}) {
			b.Fatal("the node could not be observed")
		}
		for name, serve := range map[string]http.HandlerFunc{"page": l.ServeHTTP, "json": l.ServeJSON} {
			b.Run(fmt.Sprintf("%s/%s", scenario, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w := httptest.NewRecorder()
					serve(w, httptest.NewRequest(http.MethodGet, "/", nil))
					b.SetBytes(int64(w.Body.Len()))
				}
			})
		}
	}
}
