// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/collector"
)

// newRegistry returns the metrics about the exporter itself. Those of the process come from /proc of this
// host, where a simulated node must not look.
func newRegistry(process bool) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(versioncollector.NewCollector(name), collectors.NewGoCollector())
	if process {
		r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return r
}

// metrics observes the node within the scraper's patience and answers in the format it prefers.
func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	set, err := selectCollectors(h.set, r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	deadline := time.Now().Add(scrapeTimeout(r.Header, h.flags.timeoutOffset))
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	writeBy(w, deadline)
	gather := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return h.gather(ctx, set) })
	opts := promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	}
	if !h.flags.disableExporterMetrics {
		opts.Registry = h.own
	}
	answer := &wholeAnswer{ResponseWriter: w, status: http.StatusOK}
	promhttp.HandlerFor(gather, opts).ServeHTTP(answer, r)
	answer.send()
}

// wholeAnswer keeps an answer until it is complete and then sends it with one write: net/http writes to the
// connection every four kilobytes otherwise.
type wholeAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *wholeAnswer) WriteHeader(status int)      { a.status = status }
func (a *wholeAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *wholeAnswer) send() {
	a.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(a.body.Bytes()) // the scraper may have left
}

// gather returns the families of the node and of the exporter. Their names never collide: the ones of the
// catalogue do not appear in the registry.
func (h *handler) gather(ctx context.Context, set *collector.Set) ([]*dto.MetricFamily, error) {
	families := set.Gather(h.observer.Observe(ctx, set.Want()), h.config.current().state())
	if h.flags.disableExporterMetrics {
		return families, nil
	}
	own, err := h.own.Gather()
	families = slices.Concat(families, own)
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, err
}

// selectCollectors applies collect[] and exclude[] of a query to the enabled collectors.
func selectCollectors(set *collector.Set, query url.Values) (*collector.Set, error) {
	collect, exclude := query["collect[]"], query["exclude[]"]
	if len(collect) == 0 && len(exclude) == 0 {
		return set, nil
	}
	if len(collect) > 0 && len(exclude) > 0 {
		return nil, errors.New("collect[] and exclude[]: expected at most one of them")
	}
	named, err := set.Select(slices.Concat(collect, exclude))
	if err != nil || len(collect) > 0 {
		return named, err
	}
	return set.Select(slices.DeleteFunc(set.Names(), func(n string) bool { return slices.Contains(exclude, n) }))
}

// Bounds of how long a scrape may take.
const (
	defaultScrapeTimeout = 10 * time.Second
	leastScrapeTimeout   = 100 * time.Millisecond
	mostScrapeTimeout    = time.Hour
)

// scrapeTimeout returns how long the scraper will wait, less the offset. A header that makes no sense is no
// header: whoever sends it still gets metrics.
func scrapeTimeout(h http.Header, offset time.Duration) time.Duration {
	s, err := strconv.ParseFloat(h.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(s > 0 && s <= mostScrapeTimeout.Seconds()) {
		return defaultScrapeTimeout
	}
	timeout := time.Duration(math.Round(s * float64(time.Second)))
	return max(timeout-offset, leastScrapeTimeout)
}
