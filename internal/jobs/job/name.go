// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// key is what the processes of a job have in common. No process of another owner has the first, as the kernel
// says whose a process is; the rest tells jobs of one owner apart.
type key struct {
	owner          fabric.Owner
	scheduler, job string
	// this user namespace has no number for many users: none of them joins a job because he says so
	apart bool
}

// keyOf returns the job of a process. What the environment states, or a control group that its user may make,
// tells jobs of one owner apart.
func keyOf(c *fabric.RankCandidate) key {
	w := c.Workload.Or(fabric.Workload{})
	k := key{owner: c.Tenant(), scheduler: schedulerOf(w.Scheduler), job: clean(w.Job, maxName)}
	if k.job == "" {
		k.scheduler, k.job = "none", cmp.Or(clean(c.Command, maxName), "unknown")
	}
	switch {
	case k.owner.Isolated() && !w.Stated && k.scheduler != "none":
		k.job = "" // the pod or container says it, whatever its name is
	case k.owner == fabric.Owner{Kind: fabric.OwnerUser, ID: "65534"}:
		k.apart = w.Stated
	}
	return k
}

// foreign reports whether two processes are known to be of different owners.
func foreign(a, b *fabric.RankCandidate) bool {
	of, other := a.Tenant(), b.Tenant()
	known := of.Kind != "" && other.Kind != "" && a.Workload.State == fabric.OK && b.Workload.State == fabric.OK
	return known && of != other
}

// nameOf names the job of a process by what its scheduler calls it. What the process itself states is not a
// name of a scheduler: its owner is in the name, so that nobody can take the name of the job of another.
func nameOf(c *fabric.RankCandidate) string {
	w, k := c.Workload.Or(fabric.Workload{}), keyOf(c)
	name := k.scheduler + "/" + cmp.Or(k.job, clean(w.Job, maxName), "unknown")
	if k.owner.Kind != "" && (w.Stated || k.scheduler == "none") {
		if len(k.owner.ID) == 64 {
			k.owner.ID = k.owner.ID[:12] // as people write those of containers
		}
		name += "-of-" + label(k.owner)
	}
	return name
}

// label is an owner as a part of a name.
func label(o fabric.Owner) string {
	if o.Kind == "" {
		return "user-unknown"
	}
	return o.Kind + "-" + clean(o.ID, maxName)
}

// group is the processes of a job.
type group struct {
	key   key
	name  string
	ranks []*observed // the oldest first
}

// stated reports whether only the processes themselves name the job, and not their scheduler. A user can make
// up any number of names.
func (g *group) stated() bool {
	return !slices.ContainsFunc(g.ranks, func(r *observed) bool {
		w, known := r.Workload.Get()
		return known && !w.Stated && schedulerOf(w.Scheduler) != "none"
	})
}

// listed reports whether the last look has a process of the job.
func (g *group) listed() bool {
	return slices.ContainsFunc(g.ranks, func(r *observed) bool { return r.unlisted == "" })
}

// groupsOf groups processes by job. Each job has a name of its own.
func groupsOf(ranks []*observed) []*group {
	slices.SortStableFunc(ranks, func(a, b *observed) int { return byAge(a.RankCandidate, b.RankCandidate) })
	byKey := map[key]*group{}
	var groups []*group
	for _, r := range ranks {
		k := keyOf(r.RankCandidate)
		g := byKey[k]
		if g == nil {
			g = &group{key: k}
			byKey[k], groups = g, append(groups, g)
		}
		g.ranks = append(g.ranks, r)
	}
	nameAll(groups)
	return groups
}

// nameAll gives each job a name of its own. A name that two have is that of the one that its scheduler calls
// so, not of what root or somebody unknown runs beside it, and then of the older one.
func nameAll(groups []*group) {
	last := func(g *group) int {
		return map[bool]int{true: 2}[g.stated()] + map[bool]int{true: 1}[g.key.owner.Kind == "" ||
			g.key.owner == fabric.Owner{Kind: fabric.OwnerUser, ID: "0"}]
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b *group) int { return last(a) - last(b) })
	taken := map[string]bool{}
	for _, g := range groups {
		by := g.ranks[max(0, slices.IndexFunc(g.ranks, func(r *observed) bool { return !r.Workload.Value.Stated }))]
		g.name = nameOf(by.RankCandidate)
		if taken[g.name] {
			g.name += "-of-" + label(g.key.owner)
		}
		for i, of := 2, g.name; taken[g.name]; i++ {
			g.name = fmt.Sprintf("%s-%d", of, i)
		}
		taken[g.name] = true
	}
}
