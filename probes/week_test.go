// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// changing is a machine whose rails get new names every six hours, and which gets a new driver as often.
type changing struct {
	*bench
	start time.Time
}

func (c changing) age() int { return int(time.Since(c.start) / (6 * time.Hour)) }

func (c changing) Targets(ctx context.Context) []Target {
	list := c.bench.Targets(ctx)
	for i := range list {
		if list[i].Key.Kind == Rail {
			list[i].Key.Device = strings.Replace(list[i].Key.Device, "mlx5_", fmt.Sprintf("mlx5_%d_", c.age()), 1)
		}
		list[i].GPUs = slices.Clone(list[i].GPUs)
		for k := range list[i].GPUs {
			list[i].GPUs[k] += fmt.Sprint("-", c.age())
		}
	}
	return list
}

func (c changing) Probe(ctx context.Context, t Target, begin func()) (Result, *Skipped) {
	r, s := c.bench.Probe(ctx, t, begin)
	r.Driver = fmt.Sprint("580.65.", c.age())
	return r, s
}

// A week of probes on a machine that never stays the same leaves a state file and a memory of bounded size.
func TestWeekIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		c := changing{newBench(t), time.Now()}
		config := DefaultConfig()
		config.Every = map[Kind]time.Duration{Transport: 3 * time.Hour, Node: 3 * time.Hour, Rail: 3 * time.Hour}
		config.Duty = 1
		p, err := New(Options{Config: config, Machine: c, Host: "node17", Logger: c.bench.prober(nil, nil).log})
		if err != nil {
			t.Fatal(err)
		}
		p.keeper = &keeper{store: d, changed: p.tellState}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		var sizes []int
		for i := range 7 {
			time.Sleep(day)
			s := p.Status()
			p.mu.Lock()
			file, err := p.memory.encode(p.now(), time.Now())
			shown, records, accounts := len(s.Probes), len(p.memory.records), len(p.memory.duty.gpus)
			baselines := 0
			for _, r := range p.memory.records {
				baselines = max(baselines, len(r.baselines))
			}
			p.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("day %d: %d probes shown, %d remembered, at most %d baselines of one, %d GPUs, state file %d bytes", i+1, shown, records, baselines, accounts, len(file))
			if shown > probesMost || records > probesMost || accounts > gpusMost || baselines > 16 {
				t.Errorf("day %d: it grows", i+1)
			}
			sizes = append(sizes, len(file))
		}
		cancel()
		<-ended
		if most := slices.Max(sizes); most > 256<<10 || sizes[6] > sizes[3]*5/4 {
			t.Errorf("state files of %v bytes: expected less than 256 KiB, and no growth after the fourth day", sizes)
		}
		if len(d.data) == 0 {
			t.Error("nothing was saved")
		}
	})
}
