// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Collective is what NCCL Inspector reports about one kind of collective of a running job on one GPU.
type Collective struct {
	Place
	Sample fabric.CollectiveSample
}

// CollectiveTotal is what Inspector counted of one operation of a running job on one GPU.
type CollectiveTotal struct {
	Place
	Total fabric.CollectiveTotal
}

// Place is a GPU of a job.
type Place struct {
	Job string // Name of a Job
	GPU string // UUID
}

// Inspection is what the files of Inspector report about running jobs.
type Inspection struct {
	Samples []Collective
	Totals  []CollectiveTotal
	NoRank  int // files that belong to no rank, or to several jobs
}

// ticks is the unit of RankCandidate.Start (USER_HZ of Linux).
const ticks = time.Second / 100

// Inspect returns what files of Inspector report about the jobs. A file belongs to the rank that holds its
// GPU, or has its PID, runs as the owner of the file and began before it was written; what belongs to none,
// or to several jobs, is left out and counted: a user can neither report about the job of another one nor
// keep a job alive.
func (jobs *Jobs) Inspect(n *fabric.Node) Inspection {
	boot, known := n.Host.BootTime.Get()
	reading, read := n.Inspector.Get()
	if !known || !read {
		return Inspection{NoRank: len(reading.Files)}
	}
	type kind struct {
		Place
		collective string
		size       fabric.SizeClass
		nodes      bool
	}
	all, newest := Inspection{}, map[kind]time.Time{}
	samples, totals := map[kind]fabric.CollectiveSample{}, map[kind]fabric.CollectiveTotal{}
	for i := range reading.Files {
		f := &reading.Files[i]
		at := jobs.writer(n, f, boot)
		if at.Job == "" {
			all.NoRank++
			continue
		}
		for _, s := range f.Samples {
			if k := (kind{at, s.Collective, s.Size, s.Nodes}); !f.Written.Before(newest[k]) {
				newest[k], samples[k] = f.Written, s
			}
		}
		for _, t := range f.Totals {
			k := kind{Place: at, collective: t.Collective, nodes: t.Nodes}
			sum := totals[k]
			totals[k] = fabric.CollectiveTotal{
				Collective: t.Collective, Nodes: t.Nodes,
				Recorded: sum.Recorded + t.Recorded, Seconds: sum.Seconds + t.Seconds, Launched: sum.Launched + t.Launched,
			}
		}
	}
	compare := func(a, b kind) int {
		within := func(k kind) int { return map[bool]int{true: 1}[k.nodes] }
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.collective, b.collective),
			cmp.Compare(a.size, b.size), within(a)-within(b))
	}
	for _, k := range slices.SortedFunc(maps.Keys(samples), compare) {
		all.Samples = append(all.Samples, Collective{k.Place, samples[k]})
	}
	for _, k := range slices.SortedFunc(maps.Keys(totals), compare) {
		all.Totals = append(all.Totals, CollectiveTotal{k.Place, totals[k]})
	}
	return all
}

// writer returns the job and the GPU that a file is of; empty: not known.
func (jobs *Jobs) writer(n *fabric.Node, f *fabric.InspectorFile, boot time.Time) (at Place) {
	for _, c := range n.Ranks.Or(nil) {
		began := boot.Add(time.Duration(c.Start) * ticks)
		if _, known := c.Limits.Get(); !known || c.User != f.Owner || f.Written.Before(began) {
			continue
		}
		uuid := f.GPU
		if gpus := c.GPUs.Or(nil); uuid == "" {
			if c.PID != f.PID || len(gpus) != 1 {
				continue
			}
			uuid = gpus[0]
		} else if !slices.Contains(gpus, uuid) {
			continue
		}
		name := jobs.of(c.PID)
		if name == "" || at.Job != "" && at.Job != name {
			return Place{}
		}
		at = Place{name, uuid}
	}
	return at
}

// of returns the name of the job that has this process; empty: none.
func (jobs *Jobs) of(pid int) string {
	for i := range jobs.List {
		if slices.ContainsFunc(jobs.List[i].Ranks, func(r Rank) bool { return r.PID == pid }) {
			return jobs.List[i].Name
		}
	}
	return ""
}
