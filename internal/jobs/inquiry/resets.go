// SPDX-License-Identifier: Apache-2.0

package inquiry

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
)

const (
	// of an owner, after which none of his jobs is asked, and owners with one, after which no job of the node is
	mostResets = 3
	crashes    = 2 * time.Minute // within which a process that ended the connection and is gone has crashed
)

// resets are the processes that ended the connection when they were asked. One that crashed does that; so
// does a program of a user that listens on the port of RAS, which must not keep the exporter from asking the
// jobs of others.
type resets []reset

type reset struct {
	asked   process
	job     []process    // all of its job on this node
	owner   fabric.Owner // of the job
	release fabric.NCCLVersion
	at      time.Time
	crashed bool
}

// add notes one more. An owner of many, and then anyone, is not asked any more, so their number is bounded.
func (r *resets) add(one reset) { *r = append(*r, one) }

// full says that no job of the node is asked any more. Jobs of one owner do not decide that for those of others.
func (r resets) full() bool {
	owners := map[fabric.Owner]bool{}
	for i := range r {
		owners[r[i].owner] = true
	}
	return len(owners) >= mostResets
}

// of counts those of an owner.
func (r resets) of(owner fabric.Owner) (n int) {
	for i := range r {
		if r[i].owner == owner {
			n++
		}
	}
	return n
}

// look notes which of them are gone.
func (r resets) look(n *fabric.Node, now time.Time) {
	candidates, known := n.Ranks.Get()
	if !known {
		return
	}
	for i := range r {
		there := slices.ContainsFunc(candidates, func(c fabric.RankCandidate) bool {
			return process{
				c.PID,
				c.Start,
			} == r[i].asked
		})
		if !there && now.Sub(r[i].at) < crashes {
			r[i].crashed = true
		}
	}
}

// refuse says why a job with these processes and this release is not asked; nil: they are no reason.
func (r resets) refuse(of []process, owner fabric.Owner, release fabric.NCCLVersion) error {
	switch {
	case r.full():
		return &progress.Refusal{
			Why:  progress.NodeStopped,
			Text: "processes of jobs of three owners ended the connection when they were asked: no job is asked until the exporter restarts",
		}
	case r.of(owner) >= mostResets:
		return &progress.Refusal{
			Why:  progress.Stopped,
			Text: "processes of three jobs of its owner ended the connection when they were asked: none of his is asked until the exporter restarts",
		}
	}
	for i := range r {
		switch {
		case slices.ContainsFunc(of, func(p process) bool { return slices.Contains(r[i].job, p) }):
			return &progress.Refusal{
				Why:  progress.Stopped,
				Text: "its process ended the connection when it was asked: the job is not asked again",
			}
		case r[i].crashed && r[i].release.String() == release.String():
			return &progress.Refusal{Why: progress.ReleaseStopped, Text: "a process with NCCL " + release.String() +
				" ended when it was asked, and may have crashed of it: this release is not asked until the exporter restarts"}
		}
	}
	return nil
}

// processesOf returns the processes of a job.
func processesOf(n *fabric.Node, j *job.Job) []process {
	var list []process
	for _, c := range n.Ranks.Or(nil) {
		if slices.ContainsFunc(j.Ranks, func(r job.Rank) bool { return r.PID == c.PID }) {
			list = append(list, process{c.PID, c.Start})
		}
	}
	return list
}
