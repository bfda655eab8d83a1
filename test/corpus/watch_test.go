// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

// later is when nodes are looked at again, for checks that compare two readings.
const later = 30

const wants = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantCounters | fabric.WantQoS | fabric.WantNetStats | fabric.WantPCI | fabric.WantGPU | fabric.WantLogs

// stage is where nodes of one shape are laid out one after the other: only what differs is written.
type stage struct {
	dir   string
	tree  *simulator.Tree
	wants fabric.Want
}

// newStage finds room for thousands of small files.
func newStage(t *testing.T) *stage {
	t.Helper()
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = t.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "corpus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &stage{dir: dir, wants: wants}
}

// set lays a node out at its beginning.
func (s *stage) set(n *simulator.Node) (err error) {
	if s.tree == nil {
		s.tree, err = n.Materialise(s.dir)
		return err
	}
	if err := s.tree.Edit(func(old *simulator.Node) { *old = *n }); err != nil {
		return err
	}
	return s.tree.Step(0)
}

// observe looks at a node through the real readers at each of these seconds, on a fake clock: the simulated
// node is a step further for each second.
func (s *stage) observe(t *testing.T, one sample, seconds ...int) (nodes []*fabric.Node) {
	t.Helper()
	if err := s.set(one.node()); err != nil {
		t.Fatalf("%s: %v", one.name, err)
	}
	site, err := config.Parse(one.name, []byte(one.config(s.tree)))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tree := s.tree
		ob, err := observer.New(observer.Options{
			Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(),
			Policy: site.Policy, NCCL: site.NCCL, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		begin := time.Now()
		for _, second := range seconds {
			time.Sleep(time.Until(begin.Add(time.Duration(second) * time.Second)))
			if err := tree.Step(second); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			nodes = append(nodes, ob.Observe(ctx, s.wants))
			cancel()
		}
	})
	return nodes
}

// observeAfter looks at a healthy node, and a minute later at what became of it.
func (s *stage) observeAfter(t *testing.T, healthy, one sample) (node *fabric.Node) {
	t.Helper()
	if err := s.set(healthy.node()); err != nil {
		t.Fatalf("%s: %v", healthy.name, err)
	}
	site, err := config.Parse(one.name, []byte(one.config(s.tree)))
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "inventory.json")
	synctest.Test(t, func(t *testing.T) {
		ob, err := observer.New(observer.Options{
			Sysfs: s.tree.Sysfs(), Procfs: s.tree.Procfs(), Rootfs: s.tree.Rootfs(), Ethernet: s.tree.Ethernet(), GPUs: s.tree.GPUs(),
			Policy: site.Policy, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		m := inventory.Open(record, "", slog.New(slog.DiscardHandler))
		defer m.Close()
		m.Update(ob.Observe(t.Context(), s.wants))
		if err := s.set(one.node()); err != nil {
			t.Fatalf("%s: %v", one.name, err)
		}
		time.Sleep(2 * time.Hour) // what is read seldom is read again
		node = m.Update(ob.Observe(t.Context(), s.wants))
	})
	return node
}

// judge asks all checks: those of state of the first look, all of the second. It returns what failed in either, and how
// many verdicts of the second are unknown.
func judge(nodes []*fabric.Node) (failed []claim, unknown []verdict.Verdict) {
	seen := map[string]bool{}
	for i, n := range nodes {
		list := diagnose.Run(n, nil)
		for _, v := range verdict.Failures(list) {
			if i == 0 && v.Check.Rate {
				continue
			}
			w := claim{check: v.Check, device: v.Subject.Device, port: v.Subject.Port, gpu: address(n, v.Subject.GPU), file: v.Subject.File, evidence: v.What + ". " + v.Evidence}
			if key := fmt.Sprint(w, w.port); !seen[key] {
				seen[key] = true
				failed = append(failed, w)
			}
		}
		unknown = verdict.Unknowns(list)
	}
	return failed, unknown
}

// address is the PCI address of a GPU that a verdict names.
func address(n *fabric.Node, gpu string) string {
	for _, g := range n.GPUDriver.GPUs {
		if g.UUID == gpu && gpu != "" {
			return g.Address
		}
	}
	return gpu
}
