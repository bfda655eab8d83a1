// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// key is what the processes of a job have in common. The first two are what the kernel says, and no process of another owner has them; the
// rest tells jobs of one owner apart.
type key struct {
	place          string // the outermost pod or container, "pod-UID" or "container-ID"; empty: the host
	user           string // numeric user ID; empty: any of a pod or container, or not known
	scheduler, job string
}

// keyOf returns the job of a process. The users of a pod or container share its jobs. What the environment states, or a control group that
// its user may make, tells jobs of one user apart.
func keyOf(c *fabric.RankCandidate) key {
	w := c.Workload.Or(fabric.Workload{})
	k := key{scheduler: schedulerOf(w.Scheduler), job: clean(w.Job, maxName)}
	switch {
	case w.Scheduler == "slurm" && !w.Stated: // what containers are in it, its user made
	case w.Pod != "":
		k.place = "pod-" + clean(w.Pod, maxName)
	case w.ContainerID != "":
		k.place = "container-" + clean(w.ContainerID, maxName)
	}
	if k.job == "" {
		k.scheduler, k.job = "none", cmp.Or(clean(c.Command, maxName), "unknown")
	}
	if k.place != "" && !w.Stated {
		k.job = "" // the place says it, whatever its name is
		return k
	}
	if c.Limits.State == fabric.OK {
		k.user = strconv.FormatUint(uint64(c.User), 10)
	}
	return k
}

// owner is whose the job is.
func (k key) owner() string {
	return cmp.Or(k.place, "user-"+cmp.Or(k.user, "unknown"))
}

// foreign reports whether two processes are known to be of different owners.
func foreign(a, b *fabric.RankCandidate) bool {
	known := a.Limits.State == fabric.OK && a.Workload.State == fabric.OK && b.Limits.State == fabric.OK && b.Workload.State == fabric.OK
	return known && keyOf(a).owner() != keyOf(b).owner()
}

// nameOf names the job of a process by what its scheduler calls it. What the process itself states is not a name of a scheduler: its owner
// is in the name, so that nobody can take the name of the job of another.
func nameOf(c *fabric.RankCandidate) string {
	w, k := c.Workload.Or(fabric.Workload{}), keyOf(c)
	name := k.scheduler + "/" + cmp.Or(k.job, clean(w.Job, maxName), "unknown")
	switch {
	case k.place != "" && w.Stated:
		name += "-of-" + short(k.place)
	case k.user != "" && (w.Stated || k.scheduler == "none"):
		name += "-of-user-" + k.user
	}
	return name
}

// short is a place with as many digits as those of a container that people use.
func short(place string) string {
	const digits = len("container-") + 12
	if strings.HasPrefix(place, "container-") && len(place) > digits {
		return place[:digits]
	}
	return place
}

// group is the processes of a job.
type group struct {
	key   key
	name  string
	ranks []*observed // the oldest first
}

// stated reports whether only the processes themselves name the job, and not their scheduler. A user can make up any number of names.
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

// nameAll gives each job a name of its own. A name that two have is that of the one that its scheduler calls so, not of what root
// or somebody unknown runs beside it, and then of the older one.
func nameAll(groups []*group) {
	last := func(g *group) int {
		return map[bool]int{true: 2}[g.stated()] + map[bool]int{true: 1}[g.key.place == "" && (g.key.user == "" || g.key.user == "0")]
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b *group) int { return last(a) - last(b) })
	taken := map[string]bool{}
	for _, g := range groups {
		by := g.ranks[max(0, slices.IndexFunc(g.ranks, func(r *observed) bool { return !r.Workload.Value.Stated }))]
		g.name = nameOf(by.RankCandidate)
		if taken[g.name] {
			g.name += "-of-" + g.key.owner()
		}
		for i, of := 2, g.name; taken[g.name]; i++ {
			g.name = fmt.Sprintf("%s-%d", of, i)
		}
		taken[g.name] = true
	}
}
