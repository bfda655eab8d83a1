// SPDX-License-Identifier: Apache-2.0

package exposition

import (
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
)

// Family is a metric family of counters, gauges or histograms. It has a series at least.
type Family struct {
	*Head
	Series     []Series
	Histograms []*dto.Histogram // of a family of them, one for each series, instead of the value
}

// Head is all of a family but its series. It is not changed once it is used: what can be written of a family without
// them is kept for the next scrape. It may be used by any number of goroutines.
type Head struct {
	Name, Help string
	Unit       string // empty: none
	Counter    bool
	Histogram  bool
	Labels     []string // names, each once
	Optional   string   // the label that series without a value of it do not have; not the first by name

	once    sync.Once
	written written
}

// Series is one series of a family. The values of its labels are in the order of their names in the family, and
// valid UTF-8.
type Series struct {
	Value  float64
	Labels []string
}

// written is what every scrape writes of a family.
type written struct {
	plain    bool            // the names stand for themselves in every format, whatever escaping the scraper asks for
	order    []int           // the places of the labels, sorted by name, which is the order scrapers see them in
	optional int             // the place of Head.Optional, or -1
	before   []string        // what comes before each label value, in that order
	comments [foreign]string // which say what the family is
}

func (h *Head) write() *written {
	h.once.Do(func() {
		w := &h.written
		w.plain = model.LegacyValidation.IsValidMetricName(h.Name)
		w.optional = slices.Index(h.Labels, h.Optional)
		for i, l := range h.Labels {
			w.plain = w.plain && l != model.MetricNameLabel && model.LegacyValidation.IsValidMetricName(l)
			w.order = append(w.order, i)
		}
		slices.SortFunc(w.order, func(a, b int) int { return strings.Compare(h.Labels[a], h.Labels[b]) })
		opening := h.Name + "{"
		for _, at := range w.order {
			w.before = append(w.before, opening+h.Labels[at]+`="`)
			opening = `",`
		}
		for d := range foreign {
			w.comments[d] = string(d.comments(h))
		}
	})
	return &h.written
}

// Proto returns the family as a protobuf message.
func (f *Family) Proto() *dto.MetricFamily {
	m := &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: dto.MetricType_GAUGE.Enum()}
	if f.Counter {
		m.Type = dto.MetricType_COUNTER.Enum()
	}
	if f.Histogram {
		m.Type = dto.MetricType_HISTOGRAM.Enum()
	}
	if f.Unit != "" {
		m.Unit = &f.Unit
	}
	w := f.write()
	for i := range f.Series {
		s := &f.Series[i]
		metric := &dto.Metric{}
		for _, at := range w.order {
			if at == w.optional && s.Labels[at] == "" {
				continue
			}
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &f.Labels[at], Value: &s.Labels[at]})
		}
		switch {
		case f.Histogram:
			metric.Histogram = f.Histograms[i]
		case f.Counter:
			metric.Counter = &dto.Counter{Value: &s.Value}
		default:
			metric.Gauge = &dto.Gauge{Value: &s.Value}
		}
		m.Metric = append(m.Metric, metric)
	}
	return m
}
