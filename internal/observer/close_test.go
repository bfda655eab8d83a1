// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// What an observer has open is closed once, and nobody waits for it, also where a read hangs while the
// observer is closed: it is closed when the read returns, hours later.
func TestWhatIsBusyIsClosedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, hang := newKernel(2), make(chan struct{})
		p, d := &processes{hang: hang}, &gpuDriver{hang: hang}
		ob := start(t, k, func(o *Options) { o.GPUs, o.Ranks = d, p })
		ob.bus = &bus{}
		const want = all | fabric.WantRanks | fabric.WantQoS
		d.set(func() { d.hang = nil })
		observe(t, ob, all|fabric.WantQoS) // everything is open
		time.Sleep(time.Minute)
		d.set(func() { d.hang = hang })
		k.mu.Lock()
		k.rtnl = hang
		k.mu.Unlock()
		k.devices["mlx5_1"].set(func(d *fakeDevice) { d.hang = hang })
		observe(t, ob, want)
		closes := func() map[string]int {
			_, _, gpus := d.counts()
			k.mu.Lock()
			defer k.mu.Unlock()
			return map[string]int{"mlx5_0": k.closed["mlx5_0"], "mlx5_1": k.closed["mlx5_1"], "ethernet": k.calls["close ethernet"], "gpus": gpus, "ranks": int(p.closed.Load())}
		}
		begin := time.Now()
		ob.Close()
		ob.Close()
		if took := time.Since(begin); took > 2*closingGPUs {
			t.Errorf("closing took %s", took)
		}
		time.Sleep(5 * time.Hour)
		for what, n := range closes() {
			if open := map[string]int{"mlx5_0": 1}[what]; n != open {
				t.Errorf("%s: closed %d times while reads hang, want %d", what, n, open)
			}
		}
		close(hang)
		synctest.Wait()
		for what, n := range closes() {
			if n != 1 {
				t.Errorf("%s: closed %d times after the reads returned", what, n)
			}
		}
	})
}

// A device that left while a caller waits for it is not opened again by that caller, whose list is older.
func TestReaderThatWasRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var closed, reads atomic.Int32
		l := lane{stuckAfter: stuckAfter, closes: func() { closed.Add(1); panic("boom") }}
		l.start(func() { <-hang })
		if l.retireIdle() {
			t.Fatal("a lane was forgotten while a read is in it")
		}
		done := l.retire()
		l.retire()
		<-time.After(time.Hour)
		if closed.Load() != 0 {
			t.Fatal("closed while a read is in it")
		}
		close(hang)
		<-done
		if again := l.start(func() { reads.Add(1) }); !l.wait(t.Context(), again) || reads.Load() != 0 {
			t.Errorf("a read began in a lane that is no more")
		}
		if closed.Load() != 1 {
			t.Errorf("closed %d times, want once", closed.Load())
		}
		if l.use(func() { closed.Add(10) }); closed.Load() != 1 {
			t.Error("what comes later is closed by its caller")
		}
		synctest.Wait()
		if closed.Load() != 11 {
			t.Errorf("what comes later is closed %d times, want once", closed.Load()/10)
		}
	})
}

// A reader that another one takes the place of is closed when the read in flight has returned, and the next
// read is one of the other.
func TestReaderThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob := start(t, newKernel(1), nil)
		r := newReading[string](ob, nil)
		hang := make(chan struct{})
		var closed atomic.Int32
		read := func(what string) func(string, time.Time) (string, error) {
			return func(string, time.Time) (string, error) { <-hang; return what, nil }
		}
		fresh := since[string](time.Now(), time.Minute)
		r.replace(read("old"), func() { closed.Add(1) })
		r.startIfStale(fresh, nil)
		synctest.Wait()
		r.replace(read("new"), func() { closed.Add(10) })
		time.Sleep(time.Hour)
		if closed.Load() != 0 {
			t.Error("closed while a read is in it")
		}
		close(hang)
		synctest.Wait()
		if v, s := r.get("", "", fresh); closed.Load() != 1 || v != "" || s.Reason != fabric.ReasonNotRead {
			t.Errorf("closed %d, and what the old one said is %q, %+v", closed.Load(), v, s)
		}
		fresh = since[string](time.Now(), time.Minute)
		r.refresh(t.Context(), fresh, nil)
		if v, s := r.get("", "", fresh); v != "new" || !s.Up || closed.Load() != 1 {
			t.Errorf("%q, %+v, closed %d", v, s, closed.Load())
		}
		ob.Close()
		synctest.Wait()
		if closed.Load() != 11 {
			t.Errorf("closed %d", closed.Load())
		}
	})
}

// A scrape after Close, and one that Close interrupts, knows nothing, says why, and reads nothing.
func TestNothingIsKnownAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		p, d := &processes{}, &gpuDriver{}
		ob := start(t, k, func(o *Options) { o.GPUs, o.Ranks = d, p })
		ob.bus = &bus{}
		const want = all | fabric.WantRanks | fabric.WantQoS
		observe(t, ob, want)
		calls := func() (sum int) {
			k.mu.Lock()
			defer k.mu.Unlock()
			for _, n := range k.calls {
				sum += n
			}
			reads, _, _ := d.counts()
			return sum + reads + int(p.reads.Load())
		}
		check := func(when string, n *fabric.Node) {
			t.Helper()
			if _, known := n.ClassPresent.Get(); known || len(n.HCAs) != 0 || len(n.NetDevs) != 0 || n.Ranks.State == fabric.OK || load(n).State == fabric.OK {
				t.Errorf("%s: %+v is known", when, n)
			}
			if len(n.Sources) == 0 {
				t.Errorf("%s: no source says why", when)
			}
			for _, s := range n.Sources {
				if s.Up || s.Reason != fabric.ReasonNotRead || s.Err == nil {
					t.Errorf("%s: source %+v", when, s)
				}
			}
		}
		hang := make(chan struct{})
		k.devices["mlx5_0"].set(func(d *fakeDevice) { d.hang = hang })
		time.Sleep(time.Minute)
		interrupted := make(chan *fabric.Node)
		go func() { interrupted <- ob.Observe(t.Context(), want) }()
		synctest.Wait()
		ob.Close()
		close(hang)
		check("interrupted", <-interrupted)
		synctest.Wait()
		before := calls()
		check("at once", observe(t, ob, want))
		time.Sleep(time.Hour)
		ob.SetPolicy(nil, NCCLFiles{Inspector: t.TempDir(), Kernel: "/dev/null"})
		check("later", observe(t, ob, want|fabric.WantLogs|fabric.WantInside))
		if after := calls(); after != before {
			t.Errorf("%d calls after Close", after-before)
		}
	})
}
