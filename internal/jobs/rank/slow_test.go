// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"cmp"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// slowSource is a source of variables that is slow when the first is asked for.
func slowSource(how func()) Sources {
	var asked atomic.Bool
	from := sources()
	exposed := from.Variable
	from.Variable = func(name, value string) (fabric.NCCLVariable, bool) {
		if !asked.Swap(true) {
			how()
		}
		return exposed(name, value)
	}
	return from
}

// burn uses up the processor time that a file may cost, as where the machine that emulates this one is busy.
func burn() {
	var t unix.Timespec
	for began := time.Duration(0); began == 0 || time.Duration(t.Nano())-began <= fileTime; {
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
		began = cmp.Or(began, time.Duration(t.Nano()))
	}
}

// untilBack waits until what was left behind of an owner has returned.
func untilBack(r *Reader, owner fabric.Owner) {
	for r.stuck.holds(owner) {
		time.Sleep(time.Millisecond)
	}
}

// One slow read is no proof of a hostile file: an environment is read again after seconds, and has the name of the
// job. Once, the job of a rank that had loaded NCCL by then never had one, and files that hung were closed for minutes.
func TestSlowEnvironment(t *testing.T) {
	needRoot(t)
	for name, how := range map[string]func(end chan struct{}){
		"processor time": func(chan struct{}) { burn() },
		"waiting":        func(end chan struct{}) { <-end },
	} {
		t.Run(name, func(t *testing.T) {
			s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "MAP=/dev/shm/nccl-abc",
				"NCCL_IB_TIMEOUT=22", "SLURM_JOB_ID=7", "RANK=1", "WORLD_SIZE=2")
			end := make(chan struct{})
			r := reader(t, slowSource(func() { how(end) }))
			now := time.Unix(1e9, 0)
			first := of(t, look(t, r, noNVML(), now), s.Process.Pid)
			if !slow(first.Settings) || first.Workload.Value.Rank != -1 {
				t.Fatalf("%+v, %+v", first.Settings, first.Workload)
			}
			close(end)
			untilBack(r, first.Owner)
			second := of(t, look(t, r, noNVML(), now.Add(shortest)), s.Process.Pid)
			if w := second.Workload.Value; len(second.Settings.Value) != 1 || w.Job != "7" || w.Rank != 1 || w.Ranks != 2 {
				t.Errorf("%+v, %+v", second.Settings, w)
			}
		})
	}
}

// A job keeps its name where a later read of the environment takes too long.
func TestSlowLater(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "NCCL_IB_TIMEOUT=22", "SLURM_JOB_ID=7")
	from := sources()
	exposed, reads := from.Variable, 0
	from.Variable = func(name, value string) (fabric.NCCLVariable, bool) {
		if reads++; reads > 1 {
			burn()
		}
		return exposed(name, value)
	}
	r := reader(t, from)
	now := time.Unix(1e9, 0)
	look(t, r, noNVML(), now)
	c := of(t, look(t, r, noNVML(), now.Add(shortest)), s.Process.Pid) // it has not loaded NCCL yet
	if reads != 2 || len(c.Settings.Value) != 1 || c.Workload.Value.Job != "7" {
		t.Errorf("%d reads: %+v, %+v", reads, c.Settings, c.Workload)
	}
}

// Who is read when others have used up almost all of the patience is not closed for what they took.
func TestPatienceOfOthers(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "NCCL_IB_TIMEOUT=22")
	r := reader(t, slowSource(func() { time.Sleep(20 * time.Millisecond) }))
	p := &process{share: &share{owner: userOwner(0)}}
	r.spent = lookPatience - 10*time.Millisecond
	r.readOnce(t.Context(), s.Process.Pid, p, "rank", time.Unix(1e9, 0), false)
	var c fabric.RankCandidate
	if p.details.fill(&c); c.Settings.State != fabric.OK || p.share.strikes > 0 {
		t.Errorf("%+v, waited for in vain %d times", c.Settings, p.share.strikes)
	}
}

// A process that takes a GPU an hour after it began is read again as soon as one that is new.
func TestSlowOfOld(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "NCCL_IB_TIMEOUT=22")
	now := time.Unix(1e9, 0)
	p := &process{share: &share{owner: userOwner(0)}, born: now.Add(-time.Hour)}
	reader(t, slowSource(burn)).readOnce(t.Context(), s.Process.Pid, p, "rank", now, false)
	if !p.details.early() || !p.next.Equal(now.Add(shortest)) {
		t.Errorf("read again after %v", p.next.Sub(now))
	}
}

// Files that hang each time are asked less and less, and after those of others.
func TestHangAgain(t *testing.T) {
	r := &Reader{known: map[int]*process{}, shares: map[fabric.Owner]*share{}, stuck: &gate{}}
	now := time.Unix(1e9, 0)
	var asked []time.Duration
	s := r.shareOf(userOwner(1001))
	for at := time.Duration(0); at < 2*time.Hour; at += time.Second {
		if !now.Add(at).Before(s.until) {
			asked = append(asked, at)
			s.strike(now.Add(at))
		}
	}
	if len(asked) > 20 || asked[1] > 10*time.Second || asked[len(asked)-1]-asked[len(asked)-2] != longest {
		t.Errorf("asked at %v", asked)
	}
	r.known[1], r.known[2] = &process{start: 1, share: s}, &process{start: 2, share: r.shareOf(userOwner(1002))}
	pids := []int{1, 2}
	if r.order(pids, nil); pids[0] != 2 {
		t.Errorf("read in the order %v", pids)
	}
}
