// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Collective is what NCCL Inspector says of one kind of collective of a running job on one GPU.
type Collective struct {
	Job    string // Name of a Job
	GPU    string // UUID
	Sample fabric.CollectiveSample
}

// ticks is the unit of RankCandidate.Start (USER_HZ of Linux).
const ticks = time.Second / 100

// Collectives returns what files of Inspector say of the jobs. A file belongs to the rank that holds its GPU, or has its PID, runs
// as the owner of the file and began before it was written; what belongs to none, or to several jobs, is left out: a user can
// neither speak for the job of another one nor keep a job alive.
func (jobs *Jobs) Collectives(n *fabric.Node) []Collective {
	boot, known := n.Host.BootTime.Get()
	reading, read := n.Inspector.Get()
	if !known || !read {
		return nil
	}
	type key struct {
		job, gpu, collective string
		size                 fabric.SizeClass
		nodes                bool
	}
	newest := map[key]time.Time{}
	samples := map[key]Collective{}
	for i := range reading.Files {
		f := &reading.Files[i]
		job, gpu := jobs.writer(n, f, boot)
		for _, s := range f.Samples {
			k := key{job, gpu, s.Collective, s.Size, s.Nodes}
			if job != "" && !f.Written.Before(newest[k]) {
				newest[k], samples[k] = f.Written, Collective{job, gpu, s}
			}
		}
	}
	list := make([]Collective, 0, len(samples))
	for _, c := range samples {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Collective) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Sample.Collective, b.Sample.Collective), cmp.Compare(a.Sample.Size, b.Sample.Size))
	})
	return list
}

// writer returns the job and the GPU that a file is of; empty: not known.
func (jobs *Jobs) writer(n *fabric.Node, f *fabric.InspectorFile, boot time.Time) (job, gpu string) {
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
		if name == "" || job != "" && job != name {
			return "", ""
		}
		job, gpu = name, uuid
	}
	return job, gpu
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
