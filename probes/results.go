// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// resultsMost bounds how many results a file may have: more than a node of 128 ports has probes.
const resultsMost = 512

// bytesMost bounds the message of a measurement: more than the memory of all GPUs of a node.
const bytesMost = 1 << 50

// SavedResults returns the newest result of each probe that a state file remembers, without log and settings; none if there
// is no file yet. The error is ErrState, or that of reading. It gives up on a file system that does not answer.
func SavedResults(ctx context.Context, file string, now time.Time) ([]Result, error) {
	data, err := (&keeper{store: stateFile(file)}).load(ctx)
	if err != nil || data == nil {
		return nil, err
	}
	m := memory{duty: newDuty(1, 0), records: map[Key]*record{}}
	if err := m.decode(data, now, now); err != nil {
		return nil, err
	}
	var all []Result
	for _, r := range m.records {
		if r.last != nil {
			all = append(all, *r.last)
		}
	}
	return sorted(all), nil
}

// Results returns the newest results that say something of the fabric, and good ones before failures.
func (s *Status) Results() []Result {
	var all []Result
	for i := range s.Probes {
		p := &s.Probes[i]
		if r := p.Verdict(); r != nil {
			all = append(all, *r)
			if r.Outcome != OK && p.LastGood != nil {
				all = append(all, *p.LastGood)
			}
		}
	}
	return all
}

// ParseResults returns the results in what the command probe prints as JSON, or in /probes.json: of the latter the newest one
// of each probe, and the newest good one where that is another. The content is not trusted: what no probe could have
// measured is an error.
func ParseResults(data []byte, now time.Time) ([]Result, error) {
	var file struct {
		Runs   *[]Result `json:"runs"`
		Probes *[]struct {
			Last     *Result `json:"last"`
			LastGood *Result `json:"last_good"`
		} `json:"probes"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, inWords(err)
	}
	var all []Result
	switch {
	case file.Runs != nil:
		all = *file.Runs
	case file.Probes != nil:
		for _, p := range *file.Probes {
			for _, r := range []*Result{p.Last, p.LastGood} {
				if r != nil && (r == p.Last || p.Last == nil || !r.At.Equal(p.Last.At)) {
					all = append(all, *r)
				}
			}
		}
	default:
		return nil, errors.New("it has neither runs nor probes")
	}
	if len(all) > resultsMost {
		return nil, fmt.Errorf("%d results, expected at most %d", len(all), resultsMost)
	}
	for i := range all {
		if r := &all[i]; !r.sound() {
			return nil, fmt.Errorf("result %d (%q of %q): a kind, outcome, time or measurement that no probe has", i+1, fabric.Clip(string(r.Kind), textMost), fabric.Clip(r.Device, textMost))
		}
		if all[i].At.After(now) { // by a clock that was wrong
			all[i].At = now
		}
	}
	return sorted(all), nil
}

// inWords is an error of package json without types of Go and without the value, which may be long.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return errors.New(fabric.Clip(err.Error(), textMost))
	}
	kind, _, _ := strings.Cut(wrong.Value, " ") // of a number the value follows
	if wrong.Field == "" {
		return fmt.Errorf("found %s in place of an object", kind)
	}
	name := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:] // before it are names of Go where structs are embedded
	return fmt.Errorf("byte %d: %s cannot be this %s", wrong.Offset, name, kind)
}

// sound reports whether a result is one that a probe can have.
func (r *Result) sound() bool {
	good := r.Outcome == OK && r.Failure == "" || (r.Outcome == Failed || r.Outcome == Aborted) && slices.Contains(Failures(), r.Failure)
	path, known := r.Path.Get()
	if !good || known && !slices.Contains(Paths(), path) || !slices.Contains(Kinds(), r.Kind) || r.At.IsZero() || len(r.Device) > textMost {
		return false
	}
	for _, v := range []float64{r.Expected.Or(0), r.Comparison.Median.Or(0), r.Comparison.Ratio.Or(0)} {
		if !(v >= 0 && v < absurd) {
			return false
		}
	}
	return !slices.ContainsFunc(r.Measurements, func(m Measurement) bool {
		return m.Bytes > bytesMost || !(m.BusBW >= 0 && m.BusBW < absurd && m.AlgBW >= 0 && m.AlgBW < absurd && m.Time >= 0 && m.Time < math.MaxInt32) ||
			m.Ranks < 0 || m.Ranks > gpusMost || !slices.Contains(Ops(), m.Op)
	})
}

// sorted orders results by probe, the newest first.
func sorted(all []Result) []Result {
	slices.SortStableFunc(all, func(a, b Result) int {
		if c := compareKeys(a.Key, b.Key); c != 0 {
			return c
		}
		return b.At.Compare(a.At)
	})
	return all
}
