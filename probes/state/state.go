// SPDX-License-Identifier: Apache-2.0

// Package state has what probes remember: when each ran and what it cost, its baselines, its last result, and the
// balance of each GPU, in one file with a checksum, replaced atomically, in a folder that other users cannot reach.
// That and the empty lock file are all that probes write. It also reads results from files.
//
// A result is compared with the median and MAD of those with the same fingerprint. One below the limit is measured
// again; only a second one makes a regression. Regressed results do not enter the baseline. Small messages have a
// median of their own.
//
// What the budget limits is the time with a CUDA context, not the traffic, because the context is what takes GPU time
// from jobs.
//
// A Keeper is safe for concurrent use, and waits for no file system that hangs; a Memory belongs to one goroutine at a
// time. A file that this version cannot read is ErrState; one of a newer version is ErrNewerState, and stays as it is.
package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// ErrState means that a state file is not what this version writes: damaged, truncated, too long, of another version.
var ErrState = errors.New("not a state file of probes")

// ErrNewerState means that a newer version of this program wrote the file, which it is not to lose. It is an ErrState.
var ErrNewerState = fmt.Errorf("%w that this version can read", ErrState)

// ProbesMost is how many probes are remembered: those that ran last.
const ProbesMost = 64

const (
	stateVersion = 2
	stateMost    = 8 << 20 // bytes of a state file
	lastMost     = 8 << 10 // bytes of a result in it
)

// Memory is what a prober remembers over restarts.
type Memory struct {
	Duty    *duty
	Records map[probes.Key]*record
}

// record is what is remembered of a probe.
type record struct {
	Began     time.Time     // when it ran last; zero: never
	Cost      time.Duration // what that cost each of its GPUs; 0: not known
	Baselines baselines
	Last      *probes.Result // nil: none; of a former process without log and settings
}

// NewMemory returns one that remembers nothing.
func NewMemory(share float64, longest time.Duration) *Memory {
	return &Memory{newDuty(share, longest), map[probes.Key]*record{}}
}

// Record returns that of a key, a new one if need be.
func (m *Memory) Record(key probes.Key) *record {
	r := m.Records[key]
	if r == nil {
		r = &record{Baselines: baselines{}}
		m.Records[key] = r
	}
	return r
}

// A state file is one line of JSON. All times in it are ages, counted from when it was written, so that a clock that
// was wrong or jumped does not make results of tomorrow.
type (
	sealed struct {
		Version int             `json:"version"`
		SHA256  string          `json:"sha256"` // of State, byte for byte
		State   json.RawMessage `json:"state"`
	}
	savedState struct {
		Written int64                     `json:"written_timestamp_seconds"` // since 1970
		GPUs    map[string]probes.Seconds `json:"gpu_balance_seconds"`       // by UUID
		Probes  []savedProbe              `json:"probes"`
	}
	savedProbe struct {
		probes.Key
		Ran       *age            `json:"last_run_age_seconds,omitempty"`
		Cost      probes.Seconds  `json:"gpu_cost_seconds"`
		Baselines []savedBaseline `json:"baselines"`
		// Last is the newest Result. It is left out where it is not understood: a newer version may add values.
		Last json.RawMessage `json:"last,omitempty"`
	}
	savedBaseline struct {
		Fingerprint string        `json:"fingerprint"`
		Best        float64       `json:"best_median_bytes_per_second"`
		Below       int           `json:"results_below"`
		Collapsed   int           `json:"results_collapsed"`
		Used        age           `json:"last_used_age_seconds"`
		Bandwidths  []savedSample `json:"bandwidths"`
		Latencies   []savedSample `json:"latencies"`
	}
	savedSample struct { // with one of the values, which are never 0
		Age   age     `json:"age_seconds"`
		BusBW float64 `json:"busbw_bytes_per_second,omitempty"`
		Time  float64 `json:"seconds,omitempty"`
	}
	age int64 // seconds
)

// Encode returns the state file. now is the time of the prober, wall that of the host.
func (m *Memory) Encode(now, wall time.Time) ([]byte, error) {
	since := func(t time.Time) age { return age(now.Sub(t) / time.Second) }
	state := savedState{Written: wall.Unix(), GPUs: map[string]probes.Seconds{}}
	for gpu := range m.Duty.GPUs {
		if len(gpu) <= probes.TextMost {
			state.GPUs[gpu] = probes.SecondsOf(m.Duty.balance(gpu, now))
		}
	}
	keys := slices.SortedFunc(maps.Keys(m.Records), func(a, b probes.Key) int {
		return cmp.Or(m.Records[b].Began.Compare(m.Records[a].Began), probes.CompareKeys(a, b))
	})
	for _, key := range keys[:min(len(keys), ProbesMost)] {
		r := m.Records[key]
		p := savedProbe{Key: key, Cost: probes.SecondsOf(r.Cost)}
		if !r.Began.IsZero() {
			ran := since(r.Began)
			p.Ran = &ran
		}
		for _, print := range slices.Sorted(maps.Keys(r.Baselines)) {
			b := r.Baselines[print]
			s := savedBaseline{Fingerprint: print, Best: b.best, Below: b.below, Collapsed: b.collapsed, Used: since(b.used)}
			for _, sample := range b.samples {
				s.Bandwidths = append(s.Bandwidths, savedSample{Age: since(sample.at), BusBW: sample.value})
			}
			for _, sample := range b.latencies {
				s.Latencies = append(s.Latencies, savedSample{Age: since(sample.at), Time: sample.value})
			}
			p.Baselines = append(p.Baselines, s)
		}
		if r.Last != nil {
			p.Last = saveResult(*r.Last)
		}
		state.Probes = append(state.Probes, p)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("state of probes: %w", err)
	}
	sum := sha256.Sum256(raw)
	file, err := json.Marshal(sealed{stateVersion, hex.EncodeToString(sum[:]), raw})
	return append(file, '\n'), err
}

// Decode takes in what a state file remembers. Nothing is taken in if anything is wrong: the error is ErrState.
func (m *Memory) Decode(file []byte, now, wall time.Time) error {
	var s sealed
	if len(file) > stateMost {
		return fmt.Errorf("%w: more than %d bytes", ErrState, stateMost)
	}
	if err := json.Unmarshal(file, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if s.Version > stateVersion {
		return fmt.Errorf("%w: version %d, expected %d", ErrNewerState, s.Version, stateVersion)
	}
	if sum := sha256.Sum256(s.State); s.SHA256 != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("%w: the checksum is not that of the content", ErrState)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("%w: version %d, expected %d", ErrState, s.Version, stateVersion)
	}
	var state savedState
	d := json.NewDecoder(bytes.NewReader(s.State))
	d.DisallowUnknownFields()
	if err := d.Decode(&state); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if err := state.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	// After a clock went backwards, the time since then is unknown. Zero is the cautious answer.
	down := min(max(wall.Sub(time.Unix(state.Written, 0)), 0), probes.LongAgo)
	at := func(a age) time.Time { return now.Add(-down - time.Duration(a)*time.Second) }
	for gpu, balance := range state.GPUs {
		m.Duty.GPUs[gpu] = account{balance.Duration(), now.Add(-down)}
	}
	for _, p := range state.Probes {
		r := m.Record(p.Key)
		r.Cost, r.Last = p.Cost.Duration(), loadResult(p.Last, p.Key, wall)
		if p.Ran != nil {
			r.Began = at(*p.Ran)
		}
		for _, s := range p.Baselines {
			b := &baseline{best: s.Best, below: s.Below, collapsed: s.Collapsed, used: at(s.Used)}
			for _, bw := range s.Bandwidths {
				b.samples = append(b.samples, sample{at(bw.Age), bw.BusBW})
			}
			for _, l := range s.Latencies {
				b.latencies = append(b.latencies, sample{at(l.Age), l.Time})
			}
			r.Baselines[s.Fingerprint] = b
		}
	}
	return nil
}

// saveResult returns a result for a state file; nil if there is no room for it.
func saveResult(r probes.Result) json.RawMessage {
	r.Log, r.Settings = "", nil
	raw, err := json.Marshal(r)
	if err != nil || len(raw) > lastMost {
		return nil
	}
	return raw
}

// loadResult returns a result of a state file, if it is one of that probe.
func loadResult(raw json.RawMessage, key probes.Key, wall time.Time) *probes.Result {
	var r probes.Result
	if len(raw) == 0 || len(raw) > lastMost || json.Unmarshal(raw, &r) != nil || r.Key != key || r.At.IsZero() {
		return nil
	}
	if !r.Sound() {
		return nil
	}
	// null in the file
	if _, known := r.GPUDirect.Get(); !known && r.Network != "" && probes.PathOf(r.Network) == probes.PathSocket {
		r.GPUDirect = probes.AbsentFact[bool](probes.LogSource, r.At)
	}
	if r.At.After(wall) { // by a clock that was wrong
		r.At = wall
	}
	return &r
}

// inOrder reports whether samples are good, few enough and the oldest first.
func inOrder(list []savedSample, good func(savedSample) bool) bool {
	return len(list) <= windowSize && !slices.ContainsFunc(list, func(s savedSample) bool { return !good(s) }) &&
		slices.IsSortedFunc(list, func(a, b savedSample) int { return cmp.Compare(b.Age, a.Age) })
}

// validate says whether a state is one that encode could have made.
func (s savedState) validate() error {
	inAge := func(a age) bool { return a >= 0 && a <= age(probes.LongAgo/time.Second) }
	inTime := func(s probes.Seconds) bool { return math.Abs(float64(s)) <= probes.LongAgo.Seconds() }
	inBW := func(v float64) bool { return v >= 0 && v < probes.Absurd }
	if s.Written < 0 || s.Written > math.MaxInt64/int64(time.Second) {
		return fmt.Errorf("written %d seconds after 1970", s.Written)
	}
	if len(s.GPUs) > probes.GPUsMost || len(s.Probes) > ProbesMost {
		return fmt.Errorf("%d GPUs and %d probes, expected %d and %d at most", len(s.GPUs), len(s.Probes), probes.GPUsMost,
			ProbesMost)
	}
	for gpu, balance := range s.GPUs {
		if len(gpu) > probes.TextMost || !inTime(balance) {
			return fmt.Errorf("GPU %q has a balance of %s", fabric.Clip(gpu, probes.TextMost), balance)
		}
	}
	for _, p := range s.Probes {
		if !slices.Contains(probes.Kinds(), p.Kind) || len(p.Device) > probes.TextMost || p.Cost < 0 || !inTime(p.Cost) ||
			p.Ran != nil && !inAge(*p.Ran) || len(p.Baselines) > baselinesPerProbe {
			return fmt.Errorf("probe %q of %q: a kind, cost, age or number of baselines that is out of range",
				fabric.Clip(string(p.Kind), probes.TextMost), fabric.Clip(p.Device, probes.TextMost))
		}
		for _, b := range p.Baselines {
			ok := len(b.Fingerprint) <= probes.TextMost && inBW(b.Best) && b.Below >= 0 && b.Collapsed >= 0 &&
				b.Collapsed <= b.Below && inAge(b.Used) &&
				inOrder(b.Bandwidths, func(s savedSample) bool {
					return inAge(s.Age) && inBW(s.BusBW) && s.BusBW > 0 &&
						s.Time == 0
				}) &&
				inOrder(b.Latencies, func(s savedSample) bool {
					return inAge(s.Age) && s.Time > 0 && s.Time <= probes.Slowest && s.BusBW == 0
				})
			if !ok {
				return fmt.Errorf("baseline %q: a value that is out of range", fabric.Clip(b.Fingerprint, probes.TextMost))
			}
		}
	}
	return nil
}
