// SPDX-License-Identifier: Apache-2.0

package inquiry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/jobs/ras"
	"gpufabric_exporter/internal/jobs/ras/rastest"
)

const name = "slurm/7"

// stage is a job of one rank on this node, over time.
type stage struct {
	begun time.Time
	// stops is when its traffic stops; 0: never.
	stops, resumes time.Duration
	change         func(after time.Duration, n *fabric.Node, j *job.Job)
	peer           func(conn net.Conn, i int) // RAS of the job
	looked         time.Duration              // the look before

	mu         sync.Mutex
	asked      []time.Duration // when it was
	open, most int             // connections
}

func (s *stage) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *stage) connections() (open, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.most
}

func (s *stage) look(context.Context) (*fabric.Node, job.Jobs, error) {
	now := time.Now()
	after := now.Sub(s.begun)
	n := &fabric.Node{At: now}
	n.Host.BootTime = fabric.Known(s.begun.Add(-2*time.Hour), "", now)
	n.GPUDriver.GPUs = []fabric.GPU{{UUID: "GPU-1", Utilization: fabric.Known(1.0, "", now)}}
	n.Ranks = fabric.Known([]fabric.RankCandidate{{
		PID: 9, Start: 100 * 3600, NetNS: fabric.Known(uint64(7), "", now), Maps: fabric.Known(fabric.MappedFiles{Version: "2.30.7"}, "", now),
		Sockets: fabric.Known([]fabric.Socket{{Listening: true, Local: netip.MustParseAddrPort("127.0.0.1:28028")}}, "", now),
		Verbs:   fabric.Known(fabric.VerbsUse{QueuePairs: 64}, "", now),
	}}, "", now)
	j := job.Job{
		Name: name, GPUs: []string{"GPU-1"}, Ranks: []job.Rank{{PID: 9, Start: 100 * 3600, Rank: 0}}, Verdict: job.Verdict{Transport: job.RDMA, Confirmed: true},
		Pulse: job.Pulse{Flow: job.Flowing, Load: job.LoadTogether},
	}
	// What moved since the look before counts: the first look after the end of the traffic still sees some.
	if s.stops > 0 && after >= s.stops && s.looked >= s.stops && (s.resumes == 0 || after < s.resumes) {
		j.Pulse.Flow = job.FlowStopped
	}
	s.looked = after
	if s.change != nil {
		s.change(after, n, &j)
	}
	jobs := job.Jobs{At: now, Known: n.Ranks.State == fabric.OK, List: []job.Job{j}}
	if j.Name == "" {
		jobs.List = nil
	}
	return n, jobs, nil
}

func (s *stage) ask(ctx context.Context, target progress.Target) (fabric.RASAnswer, error) {
	here, there := net.Pipe()
	defer here.Close()
	s.mu.Lock()
	i := len(s.asked)
	s.asked = append(s.asked, time.Since(s.begun))
	s.open++
	s.most = max(s.most, s.open)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	go func() {
		defer there.Close()
		s.peer(there, i)
	}()
	return ras.Ask(ctx, here, target.Version)
}

func replies(of ...rastest.State) func(net.Conn, int) {
	return func(conn net.Conn, i int) { new(rastest.Server).Converse(conn, of[min(i, len(of)-1)]) }
}

func hung() rastest.State {
	s := rastest.Healthy("2.30.7", 500)
	s.Communicators[0].Ranks[5].AllReduce = 499
	return s
}

func behind(launched uint64) rastest.State {
	s := rastest.Healthy("2.30.7", launched)
	s.Communicators[0].Ranks[5].AllReduce = launched - 4
	return s
}

// stalled is a job of which one rank stays where it was.
func stalled(launched uint64) rastest.State {
	s := rastest.Healthy("2.30.7", launched)
	s.Communicators[0].Ranks[5].AllReduce = 90
	return s
}

func failed() rastest.State {
	s := rastest.Healthy("2.30.7", 500)
	s.Communicators[0].Ranks[2].Async = 6
	return s
}

// What is planted in RAS is seen, and when. The traffic of the job stops 20 minutes after the exporter began,
// and an hour is watched. Time is fake.
func TestPlanted(t *testing.T) {
	const stops = 20*time.Minute + time.Second // just after a look: what is latest
	silent := func(conn net.Conn, _ int) { _, _ = io.Copy(io.Discard, conn) }
	for planted, c := range map[string]struct {
		peer    func(net.Conn, int)
		state   progress.State
		within  time.Duration // from the fault to the state
		problem func(r progress.Ranks) int
		outcome progress.Outcome
	}{
		"hang":               {replies(hung()), progress.Hang, 155 * time.Second, nil, progress.Answered},
		"hang of all alike":  {replies(rastest.Healthy("2.30.7", 500)), progress.Hang, 155 * time.Second, nil, progress.Answered},
		"stalled":            {replies(stalled(100), stalled(130), stalled(160)), progress.Stalled, 155 * time.Second, nil, progress.Answered},
		"rank dead":          {replies(hung().Lose(5, true)), progress.Dead, 155 * time.Second, func(r progress.Ranks) int { return r.Dead }, progress.Answered},
		"rank missing":       {replies(hung().Lose(5, false)), progress.Missing, 155 * time.Second, func(r progress.Ranks) int { return min(r.Missing, r.Unresponsive) }, progress.Answered},
		"asynchronous error": {replies(failed()), progress.Failed, 155 * time.Second, func(r progress.Ranks) int { return r.Failed }, progress.Answered},
		"straggler":          {replies(behind(100), behind(130), behind(160)), progress.Straggler, 155 * time.Second, nil, progress.Answered},
		"healthy":            {replies(rastest.Healthy("2.30.7", 10), rastest.Healthy("2.30.7", 20), rastest.Healthy("2.30.7", 30)), progress.Moving, 155 * time.Second, nil, progress.Answered},
		"never answers":      {silent, progress.Unknown, 0, nil, progress.Failing},
		"another protocol":   {func(conn net.Conn, _ int) { _, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, progress.Unknown, 0, nil, progress.Failing},
		"never stops": {func(conn net.Conn, _ int) {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			for {
				if _, err := conn.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
					return
				}
			}
		}, progress.Unknown, 0, nil, progress.Failing},
		"crash": {func(conn net.Conn, _ int) { _, _ = conn.Read(make([]byte, 99)) }, progress.Unknown, 0, nil, progress.Ended},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := &stage{begun: time.Now(), stops: stops, peer: c.peer}
			w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.NewTextHandler(&log, nil)), Quiet: progress.Quiet})
			w.Apply(true)
			defer w.Close()
			var seen time.Duration
			for range 60 * 12 {
				time.Sleep(5 * time.Second)
				for _, a := range w.Status().Jobs {
					if a.Known() && a.Report.State == c.state && seen == 0 {
						seen = time.Since(s.begun) - stops
						if alike := planted == "hang of all alike"; a.Report.Confirmed == alike {
							t.Errorf("%s: confirmed: %v", planted, a.Report.Confirmed)
						}
						if c.problem != nil && c.problem(a.Ranks) != 1 {
							t.Errorf("%s: %+v", planted, a.Ranks)
						}
					}
				}
			}
			synctest.Wait()
			status := w.Status()
			if (seen == 0) != (c.within == 0) || seen > c.within {
				t.Errorf("%s: seen after %s, expected within %s", planted, seen, c.within)
			}
			if status.Asked[c.outcome] == 0 || c.outcome == progress.Ended && (len(s.times()) != 1 || status.Jobs[0].Reason() != progress.Stopped) {
				t.Errorf("%s: asked at %v: %v, %+v", planted, s.times(), status.Asked, status.Jobs)
			}
			if _, most := s.connections(); s.times()[0] < stops+time.Minute || most > 1 || len(s.times()) > 9 {
				t.Errorf("%s: asked at %v, %d at once", planted, s.times(), most)
			}
			if strings.Contains(log.String(), "xxxx") && !strings.Contains(log.String(), `"xxx`) || len(log.String()) > 1<<13 {
				t.Errorf("%s: the log shows what was read: %s", planted, log.String())
			}
			t.Logf("%-20s %-10s seen after %-8s asked at %v", planted, c.state, seen, s.times())
		})
	}
}

func asker() progress.Asker {
	return progress.Asker{NetNS: 7, Version: func(c *fabric.RankCandidate) string { return c.Maps.Value.Version }}
}

// Nothing is asked where it may do harm or is not due, and the reason is known.
func TestNotAsked(t *testing.T) {
	rank := func(n *fabric.Node) *fabric.RankCandidate { return &n.Ranks.Value[0] }
	for what, c := range map[string]struct {
		stops  time.Duration
		change func(after time.Duration, n *fabric.Node, j *job.Job)
		why    progress.Reason // empty: it is not suspected
	}{
		"traffic flows": {0, nil, ""},
		"never flowed":  {time.Second, func(_ time.Duration, _ *fabric.Node, j *job.Job) { j.Pulse.Flow = job.FlowStopped }, ""},
		"rests": {time.Minute, func(after time.Duration, _ *fabric.Node, j *job.Job) {
			j.Pulse.Flow = map[bool]job.Flow{true: job.FlowResting, false: job.Flowing}[after > time.Minute]
		}, ""},
		"always apart": {0, func(_ time.Duration, _ *fabric.Node, j *job.Job) { j.Pulse.Load = job.LoadApart }, ""},
		"TCP from the beginning": {0, func(_ time.Duration, _ *fabric.Node, j *job.Job) {
			j.Verdict.Transport, j.Verdict.Way = job.TCP, job.WaySocket
		}, ""},
		"a new listener each 5 min": {time.Minute, func(after time.Duration, n *fabric.Node, _ *job.Job) {
			s := &rank(n).Sockets.Value
			for range int(after / (5 * time.Minute)) {
				*s = append(*s, (*s)[0])
			}
		}, progress.YoungCommunicator},
		"new queue pairs": {time.Minute, func(after time.Duration, n *fabric.Node, _ *job.Job) {
			rank(n).Verbs.Value.QueuePairs = int(after / (9 * time.Minute))
		}, progress.YoungCommunicator},
		"in a pod":         {time.Minute, func(_ time.Duration, n *fabric.Node, _ *job.Job) { rank(n).NetNS.Value = 8 }, progress.OtherNamespace},
		"rank 0 elsewhere": {time.Minute, func(_ time.Duration, _ *fabric.Node, j *job.Job) { j.Ranks[0].Rank = 8 }, progress.RankElsewhere},
		"2.29.7":           {time.Minute, func(_ time.Duration, n *fabric.Node, _ *job.Job) { rank(n).Maps.Value.Version = "2.29.7" }, progress.VersionRefused},
		"2.31.0":           {time.Minute, func(_ time.Duration, n *fabric.Node, _ *job.Job) { rank(n).Maps.Value.Version = "2.31.0" }, progress.VersionRefused},
		"no version":       {time.Minute, func(_ time.Duration, n *fabric.Node, _ *job.Job) { rank(n).Maps.Value.Version = "" }, progress.VersionUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{begun: time.Now(), stops: c.stops, change: c.change, peer: replies(hung())}
			w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
			w.Apply(true)
			defer w.Close()
			for range 5 {
				time.Sleep(8*time.Minute + time.Second)
				synctest.Wait()
				list := w.Status().Jobs
				if len(s.times()) > 0 || (c.why == "") != (len(list) == 0) || len(list) == 1 && list[0].Reason() != c.why {
					t.Fatalf("%s: asked at %v: %+v, expected %q", what, s.times(), list, c.why)
				}
			}
		})
	}
}

// Which signs make a job suspect.
func TestSuspicions(t *testing.T) {
	for want, change := range map[progress.Suspicion]func(after time.Duration, n *fabric.Node, j *job.Job){
		progress.RanksApart: func(after time.Duration, _ *fabric.Node, j *job.Job) {
			if after > 20*time.Minute {
				j.Pulse.Load = job.LoadApart
			}
		},
		progress.VerdictTurned: func(after time.Duration, _ *fabric.Node, j *job.Job) {
			if after > 20*time.Minute {
				j.Verdict = job.Verdict{Transport: job.TCP, Way: job.WaySocket, Confirmed: true}
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{begun: time.Now(), change: change, peer: replies(rastest.Healthy("2.30.7", 10))}
			w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
			w.Apply(true)
			defer w.Close()
			time.Sleep(20*time.Minute + 30*time.Second)
			if list := w.Status().Jobs; len(list) != 0 {
				t.Errorf("%s: suspected after 30 s: %+v", want, list)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if list := w.Status().Jobs; len(list) != 1 || !slices.Equal(list[0].Suspicions, []progress.Suspicion{want}) || len(s.times()) == 0 {
				t.Errorf("%+v, expected %s; asked at %v", list, want, s.times())
			}
		})
	}
}

// A job that recovers, or ends, is no longer reported, and one that is suspected again is not asked before its time.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{begun: time.Now(), stops: 20 * time.Minute, resumes: 25 * time.Minute, peer: replies(hung())}
		s.change = func(after time.Duration, _ *fabric.Node, j *job.Job) {
			if after > 28*time.Minute {
				j.Pulse.Flow = job.FlowStopped // again
			}
			if after > 55*time.Minute {
				j.Name = ""
			}
		}
		w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
		w.Apply(true)
		defer w.Close()
		at := func(d time.Duration) []progress.Account {
			time.Sleep(time.Until(s.begun.Add(d)))
			synctest.Wait()
			return w.Status().Jobs
		}
		if list := at(24 * time.Minute); len(list) != 1 || list[0].Report.State != progress.Hang || list[0].Reason() != progress.Waiting {
			t.Errorf("%+v", list)
		}
		if list := at(27 * time.Minute); len(list) != 0 {
			t.Errorf("recovered: %+v", list)
		}
		if list := at(30 * time.Minute); len(list) != 1 || list[0].Known() || list[0].Reason() != progress.Waiting {
			t.Errorf("suspected again: %+v", list)
		}
		if list := at(40 * time.Minute); len(list) != 1 || list[0].Report.State != progress.Hang || len(s.times()) != 6 {
			t.Errorf("asked again: %+v, at %v", list, s.times())
		}
		if list := at(56 * time.Minute); len(list) != 0 {
			t.Errorf("ended: %+v", list)
		}
	})
}

// What RAS said of a job that is no longer seen stays for an hour, whoever keeps it from being seen, and not
// for longer.
func TestUnseen(t *testing.T) {
	const from = 25 * time.Minute
	none := rastest.Healthy("2.30.7", 500) // no communicator is in each of the answers
	none.Communicators = nil
	for why, c := range map[string]struct {
		unseen func(n *fabric.Node, j *job.Job)
		peer   func(net.Conn, int)
		ends   bool
	}{
		"processes unknown": {func(n *fabric.Node, j *job.Job) {
			n.Ranks, j.Pulse = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonStuck, "", n.At), job.Pulse{}
		}, replies(hung()), true},
		"left out": {func(n *fabric.Node, j *job.Job) { n.Ranks.Value, j.Pulse = nil, job.Pulse{} }, replies(hung()), true},
		"sockets unknown": {func(n *fabric.Node, j *job.Job) {
			n.Ranks.Value[0].Sockets, j.Pulse = fabric.Fact[[]fabric.Socket]{}, job.Pulse{}
		}, replies(hung()), true},
		"answers say nothing": {func(*fabric.Node, *job.Job) {}, replies(hung(), hung(), hung(), none), false},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{begun: time.Now(), stops: 20 * time.Minute, peer: c.peer}
				s.change = func(after time.Duration, n *fabric.Node, j *job.Job) {
					if after >= from {
						c.unseen(n, j)
					}
				}
				w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
				w.Apply(true)
				defer w.Close()
				at := func(d time.Duration) []progress.Account {
					time.Sleep(time.Until(s.begun.Add(d)))
					synctest.Wait()
					return w.Status().Jobs
				}
				for _, d := range []time.Duration{24 * time.Minute, 30 * time.Minute, 45 * time.Minute, from + 55*time.Minute} {
					if list := at(d); len(list) != 1 || list[0].Report.State != progress.Hang {
						t.Errorf("%s: after %s: %+v", why, d, list)
					}
				}
				if list := at(from + 62*time.Minute); c.ends && len(list) != 0 {
					t.Errorf("%s: after more than an hour: %+v", why, list)
				}
			})
		})
	}
}

// A job that was asked without result, at growing intervals, and then hangs with another sign, is asked 10
// minutes after the last time. Signs that come and go do not make it asked more often.
func TestAnotherSuspicion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turned, both = 20 * time.Minute, 128 * time.Minute
		s := &stage{begun: time.Now(), peer: replies(rastest.Healthy("2.30.7", 10), rastest.Healthy("2.30.7", 20), rastest.Healthy("2.30.7", 30))}
		s.change = func(after time.Duration, _ *fabric.Node, j *job.Job) {
			if after > turned {
				j.Pulse.Load = job.LoadApart
			}
			if after > both && after%(8*time.Minute) < 5*time.Minute {
				j.Pulse.Flow = job.FlowStopped
			}
		}
		w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
		w.Apply(true)
		defer w.Close()
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		var begun []time.Duration // of inquiries
		times := s.times()
		for i, at := range times {
			if i == 0 || at-times[i-1] > 5*time.Minute {
				begun = append(begun, at)
			}
		}
		i := slices.IndexFunc(begun, func(at time.Duration) bool { return at > both })
		if i < 0 || begun[i] > both+3*time.Minute {
			t.Errorf("asked at %v, expected within 3 min of %s", begun, both)
		}
		if len(begun) > 10 {
			t.Errorf("asked %d times within 6 h: %v", len(begun), begun)
		}
		for i := range begun[1:] {
			if begun[i+1]-begun[i] < leastWait {
				t.Errorf("asked at %v, expected %s in between", begun, leastWait)
			}
		}
		t.Logf("asked at %v", begun)
	})
}

// Switched off, the watch asks nothing and has no results, immediately and also during an answer.
func TestSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{begun: time.Now(), stops: 20 * time.Minute, peer: func(conn net.Conn, _ int) { _, _ = io.Copy(io.Discard, conn) }}
		w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
		if w.Status().Enabled {
			t.Error("it is on from the beginning")
		}
		w.Apply(true)
		time.Sleep(21*time.Minute + 20*time.Second) // while it waits for an answer
		begun := time.Now()
		w.Apply(false)
		synctest.Wait()
		if open, _ := s.connections(); open != 0 || len(s.times()) != 1 || time.Since(begun) > time.Second {
			t.Errorf("%d connections, asked at %v, ended within %s", open, s.times(), time.Since(begun))
		}
		time.Sleep(time.Hour)
		if st := w.Status(); st.Enabled || len(st.Jobs) != 0 || len(s.times()) != 1 {
			t.Errorf("%+v, asked at %v", st, s.times())
		}
		var none *Watch
		none.Apply(true)
		none.Close()
		if none.Status().Enabled {
			t.Error("a Watch that is none is on")
		}
	})
}

// A library that hangs is read by one goroutine, however many processes have it.
func TestVersionsOnce(t *testing.T) {
	v := newVersions(t.TempDir())
	if got := v.get(&fabric.RankCandidate{PID: 1}); got != "" {
		t.Errorf("%q of no process", got)
	}
	if len(v.of) != 1 {
		t.Errorf("%v: it would be read again", v.of)
	}
	for pid := range 2 * maxVersions {
		v.of[process{pid, 1}] = ""
	}
	if v.get(&fabric.RankCandidate{PID: 1, Start: 9}); len(v.of) != 1 {
		t.Errorf("%d versions are kept", len(v.of))
	}
}

// A library of one user that hangs does not keep those of others from being read.
func TestVersionsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		v := newVersions("")
		v.read = func(pid int) (string, error) {
			if pid < 100 {
				<-hang
			}
			return "2.30.7", nil
		}
		of := func(pid int, user uint32) string {
			return v.get(&fabric.RankCandidate{PID: pid, User: user, Limits: fabric.Known(fabric.ProcessLimits{}, "", time.Now())})
		}
		for pid := range 50 {
			if got := of(pid, 1001); got != "" {
				t.Errorf("%q of a library that hangs", got)
			}
		}
		if got := of(100, 1002); got != "2.30.7" || len(v.reading) != 1 {
			t.Errorf("%q of another user, %d are being read", got, len(v.reading))
		}
		close(hang)
	})
}

var errNode = errors.New("no node")

// A node that cannot be read is looked at again.
func TestLookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w := NewWatch(t.Context(), Options{
			Look:  func(context.Context) (*fabric.Node, job.Jobs, error) { looks++; return nil, job.Jobs{}, errNode },
			Asker: asker(), Log: slog.New(slog.DiscardHandler),
		})
		w.Apply(true)
		time.Sleep(time.Minute)
		w.Close()
		if looks < 4 {
			t.Errorf("%d looks within a minute", looks)
		}
	})
}

// A user with many suspected jobs, whose RAS never answers and whose names are first, does not keep the job
// of another from being asked.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{begun: time.Now()}
		var mu sync.Mutex
		asked := map[string][]time.Duration{}
		ask := func(ctx context.Context, target progress.Target) (fabric.RASAnswer, error) {
			of := "slurm/7"
			if target.PID != 9 {
				of = "others"
			}
			mu.Lock()
			asked[of] = append(asked[of], time.Since(s.begun))
			mu.Unlock()
			time.Sleep(12 * time.Second)
			return fabric.RASAnswer{}, errors.New("no complete answer within 12s")
		}
		look := func(ctx context.Context) (*fabric.Node, job.Jobs, error) {
			n, jobs, err := s.look(ctx)
			jobs.List[0].User, jobs.List[0].Pulse.Flow = "1002", job.FlowStopped
			n.Ranks.Value[0].User, n.Ranks.Value[0].Limits = 1002, fabric.Known(fabric.ProcessLimits{}, "", n.At)
			if time.Since(s.begun) < time.Minute { // data has to flow before it can stop
				jobs.List[0].Pulse.Flow = job.Flowing
			}
			for i := range 30 {
				c, j := n.Ranks.Value[0], jobs.List[0]
				c.PID, c.User = 1000+i, uint32(100_000+i) // the kernel gives a port to one user only
				c.Owner = fabric.Owner{Kind: fabric.OwnerContainer, ID: "c0ffee"}
				c.Sockets = fabric.Known([]fabric.Socket{{Listening: true, Local: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}), 28028)}}, "", n.At)
				j.Name, j.Ranks = fmt.Sprintf("a/%d", i), []job.Rank{{PID: c.PID, Start: c.Start, Rank: 0}}
				n.Ranks.Value, jobs.List = append(n.Ranks.Value, c), append(jobs.List, j)
			}
			slices.SortFunc(jobs.List, func(a, b job.Job) int { return strings.Compare(a.Name, b.Name) })
			return n, jobs, err
		}
		w := NewWatch(t.Context(), Options{Look: look, Asker: asker(), Ask: ask, Log: slog.New(slog.DiscardHandler)})
		w.Apply(true)
		defer w.Close()
		time.Sleep(40 * time.Minute)
		w.Apply(false)
		if times := asked["slurm/7"]; len(times) < 2 || times[0] > 20*time.Minute || len(asked["others"]) < 10 {
			t.Errorf("asked at %v, the others %d times", times, len(asked["others"]))
		}
	})
}
