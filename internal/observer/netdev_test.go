// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const wired = all | fabric.WantQoS | fabric.WantNetStats

// counter returns a statistic of an interface.
func counter(t *testing.T, n *fabric.Node, netdev, name string) fabric.Fact[uint64] {
	t.Helper()
	d := n.NetDev(netdev)
	if d == nil {
		t.Fatalf("no interface %s", netdev)
	}
	for _, c := range d.QoS.Counters.Or(nil) {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("%s has no statistic %s: %+v", netdev, name, d.QoS.Counters)
	return fabric.Fact[uint64]{}
}

// A reading of the statistics costs an mlx5 port about forty firmware commands under the rtnl lock: how many there
// are depends on the clock and on no caller.
func TestStatisticsAreSharedForTenSeconds(t *testing.T) {
	for _, scrapers := range []int{1, 50} {
		t.Run(fmt.Sprintf("%d scrapers", scrapers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKernel(8)
				ob := start(t, k, nil)
				for range 40 { // two minutes
					var wg sync.WaitGroup
					for range scrapers {
						wg.Go(func() { observe(t, ob, wired) })
					}
					wg.Wait()
					time.Sleep(3 * time.Second)
				}
				// Every 3 s the node is observed anew after 6 s, and the statistics after 12 s.
				for what, want := range map[string]int{"statistics eth-mlx5_3": 10, "qos eth-mlx5_3": 2, "files eth-mlx5_3": 2, "parameters eth-mlx5_3": 0} {
					if got := k.count(what); got != want {
						t.Errorf("%q happened %d times, want %d", what, got, want)
					}
				}
			})
		})
	}
}

func TestWhatIsNotWantedIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		n := observe(t, ob, all)
		if k.count("statistics eth-mlx5_0")+k.count("qos eth-mlx5_0") != 0 {
			t.Errorf("the driver was asked: %v", k.calls)
		}
		if m := n.NetDev("eth-mlx5_0").QoS.PFC.Meta(); m.Reason != fabric.ReasonNotRead {
			t.Errorf("PFC is %s (%s), want not read", m.State, m.Reason)
		}
		n = observe(t, ob, wired) // at once, though the interfaces themselves are fresh
		if pfc, ok := n.NetDev("eth-mlx5_0").QoS.PFC.Get(); !ok || pfc.Enabled != 1<<3 {
			t.Errorf("PFC is %+v", n.NetDev("eth-mlx5_0").QoS.PFC)
		}
		counter(t, n, "eth-mlx5_0", "rx_prio3_pause")
	})
}

// All interfaces of a node, which may be thousands, are listed for callers that ask for NCCL, as soon as they ask.
// Interfaces are read in detail for callers that ask for their statistics, and once a minute for all others.
func TestInterfacesInDetail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		ob := start(t, k, nil)
		for range 8 { // two minutes
			observe(t, ob, fabric.WantHCA)
			time.Sleep(15 * time.Second)
		}
		if k.count("netdev") != 2 || k.count("netdev in detail") != 0 {
			t.Errorf("interfaces were read %d times, %d in detail; want 2 and 0", k.count("netdev"), k.count("netdev in detail"))
		}
		for range 8 {
			observe(t, ob, fabric.WantHCA)
			time.Sleep(7 * time.Second)
			if d := observe(t, ob, wired).NetDev("eth-mlx5_1"); d.Driver.Or("") != "mlx5_core" {
				t.Errorf("the driver is %+v", d.Driver)
			}
			time.Sleep(8 * time.Second)
		}
		// In the third minute first for the one and then for the other.
		if k.count("netdev") != 5 || k.count("netdev in detail") != 2 {
			t.Errorf("interfaces were read %d times, %d in detail; want 5 and 2", k.count("netdev"), k.count("netdev in detail"))
		}
	})
}

func TestInterfacesAreListedForNCCL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		if n := observe(t, ob, fabric.WantHCA|fabric.WantQoS); k.count("interfaces") != 0 || n.Interfaces.Meta().Reason != fabric.ReasonNotRead {
			t.Errorf("listed %d times, %+v", k.count("interfaces"), n.Interfaces)
		}
		for range 2 {
			if n := observe(t, ob, wired); len(n.Interfaces.Or(nil)) != 1 || k.count("interfaces") != 1 {
				t.Errorf("listed %d times, %+v", k.count("interfaces"), n.Interfaces)
			}
		}
	})
}

// Slow facts of all devices are due with the same scrape, a minute after the one that asked for them, however late each
// device was read: else all that follows from them would be read with the next scrape again.
func TestSlowFactsStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		k.listing = time.Second // after which devices are read
		observe(t, ob, wired)
		k.listing = 0
		for range 8 { // two minutes
			time.Sleep(14 * time.Second)
			observe(t, ob, wired)
			time.Sleep(time.Second)
		}
		if got := k.count("identify mlx5_0"); got != 3 {
			t.Errorf("a device was identified %d times in two minutes, want 3", got)
		}
	})
}

func TestOnlyStatisticsWithAMeaningAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		names := func(ob *Observer) (names []string) {
			for _, c := range observe(t, ob, wired).NetDev("eth-mlx5_0").QoS.Counters.Or(nil) {
				names = append(names, c.Name)
			}
			return names
		}
		if got := names(start(t, k, nil)); slices.Contains(got, "ch0_events") || !slices.Contains(got, "rx_prio3_pause") {
			t.Errorf("read %v", got)
		}
		more := names(start(t, k, func(o *Options) { o.Statistics = regexp.MustCompile("^(?:ch[0-9]+_.*)$") }))
		if !slices.Contains(more, "ch0_events") || !slices.Contains(more, "rx_prio3_pause") {
			t.Errorf("with a pattern of the user, read %v", more)
		}
	})
}

func TestInterfacesOfRestrictedDevicesAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		ob := start(t, k, func(o *Options) { o.Policy = &fabric.Policy{Restricted: regexp.MustCompile("^mlx5_1$")} })
		n := observe(t, ob, wired)
		if k.count("qos eth-mlx5_0") != 1 || k.count("statistics eth-mlx5_0") != 1 {
			t.Errorf("the interface of the other device was not asked: %v", k.calls)
		}
		for _, what := range []string{"qos", "files", "statistics"} {
			if got := k.count(what + " eth-mlx5_1"); got != 0 {
				t.Errorf("%s of a restricted device were read %d times", what, got)
			}
		}
		if s := source(n, fabric.SourceQoS, "eth-mlx5_1"); s.Name != "" {
			t.Errorf("there is a source for it: %+v", s)
		}
	})
}

func TestMembersOfABondAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		k.lower = map[string][]string{"eth-mlx5_0": {"port0", "port1"}}
		n := observe(t, start(t, k, nil), wired)
		for _, port := range []string{"port0", "port1"} {
			counter(t, n, port, "rx_prio3_pause")
			if s := source(n, fabric.SourceNetStats, port); !s.Up {
				t.Errorf("source of %s: %+v", port, s)
			}
		}
		if got := k.count("statistics eth-mlx5_0"); got != 0 {
			t.Errorf("the bond itself was asked %d times", got)
		}
	})
}

// A driver that waits for its firmware holds the lock that all interfaces need. RDMA devices do not need it.
func TestHeldRTNLLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(8)
		ob := start(t, k, nil)
		observe(t, ob, wired)
		time.Sleep(11 * time.Second)
		rtnl := make(chan struct{})
		k.mu.Lock()
		k.rtnl = rtnl
		k.mu.Unlock()
		for range 1000 {
			n := observe(t, ob, wired)
			for _, s := range n.Sources {
				needsLock := s.Name == fabric.SourceNetDev || s.Name == fabric.SourceQoS || s.Name == fabric.SourceNetStats
				if s.Up == needsLock {
					t.Fatalf("while rtnl is held, source %s %s is %+v", s.Name, s.Device, s)
				}
			}
			if d := n.NetDev("eth-mlx5_3"); d.QoS.PFC.State != fabric.Unknown || d.QoS.Counters.State != fabric.Unknown {
				t.Fatalf("facts of an interface that cannot be asked: %+v", d.QoS)
			}
			time.Sleep(time.Second)
		}
		if got := k.count("statistics eth-mlx5_0"); got != 2 {
			t.Errorf("1,000 scrapes asked for the statistics %d times more, want one that hangs", got-1)
		}
		n := observe(t, ob, wired)
		if s := source(n, fabric.SourceQoS, "eth-mlx5_3"); s.Reason != fabric.ReasonRTNLStuck || !s.Stuck() {
			t.Errorf("source of an interface is %+v, want rtnl_stuck", s)
		}
		k.mu.Lock()
		k.rtnl = nil
		k.mu.Unlock()
		close(rtnl)
		synctest.Wait()
		n = observe(t, ob, wired)
		if s := source(n, fabric.SourceNetStats, "eth-mlx5_3"); !s.Up {
			t.Errorf("after the lock was let go: %+v", s)
		}
		counter(t, n, "eth-mlx5_3", "rx_prio3_pause")
	})
}

func TestOneInterfaceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(3)
		k.refuse = map[string]error{"eth-mlx5_0": errors.New("DCB_ATTR_IEEE_PFC of eth-mlx5_0: 7 bytes, expected 136"), "eth-mlx5_1": errors.ErrUnsupported}
		n := observe(t, start(t, k, nil), wired)
		if s := source(n, fabric.SourceNetStats, "eth-mlx5_0"); s.Up || s.Err == nil {
			t.Errorf("source of the interface that fails: %+v", s)
		}
		if m := n.NetDev("eth-mlx5_0").QoS.Counters.Meta(); m.State != fabric.Unknown || m.Reason == fabric.ReasonNotRead {
			t.Errorf("its statistics are %+v", m)
		}
		if s := source(n, fabric.SourceNetStats, "eth-mlx5_1"); !s.Up {
			t.Errorf("an interface without statistics is no failure: %+v", s)
		}
		counter(t, n, "eth-mlx5_2", "rx_prio3_pause")
		if _, ok := n.NetDev("eth-mlx5_0").QoS.Trust.Get(); !ok {
			t.Error("what its files say is lost")
		}
	})
}

// What a driver said a minute ago does not outlive that it fails, and one answer that is wrong takes none of
// the others.
func TestAnswersOfADriverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		observe(t, ob, wired)
		for _, c := range []struct {
			refuse, partly error
			want           fabric.Meta
		}{
			{refuse: unix.EIO, want: fabric.Meta{State: fabric.Unknown, Reason: fabric.ReasonIO}},
			{partly: unix.EIO, want: fabric.Meta{State: fabric.OK}},
			{want: fabric.Meta{State: fabric.OK}},
		} {
			time.Sleep(2 * time.Minute)
			k.mu.Lock()
			k.refuse, k.partly = map[string]error{"eth-mlx5_0": c.refuse}, map[string]error{"eth-mlx5_0": c.partly}
			k.mu.Unlock()
			n := observe(t, ob, wired)
			if m := n.NetDev("eth-mlx5_0").QoS.PFC.Meta(); m.State != c.want.State || m.Reason != c.want.Reason {
				t.Errorf("%+v: PFC is %+v", c, m)
			}
			if s := source(n, fabric.SourceQoS, "eth-mlx5_0"); s.Up != (c.refuse == nil && c.partly == nil) {
				t.Errorf("%+v: %+v", c, s)
			}
		}
	})
}

// A source that failed is down until what failed was read again: the reads between, of statistics that are
// due more often, prove nothing.
func TestInterfacesStayDownUntilReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		k.routes = unix.EIO
		for i := range 12 { // a minute: the slow facts are read with the first scrape only
			n := observe(t, ob, wired)
			if s := source(n, fabric.SourceNetDev, ""); s.Up || s.Reason != fabric.ReasonIO {
				t.Fatalf("scrape %d: %+v", i, s)
			}
			k.mu.Lock()
			k.routes = nil
			k.mu.Unlock()
			time.Sleep(5 * time.Second)
		}
		if got := k.count("statistics eth-mlx5_0"); got != 6 {
			t.Errorf("statistics were read %d times meanwhile, want 6", got)
		}
		n := observe(t, ob, wired)
		if s := source(n, fabric.SourceNetDev, ""); !s.Up || k.count("netdev") != 2 {
			t.Errorf("read %d times: %+v", k.count("netdev"), s)
		}
	})
}

// Foreign text in the files of an interface is reported for that interface, and takes nothing from it or from others.
func TestForeignText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		err := fmt.Errorf("class/net/eth-mlx5_0/qos/trust: \"both\": %w", fabric.Because(fabric.ReasonMalformed, "not what sysfs promises"))
		k.foreign = map[string]error{"eth-mlx5_0": err}
		n := observe(t, start(t, k, nil), wired|fabric.WantDCQCN)
		for _, name := range []string{fabric.SourceQoS, fabric.SourceDCQCN} {
			if s := source(n, name, "eth-mlx5_0"); s.Up || s.Reason != fabric.ReasonMalformed || !errors.Is(s.Err, err) {
				t.Errorf("%s of the interface: %+v", name, s)
			}
			if s := source(n, name, "eth-mlx5_1"); !s.Up {
				t.Errorf("%s of the other interface: %+v", name, s)
			}
		}
		for _, netdev := range []string{"eth-mlx5_0", "eth-mlx5_1"} {
			if _, ok := n.NetDev(netdev).QoS.PFC.Get(); !ok {
				t.Errorf("%s: what its driver says is lost: %+v", netdev, n.NetDev(netdev).QoS.PFC)
			}
			counter(t, n, netdev, "rx_prio3_pause")
		}
	})
}

func TestStatisticsKeepTheReadingBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		k.counted = 1<<32 - 10
		ob := start(t, k, nil)
		n := observe(t, ob, wired)
		if m := n.NetDev("eth-mlx5_0").QoS.Before.Meta(); m.State == fabric.OK {
			t.Errorf("there is a reading before the first: %+v", m)
		}
		time.Sleep(15 * time.Second)
		k.mu.Lock()
		k.counted = 5 // rx_out_of_buffer has 32 bits
		k.mu.Unlock()
		n = observe(t, ob, wired)
		before, ok := n.NetDev("eth-mlx5_0").QoS.Before.Get()
		if !ok || n.NetDev("eth-mlx5_0").QoS.Counters.At.Sub(n.NetDev("eth-mlx5_0").QoS.Before.At) != 15*time.Second {
			t.Fatalf("reading before: %+v", n.NetDev("eth-mlx5_0").QoS.Before)
		}
		for _, c := range before {
			if c.Value.Value != 1<<32-10 {
				t.Errorf("%s was %d before", c.Name, c.Value.Value)
			}
		}
		if got := counter(t, n, "eth-mlx5_0", "rx_out_of_buffer").Value; got != 1<<32+5 {
			t.Errorf("a 32-bit counter that wrapped is %d, want it continued", got)
		}
		if got := counter(t, n, "eth-mlx5_0", "rx_prio3_pause").Value; got != 5 {
			t.Errorf("a 64-bit counter that was reset is %d, want 5", got)
		}
	})
}

// A driver that is loaded again registers its interfaces anew, under the names that they had: what they count begins
// from 0, however close to a wrap it looks.
func TestInterfaceThatIsRegisteredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		read := func(counted uint64, index uint32) *fabric.Node {
			k.mu.Lock()
			k.counted, k.index = counted, index
			k.mu.Unlock()
			n := observe(t, ob, wired)
			time.Sleep(15 * time.Second)
			return n
		}
		const last = 1<<32 - 10
		read(last, 7)
		if got := counter(t, read(5, 7), "eth-mlx5_0", "rx_out_of_buffer").Value; got != 1<<32+5 {
			t.Fatalf("a counter that wrapped is %d", got)
		}
		read(last, 7)
		n := read(6, 8)
		if got := counter(t, n, "eth-mlx5_0", "rx_out_of_buffer").Value; got != 6 {
			t.Errorf("a counter of an interface that is new is %d, want 6", got)
		}
		if m := n.NetDev("eth-mlx5_0").QoS.Before.Meta(); m.State == fabric.OK {
			t.Errorf("the new interface has a reading of the old one: %+v", m)
		}
	})
}

func TestSocketsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		observe(t, ob, wired)
		ob.Close()
		synctest.Wait()
		if got := k.count("close ethernet"); got != 1 {
			t.Errorf("closed %d times", got)
		}
	})
}
