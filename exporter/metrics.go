// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/exposition"
)

// newRegistry returns the metrics about the exporter itself. Those of the process are from /proc of this host, which a
// simulated node must not read.
func newRegistry(process bool) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(versioncollector.NewCollector(command.Name), collectors.NewGoCollector())
	if process {
		r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return r
}

// buildInfo returns the family that says which version this is. It is served even if metrics about the exporter are
// disabled, as in node_exporter: updates of a fleet are followed with it.
func buildInfo() []*dto.MetricFamily {
	r := prometheus.NewRegistry()
	r.MustRegister(versioncollector.NewCollector(command.Name))
	families, err := r.Gather()
	if err != nil {
		panic(err) // it is one constant
	}
	return families
}

// newFailures counts errors in answers to scrapes, under the name that other exporters use, too.
func newFailures() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "promhttp_metric_handler_errors_total",
		Help: "Total number of internal errors encountered by the promhttp metric handler.",
	}, []string{"cause"})
	c.WithLabelValues(causeGathering)
	c.WithLabelValues(causeEncoding)
	return c
}

const (
	causeGathering = "gathering"
	causeEncoding  = "encoding"
)

// failed logs and counts an error that costs some metrics of an answer and not all.
func (h *handler) failed(cause string, err error) {
	if err == nil {
		return
	}
	h.failures.WithLabelValues(cause).Inc()
	h.log.Warn("an answer lacks metrics", "cause", cause, "err", err)
}

// metrics observes the node within the deadline of the request and answers in the format that the scraper prefers.
func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	set, err := selectCollectors(h.set, query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	node := h.observe(r.Context(), set.Want())
	a := h.answers.get()
	families := set.GatherAgain(&a.gathered, node, h.config.state())
	h.failed(causeGathering, a.gathered.Err())
	own := h.build // none of them has a name of the catalogue
	if !h.exporter.Web.DisableExporterMetrics {
		own, err = h.own.Gather()
		h.failed(causeGathering, err)
	}
	if names := query["name[]"]; len(names) > 0 {
		families = slices.DeleteFunc(families, func(f exposition.Family) bool { return !slices.Contains(names, f.Name) })
		own = slices.DeleteFunc(slices.Clone(own), func(f *dto.MetricFamily) bool {
			return !slices.Contains(names,
				f.GetName())
		})
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	h.failed(causeEncoding, exposition.Encode(&a.text, format, families, own))
	body := a.body(w.Header(), r, format)
	h.answers.put(a) // what a client does not read costs no more than its bytes
	_, _ = w.Write(body)
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
	mostScrapeTimeout    = time.Minute // a request that waits for what hangs has a place until then
)

// scrapeTimeout returns how long the scraper will wait, less the offset, and a minute at most. An invalid
// header is ignored: its sender still gets metrics.
func scrapeTimeout(h http.Header, offset time.Duration) time.Duration {
	s, err := strconv.ParseFloat(h.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(s > 0) { // which NaN is not, either
		return defaultScrapeTimeout
	}
	timeout := time.Duration(math.Round(min(s, mostScrapeTimeout.Seconds()) * float64(time.Second)))
	return max(timeout-offset, leastScrapeTimeout)
}
