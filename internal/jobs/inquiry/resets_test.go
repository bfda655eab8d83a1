// SPDX-License-Identifier: Apache-2.0

package inquiry

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
)

// restarts has the job start anew each hour, with another process, move data for 20 minutes and then stand still.
func restarts(after time.Duration, n *fabric.Node, j *job.Job) {
	c := &n.Ranks.Value[0]
	hour := int(after / time.Hour)
	c.PID += hour
	c.Start = uint64((2*time.Hour + time.Duration(hour)*time.Hour) / (time.Second / 100))
	j.Ranks[0].PID, j.Ranks[0].Start = c.PID, c.Start
	if after%time.Hour > 20*time.Minute {
		j.Pulse.Flow = job.FlowStopped
	}
}

func hangUp(conn net.Conn, _ int) { _, _ = conn.Read(make([]byte, 99)) }

// why is the reason for which the job is not asked at a time.
func (s *stage) why(w *Watch, at time.Duration) progress.Reason {
	time.Sleep(time.Until(s.begun.Add(at)))
	synctest.Wait()
	if list := w.Status().Jobs; len(list) == 1 {
		return list[0].Reason()
	}
	return ""
}

// A process that ends the connection is not asked again, nor is its job as long as it lives. The next one is
// asked; after three of one user none of his is, and after those of three users none of the node.
func TestEndsTheConnection(t *testing.T) {
	users := []uint32{1001, 1001, 1001, 1001, 1002, 1003, 1004} // of the job of each hour
	synctest.Test(t, func(t *testing.T) {
		s := &stage{begun: time.Now(), peer: hangUp}
		s.change = func(after time.Duration, n *fabric.Node, j *job.Job) {
			restarts(after, n, j)
			c := &n.Ranks.Value[0]
			c.User, c.Limits = users[int(after/time.Hour)], fabric.Known(fabric.ProcessLimits{}, "", n.At)
		}
		w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
		w.Apply(true)
		defer w.Close()
		for hour, asked := range []int{1, 2, 3, 3, 4, 5, 5} {
			if hour == 1 { // a reload
				w.Apply(false)
				w.Apply(true)
			}
			want := progress.Stopped
			if hour >= 5 {
				want = progress.NodeStopped
			}
			if why := s.why(w, time.Duration(hour)*time.Hour+59*time.Minute); why != want || len(s.times()) != asked {
				t.Errorf("hour %d: %q, expected %q; asked at %v", hour, why, want, s.times())
			}
			if w.Status().Stopped != (hour >= 5) {
				t.Errorf("hour %d: the node is stopped: %v", hour, w.Status().Stopped)
			}
		}
	})
}

// A process that ends when it is asked may have crashed of it: its release of NCCL is not asked again, another one is.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{begun: time.Now(), peer: hangUp}
		s.change = func(after time.Duration, n *fabric.Node, j *job.Job) {
			restarts(after, n, j)
			if asked := s.times(); after < time.Hour && len(asked) > 0 {
				n.Ranks.Value, j.Name = nil, ""
			}
			if after > 2*time.Hour {
				n.Ranks.Value[0].Maps.Value.Version = "2.30.5"
			}
		}
		w := NewWatch(t.Context(), Options{Look: s.look, Asker: asker(), Ask: s.ask, Log: slog.New(slog.DiscardHandler), Quiet: progress.Quiet})
		w.Apply(true)
		defer w.Close()
		if why := s.why(w, time.Hour+59*time.Minute); why != progress.ReleaseStopped || len(s.times()) != 1 {
			t.Errorf("the same release: %q, asked at %v", why, s.times())
		}
		if why := s.why(w, 2*time.Hour+59*time.Minute); why != progress.Stopped || len(s.times()) != 2 {
			t.Errorf("another release: %q, asked at %v", why, s.times())
		}
	})
}
