// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// resultsMost bounds how many results a file may have: more than a node of 128 ports has probes.
const resultsMost = 512

// SavedResults returns the newest result of each probe that a state file remembers, without log and settings; none if
// there is no file yet. The error is ErrState, or that of reading. It stops waiting for a file system that
// does not answer.
func SavedResults(ctx context.Context, file string, now time.Time) ([]probes.Result, error) {
	data, err := NewKeeper(File(file), nil).Load(ctx)
	if err != nil || data == nil {
		return nil, err
	}
	m := NewMemory(1, 0)
	if err := m.Decode(data, now, now); err != nil {
		return nil, err
	}
	var all []probes.Result
	for _, r := range m.Records {
		if r.Last != nil {
			all = append(all, *r.Last)
		}
	}
	return sorted(all), nil
}

// ParseResults returns the results in what the command probe prints as JSON, or in /probes.json: of the latter the
// newest one of each probe, and the newest good one where that is another. The content is not trusted: what no probe
// could have measured is an error.
func ParseResults(data []byte, now time.Time) ([]probes.Result, error) {
	var file struct {
		Runs   *[]probes.Result `json:"runs"`
		Probes *[]struct {
			Last     *probes.Result `json:"last"`
			LastGood *probes.Result `json:"last_good"`
		} `json:"probes"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, inWords(err)
	}
	var all []probes.Result
	switch {
	case file.Runs != nil:
		all = *file.Runs
	case file.Probes != nil:
		for _, p := range *file.Probes {
			for _, r := range []*probes.Result{p.Last, p.LastGood} {
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
		if r := &all[i]; !r.Sound() {
			return nil, fmt.Errorf("result %d (%q of %q): a kind, outcome, time or measurement that no probe has", i+1,
				fabric.Clip(string(r.Kind), probes.TextMost), fabric.Clip(r.Device, probes.TextMost))
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
		return errors.New(fabric.Clip(err.Error(), probes.TextMost))
	}
	kind, _, _ := strings.Cut(wrong.Value, " ") // of a number the value follows
	if wrong.Field == "" {
		return fmt.Errorf("found %s in place of an object", kind)
	}
	// before it are names of Go where structs are embedded
	name := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
	return fmt.Errorf("byte %d: %s cannot be this %s", wrong.Offset, name, kind)
}

// sorted orders results by probe, the newest first.
func sorted(all []probes.Result) []probes.Result {
	slices.SortStableFunc(all, func(a, b probes.Result) int {
		if c := probes.CompareKeys(a.Key, b.Key); c != 0 {
			return c
		}
		return b.At.Compare(a.At)
	})
	return all
}
