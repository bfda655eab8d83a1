// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"encoding/json"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// State files of version 1 had Go's names of fields, and nanoseconds. They are converted when they are read.
type (
	stateV1 struct {
		Written int64                    `json:"written"`
		GPUs    map[string]time.Duration `json:"gpus"`
		Probes  []probeV1                `json:"probes"`
	}
	probeV1 struct {
		Key       Key             `json:"key"` // json matches Kind with kind
		Ran       *age            `json:"ran"`
		Cost      time.Duration   `json:"cost"`
		Baselines []baselineV1    `json:"baselines"`
		Last      json.RawMessage `json:"last"` // a resultV1
	}
	baselineV1 struct {
		Fingerprint string  `json:"fingerprint"`
		Best        float64 `json:"best"`
		Below       int     `json:"below"`
		Collapsed   int     `json:"collapsed"`
		Used        age     `json:"used"`
		Samples     []struct {
			Age   age     `json:"age"`
			BusBW float64 `json:"busbw"`
		} `json:"samples"`
		Latencies []struct {
			Age     age     `json:"age"`
			Seconds float64 `json:"seconds"`
		} `json:"latencies"`
	}
	resultV1 struct {
		Key           Key
		At            time.Time
		Wall, GPUTime time.Duration
		GPUs          []string
		Outcome       Outcome
		Failure       Failure
		Error         string
		Intrusion     *struct {
			Who          string
			Killed, Gone time.Duration
		}
		Release                  fabric.Fact[time.Duration]
		Left, NCCL, Driver, CUDA string
		Path                     fabric.Fact[Path]
		Network                  string
		GPUDirect, NVLS, SHARP   fabric.Fact[bool]
		Channels                 fabric.Fact[int]
		Init, Connect            time.Duration
		Measurements             []struct {
			Op                Op
			Type              DType
			Bytes             uint64
			Ranks, Iterations int
			Time, DeviceTime  time.Duration
			AlgBW, BusBW      float64
			Wrong             uint64
		}
		Comparison comparisonV1
	}
	comparisonV1 struct {
		Fingerprint        string
		Samples            int
		Median, MAD, Best  float64
		Ratio, Expected    fabric.Fact[float64]
		Regressed, Drifted bool
		Below, Collapsed   int
		Latency            struct {
			Samples     int
			Median, MAD time.Duration
			Ratio       fabric.Fact[float64]
			Late        bool
		}
	}
)

func (s *stateV1) convert() savedState {
	state := savedState{Written: s.Written, GPUs: map[string]Seconds{}}
	for gpu, balance := range s.GPUs {
		state.GPUs[gpu] = SecondsOf(balance)
	}
	for _, old := range s.Probes {
		p := savedProbe{Key: old.Key, Ran: old.Ran, Cost: SecondsOf(old.Cost)}
		for _, o := range old.Baselines {
			b := savedBaseline{Fingerprint: o.Fingerprint, Best: o.Best, Below: o.Below, Collapsed: o.Collapsed, Used: o.Used}
			for _, sm := range o.Samples {
				b.Bandwidths = append(b.Bandwidths, savedBandwidth(sm))
			}
			for _, l := range o.Latencies {
				b.Latencies = append(b.Latencies, savedLatency{l.Age, l.Seconds})
			}
			p.Baselines = append(p.Baselines, b)
		}
		var last resultV1
		if len(old.Last) > 0 && len(old.Last) <= lastMost && json.Unmarshal(old.Last, &last) == nil {
			p.Last = saveResult(last.convert())
		}
		state.Probes = append(state.Probes, p)
	}
	return state
}

func (r *resultV1) convert() Result {
	n := Result{
		Key: r.Key, At: r.At, Wall: SecondsOf(r.Wall), GPUTime: SecondsOf(r.GPUTime), GPUs: r.GPUs, Outcome: r.Outcome, Failure: r.Failure, Error: r.Error,
		Left: r.Left, NCCL: r.NCCL, Driver: r.Driver, CUDA: r.CUDA, Path: Fact[Path]{r.Path}, Network: r.Network,
		GPUDirect: Fact[bool]{r.GPUDirect}, NVLS: Fact[bool]{r.NVLS}, SHARP: Fact[bool]{r.SHARP}, Channels: Fact[int]{r.Channels},
		Init: SecondsOf(r.Init), Connect: SecondsOf(r.Connect), Expected: Fact[float64]{r.Comparison.Expected},
	}
	if i := r.Intrusion; i != nil {
		n.Intrusion = &Intrusion{i.Who, SecondsOf(i.Killed), SecondsOf(i.Gone)}
	}
	if took, known := r.Release.Get(); known {
		n.Release = Known(SecondsOf(took), r.Release.Source, r.Release.At)
	}
	for _, m := range r.Measurements {
		converted := Measurement{
			Op: m.Op, Type: m.Type, Bytes: m.Bytes, Count: m.Op.Count(m.Type, m.Bytes, m.Ranks), Ranks: m.Ranks, Iterations: m.Iterations,
			Time: SecondsOf(m.Time), AlgBW: m.AlgBW, BusBW: m.BusBW, Wrong: m.Wrong,
		}
		if m.DeviceTime > 0 {
			converted.DeviceTime = Known(SecondsOf(m.DeviceTime), "", r.At)
		}
		n.Measurements = append(n.Measurements, converted)
	}
	n.Comparison = r.Comparison.convert(n.SmallMessage() != nil, r.At)
	return n
}

func (c *comparisonV1) convert(latency bool, at time.Time) Comparison {
	n := Comparison{
		Fingerprint: c.Fingerprint, Samples: c.Samples, Ratio: Fact[float64]{c.Ratio},
		Regressed: c.Regressed, Drifted: c.Drifted, Below: c.Below, Collapsed: c.Collapsed,
	}
	if c.Median > 0 {
		n.Median, n.MAD = ofBaseline(c.Median, at), ofBaseline(c.MAD, at)
	}
	if c.Best > 0 {
		n.Best = ofBaseline(c.Best, at)
	}
	if l := c.Latency; latency {
		n.Latency = &LatencyComparison{Samples: l.Samples, Ratio: Fact[float64]{l.Ratio}, Late: l.Late}
		if l.Median > 0 {
			n.Latency.Median, n.Latency.MAD = ofBaseline(SecondsOf(l.Median), at), ofBaseline(SecondsOf(l.MAD), at)
		}
	}
	return n
}
