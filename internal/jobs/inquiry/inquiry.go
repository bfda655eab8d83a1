// SPDX-License-Identifier: Apache-2.0

// Package inquiry asks the RAS subsystem of NCCL about jobs of this node: about one job at a time, by hand
// (Inquiry), or on suspicion while the exporter runs (Watch). Package progress decides which process may be
// asked, and judges the answers.
//
// An Inquiry is used by one goroutine. A Watch has one goroutine, which looks at the node and asks, so that
// one connection is open at a time; its methods may be called by any number of goroutines.
//
// Errors say why a job was not asked, or not again; fabric.ErrRASEnded is in the chain if the process ended
// the connection.
package inquiry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/library"
)

const (
	dialPatience    = 2 * time.Second
	libraryPatience = 5 * time.Second // a library may be on the file system of a server that does not answer
	maxVersions     = 4096            // processes whose library was read
	maxReading      = 4               // owners of processes whose library is being read, which may never end
)

// Look looks at the node and its jobs.
type Look func(ctx context.Context) (*fabric.Node, job.Jobs, error)

// Ask asks a process.
type Ask func(ctx context.Context, target progress.Target) (fabric.RASAnswer, error)

// Inquiry asks RAS about jobs.
type Inquiry struct {
	Look  Look
	Asker progress.Asker
	Ask   Ask
	Begin func(name string, target progress.Target) // before the first question
	// most is for how long a job is asked, beside the answers themselves; 0: as long as it takes.
	most time.Duration
	// vet refuses what Asker does not; nil: nothing.
	vet func(n *fabric.Node, j *job.Job, target progress.Target) error
}

// Dial returns what asks over a connection of its own.
func Dial(ask func(ctx context.Context, conn net.Conn, version fabric.NCCLVersion) (fabric.RASAnswer, error)) Ask {
	return func(ctx context.Context, target progress.Target) (fabric.RASAnswer, error) {
		d := net.Dialer{Timeout: dialPatience}
		conn, err := d.DialContext(ctx, "tcp", target.Addr.String())
		if err != nil {
			return fabric.RASAnswer{}, fmt.Errorf("connection to RAS: %w", err)
		}
		defer func() { _ = conn.Close() }()
		return ask(ctx, conn, target.Version)
	}
}

// ownerOf is whose a job is: what one owner's jobs take is not that of others. Those whose user is not known
// are together.
func ownerOf(n *fabric.Node, j *job.Job) fabric.Owner {
	candidates := n.Ranks.Or(nil)
	for i := range candidates {
		c := &candidates[i]
		if slices.ContainsFunc(j.Ranks, func(r job.Rank) bool { return r.PID == c.PID }) {
			return c.Tenant()
		}
	}
	return fabric.Owner{}
}

// Asker returns this process as the one that asks about processes of this procfs.
func Asker(procfs string) progress.Asker {
	v := newVersions(procfs)
	return progress.Asker{NetNS: ownNamespace(), Version: v.get}
}

type process struct {
	pid   int
	start uint64
}

// versions are the versions of NCCL that processes have mapped: each library is read once.
type versions struct {
	read func(pid int) (string, error)
	of   map[process]string
	// by owner: a library of one that hangs does not keep those of others from being read
	reading map[fabric.Owner]*errand.Errand[string]
}

func newVersions(procfs string) *versions {
	return &versions{
		of: map[process]string{}, reading: map[fabric.Owner]*errand.Errand[string]{},
		read: func(pid int) (string, error) {
			return library.MappedNCCL(procfs, pid), nil
		},
	}
}

func (v *versions) get(c *fabric.RankCandidate) string {
	if named := c.Maps.Or(fabric.MappedFiles{}).Version; named != "" {
		return named
	}
	id := process{c.PID, c.Start}
	if known, read := v.of[id]; read {
		return known
	}
	owner := c.Tenant()
	reading := v.reading[owner]
	switch {
	case reading == nil && len(v.reading) == maxReading:
		return ""
	case reading == nil:
		reading = new(errand.Errand[string])
		v.reading[owner] = reading
	}
	found, err := reading.Run(context.Background(), libraryPatience, func() (string, error) { return v.read(c.PID) })
	if err != nil {
		return ""
	}
	delete(v.reading, owner)
	if len(v.of) >= maxVersions {
		clear(v.of)
	}
	v.of[id] = found
	return found
}

// ownNamespace is the inode of the network namespace of this process, 0 if it is not known.
func ownNamespace() uint64 {
	link, _ := os.Readlink("/proc/self/ns/net") // net:[4026531840]
	n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(link, "net:["), "]"), 10, 64)
	return n
}

// About asks about a job until there are enough answers. Before each question it looks again which process to
// ask: the last one may have ended, and another one may have its port.
func (q *Inquiry) About(ctx context.Context, name string) progress.Account {
	a := progress.Account{Job: name}
	var pace progress.Pace
	begun := time.Now()
	var target progress.Target
	var answers []fabric.RASAnswer
	var answered time.Time
	activity := progress.ActivityUnknown
	for first := true; ; first = false {
		now, gpus, err := q.target(ctx, name)
		switch {
		case err != nil && first:
			a.Refused = err
			return a
		case err == nil && !first && (now.PID != target.PID || now.Start != target.Start):
			err = errors.New("another process is the lowest rank now")
		case err == nil && first && q.Begin != nil:
			q.Begin(name, now)
		}
		if err != nil {
			a.Failure = err
			break
		}
		if target = now; first {
			activity = gpus
		} else if gpus != activity {
			activity = progress.ActivityUnknown
		}
		answer, err := q.Ask(ctx, target)
		if a.Failure = err; err == nil {
			answers, answered = append(answers, answer), time.Now()
		}
		wait, again := pace.After(err)
		late := q.most > 0 && time.Since(begun)+wait > q.most
		if len(answers) == progress.Polls || !again || late || !sleep(ctx, wait) {
			break
		}
	}
	a.Take(answers, answered, activity)
	return a
}

func (q *Inquiry) target(ctx context.Context, name string) (progress.Target, progress.Activity, error) {
	n, jobs, err := q.Look(ctx)
	if err != nil {
		return progress.Target{}, progress.ActivityUnknown, err
	}
	i := slices.IndexFunc(jobs.List, func(j job.Job) bool { return j.Name == name })
	if i < 0 {
		return progress.Target{}, progress.ActivityUnknown, errors.New("the job has ended")
	}
	target, err := q.Asker.Choose(n, &jobs.List[i])
	if err == nil && q.vet != nil {
		err = q.vet(n, &jobs.List[i], target)
	}
	return target, progress.ActivityOf(n, &jobs.List[i]), err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
