// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

func TestAbsurdRequests(t *testing.T) {
	connect := func(change func(*probes.ConnectRequest)) probes.Request {
		q := &probes.ConnectRequest{ID: make([]byte, probes.IDSize), Rank: 1, Ranks: 2, MaxCTAs: 2, Timeout: time.Second}
		change(q)
		return probes.Request{Connect: q}
	}
	measure := func(change func(*probes.MeasureRequest)) probes.Request {
		q := &probes.MeasureRequest{Op: probes.AllReduce, Type: probes.Int32, Bytes: 8, Iterations: 1, Timeout: time.Second}
		change(q)
		return probes.Request{Measure: q}
	}
	open := func(q probes.OpenRequest) probes.Request { return probes.Request{Open: &q} }
	for name, tt := range map[string]struct {
		q    probes.Request
		says string
	}{
		"nothing":             {probes.Request{}, "0 steps"},
		"two":                 {probes.Request{Close: &struct{}{}, NewID: &struct{}{}}, "2 steps"},
		"long path":           {open(probes.OpenRequest{NCCL: strings.Repeat("/", maxPath+1)}), "no path"},
		"zero in a path":      {open(probes.OpenRequest{CUDA: "a\x00b"}), "no path"},
		"GPU":                 {open(probes.OpenRequest{GPU: "0"}), "expected a PCI address"},
		"GPU, function 8":     {open(probes.OpenRequest{GPU: "0000:1b:00.8"}), "expected a PCI address"},
		"GPU, another sign":   {open(probes.OpenRequest{GPU: "0000-1b:00.0"}), "expected a PCI address"},
		"GPU, no digit":       {open(probes.OpenRequest{GPU: "0000:1g:00.0"}), "expected a PCI address"},
		"no id":               {connect(func(q *probes.ConnectRequest) { q.ID = nil }), "an id of 0 bytes"},
		"long id":             {connect(func(q *probes.ConnectRequest) { q.ID = make([]byte, 129) }), "an id of 129 bytes"},
		"no ranks":            {connect(func(q *probes.ConnectRequest) { q.Ranks = 0 }), "0 ranks"},
		"many ranks":          {connect(func(q *probes.ConnectRequest) { q.Ranks = maxRanks + 1 }), "4097 ranks"},
		"rank = ranks":        {connect(func(q *probes.ConnectRequest) { q.Rank = 2 }), "rank 2 of 2"},
		"rank -1":             {connect(func(q *probes.ConnectRequest) { q.Rank = -1 }), "rank -1"},
		"channels":            {connect(func(q *probes.ConnectRequest) { q.MaxCTAs = 65 }), "65 channels"},
		"negative channels":   {connect(func(q *probes.ConnectRequest) { q.MaxCTAs = -1 }), "-1 channels"},
		"no time":             {connect(func(q *probes.ConnectRequest) { q.Timeout = 0 }), "a timeout"},
		"much time":           {connect(func(q *probes.ConnectRequest) { q.Timeout = math.MaxInt64 }), "a timeout"},
		"0 bytes":             {measure(func(q *probes.MeasureRequest) { q.Bytes = 0 }), "0 bytes"},
		"2^63 bytes":          {measure(func(q *probes.MeasureRequest) { q.Bytes = 1 << 63 }), "9223372036854775808 bytes"},
		"more than the limit": {measure(func(q *probes.MeasureRequest) { q.Bytes = maxMessage + 1 }), "68719476737 bytes"},
		"many before":         {measure(func(q *probes.MeasureRequest) { q.Warmups = math.MaxInt }), "iterations before"},
		"many one by one":     {measure(func(q *probes.MeasureRequest) { q.Each, q.Iterations = true, 65 }), "timed one by one"},
		"few before":          {measure(func(q *probes.MeasureRequest) { q.Warmups = -1 }), "iterations before"},
		"no iteration":        {measure(func(q *probes.MeasureRequest) { q.Iterations = 0 }), "0 iterations"},
		"many iterations":     {measure(func(q *probes.MeasureRequest) { q.Iterations = math.MaxInt }), "iterations"},
		"operation":           {measure(func(q *probes.MeasureRequest) { q.Op = "all" }), `operation "all"`},
		"type":                {measure(func(q *probes.MeasureRequest) { q.Type = "" }), `type ""`},
		"negative time":       {measure(func(q *probes.MeasureRequest) { q.Timeout = -1 }), "a timeout"},
	} {
		raw, err := json.Marshal(tt.q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(raw); !errors.Is(err, errRequest) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, expected %q", name, err, tt.says)
		}
	}
	for _, q := range []probes.Request{
		connect(func(*probes.ConnectRequest) {}),
		measure(func(*probes.MeasureRequest) {}),
		open(probes.OpenRequest{GPU: "0000:1b:00.0"}),
		open(probes.OpenRequest{GPU: "00000001:1B:00.0"}),
		{NewID: &struct{}{}},
		{Close: &struct{}{}},
	} {
		raw, _ := json.Marshal(q)
		if _, err := decode(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// FuzzDecode wants every request that is taken to be one that can be served.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"open":{"nccl":"libnccl.so.2","cuda":"libcuda.so.1","gpu":"0000:1b:00.0"}}`, `{"new_id":{}}`, `{"close":{}}`, `{"close":{}}{}`,
		`{"connect":{"id":"` + strings.Repeat("A", 171) + `=","rank":1,"ranks":8,"max_ctas":2,"timeout":1000000000}}`,
		`{"measure":{"op":"all_gather","type":"bfloat16","bytes":67108864,"iterations":20,"timeout":1000000000}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		q, err := decode(raw)
		if err != nil {
			if !errors.Is(err, errRequest) || len(err.Error()) > maxPath {
				t.Fatalf("%v", err)
			}
			return
		}
		if d := timeout(q); d <= 0 || d > maxTimeout {
			t.Fatalf("a timeout of %v", d)
		}
		switch {
		case q.Connect != nil:
			c := q.Connect
			if len(c.ID) != probes.IDSize || c.Rank < 0 || c.Rank >= c.Ranks || c.Ranks > maxRanks {
				t.Fatalf("%+v", c)
			}
		case q.Measure != nil:
			for _, ranks := range []int{1, 3, maxRanks} {
				l := layoutOf(q.Measure, ranks)
				size := uint64(q.Measure.Type.Size())
				if l.send%size != 0 || l.recv%size != 0 || max(l.send, l.recv) != l.message || l.message > q.Measure.Bytes ||
					l.message+size*uint64(ranks) <= q.Measure.Bytes {
					t.Fatalf("%+v: %+v", q.Measure, l)
				}
			}
		}
	})
}

func TestMilliseconds(t *testing.T) {
	for ms, want := range map[float64]time.Duration{1.5: 1500 * time.Microsecond, 0: 0, -1: 0, math.Inf(1): 0, math.MaxFloat64: 0} {
		if got := milliseconds(ms); got != want {
			t.Errorf("%v: %v, expected %v", ms, got, want)
		}
	}
	if milliseconds(math.NaN()) != 0 {
		t.Error("not a number")
	}
}
