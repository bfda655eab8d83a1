// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

func TestTreeBecomes(t *testing.T) {
	s, err := Find("pfc-storm")
	if err != nil {
		t.Fatal(err)
	}
	tree := materialise(t, s.Healthy())
	received := func() uint64 {
		v, err := strconv.ParseUint(read(t, path.Join(tree.Sysfs(), "class/infiniband/mlx5_7/ports/1/counters/port_rcv_data")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	paused := func() (sum uint64) {
		for i := range tree.now.NetDevs {
			if d := &tree.now.NetDevs[i]; d.Name == tree.now.HCA("mlx5_7").Ports[0].NetDev {
				sum = d.Statistic("tx_prio3_pause_duration").value()
			}
		}
		return sum
	}
	step := func(n int) uint64 {
		t.Helper()
		before := received()
		if err := tree.Step(n); err != nil {
			t.Fatal(err)
		}
		return received() - before
	}
	become := func(n *Node) {
		t.Helper()
		before, waited := received(), paused()
		if err := tree.Become(n); err != nil {
			t.Fatal(err)
		}
		if received() != before || paused() != waited {
			t.Errorf("counters jump: %d to %d, %d to %d", before, received(), waited, paused())
		}
	}
	whole := step(100)
	become(built(t, s))
	if got := step(100); got/100 != whole/20/100 { // both are rounded in each step
		t.Errorf("100 s of a storm: %d received, want %d", got, whole/20)
	}
	if got := paused(); got < 90_000_000 {
		t.Errorf("paused for %d us in 100 s of a storm", got)
	}
	become(s.Healthy())
	if got := step(100); got != whole {
		t.Errorf("100 s after the storm: %d received, want %d", got, whole)
	}
}

// TestTreeIsMended breaks and repairs nodes: they then show what they showed before, except counters.
func TestTreeIsMended(t *testing.T) {
	for _, name := range []string{"device-gone", "no-rdma", "gid-missing", "link-flapping", "gpu-lost", "bond-member-pfc-off"} {
		t.Run(name, func(t *testing.T) {
			s, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			tree := materialise(t, s.Healthy())
			before := tree.current
			for _, n := range []*Node{built(t, s), s.Healthy()} {
				if err := tree.Become(n); err != nil {
					t.Fatal(err)
				}
			}
			if c := before.to(tree.current); len(c.added)+len(c.removed)+len(c.changed) > 0 {
				t.Errorf("mended, it has %v, lacks %v and differs in %v", c.added, c.removed, c.changed)
			}
		})
	}
}

func TestCountersHaveNames(t *testing.T) {
	for _, s := range Scenarios() {
		names := map[string]bool{}
		built(t, s).counters(func(name string, _ *Counter) {
			if names[name] {
				t.Errorf("%s: two counters are called %q", s.Name, name)
			}
			names[name] = true
		})
	}
}

// Logs grow in place, as those that follow them expect, and keep their lines when the node changes.
func TestLogsGrow(t *testing.T) {
	s, err := Find("job-log-retries")
	if err != nil {
		t.Fatal(err)
	}
	tree := materialise(t, s.Healthy())
	log := path.Join(tree.Rootfs(), rankLog)
	if got := read(t, path.Join(tree.Rootfs(), devKmsg)); got != "" {
		t.Errorf("messages of the kernel: %q", got)
	}
	if err := tree.Become(s.Build()); err != nil {
		t.Fatal(err)
	}
	begin, err := os.ReadFile(log)
	if err != nil || len(begin) == 0 {
		t.Fatalf("%q, %v", begin, err)
	}
	open, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := tree.Step(loggedFrom); err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(open)
	if more, grew := strings.CutPrefix(string(whole), string(begin)); err != nil || !grew || strings.Count(more, "\n") != 1 || !strings.Contains(more, "NCCL WARN") {
		t.Errorf("%q became %q, %v", begin, whole, err)
	}
	if err := tree.Become(s.Healthy()); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(log); err != nil || string(after) != string(whole) {
		t.Errorf("the job ended, and its log is %q, %v", after, err)
	}
}
