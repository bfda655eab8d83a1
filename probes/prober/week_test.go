// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
	"gpufabric_exporter/probes/state"
)

// changing is a machine whose rails get new names every six hours, and which gets a new driver as often.
type changing struct {
	*bench
	start time.Time
}

func (c changing) age() int { return int(time.Since(c.start) / (6 * time.Hour)) }

func (c changing) Targets(ctx context.Context) []probes.Target {
	list := c.bench.Targets(ctx)
	for i := range list {
		if list[i].Key.Kind == probes.Rail {
			list[i].Key.Device = strings.Replace(list[i].Key.Device, "mlx5_", fmt.Sprintf("mlx5_%d_", c.age()), 1)
		}
		list[i].GPUs = slices.Clone(list[i].GPUs)
		for k := range list[i].GPUs {
			list[i].GPUs[k] += fmt.Sprint("-", c.age())
		}
	}
	return list
}

func (c changing) Probe(ctx context.Context, t probes.Target, begin func()) (probes.Result, *probes.Skipped) {
	r, s := c.bench.Probe(ctx, t, begin)
	r.Driver = fmt.Sprint("580.65.", c.age())
	return r, s
}

// A week of probes on a machine that never stays the same leaves a state file and a memory of bounded size.
func TestWeekIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make probes runs it without")
	}
	synctest.Test(t, func(t *testing.T) {
		d := &probestest.Disk{}
		c := changing{newBench(t), time.Now()}
		config := probes.DefaultConfig()
		config.Every = map[probes.Kind]time.Duration{probes.Transport: 3 * time.Hour, probes.Node: 3 * time.Hour, probes.Rail: 3 * time.Hour}
		config.Duty = 1
		p, err := New(Options{Config: config, Machine: c, Host: "node17", Logger: c.bench.prober(nil, nil).log})
		if err != nil {
			t.Fatal(err)
		}
		p.keeper = state.NewKeeper(d, p.tellState)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		time.Sleep(time.Hour) // names change on the hour, and are seen minutes later
		var sizes []int
		for i := range 7 {
			time.Sleep(day)
			s := p.Status()
			p.mu.Lock()
			file, err := p.memory.Encode(p.now(), time.Now())
			shown, records, accounts := len(s.Probes), len(p.memory.Records), len(p.memory.Duty.GPUs)
			baselines := 0
			for _, r := range p.memory.Records {
				baselines = max(baselines, len(r.Baselines))
			}
			p.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("day %d: %d probes shown, %d remembered, at most %d baselines of one, %d GPUs, state file %d bytes", i+1, shown, records, baselines, accounts, len(file))
			for _, target := range c.Targets(ctx) {
				scheduled := slices.ContainsFunc(s.Probes, func(ps probes.ProbeStatus) bool { return ps.Key == target.Key && !ps.NextRun.IsZero() })
				if config.Every[target.Key.Kind] > 0 && !scheduled {
					t.Errorf("day %d: %v is not scheduled: names of the past have its place", i+1, target.Key)
				}
			}
			if shown > state.ProbesMost || records > state.ProbesMost || accounts > probes.GPUsMost || baselines > 16 {
				t.Errorf("day %d: it grows", i+1)
			}
			sizes = append(sizes, len(file))
		}
		cancel()
		<-ended
		if most := slices.Max(sizes); most > 256<<10 || sizes[6] > sizes[3]*5/4 {
			t.Errorf("state files of %v bytes: expected less than 256 KiB, and no growth after the fourth day", sizes)
		}
		if len(d.Data) == 0 {
			t.Error("nothing was saved")
		}
	})
}

// A rail that is gone for less than a week is compared with what it was before; after a week nothing is left of it.
func TestGoneProbesAreForgotten(t *testing.T) {
	for gone, kept := range map[time.Duration]bool{3 * day: true, 8 * day: false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.prober(nil, func(c *probes.Config) {
				c.Every = map[probes.Kind]time.Duration{probes.Rail: 6 * time.Hour}
				c.Duty = 0.01
			})
			all := b.Targets(t.Context())
			key, without := railKey(7), slices.DeleteFunc(slices.Clone(all), func(t probes.Target) bool { return t.Key == railKey(7) })
			p.see(all)
			p.memory.Record(key).Began = p.now()
			time.Sleep(gone)
			if p.see(without); (p.probes[key] != nil) != kept || (p.memory.Records[key] != nil) != kept {
				t.Errorf("gone for %s: kept %v and %v, expected %v", gone, p.probes[key] != nil, p.memory.Records[key] != nil, kept)
			}
			if p.probes[railKey(0)] == nil {
				t.Error("a rail that is there is forgotten")
			}
		})
	}
}

// More devices than are probed: those that are there keep their place.
func TestRoomForProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBench(t).prober(nil, nil)
		rails := func(name string, n int) (list []probes.Target) {
			for i := range n {
				list = append(list, probes.Target{Key: probes.Key{Kind: probes.Rail, Device: fmt.Sprint(name, i), Port: 1}})
			}
			return list
		}
		full := rails("mlx5_", state.ProbesMost)
		p.see(full)
		time.Sleep(lookEvery)
		p.see(append(rails("new", 5), full...))
		for _, target := range full {
			if p.probes[target.Key] == nil {
				t.Fatalf("%v has lost its place", target.Key)
			}
		}
		time.Sleep(lookEvery)
		p.see(append(rails("new", 5), full[6:]...)) // six are gone
		if n := len(p.probes); n != state.ProbesMost || p.probes[probes.Key{Kind: probes.Rail, Device: "new4", Port: 1}] == nil {
			t.Errorf("%d probes, with the fifth new one: %v", n, p.probes[probes.Key{Kind: probes.Rail, Device: "new4", Port: 1}] != nil)
		}
	})
}
