// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const all = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL

func start(t *testing.T, k *kernel, change func(o *Options)) *Observer {
	t.Helper()
	o := Options{Rootfs: t.TempDir(), Log: slog.New(slog.DiscardHandler), Ethernet: drivers{k}}
	if change != nil {
		change(&o)
	}
	ob := newObserver(o, k, files{k})
	t.Cleanup(ob.Close)
	return ob
}

// observe is a scrape with a deadline of ten seconds that proves it is kept.
func observe(t *testing.T, ob *Observer, want fabric.Want) *fabric.Node {
	t.Helper()
	return observeWithin(t, ob, want, 10*time.Second)
}

func observeWithin(t *testing.T, ob *Observer, want fabric.Want, limit time.Duration) *fabric.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begin := time.Now()
	n := ob.Observe(ctx, want)
	if took := time.Since(begin); took > limit {
		t.Fatalf("Observe took %s with a deadline of %s", took, limit)
	}
	return n
}

func source(n *fabric.Node, name, device string) fabric.Source {
	for _, s := range n.Sources {
		if s.Name == name && s.Device == device {
			return s
		}
	}
	return fabric.Source{}
}

// A port that lost its link is known to have had one, until its device is registered anew.
func TestPortsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		ob := start(t, k, nil)
		down := func(is bool) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.devices["mlx5_1"].down = is
		}
		seen := func() fabric.PortHistory {
			time.Sleep(time.Minute)
			return observe(t, ob, fabric.WantHCA).HCA("mlx5_1").Ports[0].Seen
		}
		down(true)
		if got := seen(); got != (fabric.PortHistory{}) {
			t.Errorf("a port that never had a link is remembered with %+v", got)
		}
		down(false)
		up := seen()
		since := time.Now()
		if got := up; got != (fabric.PortHistory{Active: true, Since: since, Last: since, Rate: 50e9, RateLast: since}) {
			t.Errorf("an active port is remembered with %+v", got)
		}
		up = seen()
		if now := time.Now(); up != (fabric.PortHistory{Active: true, Since: since, Last: now, Rate: 50e9, RateLast: now}) {
			t.Errorf("a port that stays active is remembered with %+v", up)
		}
		down(true)
		if got := seen(); got != up {
			t.Errorf("a port that lost its link is remembered with %+v", got)
		}
		k.remove("mlx5_1")
		observe(t, ob, fabric.WantHCA)
		k.add("mlx5_1").down = true
		time.Sleep(time.Minute)
		observe(t, ob, fabric.WantHCA)
		if got := seen(); got != (fabric.PortHistory{}) {
			t.Errorf("a new device is remembered with %+v", got)
		}
	})
}

// Roles follow NCCL_IB_HCA whatever a scrape asks for.
func TestRolesDoNotDependOnWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		if err := os.MkdirAll(root+"/etc", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+"/etc/nccl.conf", []byte("NCCL_IB_HCA==mlx5_0,mlx5_1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		k := newKernel(3)
		k.devices["mlx5_2"].kind = "MT4125"
		ob := start(t, k, func(o *Options) { o.Rootfs = root })
		for _, want := range []fabric.Want{fabric.WantHCA, all, fabric.WantHCA | fabric.WantCounters} {
			if got := observe(t, ob, want).HCA("mlx5_2").Ports[0].Role.Or(""); got != fabric.RoleStorage {
				t.Errorf("wanting %b the port that NCCL leaves out is %q", want, got)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestScrapersShareReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(8)
		ob := start(t, k, nil)
		scrape := func(scrapers int) {
			var wg sync.WaitGroup
			for range scrapers {
				wg.Go(func() {
					if n := observe(t, ob, all); len(n.HCAs) != 8 {
						t.Errorf("got %d devices, want 8", len(n.HCAs))
					}
				})
			}
			wg.Wait()
		}
		// Two minutes of scrapes every 15 s.
		for range 8 {
			scrape(50)
			time.Sleep(15 * time.Second)
		}
		for what, want := range map[string]int{"ports mlx5_3": 8, "scan mlx5_3": 1, "find mlx5_3": 1, "gids mlx5_3": 6, "identify mlx5_3": 2, "details mlx5_3": 2, "netdev": 2, "class": 8} {
			if got := k.count(what); got != want {
				t.Errorf("50 scrapers: %q was called %d times, want %d", what, got, want)
			}
		}
		before := k.count("ports mlx5_3")
		for range 4 { // within five seconds
			scrape(1)
			time.Sleep(time.Second)
		}
		if got := k.count("ports mlx5_3") - before; got != 1 {
			t.Errorf("4 scrapes within 5s read the ports %d times, want once", got)
		}
	})
}

// A scrape late in the life of a shared node must not prolong it: what it serves would be two intervals old.
func TestSharingDoesNotProlongItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		k.listing = time.Second // devices are read that much later than the observation is dated
		ob := start(t, k, nil)
		for range 40 {
			n := observe(t, ob, all)
			for i := range n.HCAs {
				if age := time.Since(n.HCAs[i].Ports[0].State.At); age > DefaultFastInterval+2*k.listing {
					t.Fatalf("%s: state is %s old", n.HCAs[i].Name, age)
				}
			}
			time.Sleep(700 * time.Millisecond)
		}
	})
}

func TestHungDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(8)
		ob := start(t, k, nil)
		observe(t, ob, all)
		time.Sleep(10 * time.Second)
		hang := make(chan struct{})
		k.devices["mlx5_2"].set(func(d *fakeDevice) { d.hang = hang })

		n := observe(t, ob, all)
		if s := source(n, "hca", "mlx5_2"); s.Up || s.Since.IsZero() {
			t.Errorf("first scrape: source of the device that hangs: %+v", s)
		}
		synctest.Wait()
		base := runtime.NumGoroutine()
		for i := range 1000 {
			time.Sleep(15 * time.Second)
			begin := time.Now()
			n = observe(t, ob, all)
			if took := time.Since(begin); took != 0 {
				t.Fatalf("scrape %d waited %s for a device known to be stuck", i, took)
			}
		}
		synctest.Wait()
		if g := runtime.NumGoroutine(); g > base+100 { // the runtime has some of its own, and takes its time with those that end
			t.Errorf("%d goroutines after 1000 scrapes, %d before", g, base)
		}
		if got := k.count("ports mlx5_2"); got != 2 {
			t.Errorf("the stuck device was entered %d times, want twice: once well, once for ever", got)
		}
		for i := range n.HCAs {
			h := &n.HCAs[i]
			if m := h.Ports[0].State.Meta(); h.Name == "mlx5_2" && m.Reason != fabric.ReasonStuck || h.Name != "mlx5_2" && m.State != fabric.OK {
				t.Errorf("%s: port state is %s (%s)", h.Name, m.State, m.Reason)
			}
		}
		if s := source(n, "hca", "mlx5_2"); !s.Stuck() || s.Since.IsZero() {
			t.Errorf("source of the stuck device: %+v", s)
		}
		k.devices["mlx5_2"].set(func(d *fakeDevice) { d.hang = nil })
		close(hang)
		synctest.Wait()
		n = observe(t, ob, all)
		if _, ok := n.HCA("mlx5_2").Ports[0].State.Get(); !ok {
			t.Error("the device did not recover")
		}
	})
}

func TestHungDeviceThatIsReplacedIsNotEnteredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		ob := start(t, k, nil)
		hang := make(chan struct{})
		k.devices["mlx5_0"].set(func(d *fakeDevice) { d.hang = hang })
		observe(t, ob, all)
		for range 10 {
			k.remove("mlx5_0")
			time.Sleep(10 * time.Second)
			observe(t, ob, all)
			k.add("mlx5_0")
			time.Sleep(10 * time.Second)
			n := observe(t, ob, all)
			if got := n.HCA("mlx5_0").Ports; len(got) != 0 {
				t.Errorf("ports of a device that was never read: %v", got)
			}
		}
		if k.opened["mlx5_0"] != 1 {
			t.Errorf("opened %d times while the first read hangs", k.opened["mlx5_0"])
		}
		close(hang)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, all); n.HCA("mlx5_0").Ports[0].State.State != fabric.OK {
			t.Error("the new device is not read after the old one let go")
		}
		if k.closed["mlx5_0"] != 1 {
			t.Errorf("the reader of the device that left was closed %d times, want once", k.closed["mlx5_0"])
		}
	})
}

func TestStuckRTNL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		k.rtnl = make(chan struct{})
		ob := start(t, k, nil)
		observe(t, ob, all)
		time.Sleep(time.Minute)
		begin := time.Now()
		n := observe(t, ob, all)
		if time.Since(begin) != 0 {
			t.Errorf("waited %s for a lock known to be stuck", time.Since(begin))
		}
		if m := n.NetDevs[0].Speed.Meta(); m.Reason != fabric.ReasonRTNLStuck {
			t.Errorf("speed is unknown because of %q, want rtnl_stuck", m.Reason)
		}
		if m := n.HCAs[0].Ports[0].RateMismatch.Meta(); m.Reason != fabric.ReasonRTNLStuck {
			t.Errorf("rate mismatch is unknown because of %q, want rtnl_stuck", m.Reason)
		}
		if n.HCAs[0].Ports[0].State.State != fabric.OK {
			t.Error("a stuck rtnl lock hides the state of a port")
		}
		if k.count("netdev") != 1 {
			t.Errorf("entered rtnl %d times", k.count("netdev"))
		}
		close(k.rtnl)
	})
}

// On a host whose processors are busy a read takes long without a driver that hangs: "stuck" drains the node.
func TestSlowReadIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		k.devices["mlx5_0"].takes = stuckAfter/3 - time.Millisecond
		ob := start(t, k, nil)
		observeWithin(t, ob, all|fabric.WantCounters, time.Second)
		time.Sleep(stuckAfter + 500*time.Millisecond)
		n := observeWithin(t, ob, all|fabric.WantCounters, time.Millisecond)
		if s := source(n, "hca", "mlx5_0"); s.Reason != fabric.ReasonTimeout {
			t.Errorf("a read whose parts end is %q after %s, want %q", s.Reason, stuckAfter, fabric.ReasonTimeout)
		}
		if n = observeWithin(t, ob, all|fabric.WantCounters, time.Minute); n.HCA("mlx5_0").Ports[0].State.State != fabric.OK {
			t.Error("the slow read has no result")
		}
	})
}

// A read is not stuck while the process waits for its processors, up to maxExcuse: they may be busy for ever.
func TestStarvedReadIsNotStuck(t *testing.T) {
	for waits, stuckFrom := range map[time.Duration]time.Duration{
		0: stuckAfter, 10 * time.Second: stuckAfter + 10*time.Second, time.Hour: stuckAfter + maxExcuse,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			k := newKernel(1)
			k.devices["mlx5_0"].hang = make(chan struct{})
			ob := start(t, k, func(o *Options) {
				o.starved = func() time.Duration { return min(time.Since(began), waits) }
			})
			for n := observeWithin(t, ob, all, time.Second); time.Since(began) < time.Minute; n = observeWithin(t, ob, all, time.Millisecond) {
				since, reason := time.Since(began), source(n, "hca", "mlx5_0").Reason
				switch { // what was waited for before the first look is not seen
				case since < stuckFrom-watchAfter && reason != fabric.ReasonTimeout, since > stuckFrom+2*watchAfter && reason != fabric.ReasonStuck:
					t.Errorf("a read of %s is %q while the process has no processor for %s", since, reason, waits)
				}
				time.Sleep(time.Second)
			}
			close(k.devices["mlx5_0"].hang)
		})
	}
}

// A read of which a part ended soon is watched as any other.
func TestLaterPartIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lane{stuckAfter: stuckAfter}
		hang := make(chan struct{})
		done := l.start(func() {
			time.Sleep(watchAfter / 2)
			l.progress()
			<-hang
		})
		time.Sleep(2 * stuckAfter)
		if reason, _ := l.busy(); reason != fabric.ReasonStuck {
			t.Errorf("a read whose second part hangs is %q", reason)
		}
		close(hang)
		<-done
	})
}

// A process that was stopped, or whose machine was, has not seen that nothing moved.
func TestStoppedProcessIsNotStuck(t *testing.T) {
	l := lane{stuckAfter: time.Millisecond}
	hang := make(chan struct{})
	done := l.start(func() { <-hang })
	time.Sleep(10 * time.Millisecond) // less than watchAfter
	if reason, _ := l.busy(); reason != fabric.ReasonTimeout {
		t.Errorf("a lane that nobody watched is %q", reason)
	}
	close(hang)
	<-done
}

func TestFailingDevicesAffectNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(3)
		ob := start(t, k, nil)
		observe(t, ob, all)
		k.devices["mlx5_0"].set(func(d *fakeDevice) { d.panic = true })
		k.devices["mlx5_1"].set(func(d *fakeDevice) { d.err = errors.New("input/output error") })
		time.Sleep(10 * time.Second)
		n := observe(t, ob, all)
		for name, want := range map[string]fabric.Reason{"mlx5_0": fabric.ReasonPanic, "mlx5_1": fabric.ReasonIO, "mlx5_2": ""} {
			if m := n.HCA(name).Ports[0].State.Meta(); m.Reason != want {
				t.Errorf("%s: port state is %s (%s), want reason %q: old values must not be served as new", name, m.State, m.Reason, want)
			}
			if s := source(n, "hca", name); s.Up != (want == "") || s.Reason != want {
				t.Errorf("%s: source %+v", name, s)
			}
		}
		k.devices["mlx5_0"].set(func(d *fakeDevice) { d.panic = false })
		time.Sleep(10 * time.Second)
		if n = observe(t, ob, all); n.HCA("mlx5_0").Ports[0].State.State != fabric.OK {
			t.Error("no recovery after a panic")
		}
	})
}

func TestDeviceLeavesAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		ob := start(t, k, nil)
		observe(t, ob, all)
		k.remove("mlx5_1")
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, all); n.HCA("mlx5_1") != nil || n.HCA("mlx5_0") == nil {
			t.Errorf("devices after one left: %v", n.HCAs)
		}
		synctest.Wait()
		if k.closed["mlx5_1"] != 1 {
			t.Error("the reader of the device that left is not closed")
		}
		k.add("mlx5_1")
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, all); n.HCA("mlx5_1") == nil || n.HCA("mlx5_1").Ports[0].State.State != fabric.OK {
			t.Error("the device that returned is not read")
		}
	})
}

func TestGIDChangesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		for i, step := range []struct {
			gids []fabric.GID
			want uint64
		}{{k.devices["mlx5_0"].gids, 0}, {nil, 1}, {nil, 1}, {k.devices["mlx5_0"].gids, 2}} {
			k.devices["mlx5_0"].set(func(d *fakeDevice) { d.gids = step.gids })
			n := observe(t, ob, all)
			if got := n.HCAs[0].Ports[0].GIDs.Changes; got != step.want {
				t.Errorf("step %d: %d changes, want %d", i, got, step.want)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

func TestOnlyWhatIsWantedIsTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(3)
		ob := start(t, k, func(o *Options) { o.Devices = fabric.Filter{Exclude: regexp.MustCompile("^mlx5_2$")} })
		n := observe(t, ob, fabric.WantHCA)
		if k.count("scan mlx5_0") != 0 {
			t.Error("GIDs were read although they were not asked for")
		}
		if k.opened["mlx5_2"] != 0 || n.HCA("mlx5_2") != nil || !slices.Equal(n.Excluded, []string{"mlx5_2"}) {
			t.Errorf("excluded device: opened %d times, excluded list %v", k.opened["mlx5_2"], n.Excluded)
		}
		n = observe(t, ob, all)
		if k.count("scan mlx5_0") != 1 || n.HCAs[0].Ports[0].GIDChoice.Or(fabric.GIDChoice{}).Index != 3 {
			t.Error("the GIDs are wanted at once and were not read")
		}
		few := []string{"tc mlx5_0", "daemons", "gpudirect"}
		for _, what := range few {
			if k.count(what) != 0 {
				t.Errorf("%q was read although it was not asked for", what)
			}
		}
		for range 2 {
			n = observe(t, ob, fabric.WantHCA|fabric.WantQoS|fabric.WantDaemons|fabric.WantGPU)
			for _, what := range few {
				if k.count(what) != 1 {
					t.Errorf("%q was read %d times, want once, with the first scrape that wants it", what, k.count(what))
				}
			}
			if n.Host.Daemons.State != fabric.OK || n.GPUDirect.OpenModule.State != fabric.OK {
				t.Errorf("daemons %+v, module %+v", n.Host.Daemons, n.GPUDirect.OpenModule)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		reads := k.count("ports mlx5_0")
		if n := observe(t, ob, 0); len(n.HCAs) != 0 || n.Host.Kernel.State != fabric.OK || k.count("ports mlx5_0") != reads {
			t.Error("an observation of the node alone reads devices")
		}
	})
}

func TestNoRDMAIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(0)
		k.absent = true
		n := observe(t, start(t, k, nil), all)
		if present, known := n.ClassPresent.Get(); !known || present {
			t.Errorf("class: %+v", n.ClassPresent)
		}
		if s := source(n, "rdma_class", ""); !s.Up {
			t.Errorf("a kernel without RDMA is reported as a failure: %+v", s)
		}
	})
}

func TestPolicyAppliesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob := start(t, newKernel(1), nil)
		if r := observe(t, ob, all).HCAs[0].Ports[0].Role.Or(""); r != fabric.RoleCompute {
			t.Fatalf("role %q", r)
		}
		ob.SetPolicy(&fabric.Policy{Roles: []fabric.RoleRule{{Device: regexp.MustCompile("^mlx5_0$"), Role: fabric.RoleStorage}}}, NCCLFiles{})
		if r := observe(t, ob, all).HCAs[0].Ports[0].Role.Or(""); r != fabric.RoleStorage {
			t.Errorf("role %q after the policy changed", r)
		}
	})
}

// hungNCCL are files that do not answer.
type hungNCCL struct {
	reads   *atomic.Int32
	answers chan struct{}
}

func (h hungNCCL) Read(time.Time) (fabric.NCCLConfig, error) {
	h.reads.Add(1)
	<-h.answers
	return fabric.NCCLConfig{}, errors.New("of the site before")
}

// NCCL's files lie where nothing answers, and the site is configured anew again and again.
func TestReloadsShareTheLaneOfNCCL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob := start(t, newKernel(1), nil)
		h := hungNCCL{new(atomic.Int32), make(chan struct{})}
		for range 20 {
			ob.SetPolicy(nil, NCCLFiles{})
			ob.nccl.replace(ob.ncclOf(h, ""), nil)
			observe(t, ob, all)
		}
		if n := h.reads.Load(); n != 1 {
			t.Errorf("%d reads of what hangs, expected one", n)
		}
		ob.SetPolicy(nil, NCCLFiles{})
		close(h.answers)
		synctest.Wait()
		time.Sleep(time.Minute)
		if s := source(observe(t, ob, all), fabric.SourceNCCL, ""); !s.Up {
			t.Errorf("what the old files said came after they were replaced: %+v", s)
		}
	})
}

func TestObserveAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob := start(t, newKernel(1), nil)
		ob.Close()
		if n := observe(t, ob, all); len(n.HCAs) != 0 {
			t.Errorf("devices after Close: %v", n.HCAs)
		}
	})
}

// What cannot be listed costs itself: the devices beside it are read, also when nothing was listed before.
func TestOddEntryAmongDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		k.odd = fabric.Because(fabric.ReasonMalformed, "a name that is no name")
		ob, b := start(t, k, nil), &bus{}
		ob.bus = b
		for range 3 {
			n := observe(t, ob, all)
			if len(n.HCAs) != 2 || n.HCAs[1].Ports[0].State.State != fabric.OK || !n.ClassPresent.Or(false) {
				t.Fatalf("%+v, class %+v", n.HCAs, n.ClassPresent)
			}
			if s := source(n, fabric.SourceClass, ""); s.Up || s.Reason != fabric.ReasonMalformed {
				t.Errorf("the odd entry is not reported: %+v", s)
			}
			if s := source(n, fabric.SourcePCI, ""); !s.Up {
				t.Errorf("PCI: %+v", s)
			}
			k.remove("mlx5_0")
			k.add("mlx5_2")
			time.Sleep(time.Minute)
			if n = observe(t, ob, all); n.HCA("mlx5_0") != nil || n.HCA("mlx5_2") == nil {
				t.Fatalf("devices that came and went: %+v", n.HCAs)
			}
			k.remove("mlx5_2")
			k.add("mlx5_0")
			time.Sleep(time.Minute)
		}
	})
}

// A list that cannot be read at all takes no device away.
func TestListOfDevicesFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		ob := start(t, k, nil)
		observe(t, ob, all)
		k.mu.Lock()
		k.unlisted = errors.New("input/output error")
		k.mu.Unlock()
		time.Sleep(10 * time.Second)
		n := observe(t, ob, all)
		if s := source(n, fabric.SourceClass, ""); s.Up || len(n.HCAs) != 2 || n.ClassPresent.State != fabric.Unknown {
			t.Errorf("%+v, %d devices, class %+v", s, len(n.HCAs), n.ClassPresent)
		}
	})
}
