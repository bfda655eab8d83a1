// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/jobs/ras"
)

// asText is a release whose report is asked for as text.
const asText = "2.28.3"

// dial connects to a port of a node. Its thread must come back: the ranks that it started would end with it.
func (n *node) dial(port string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.pid))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	return conn, errors.Join(err, unix.Setns(int(here.Fd()), unix.CLONE_NEWNET))
}

// ask asks the RAS of rank 0 of a job as the exporter asks that release.
func (n *node) ask(t *testing.T, release string) (fabric.RASAnswer, error) {
	t.Helper()
	version, err := fabric.ParseNCCLVersion(release)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := n.dial("28028")
	if err != nil {
		return fabric.RASAnswer{}, err
	}
	defer conn.Close()
	return ras.Ask(t.Context(), conn, version)
}

// stop returns once a process has stopped.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid)); strings.Contains(string(stat), ") T ") {
			return
		}
	}
	t.Fatal("it does not stop")
}

// rasJob starts two hosts whose ranks have a port of RAS each, with the releases that have RAS. last is for rank 1 only.
func rasJob(t *testing.T, common []string, test func(t *testing.T, r rig, n *node, ranks []*process), last ...string) {
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, "")
		first := append([]string{"NCCL_RAS_ADDR=127.0.0.1:28028"}, hosts[0]...)
		second := slices.Concat([]string{"NCCL_RAS_ADDR=127.0.0.1:28029"}, hosts[1], last)
		ranks := n.job(t, r, 50, append([]string{"NCCL_NET=Socket", "RIG_HOLD=1", "RIG_STOP=" + filepath.Join(n.work, "stop")}, common...), first, second)
		waitFor(t, ranks[0], "rank 0: 11 collectives")
		if r.suite == suites[0] {
			if _, err := n.ask(t, r.release); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("NCCL %s: %v, expected no RAS", r.release, err)
			}
			return
		}
		test(t, r, n, ranks)
	})
}

// TestRAS holds our reading of RAS against the RAS of a job that runs, hangs, does not answer, and of which a
// rank is lost.
func TestRAS(t *testing.T) {
	t.Parallel()
	rasJob(t, []string{"RIG_SPLIT=3"}, func(t *testing.T, r rig, n *node, ranks []*process) {
		version, err := fabric.ParseNCCLVersion(r.release)
		if err != nil || progress.Refused(version, true) == "" {
			t.Errorf("NCCL %s would be asked, %v", r.release, err) // by the exporter: 2.29.7 has crashed jobs
		}
		ask := func(what, release string, check func(a *fabric.RASAnswer, used *fabric.RASCommunicator) error) {
			t.Helper()
			began := time.Now()
			a, err := n.ask(t, release)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			var used *fabric.RASCommunicator // the one with collectives
			for i := range a.Communicators {
				if c := &a.Communicators[i]; used == nil || c.Spread.Most > used.Spread.Most {
					used = c
				}
			}
			if a.Version != r.release || len(a.Communicators) != 4 || used.Size != 2 {
				t.Errorf("%s: NCCL %s, %+v, expected 4 communicators of 2", what, a.Version, a.Communicators)
			} else if err := check(&a, used); err != nil {
				t.Errorf("%s: %v: %+v", what, err, *used)
			}
			t.Logf("%s: answered after %.1f s", what, time.Since(began).Seconds())
		}
		var last uint64
		running := func(_ *fabric.RASAnswer, c *fabric.RASCommunicator) error {
			before := last
			if last = c.Spread.Most; last <= before || c.MissingCount+c.FailedCount > 0 || !c.Complete || len(c.Ranks) != 2 || !c.Ranks[1].Counted {
				return errors.New("not a job that moves")
			}
			return nil
		}
		ask("running", r.release, running)
		waitFor(t, ranks[0], "rank 0: 31 collectives")
		ask("running", r.release, running)
		stop := filepath.Join(n.work, "stop")
		if err := os.WriteFile(stop, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for moves(t, n) {
		}
		ask("hangs", r.release, func(_ *fabric.RASAnswer, c *fabric.RASCommunicator) error { last = c.Spread.Most; return nil })
		ask("hangs", r.release, func(a *fabric.RASAnswer, c *fabric.RASCommunicator) error {
			if c.MissingCount+c.FailedCount > 0 || c.Spread.Most != last {
				return fmt.Errorf("not a job that stands at %d", last)
			}
			return says(progress.Hang, a)
		})
		if err := os.Remove(stop); err != nil {
			t.Fatal(err)
		}
		for !moves(t, n) {
		}
		ranks[1].stop(t)
		ask("stopped", r.release, func(a *fabric.RASAnswer, c *fabric.RASCommunicator) error {
			if len(c.Missing) != 1 || c.Missing[0].Rank != 1 || !c.Missing[0].Unresponsive || c.Missing[0].Dead || c.FailedCount > 0 {
				return errors.New("rank 1 does not answer")
			}
			return says(progress.Missing, a)
		})
		ranks[1].Kill()
		<-ranks[1].done
		waitFor(t, ranks[0], "ncclAllReduce(") // has failed
		ask("lost", r.release, func(a *fabric.RASAnswer, c *fabric.RASCommunicator) error {
			if len(c.Missing) != 1 || c.Missing[0].Rank != 1 || c.Missing[0].Dead || c.FailedCount != 1 || c.Ranks[0].AsyncError != 6 {
				return errors.New("rank 1 is missing, and rank 0 has an asynchronous error")
			}
			return says(progress.Failed, a)
		})
	})
}

// says holds the verdict on a job whose RAS gives this answer three times against the one that is wanted.
func says(want progress.State, a *fabric.RASAnswer) error {
	if got := progress.Judge([]fabric.RASAnswer{*a, *a, *a}, progress.GPUsBusy).State; got != want {
		return fmt.Errorf("the job is %s, expected %s", got, want)
	}
	return nil
}

// TestRASAsText reads what a job prints of itself as text. Releases from 2.28.7 on are asked for JSON instead.
func TestRASAsText(t *testing.T) {
	whole(t)
	t.Parallel()
	rasJob(t, []string{"RIG_SPLIT=2", "RIG_MORE=1"}, func(t *testing.T, r rig, n *node, ranks []*process) {
		ask := func(what string, missing, failed int) fabric.RASAnswer {
			t.Helper()
			a, err := n.ask(t, asText)
			if err != nil || a.Version != r.release || len(a.Communicators) != 4 || a.Communicators[0].Size != 2 {
				t.Fatalf("%s: %+v, %v", what, a, err)
			}
			for _, c := range a.Communicators { // only the last one is used: the others have no error
				if c.MissingCount != missing || c.FailedCount > failed {
					t.Errorf("%s: %+v, expected %d missing", what, c, missing)
				}
			}
			return a
		}
		ask("running", 0, 0)
		ranks[1].stop(t)
		if a := ask("stopped", 1, 0); a.SilentProcesses != 1 || a.DeadProcesses > 0 {
			t.Errorf("stopped: %+v, expected a process that does not answer", a)
		}
		ranks[1].Kill()
		<-ranks[1].done
		began := time.Now()
		waitFor(t, ranks[0], "ncclAllReduce(") // has failed
		a := ask("lost", 1, 1)
		if err := says(progress.Failed, &a); err != nil {
			t.Errorf("lost: %v: %+v", err, a)
		}
		for a.DeadProcesses == 0 && time.Since(began) < 2*time.Minute {
			time.Sleep(time.Second)
			a = ask("lost", 1, 1)
		}
		t.Logf("RAS gives the process up %.0f s after it died", time.Since(began).Seconds())
		for _, release := range []string{asText, r.release} {
			a, err := n.ask(t, release)
			for _, c := range a.Communicators {
				if m := c.Missing; err != nil || len(m) != 1 || !m[0].Dead || m[0].Rank != 1 || m[0].PID != ranks[1].Pid {
					t.Errorf("dead, as NCCL %s says: %+v, %v", release, c, err)
				}
			}
		}
	})
}

// TestRASAborted asks a job whose rank 1 has aborted its communicator and stays: it answers, and has none.
func TestRASAborted(t *testing.T) {
	whole(t)
	t.Parallel()
	rasJob(t, nil, func(t *testing.T, r rig, n *node, ranks []*process) {
		waitFor(t, ranks[1], "rank 1: aborted")
		waitFor(t, ranks[0], "ncclAllReduce(") // has failed
		for _, release := range []string{asText, r.release} {
			a, err := n.ask(t, release)
			if err != nil || len(a.Communicators) != 1 || a.SilentProcesses+a.DeadProcesses > 0 {
				t.Fatalf("as NCCL %s says: %+v, %v", release, a, err)
			}
			c := a.Communicators[0]
			if err := says(progress.Failed, &a); err != nil || c.FailedCount != 1 || len(c.Missing) > 0 && (c.Missing[0].Unresponsive || c.Missing[0].Dead) {
				t.Errorf("as NCCL %s says: %v: %+v", release, err, c)
			}
			if (release != asText) != (len(c.Missing) == 1) { // a text has no more than "NOCOMM"
				t.Errorf("as NCCL %s says: %+v, expected rank 1 without the communicator", release, c)
			}
		}
	}, "RIG_ABORT=30")
}

// TestRASChangesNothing asks a job with many communicators as fast as it answers: it launches as many
// collectives as before. Then the connection ends with the process.
func TestRASChangesNothing(t *testing.T) {
	whole(t)
	t.Parallel()
	rasJob(t, []string{"RIG_SPLIT=6"}, func(t *testing.T, r rig, n *node, ranks []*process) {
		launched := func() int { return strings.Count(ranks[0].output(), " collectives\n") }
		const windows = 2 * time.Second
		before := launched()
		time.Sleep(windows)
		alone, asked := launched()-before, 0
		before = launched()
		for end := time.Now().Add(windows); time.Now().Before(end); asked++ {
			if a, err := n.ask(t, r.release); err != nil || len(a.Communicators) != 7 {
				t.Fatalf("%d communicators, %v", len(a.Communicators), err)
			}
		}
		if during := launched() - before; asked < 3 || during < alone/2 {
			t.Errorf("%d0 collectives in %s alone, %d0 while it was asked %d times", alone, windows, during, asked)
		}
		t.Logf("%d0 collectives in %s alone, %d0 while it was asked %d times", alone, windows, launched()-before, asked)
		ranks[1].stop(t) // so that the answer takes 5 s
		ended := make(chan error)
		go func() { _, err := n.ask(t, r.release); ended <- err }()
		time.Sleep(time.Second)
		ranks[0].Kill()
		if err := <-ended; !errors.Is(err, fabric.ErrRASEnded) || errors.Is(err, context.Canceled) {
			t.Errorf("the process ended: %v", err)
		}
	})
}
