// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// gpusVerdict is what the check of the number of GPUs says.
func gpusVerdict(n *fabric.Node) verdict.Status {
	return diagnose.Run(n, []*verdict.Check{diagnose.Find("gpus")})[0].Status
}

// An expectation that a node never met is no fault of the node; met once, it is one, also for a check that
// only reads the record, after a restart, and where the site tried another number meanwhile.
func TestNeverMet(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	node := func(gpus, expected int) *fabric.Node {
		at = at.Add(2 * time.Minute)
		n := nodeWith(gpus, at)
		n.Policy = &fabric.Policy{GPUs: &expected}
		return n
	}
	judged := func(t *testing.T, file string, gpus, expected int) (status verdict.Status) {
		t.Helper()
		synctest.Test(t, func(*testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			status = gpusVerdict(m.Update(node(gpus, expected)))
		})
		return status
	}
	t.Run("recorded", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "inventory.json")
		for i, step := range []struct {
			gpus, expected int
			want           verdict.Status
		}{
			{4, 8, verdict.Unknown},
			{4, 8, verdict.Unknown},
			{4, 4, verdict.OK},
			{3, 4, verdict.Failed},
			{3, 8, verdict.Unknown},
			{3, 4, verdict.Failed},
			{8, 8, verdict.OK},
			{7, 8, verdict.Failed},
			{7, 7, verdict.OK},
			{6, 7, verdict.Failed},
		} {
			if got := judged(t, file, step.gpus, step.expected); got != step.want {
				t.Errorf("step %d: %d GPUs, %d expected: %s, want %s", i, step.gpus, step.expected, got, step.want)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("a gate of another user cannot read the record: %v, %v", info, err)
		}
	})
	t.Run("a folder that others may write to", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "inventory.json")
		judged(t, file, 8, 8)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if got := judged(t, file, 4, 8); got != verdict.Unknown {
			t.Errorf("got %s", got)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "none", "inventory.json")
		if got := judged(t, file, 4, 8); got != verdict.Unknown {
			t.Errorf("got %s", got)
		}
		m := Open(file, "", slog.New(slog.DiscardHandler))
		defer m.Close()
		n := m.Update(node(8, 8))
		less := *n
		less.GPUs, less.PCI = fabric.Known(7, "sysfs", at), nodeWith(7, at).PCI
		if got := gpusVerdict(m.Update(&less)); got != verdict.Failed {
			t.Errorf("an exporter that saw it met: %s", got)
		}
	})
	t.Run("the clock goes back", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "inventory.json")
		judged(t, file, 8, 8)
		at = at.Add(-48 * time.Hour)
		if got := judged(t, file, 7, 8); got != verdict.Failed {
			t.Errorf("got %s", got)
		}
	})
}

// What one machine met says nothing of another that has a copy of its disk, and a file that others could
// write says nothing at all.
func TestMetOfThisMachine(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	node := func(gpus int, guids ...string) *fabric.Node {
		at = at.Add(2 * time.Minute)
		n := nodeWith(gpus, at)
		n.Policy = &fabric.Policy{GPUs: new(8)}
		for i, guid := range guids {
			n.HCAs = append(n.HCAs, fabric.HCA{Name: "mlx5_" + string(rune('0'+i)), PCI: fabric.Known("0000:9"+string(rune('0'+i))+":00.0", "pci", at), NodeGUID: fabric.Known(guid, "node_guid", at)})
		}
		return n
	}
	judged := func(t *testing.T, file string, n *fabric.Node) (status verdict.Status) {
		t.Helper()
		synctest.Test(t, func(*testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			status = gpusVerdict(m.Update(n))
		})
		return status
	}
	moved := func(n *fabric.Node) *fabric.Node {
		for i := range n.HCAs {
			n.HCAs[i].PCI.Value = "0001:" + n.HCAs[i].PCI.Value[5:]
		}
		return n
	}
	for name, c := range map[string]struct {
		met, later *fabric.Node
		want       verdict.Status
	}{
		"this machine":                    {node(8, "a:0", "a:1"), node(7, "a:0", "a:1"), verdict.Failed},
		"one card was exchanged":          {node(8, "a:0", "a:1", "a:2"), node(7, "a:0", "b:1", "a:2"), verdict.Failed},
		"the slots are numbered anew":     {node(8, "a:0", "a:1"), moved(node(7, "a:0", "a:1")), verdict.Failed},
		"all its cards left the bus":      {node(8, "a:0", "a:1"), node(7), verdict.Failed},
		"a clone":                         {node(8, "a:0", "a:1"), node(4, "b:0", "b:1"), verdict.Unknown},
		"a clone, cards in other slots":   {node(8, "a:0", "a:1"), moved(node(4, "b:0", "b:1")), verdict.Unknown},
		"a clone of a node without cards": {node(8), node(4, "b:0", "b:1"), verdict.Unknown},
		"a virtual function has no GUID":  {node(8, "a:0", noGUID), node(7, "a:0", noGUID), verdict.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "inventory.json")
			judged(t, file, c.met)
			for range 2 { // the second time from what the first has written
				later := *c.later
				later.At = later.At.Add(time.Hour)
				if got := judged(t, file, &later); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			}
		})
	}
	t.Run("a file that others could write", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "inventory.json")
		judged(t, file, node(8, "a:0"))
		if err := os.Chmod(file, 0o666); err != nil {
			t.Fatal(err)
		}
		if got := judged(t, file, node(4, "a:0")); got != verdict.Unknown {
			t.Errorf("got %s", got)
		}
	})
}
