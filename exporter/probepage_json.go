// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"encoding/json"
	"io"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// The JSON of the command probe and of /probes.json (docs/PROBES.md). Names and meanings stay; new ones may come. What is
// null is not known, or there is none.

// probesPath is where the page of probes is; with .json behind, that for programs.
const probesPath = "/probes"

// probeResultJSON is one run.
type probeResultJSON struct {
	Label        string              `json:"label,omitempty"` // of a comparison
	Kind         string              `json:"kind"`
	Device       string              `json:"device,omitempty"` // of a rail
	Port         int                 `json:"port,omitempty"`
	Started      *time.Time          `json:"started"`
	Wall         float64             `json:"wall_seconds"`
	GPUTime      float64             `json:"gpu_seconds"`
	GPUs         []string            `json:"gpus"` // UUIDs by rank
	Outcome      string              `json:"outcome"`
	Failure      string              `json:"failure,omitempty"`
	Error        string              `json:"error,omitempty"`
	Intrusion    *probeIntrusionJSON `json:"intrusion,omitempty"`
	Release      *float64            `json:"release_seconds"` // from the kill or the close, until the driver showed nothing of it
	Left         string              `json:"left,omitempty"`  // what it showed instead, or why nobody could see
	NCCL         string              `json:"nccl_version,omitempty"`
	Driver       string              `json:"gpu_driver_version,omitempty"`
	CUDA         string              `json:"cuda_version,omitempty"`
	Path         *probes.Path        `json:"path"`
	Network      string              `json:"network,omitempty"`
	GPUDirect    *bool               `json:"gpudirect_rdma"`
	NVLS         *bool               `json:"nvls"`
	SHARP        *bool               `json:"sharp"`
	Channels     *int                `json:"channels"`
	Init         float64             `json:"communicator_seconds"`
	Connect      float64             `json:"first_collective_seconds"`
	Measurements []probeMeasuredJSON `json:"measurements"`
	Baseline     *probeBaselineJSON  `json:"baseline"`
	Expected     *float64            `json:"expected_ratio"` // bus bandwidth over what the hardware allows
	Settings     []string            `json:"settings"`       // NAME=value, by NCCL's log
	Log          string              `json:"log,omitempty"`  // excerpt
}

type probeIntrusionJSON struct {
	Who    string  `json:"who"`
	Killed float64 `json:"killed_after_seconds"`
	Gone   float64 `json:"gone_after_seconds"`
}

type probeMeasuredJSON struct {
	Op         string   `json:"op"`
	Type       string   `json:"type"`
	Bytes      uint64   `json:"bytes"`
	Count      uint64   `json:"count"`
	Ranks      int      `json:"ranks"`
	Iterations int      `json:"iterations"`
	Time       float64  `json:"seconds"` // of one iteration
	DeviceTime *float64 `json:"device_seconds"`
	AlgBW      float64  `json:"algbw_bytes_per_second"`
	BusBW      float64  `json:"busbw_bytes_per_second"`
	Wrong      uint64   `json:"wrong_elements"`
}

type probeBaselineJSON struct {
	Fingerprint string   `json:"fingerprint"`
	Samples     int      `json:"samples"`
	Median      *float64 `json:"median_bytes_per_second"`
	MAD         *float64 `json:"mad_bytes_per_second"`
	Ratio       *float64 `json:"ratio"`
	Regressed   bool     `json:"regressed"`
	Below       int      `json:"results_below"`     // in a row
	Collapsed   int      `json:"results_collapsed"` // of these, below 80 % in a row
	Best        *float64 `json:"best_median_bytes_per_second"`
	Drifted     bool     `json:"drifted"`

	Latency *probeLatencyJSON `json:"latency"`
}

// probeLatencyJSON is about the smallest message.
type probeLatencyJSON struct {
	Samples int      `json:"samples"`
	Median  *float64 `json:"median_seconds"`
	MAD     *float64 `json:"mad_seconds"`
	Ratio   *float64 `json:"ratio"`
	Late    bool     `json:"late"`
}

type probeDifferentJSON struct {
	What string `json:"what"`
	Old  string `json:"old"` // empty: was not set
	New  string `json:"new"`
}

type probeSkippedJSON struct {
	Why    string     `json:"reason"`
	Detail string     `json:"detail"`
	Advice string     `json:"advice"`
	At     *time.Time `json:"at"`
}

func resultJSON(label string, r *probes.Result) *probeResultJSON {
	if r == nil {
		return nil
	}
	j := &probeResultJSON{
		Label: label, Kind: string(r.Key.Kind), Device: r.Key.Device, Port: r.Key.Port, Started: moment(r.At), Wall: r.Wall.Seconds(),
		GPUTime: r.GPUTime.Seconds(), Release: inSeconds(r.Release), Left: r.Left, GPUs: nonNil(r.GPUs), Outcome: string(r.Outcome), Failure: string(r.Failure), Error: r.Error,
		NCCL: r.NCCL, Driver: r.Driver, CUDA: r.CUDA, Path: pointer(r.Path), Network: r.Network, GPUDirect: pointer(r.GPUDirect),
		NVLS: pointer(r.NVLS), SHARP: pointer(r.SHARP), Channels: pointer(r.Channels), Init: r.Init.Seconds(), Connect: r.Connect.Seconds(),
		Measurements: []probeMeasuredJSON{}, Expected: pointer(r.Comparison.Expected), Settings: nonNil(r.Settings), Log: r.Log,
	}
	if i := r.Intrusion; i != nil {
		j.Intrusion = &probeIntrusionJSON{i.Who, i.Killed.Seconds(), i.Gone.Seconds()}
	}
	for _, m := range r.Measurements {
		j.Measurements = append(j.Measurements, probeMeasuredJSON{
			Op: string(m.Op), Type: string(m.Type), Bytes: m.Bytes, Count: elements(m), Ranks: m.Ranks, Iterations: m.Iterations,
			Time: m.Time.Seconds(), DeviceTime: unlessZero(m.DeviceTime.Seconds()), AlgBW: m.AlgBW, BusBW: m.BusBW, Wrong: m.Wrong,
		})
	}
	if c := r.Comparison; c.Fingerprint != "" {
		j.Baseline = &probeBaselineJSON{
			Fingerprint: c.Fingerprint, Samples: c.Samples, Median: unlessZero(c.Median), Ratio: pointer(c.Ratio),
			Regressed: c.Regressed, Below: c.Below, Collapsed: c.Collapsed, Best: unlessZero(c.Best), Drifted: c.Drifted,
		}
		if c.Median > 0 { // without one, 0 is no spread
			j.Baseline.MAD = &c.MAD
		}
		if r.SmallMessage() != nil {
			j.Baseline.Latency = latencyJSON(c.Latency)
		}
	}
	return j
}

func latencyJSON(c probes.LatencyComparison) *probeLatencyJSON {
	j := &probeLatencyJSON{Samples: c.Samples, Median: unlessZero(c.Median.Seconds()), Ratio: pointer(c.Ratio), Late: c.Late}
	if c.Median > 0 {
		mad := c.MAD.Seconds()
		j.MAD = &mad
	}
	return j
}

func skippedJSON(s *probes.Skipped) *probeSkippedJSON {
	if s == nil {
		return nil
	}
	return &probeSkippedJSON{string(s.Why), s.Detail, adviceOnSkip(s.Why), moment(s.At)}
}

func changesJSON(changes []probes.Change) []probeDifferentJSON {
	list := []probeDifferentJSON{}
	for _, c := range changes {
		list = append(list, probeDifferentJSON(c))
	}
	return list
}

// inSeconds is nil for what is not known.
func inSeconds(f fabric.Fact[time.Duration]) *float64 {
	d, ok := f.Get()
	if !ok {
		return nil
	}
	v := d.Seconds()
	return &v
}

// moment is nil for never.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

func nonNil(list []string) []string { return append([]string{}, list...) }

func unlessZero(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// writeProbeJSON prints what came of the command.
func writeProbeJSON(w io.Writer, r *probeReport) error {
	type value struct {
		Label string  `json:"label"`
		BusBW float64 `json:"busbw_bytes_per_second"`
		Ratio float64 `json:"ratio"` // over the first one
	}
	type size struct {
		Op     string  `json:"op"`
		Type   string  `json:"type"`
		Bytes  uint64  `json:"bytes"`
		Values []value `json:"values"`
	}
	type comparison struct {
		Sizes []size `json:"sizes"`
		Note  string `json:"note,omitempty"` // why it says nothing, or less than it seems
	}
	report := struct {
		Probe      string             `json:"probe"`
		ExitCode   int                `json:"exit_code"`
		Error      string             `json:"error,omitempty"`
		Skipped    *probeSkippedJSON  `json:"skipped"`
		Runs       []*probeResultJSON `json:"runs"`
		Comparison *comparison        `json:"comparison,omitempty"`
	}{Probe: r.what, ExitCode: r.code(), Skipped: skippedJSON(r.skipped), Runs: []*probeResultJSON{}}
	if r.err != nil {
		report.Error = r.err.Error()
	}
	compares := false
	for _, run := range r.runs {
		compares = compares || run.label != ""
		if run.result != nil {
			report.Runs = append(report.Runs, resultJSON(run.label, run.result))
		}
	}
	if compares && len(report.Runs) > 0 {
		c := compareProbes(r)
		report.Comparison = &comparison{Sizes: []size{}, Note: c.note}
		for _, row := range c.rows {
			s := size{string(row.op), string(row.dtype), row.bytes, nil}
			for i, v := range row.busBW {
				s.Values = append(s.Values, value{c.labels[i], v, v / row.busBW[0]})
			}
			report.Comparison.Sizes = append(report.Comparison.Sizes, s)
		}
	}
	return encodeJSON(w, report)
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func pointer[T any](f fabric.Fact[T]) *T {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}
