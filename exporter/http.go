// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/page"
	"gpufabric_exporter/internal/site"
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
	probes   *page.Probes
	log      *slog.Logger
	ready    atomic.Bool // the first observation is done
	seen     page.Sightings
}

func newHandler(e *Exporter, n Node, set *collector.Set, ob site.Observer, config *reloader, log *slog.Logger) *handler {
	h := &handler{exporter: e, node: n, observer: ob, config: config, own: newRegistry(!n.Simulated), build: buildInfo(), failures: newFailures(), log: log}
	h.set = set.WithVerdicts(func(seen *fabric.Node, list []diagnose.Verdict) { h.seen.See(list, false, seen.At) })
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

// routes are all paths. What reads the node or the process shares the places of --web.max-requests; a reload has limits of
// its own.
func (h *handler) routes() []route {
	web := &h.exporter.Web
	limit := limiter(web.MaxRequests)
	metrics := http.Handler(http.HandlerFunc(h.metrics))
	if !web.DisableExporterMetrics {
		metrics = promhttp.InstrumentMetricHandler(h.own, metrics)
	}
	paged := func(f http.HandlerFunc) http.Handler { return limit(shown(f, pageTimeout)) }
	landing := h.landing()
	list := []route{
		{"GET " + web.TelemetryPath, limit(metrics)},
		{"GET " + StatusPath, paged(landing.ServeJSON)},
		{"GET " + ProbesPath, paged(h.probes.ServePage)},
		{"GET " + ProbesPath + ".json", paged(h.probes.ServeJSON)},
		{"GET " + JobsPath, paged(page.JobsJSON(h.observe, h.set, h.log).ServeHTTP)},
		{"GET /-/healthy", http.HandlerFunc(h.healthy)},
		{"GET /-/ready", http.HandlerFunc(h.readiness)},
		{"POST /-/reload", h.config},
	}
	if web.TelemetryPath != "/" {
		list = append(list, route{"GET /{$}", paged(landing.ServeHTTP)})
	}
	if web.EnablePprof {
		for path, f := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
			list = append(list, route{"/debug/pprof/" + path, limit(f)})
		}
	}
	return list
}

func (h *handler) healthy(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "healthy\n")
}

func (h *handler) readiness(w http.ResponseWriter, _ *http.Request) {
	if !h.ready.Load() {
		http.Error(w, "not ready: the first observation of the node is not complete", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// slowClient is how long a client may take to read an answer before it loses its place.
const slowClient = time.Minute

// limiter returns a wrapper; all that it wraps share n places. 0 means no limit. A place is held while an answer is made:
// it is free again at the first write, so that clients which do not read their answers do not keep others from getting
// one. The wrapped handlers write an answer when it is complete.
func limiter(n int) func(http.Handler) http.Handler {
	if n == 0 {
		return func(h http.Handler) http.Handler { return h }
	}
	places := make(chan struct{}, n)
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				p := &placed{ResponseWriter: w, release: sync.OnceFunc(func() { <-places })}
				defer p.release()
				h.ServeHTTP(p, r)
			default:
				http.Error(w, "too many requests at once (--web.max-requests), try again later", http.StatusServiceUnavailable)
			}
		})
	}
}

// placed releases the place of a request with the first write.
type placed struct {
	http.ResponseWriter
	release func()
}

func (p *placed) Write(b []byte) (int, error) {
	p.release()
	return p.ResponseWriter.Write(b)
}

func (p *placed) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// bodiless refuses requests with a body, none of which has a meaning here: the server would wait for the rest of it before
// it answers. A request without one is whole, and its answer may take longer than readTimeout.
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

// writeBy sets the time until which the client may read the answer: shortly after the deadline of its scrape.
func writeBy(w http.ResponseWriter, deadline time.Time) {
	_ = http.NewResponseController(w).SetWriteDeadline(deadline.Add(slowClient)) // recorders in tests have none
}

// shown limits the time in which a page is made; the client may read it until shortly after.
func shown(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(within)
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		writeBy(w, deadline)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// secured sets headers that keep a browser from doing anything with our answers but show them. What
// --web.config.file sets for the same headers wins.
func secured(next http.Handler) http.Handler {
	headers := map[string]string{
		"Content-Security-Policy": page.SecurityPolicy(),
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
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
