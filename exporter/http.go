// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/page"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/rdmaping/exchange"
)

// handler answers all requests. It may be used by any number of servers at once.
type handler struct {
	http.Handler // the routes

	exporter *Exporter // its flags
	node     Node
	set      *collector.Set
	observer site.Observer
	config   *reloader
	own      *prometheus.Registry // metrics about the exporter itself
	build    []*dto.MetricFamily  // what is left of them with --web.disable-exporter-metrics
	failures *prometheus.CounterVec
	answers  answers
	places   *places
	probes   *page.Probes
	log      *slog.Logger
	ready    atomic.Bool // the first observation is done
	seen     page.Sightings
}

func newHandler(e *Exporter, n Node, set *collector.Set, ob site.Observer, config *reloader,
	log *slog.Logger,
) *handler {
	h := &handler{
		exporter: e, node: n, observer: ob, config: config, own: newRegistry(!n.Simulated), build: buildInfo(),
		failures: newFailures(), log: log, places: newPlaces(e.Web.MaxRequests),
	}
	h.set = set.WithVerdicts(func(seen *fabric.Node, list []verdict.Verdict) { h.seen.See(list, false, seen.At) })
	h.own.MustRegister(h.failures)
	h.probes = h.probePages()
	h.Handler = secured(bodiless(new(http.CrossOriginProtection).Handler(h.mux())))
	return h
}

// route is a path that is answered.
type route struct {
	pattern string // of http.ServeMux
	handler http.Handler
}

// mux lays everything out below the route prefix.
func (h *handler) mux() http.Handler {
	mux := http.NewServeMux()
	for _, r := range h.routes() {
		mux.Handle(r.pattern, r.handler)
	}
	prefix := h.exporter.Web.RoutePrefix
	if prefix == "" {
		return mux
	}
	outer := http.NewServeMux()
	outer.Handle(prefix+"/", http.StripPrefix(prefix, mux))
	outer.Handle("GET /{$}", http.RedirectHandler(prefix+"/", http.StatusFound))
	return outer
}

// routes are all paths. What reads the node or the process shares the places of --web.max-requests; a reload
// has limits of its own.
func (h *handler) routes() []route {
	web := &h.exporter.Web
	metrics := http.Handler(http.HandlerFunc(h.metrics))
	if !web.DisableExporterMetrics {
		metrics = promhttp.InstrumentMetricHandler(h.own, metrics)
	}
	paged := func(f http.HandlerFunc) http.Handler {
		return h.places.wrap(f, func(*http.Request) time.Duration { return pageTimeout })
	}
	scrape := func(r *http.Request) time.Duration { return scrapeTimeout(r.Header, web.TimeoutOffset) }
	landing := h.landing()
	list := []route{
		{"GET " + web.TelemetryPath, h.places.wrap(metrics, scrape)},
		{"GET " + StatusPath, paged(landing.ServeJSON)},
		{"GET " + ProbesPath, paged(h.probes.ServePage)},
		{"GET " + ProbesPath + ".json", paged(h.probes.ServeJSON)},
		{"GET " + JobsPath, paged(page.JobsJSON(h.observeAll, h.set, h.log).ServeHTTP)},
		{"GET " + exchange.Path, paged(h.config.pinger.ServeHTTP)},
		{"GET /-/healthy", http.HandlerFunc(h.healthy)},
		{"GET /-/ready", http.HandlerFunc(h.readiness)},
		{"POST /-/reload", h.places.open(h.config)},
	}
	if web.TelemetryPath != "/" {
		list = append(list, route{"GET /{$}", paged(landing.ServeHTTP)})
	}
	if web.EnablePprof {
		for path, f := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline,
			"profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		} {
			list = append(list, route{"/debug/pprof/" + path, h.places.wrap(f, nil)})
		}
	}
	return list
}

// healthy is not so if an answer is not made that was due long ago: whatever it waits for, others may wait for it, too.
func (h *handler) healthy(w http.ResponseWriter, _ *http.Request) {
	if due, late := h.places.late(time.Now()); late {
		http.Error(w,
			"not healthy: an answer that was due at "+
				due.UTC().Format("15:04:05 UTC")+" has not been made: restart the exporter",
			http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "healthy\n")
}

func (h *handler) readiness(w http.ResponseWriter, _ *http.Request) {
	if !h.ready.Load() {
		http.Error(w, "not ready: the first observation of the node is not complete", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// bodiless refuses requests with a body, none of which has a meaning here: the server would wait for the rest
// of it before it answers. A request without one is whole, and its answer may take longer than readTimeout.
func bodiless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // without which the rest is waited for
			http.Error(w, "expected a request without a body", http.StatusBadRequest)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // recorders in tests have none
		next.ServeHTTP(w, r)
	})
}

// secured sets headers that keep a browser from doing anything with our answers but show them, and all others
// from keeping them. What --web.config.file sets for the same headers wins.
func secured(next http.Handler) http.Handler {
	headers := map[string]string{
		"Content-Security-Policy": page.SecurityPolicy(),
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
		"Cache-Control":           "no-store", // all that is answered is how things are at that moment
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range headers {
			if w.Header().Get(k) == "" {
				w.Header().Set(k, v)
			}
		}
		next.ServeHTTP(w, r)
	})
}
