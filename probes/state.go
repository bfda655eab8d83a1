// SPDX-License-Identifier: Apache-2.0

package probes

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
)

// ErrState means that a state file is not what this version writes: damaged, truncated, too long, of another version.
var ErrState = errors.New("not a state file of probes")

// ErrNewerState means that a newer version of this program wrote the file, which it is not to lose. It is an ErrState.
var ErrNewerState = fmt.Errorf("%w that this version can read", ErrState)

const (
	stateVersion = 2
	stateMost    = 8 << 20 // bytes of a state file
	lastMost     = 8 << 10 // bytes of a result in it
	probesMost   = 64      // probes that are remembered, those that ran last
	textMost     = 512     // bytes of a fingerprint or a name
	longAgo      = 10 * 365 * 24 * time.Hour
)

// memory is what a prober remembers over restarts.
type memory struct {
	duty    *duty
	records map[Key]*record
}

// record is what is remembered of a probe.
type record struct {
	began     time.Time     // when it ran last; zero: never
	cost      time.Duration // what that cost each of its GPUs; 0: not known
	baselines baselines
	last      *Result // nil: none; of a former process without log and settings
}

// record returns that of a key, a new one if need be.
func (m *memory) record(key Key) *record {
	r := m.records[key]
	if r == nil {
		r = &record{baselines: baselines{}}
		m.records[key] = r
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
		Written int64              `json:"written_timestamp_seconds"` // since 1970
		GPUs    map[string]Seconds `json:"gpu_balance_seconds"`       // by UUID
		Probes  []savedProbe       `json:"probes"`
	}
	savedProbe struct {
		Key
		Ran       *age            `json:"last_run_age_seconds,omitempty"`
		Cost      Seconds         `json:"gpu_cost_seconds"`
		Baselines []savedBaseline `json:"baselines"`
		// Last is the newest Result. It is left out where it is not understood: a newer version may add values.
		Last json.RawMessage `json:"last,omitempty"`
	}
	savedBaseline struct {
		Fingerprint string           `json:"fingerprint"`
		Best        float64          `json:"best_median_bytes_per_second"`
		Below       int              `json:"results_below"`
		Collapsed   int              `json:"results_collapsed"`
		Used        age              `json:"last_used_age_seconds"`
		Bandwidths  []savedBandwidth `json:"bandwidths"`
		Latencies   []savedLatency   `json:"latencies"`
	}
	savedBandwidth struct {
		Age   age     `json:"age_seconds"`
		BusBW float64 `json:"busbw_bytes_per_second"`
	}
	savedLatency struct {
		Age  age     `json:"age_seconds"`
		Time float64 `json:"seconds"`
	}
	age int64 // seconds
)

// encode returns the state file. now is the time of the prober, wall that of the host.
func (m *memory) encode(now, wall time.Time) ([]byte, error) {
	since := func(t time.Time) age { return age(now.Sub(t) / time.Second) }
	state := savedState{Written: wall.Unix(), GPUs: map[string]Seconds{}}
	for gpu := range m.duty.gpus {
		if len(gpu) <= textMost {
			state.GPUs[gpu] = SecondsOf(m.duty.balance(gpu, now))
		}
	}
	keys := slices.SortedFunc(maps.Keys(m.records), func(a, b Key) int {
		return cmp.Or(m.records[b].began.Compare(m.records[a].began), compareKeys(a, b))
	})
	for _, key := range keys[:min(len(keys), probesMost)] {
		r := m.records[key]
		p := savedProbe{Key: key, Cost: SecondsOf(r.cost)}
		if !r.began.IsZero() {
			ran := since(r.began)
			p.Ran = &ran
		}
		for _, print := range slices.Sorted(maps.Keys(r.baselines)) {
			b := r.baselines[print]
			s := savedBaseline{Fingerprint: print, Best: b.best, Below: b.below, Collapsed: b.collapsed, Used: since(b.used)}
			for _, sample := range b.samples {
				s.Bandwidths = append(s.Bandwidths, savedBandwidth{since(sample.at), sample.value})
			}
			for _, sample := range b.latencies {
				s.Latencies = append(s.Latencies, savedLatency{since(sample.at), sample.value})
			}
			p.Baselines = append(p.Baselines, s)
		}
		if r.last != nil {
			p.Last = saveResult(*r.last)
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

// decode takes in what a state file remembers. Nothing is taken in if anything is wrong: the error is ErrState.
func (m *memory) decode(file []byte, now, wall time.Time) error {
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
	down := min(max(wall.Sub(time.Unix(state.Written, 0)), 0), longAgo)
	at := func(a age) time.Time { return now.Add(-down - time.Duration(a)*time.Second) }
	for gpu, balance := range state.GPUs {
		m.duty.gpus[gpu] = account{balance.Duration(), now.Add(-down)}
	}
	for _, p := range state.Probes {
		r := m.record(p.Key)
		r.cost, r.last = p.Cost.Duration(), loadResult(p.Last, p.Key, wall)
		if p.Ran != nil {
			r.began = at(*p.Ran)
		}
		for _, s := range p.Baselines {
			b := &baseline{best: s.Best, below: s.Below, collapsed: s.Collapsed, used: at(s.Used)}
			for _, bw := range s.Bandwidths {
				b.samples = append(b.samples, sample{at(bw.Age), bw.BusBW})
			}
			for _, l := range s.Latencies {
				b.latencies = append(b.latencies, sample{at(l.Age), l.Time})
			}
			r.baselines[s.Fingerprint] = b
		}
	}
	return nil
}

// saveResult returns a result for a state file; nil if there is no room for it.
func saveResult(r Result) json.RawMessage {
	r.Log, r.Settings = "", nil
	raw, err := json.Marshal(r)
	if err != nil || len(raw) > lastMost {
		return nil
	}
	return raw
}

// loadResult returns a result of a state file, if it is one of that probe.
func loadResult(raw json.RawMessage, key Key, wall time.Time) *Result {
	var r Result
	if len(raw) == 0 || len(raw) > lastMost || json.Unmarshal(raw, &r) != nil || r.Key != key || r.At.IsZero() {
		return nil
	}
	if !r.sound() {
		return nil
	}
	if _, known := r.GPUDirect.Get(); !known && r.Network != "" && pathOf(r.Network) == PathSocket { // null in the file
		r.GPUDirect = AbsentFact[bool](logSource, r.At)
	}
	if r.At.After(wall) { // by a clock that was wrong
		r.At = wall
	}
	return &r
}

// validate says whether a state is one that encode could have made.
func (s savedState) validate() error {
	inAge := func(a age) bool { return a >= 0 && a <= age(longAgo/time.Second) }
	inTime := func(s Seconds) bool { return math.Abs(float64(s)) <= longAgo.Seconds() }
	inBW := func(v float64) bool { return v >= 0 && v < absurd }
	if s.Written < 0 || s.Written > math.MaxInt64/int64(time.Second) {
		return fmt.Errorf("written %d seconds after 1970", s.Written)
	}
	if len(s.GPUs) > gpusMost || len(s.Probes) > probesMost {
		return fmt.Errorf("%d GPUs and %d probes, expected %d and %d at most", len(s.GPUs), len(s.Probes), gpusMost, probesMost)
	}
	for gpu, balance := range s.GPUs {
		if len(gpu) > textMost || !inTime(balance) {
			return fmt.Errorf("GPU %q has a balance of %s", fabric.Clip(gpu, textMost), balance)
		}
	}
	for _, p := range s.Probes {
		if !slices.Contains(Kinds(), p.Kind) || len(p.Device) > textMost || p.Cost < 0 || !inTime(p.Cost) ||
			p.Ran != nil && !inAge(*p.Ran) || len(p.Baselines) > baselinesPerProbe {
			return fmt.Errorf("probe %q of %q: a kind, cost, age or number of baselines that is out of range",
				fabric.Clip(string(p.Kind), textMost), fabric.Clip(p.Device, textMost))
		}
		for _, b := range p.Baselines {
			ok := len(b.Fingerprint) <= textMost && inBW(b.Best) && b.Below >= 0 && b.Collapsed >= 0 && b.Collapsed <= b.Below && inAge(b.Used) && len(b.Bandwidths) <= windowSize
			for i, bw := range b.Bandwidths {
				ok = ok && inAge(bw.Age) && inBW(bw.BusBW) && bw.BusBW > 0 && (i == 0 || bw.Age <= b.Bandwidths[i-1].Age)
			}
			ok = ok && len(b.Latencies) <= windowSize
			for i, l := range b.Latencies {
				ok = ok && inAge(l.Age) && l.Time > 0 && l.Time <= slowest && (i == 0 || l.Age <= b.Latencies[i-1].Age)
			}
			if !ok {
				return fmt.Errorf("baseline %q: a value that is out of range", fabric.Clip(b.Fingerprint, textMost))
			}
		}
	}
	return nil
}

// compareKeys orders probes: by kind as Kinds lists them, then by device and port.
func compareKeys(a, b Key) int {
	kinds := Kinds()
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), fabric.NaturalOrder(a.Device, b.Device),
		cmp.Compare(a.Port, b.Port))
}
