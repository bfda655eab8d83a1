// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// attacks are ways to make a job on TCP unseen, by another tenant or by its own.
func attacks() map[string]edit {
	return map[string]edit{
		"sockets unknown": func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonMalformed, "sock_diag", epoch)
		},
		"verbs unknown": func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonMalformed, "netlink", epoch)
		},
		"descriptors unknown": func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Files = fabric.UnknownFact[fabric.OpenFiles](fabric.ReasonTimeout, "fd", epoch)
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonTimeout, "sock_diag", epoch)
		},
		"too many descriptors": func(_ *fabric.Node, c *fabric.RankCandidate) { c.Files.Value.Complete = false },
		"sockets unknown, its log says verbs": func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonMalformed, "sock_diag", epoch)
			c.Log = fabric.Known(fabric.NCCLLog{Verbs: true}, "log", epoch)
		},
		"sockets unknown every second time": func(n *fabric.Node, c *fabric.RankCandidate) {
			if n.At.Sub(epoch)/(10*time.Second)%2 == 0 {
				c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonMalformed, "sock_diag", epoch)
			}
		},
		"load of GPUs unknown":   func(n *fabric.Node, _ *fabric.RankCandidate) { n.GPUDriver.GPUs = nil },
		"nothing known of it":    func(_ *fabric.Node, c *fabric.RankCandidate) { *c = fabric.RankCandidate{PID: c.PID, Start: c.Start} },
		"idle":                   idle,
		"processes unknown":      func(n *fabric.Node, _ *fabric.RankCandidate) { unlist(n, fabric.ReasonStuck) },
		"processes denied":       func(n *fabric.Node, _ *fabric.RankCandidate) { unlist(n, fabric.ReasonPrivilege) },
		"left out of the list":   func(n *fabric.Node, _ *fabric.RankCandidate) { partial(n) },
		"left out, others there": func(n *fabric.Node, _ *fabric.RankCandidate) { partial(n, rankOf(999, 0, 0)) },
	}
}

func unlist(n *fabric.Node, why fabric.Reason) {
	n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](why, "/proc", n.At)
}

// partial makes the look at the processes one that leaves out those that there were.
func partial(n *fabric.Node, list ...fabric.RankCandidate) {
	for i := range list {
		list[i].Workload.Value.Job = "9"
	}
	for _, c := range n.Ranks.Value {
		list = append(list, fabric.RankCandidate{PID: c.PID, Start: c.Start, Left: true})
	}
	n.Ranks.Value = list
}

// TestUnseenIsNotResolved: a job that was confirmed to use TCP is not taken for one that does not while it is
// not seen, for an hour; then it is unknown, and what was last seen of it stays known. It ends when its
// process does.
func TestUnseenIsNotResolved(t *testing.T) {
	for name, attack := range attacks() {
		var tr Tracker
		at := func(i int) *fabric.Node {
			return nodeOf(epoch.Add(time.Duration(i)*10*time.Second), rankOf(100, uint64(i)*5e9, uint64(i)*5e9))
		}
		const seen, hour = 2, 360
		for i := range seen + 1 {
			tr.Update(at(i))
		}
		kept, last := 0, Job{}
		for i := seen + 1; i <= seen+2*hour; i++ {
			n := at(i)
			attack(n, &n.Ranks.Value[0])
			jobs := tr.Update(n)
			k := slices.IndexFunc(jobs.List, func(j Job) bool { return j.Name == "slurm/7" })
			if k < 0 {
				t.Errorf("%s: after %d readings the job is gone", name, i-seen)
				break
			}
			if last = jobs.List[k]; last.Verdict.Transport == TCP && last.Verdict.Confirmed {
				kept = i - seen
			}
		}
		if kept < hour-1 || kept > hour { // every second time: the last is one reading later
			t.Errorf("%s: the verdict is kept for %s, expected until an hour is over", name, time.Duration(kept)*10*time.Second)
		}
		if v := last.Verdict; v.Transport != Unknown && v.Confirmed {
			t.Errorf("%s: after two hours it is %s", name, v.State())
		}
		if v := last.Verdict; v.Transport == Unknown && name != "idle" && last.Seen.Sub(epoch).Truncate(time.Minute) != 0 {
			t.Errorf("%s: last seen %s, unknown because %s", name, last.Seen, v.Reason)
		}
		n := at(3 * hour) // another process
		n.Ranks.Value[0].Start++
		if jobs := tr.Update(n); len(jobs.List) != 1 || jobs.List[0].Verdict.Transport != Unknown || !jobs.List[0].Seen.IsZero() {
			t.Errorf("%s: the process ended: %+v", name, jobs.List)
		}
	}
}

// TestUnseenEnds: what a look neither has nor left out has ended, also where facts of others could not be
// read, and so has a process whose PID another one has.
func TestUnseenEnds(t *testing.T) {
	node := func(i int) *fabric.Node {
		return nodeOf(epoch.Add(time.Duration(i)*10*time.Second), rankOf(100, uint64(i)*5e9, uint64(i)*5e9))
	}
	reused, ended := node(3), node(3)
	partial(reused)
	reused.Ranks.Value[0].Start++
	ended.Ranks.Value, ended.Sources = nil, []fabric.Source{{Name: fabric.SourceRanks, Reason: fabric.ReasonMalformed}}
	for name, n := range map[string]*fabric.Node{"another process": reused, "a complete look": ended} {
		var tr Tracker
		for i := range 3 {
			tr.Update(node(i))
		}
		if jobs := tr.Update(n); slices.ContainsFunc(jobs.List, func(j Job) bool { return j.Verdict.Transport == TCP }) {
			t.Errorf("%s: %+v", name, jobs.List)
		}
	}
}

// TestUnseenCostsNoOneElse: a tenant whose processes come and go while the look is incomplete neither fills
// what is kept, nor what is shown.
func TestUnseenCostsNoOneElse(t *testing.T) {
	var tr Tracker
	job := func(i int) fabric.RankCandidate { return ofUser(rankOf(100, uint64(i)*5e9, uint64(i)*5e9), 1000) }
	for i := range 3 {
		tr.Update(nodeOf(epoch.Add(time.Duration(i)*10*time.Second), job(i)))
	}
	for i := 3; i < 300; i++ {
		n := nodeOf(epoch.Add(time.Duration(i) * 10 * time.Second))
		var flood []fabric.RankCandidate
		for k := range 200 {
			c := ofUser(rankOf(1000+200*i+k, 0, 0), 1001)
			c.Workload.Value = fabric.Workload{Scheduler: "none", Job: fmt.Sprint("x", i*200+k)}
			flood = append(flood, c)
		}
		for k := range 1000 {
			flood = append(flood, fabric.RankCandidate{PID: 1000 + 200*(i-k/200) + k%200, Start: uint64(1000 + 200*(i-k/200) + k%200), Left: true})
		}
		n.Ranks.Value = append(flood, fabric.RankCandidate{PID: 100, Start: 100, Left: true})
		jobs := tr.Update(n)
		if len(tr.before) > 2*maxCandidates || len(jobs.List) > maxJobs {
			t.Fatalf("%d processes, %d jobs", len(tr.before), len(jobs.List))
		}
		if !slices.ContainsFunc(jobs.List, func(j Job) bool { return j.Name == "slurm/7" && j.Verdict.Transport == TCP }) {
			t.Fatalf("after %d readings the job of the other user is gone", i)
		}
	}
}

// ofUser gives a process a user.
func ofUser(c fabric.RankCandidate, user uint32) fabric.RankCandidate {
	c.User, c.Limits = user, fabric.Known(fabric.ProcessLimits{Memlock: 1 << 40}, "limits", epoch)
	return c
}

// TestUnseenFindings: a finding stays while what it was made from is not seen, and goes when that is seen to be right.
func TestUnseenFindings(t *testing.T) {
	small := func(n *fabric.Node, c *fabric.RankCandidate) {
		c.Limits = fabric.Known(fabric.ProcessLimits{Memlock: 1 << 16}, "limits", epoch)
		c.Devices = fabric.Known(fabric.ProcessDevices{}, "dev", epoch)
		n.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Role: fabric.Known(fabric.RoleCompute, "", epoch), State: fabric.Known(fabric.PortActive, "", epoch)}}}}
	}
	right := func(n *fabric.Node, c *fabric.RankCandidate) {
		small(n, c)
		c.Limits.Value.Memlock, c.Devices.Value.Uverbs = 1<<40, 1
	}
	for name, attack := range attacks() {
		if name == "too many descriptors" || name == "load of GPUs unknown" || name == "idle" || strings.HasPrefix(name, "verbs") {
			continue // these rules do not ask for them
		}
		var tr Tracker
		update := func(i int, edits ...edit) []Rule {
			n := nodeOf(epoch.Add(time.Duration(i)*10*time.Second), rankOf(100, uint64(i)*5e9, uint64(i)*5e9))
			for _, e := range edits {
				if len(n.Ranks.Value) > 0 {
					e(n, &n.Ranks.Value[0])
				}
			}
			var rules []Rule
			for _, j := range tr.Update(n).List {
				if j.Name == "slurm/7" {
					for _, f := range j.Findings {
						rules = append(rules, f.Rule)
					}
				}
			}
			return rules
		}
		want := []Rule{RuleMemlock, RuleNoDevices}
		for i := range 3 {
			update(i, small)
		}
		if got := update(3, small); !slices.Equal(got, want) {
			t.Fatalf("seen: %v", got)
		}
		for i := 4; i < 360; i++ {
			if got := update(i, small, attack); !slices.Equal(got, want) {
				t.Errorf("%s: after %d readings %v", name, i-3, got)
				break
			}
		}
		update(900, right) // after more than the time between two readings that are compared
		if got := update(901, right); len(got) > 0 {
			t.Errorf("%s: what is right again: %v", name, got)
		}
	}
}
