// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
)

// unpacked returns a body as it was before compression.
func unpacked(t *testing.T, body string, h http.Header) string {
	t.Helper()
	if h.Get("Content-Encoding") != "gzip" {
		return body
	}
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The answers are the same as those of the handler of the Prometheus library, which the exporter does not use.
func TestAnswersAsPromhttp(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.disable-exporter-metrics")
	_, body, _ := p.Get("/metrics", "Accept", string(expfmt.FmtProtoDelim))
	var families []*dto.MetricFamily
	for d := expfmt.NewDecoder(strings.NewReader(body), expfmt.FmtProtoDelim); ; {
		f := &dto.MetricFamily{}
		if err := d.Decode(f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		families = append(families, f)
	}
	gather := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })
	reference := promhttp.HandlerFor(gather, promhttp.HandlerOpts{EnableOpenMetrics: true})

	compare := func(path, accept, encoding string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		reference.ServeHTTP(w, r)
		status, body, header := p.Get(path, "Accept", accept, "Accept-Encoding", encoding)
		if status != w.Code {
			t.Errorf("%s, %q, %q: status %d, want %d", path, accept, encoding, status, w.Code)
		}
		for _, name := range []string{"Content-Type", "Content-Encoding", "Vary"} {
			if got, want := header.Values(name), w.Header().Values(name); !slices.Equal(got, want) {
				t.Errorf("%s, %q, %q: %s %q, want %q", path, accept, encoding, name, got, want)
			}
		}
		if n := header.Get("Content-Length"); n != strconv.Itoa(len(body)) {
			t.Errorf("%s, %q, %q: length %s of %d", path, accept, encoding, n, len(body))
		}
		got, want := unpacked(t, body, header), unpacked(t, w.Body.String(), w.Header())
		if strings.Contains(accept, "encoding=text") || strings.Contains(accept, "encoding=compact-text") {
			got, want = strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(want, " ", "") // varies on purpose
		}
		if got != want {
			t.Errorf("%s, %q, %q: got\n%s\nwant\n%s", path, accept, encoding, got, want)
		}
	}
	for _, accept := range []string{
		"", "*/*", "text/plain", "text/plain;version=0.0.4", "text/plain;version=1.0.0", "text/html", "nonsense",
		"application/openmetrics-text", "application/openmetrics-text;version=1.0.0", "application/openmetrics-text;version=0.0.1", "application/openmetrics-text;version=9",
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
		"application/openmetrics-text;q=0.1,text/plain;q=0.9", "text/plain;escaping=dots", "text/plain;escaping=values", "application/openmetrics-text;escaping=underscores",
		string(expfmt.FmtProtoDelim), string(expfmt.FmtProtoText), string(expfmt.FmtProtoCompact),
	} {
		compare("/metrics", accept, "identity")
	}
	for _, encoding := range []string{
		"gzip", "identity", "gzip, deflate, br", "deflate", "zstd", "*", "zstd, gzip", "gzip;q=0", "gzip; q=0.5", "gzip;q=0.5, identity", "gzip;q=0.5, identity;q=0.2",
		"identity;q=0, gzip;q=0", "*;q=0", "*;q=0.5, gzip", "identity;q=0, *", "GZIP", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "gzip;q=x", "q=1",
	} {
		compare("/metrics", "text/plain", encoding)
	}
	compare("/metrics", "application/openmetrics-text;version=1.0.0", "gzip")
	compare("/metrics?name[]=gpufabric_hca_port_state&name[]=gpufabric_hca_info&name[]=nosuch", "text/plain", "gzip")
	compare("/metrics?name[]=nosuch", "text/plain", "identity")
	if prefersGzip(http.Header{}) {
		t.Error("gzip for a client that did not ask for it")
	}
}

// If the registry cannot gather some metrics, only these are missing, and the error is counted and logged.
func TestRegistryFails(t *testing.T) {
	var logged bytes.Buffer
	log := logging.New(&logged, "logfmt", slog.LevelInfo)
	set, err := collector.NewSet([]string{"hca"})
	if err != nil {
		t.Fatal(err)
	}
	ob := &fakeObserver{node: healthy}
	h := newHandler(&Exporter{Site: new(site.Site), Web: Web{TelemetryPath: "/metrics"}}, Node{}, set, ob, newReloader(Node{}, config.Config{}, ob, (*hostProber)(nil), nil, nil, log), log)
	h.own.MustRegister(invalid{prometheus.NewDesc("broken", "help", nil, nil)})
	var w *httptest.ResponseRecorder
	for range 2 {
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
	if w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
	contains(t, w.Body.String(), `promhttp_metric_handler_errors_total{cause="encoding"} 0`, `promhttp_metric_handler_errors_total{cause="gathering"} 1`, "gpufabric_hca_info{")
	contains(t, logged.String(), "broken on purpose")
}

// invalid is a collector that fails.
type invalid struct{ desc *prometheus.Desc }

func (c invalid) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }
func (c invalid) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(c.desc, errors.New("broken on purpose"))
}

// Answers reuse memory of earlier answers. Two answers at the same time never share it.
func TestAnswersAtOnce(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.disable-exporter-metrics", "--web.max-requests=0")
	_, want, _ := p.Get("/metrics", "Accept-Encoding", "identity")
	_, open, _ := p.Get("/metrics", "Accept-Encoding", "identity", "Accept", "application/openmetrics-text;version=1.0.0")
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for range 20 {
				encoding, accept, want := "identity", "text/plain", want
				if i%2 == 0 {
					encoding = "gzip"
				}
				if i%4 < 2 {
					accept, want = "application/openmetrics-text;version=1.0.0", open
				}
				_, body, header := p.Get("/metrics", "Accept-Encoding", encoding, "Accept", accept)
				if unpacked(t, body, header) != want {
					t.Errorf("another answer:\n%s", body)
					return
				}
			}
		})
	}
	clients.Wait()
}
