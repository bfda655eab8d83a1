// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

// probesStatusJSON is /probes.json.
type probesStatusJSON struct {
	Enabled  bool             `json:"enabled"` // probes run by themselves
	At       *time.Time       `json:"at"`
	Since    *time.Time       `json:"since"` // the time since which counts and times are kept
	GPUs     int              `json:"gpus"`
	GPUTime  float64          `json:"gpu_seconds"`
	DutyUsed *float64         `json:"duty_used"` // share of the time of all GPUs
	Duty     *float64         `json:"duty_limit"`
	State    string           `json:"state_file_trouble,omitempty"`
	Probes   []probeStateJSON `json:"probes"`
}

type probeStateJSON struct {
	probes.Key
	Every     *float64          `json:"every_seconds"`
	LastRun   *time.Time        `json:"last_run"`
	NextRun   *time.Time        `json:"next_run"`
	Runs      uint64            `json:"runs"`
	Failures  map[string]uint64 `json:"failures"`
	Skips     map[string]uint64 `json:"skips"`
	Wrong     uint64            `json:"wrong_elements"`
	Judged    uint64            `json:"judged_results"`
	Slow      uint64            `json:"slow_results"`
	Late      uint64            `json:"late_results"`
	Baselines int               `json:"baselines"`
	LastSkip  *probes.Skipped   `json:"last_skip"`
	Last      *probes.Result    `json:"last"`
	LastGood  *probes.Result    `json:"last_good"`
	Kept      []probes.Result   `json:"kept"` // failures and regressions that are preserved, oldest first
	// Changed says what differs between two results, named by when they began: from the last good one to a failure, else
	// from the one before the last change to the last good one.
	Changed *probeChangedJSON `json:"changed"`
}

type probeChangedJSON struct {
	From    *time.Time      `json:"from"`
	To      *time.Time      `json:"to"`
	Changes []probes.Change `json:"changes"`
}

func statusJSON(s probes.Status, c *probes.Config, now time.Time) probesStatusJSON {
	j := probesStatusJSON{
		Enabled: s.Enabled, At: status.Moment(now), Since: status.Moment(s.Since), GPUs: s.GPUs,
		GPUTime: s.GPUTime.Seconds(), State: string(s.State),
		Probes: []probeStateJSON{},
	}
	if used, ok := dutyUsed(s, now); ok {
		j.DutyUsed = &used
	}
	if c != nil {
		j.Duty = &c.Duty
	}
	for i := range s.Probes {
		p := &s.Probes[i]
		state := probeStateJSON{
			Key: p.Key, Every: unlessZero(p.Every.Seconds()), LastRun: status.Moment(p.LastRun),
			NextRun: status.Moment(p.NextRun), Runs: p.Runs, Failures: map[string]uint64{}, Skips: map[string]uint64{},
			Wrong: p.Wrong, Judged: p.Judged, Slow: p.Slow, Late: p.Late, Baselines: p.Baselines,
			LastSkip: p.LastSkip, Last: p.Last, LastGood: p.LastGood, Kept: append([]probes.Result{}, p.Kept...),
		}
		for why, n := range p.Failures {
			state.Failures[string(why)] = n
		}
		for why, n := range p.Skips {
			state.Skips[string(why)] = n
		}
		if from, to := changed(p); from != nil {
			state.Changed = &probeChangedJSON{
				status.Moment(from.At), status.Moment(to.At),
				append([]probes.Change{}, probes.Changes(*from, *to)...),
			}
		}
		j.Probes = append(j.Probes, state)
	}
	return j
}

func unlessZero(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}
