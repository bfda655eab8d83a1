// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

func noHardware() *fabric.Node { return fabrictest.NoHardware() }

func healthy() *fabric.Node { return fabrictest.Healthy() }

func lossless() *fabric.Node { return fabrictest.Lossless() }

func withGPUs() *fabric.Node { return fabrictest.WithGPUs() }

func counted(n *fabric.Node, grown map[string]uint64) { fabrictest.Counted(n, grown) }

func verdicts(n *fabric.Node, of func(*fabric.GDR)) { fabrictest.Verdicts(n, of) }

func usable(g *fabric.GDR) { fabrictest.Usable(g) }

func blocked(by fabric.GDRBlock, evidence string) func(*fabric.GDR) {
	return fabrictest.Blocked(by, evidence)
}

// watch observes a simulated node through the real readers at each of these seconds, on a clock that waits for
// nobody: the node is a step further for each second.
func watch(t *testing.T, s simulator.Scenario, seconds ...int) (nodes []*fabric.Node) {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	dir := t.TempDir()
	c, err := config.Parse(s.Name, []byte(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
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
		tree, err := s.Build().Materialise(dir)
		if err != nil {
			t.Fatal(err)
		}
		ob, err := observer.New(observer.Options{
			Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(),
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
