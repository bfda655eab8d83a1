// SPDX-License-Identifier: Apache-2.0

// Package simulatortest observes simulated nodes in tests.
package simulatortest

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/stage"
)

// Watch observes a simulated node through the real readers at each of these seconds, on a fake
// clock: the node is a step further for each second.
func Watch(t *testing.T, s simulator.Scenario, seconds ...int) []*fabric.Node {
	t.Helper()
	return WatchOn(t, stage.New(t), s, seconds...)
}

// WatchOn is Watch for many scenarios, one after the other.
func WatchOn(t *testing.T, on *stage.Stage, s simulator.Scenario, seconds ...int) (nodes []*fabric.Node) {
	t.Helper()
	tree := on.Show(t, s)
	var names []string
	for _, about := range collector.Collectors() {
		if about.Default {
			names = append(names, about.Name)
		}
	}
	set, err := collector.NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := config.Parse(s.Name, []byte(s.ConfigOf(tree)))
		if err != nil {
			t.Fatal(err)
		}
		ob, err := observer.New(observer.Options{
			Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(),
			Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Ranks: tree.Ranks(),
			Policy: c.Policy, NCCL: c.NCCL, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		begin := time.Now()
		for _, at := range seconds {
			time.Sleep(time.Until(begin.Add(time.Duration(at) * time.Second)))
			if err := tree.Step(at); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			nodes = append(nodes, ob.Observe(ctx, set.Want()))
			cancel()
		}
	})
	return nodes
}

// Host returns the flags that make a simulated node this host.
func Host(t *testing.T, scenario string) []string {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
}
