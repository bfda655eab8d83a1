// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// logTo makes the observer log into text, each record a line of level, source and reason.
func logTo(text *strings.Builder) func(*Options) {
	return func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.LevelKey, "source", "reason":
				return a
			}
			return slog.Attr{}
		}}))
	}
}

// A lock that is stuck is first an answer that is late: the log says both, each once.
func TestLogsEachReasonOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		var text strings.Builder
		ob := start(t, k, logTo(&text))
		observe(t, ob, all)
		k.mu.Lock()
		k.rtnl = make(chan struct{})
		k.mu.Unlock()
		time.Sleep(2 * time.Minute) // interfaces are read again
		for range 50 {
			observeWithin(t, ob, all, 2*time.Second)
			time.Sleep(time.Second)
		}
		close(k.rtnl)
		time.Sleep(time.Second)
		observe(t, ob, all)
		want := "level=WARN source=netdev reason=timeout\nlevel=WARN source=netdev reason=rtnl_stuck\nlevel=INFO source=netdev\n"
		if text.String() != want {
			t.Errorf("logged:\n%swant:\n%s", text.String(), want)
		}
	})
}

// Reasons that alternate, and scrapes of which only some want the source, do not fill the log.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		var text strings.Builder
		ob := start(t, k, logTo(&text))
		for i := range 100 {
			err := []error{unix.EIO, unix.EACCES}[i%2]
			k.devices["mlx5_0"].set(func(d *fakeDevice) { d.err = err })
			time.Sleep(2 * time.Minute)
			observe(t, ob, fabric.WantHCA)
			observe(t, ob, fabric.WantNCCL)
		}
		want := "level=WARN source=hca reason=io_error\nlevel=WARN source=hca reason=privilege\n"
		if text.String() != want {
			t.Errorf("logged:\n%swant:\n%s", text.String(), want)
		}
		k.remove("mlx5_0")
		for range 2 { // it is let go with the second
			time.Sleep(2 * time.Minute)
			observe(t, ob, fabric.WantHCA)
		}
		if len(ob.troubled) != 0 {
			t.Errorf("remembers a device that left: %v", ob.troubled)
		}
	})
}

// An interface whose driver fails is named once as well, though it is no RDMA device, and forgotten when it leaves.
func TestLogOfInterfacesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(2)
		var text strings.Builder
		ob := start(t, k, logTo(&text))
		refuse := func(err error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.refuse = map[string]error{"eth-mlx5_0": err}
		}
		for _, err := range []error{unix.EIO, nil, unix.EIO} {
			refuse(err)
			for range 20 {
				observe(t, ob, wired)
				observe(t, ob, fabric.WantNCCL) // without asking for interfaces
				time.Sleep(10 * time.Second)
			}
		}
		failed, well := "level=WARN source=netstats reason=io_error\nlevel=WARN source=qos reason=io_error\n", "level=INFO source=netstats\nlevel=INFO source=qos\n"
		if want := failed + well + failed; inOrder(text.String()) != inOrder(want) {
			t.Errorf("logged:\n%swant, in any order:\n%s", text.String(), want)
		}
		k.remove("mlx5_0")
		for range 3 {
			time.Sleep(2 * time.Minute)
			observe(t, ob, wired)
		}
		if len(ob.troubled) != 0 {
			t.Errorf("remembers an interface that left: %v", ob.troubled)
		}
	})
}

// The same of a lock that was held before any interface was ever read.
func TestLogOfHeldLockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		k.rtnl = make(chan struct{})
		var text strings.Builder
		ob := start(t, k, logTo(&text))
		for range 20 {
			observeWithin(t, ob, wired, 2*time.Second)
			observe(t, ob, fabric.WantNCCL)
			time.Sleep(10 * time.Second)
		}
		close(k.rtnl)
		time.Sleep(time.Second)
		const each = "level=WARN source=netdev reason=?\nlevel=WARN source=qos reason=?\nlevel=WARN source=netstats reason=?\n"
		want := strings.ReplaceAll(each, "?", "timeout") + strings.ReplaceAll(each, "?", "rtnl_stuck")
		if inOrder(text.String()) != inOrder(want) {
			t.Errorf("logged:\n%swant, in any order:\n%s", text.String(), want)
		}
	})
}

// inOrder sorts lines: which of two sources comes first does not matter.
func inOrder(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Each owner of whom not everything could be read is named once, and many of them do not fill the log.
func TestLogNamesEachOwner(t *testing.T) {
	var text strings.Builder
	ob := start(t, newKernel(1), logTo(&text))
	see := func(owners int) {
		var partial fabric.PartialError
		for i := range owners {
			partial.By = append(partial.By, fabric.Excess{Owner: fabric.Owner{Kind: fabric.OwnerUser, ID: strconv.Itoa(1000 + i)}, What: "sockets"})
		}
		s := fabric.Source{Name: fabric.SourceRanks, Up: owners == 0}
		if owners > 0 {
			s.Reason, s.Err = fabric.ReasonNotRead, &partial
		}
		ob.logSources(&fabric.Node{Sources: []fabric.Source{s}})
	}
	for owners, want := range map[int]int{1: 1, 2: 2} {
		text.Reset()
		for i := range owners {
			see(i + 1)
			see(i + 1)
		}
		if got := strings.Count(text.String(), "level=WARN"); got != want {
			t.Errorf("%d owners: %d lines, want %d:\n%s", owners, got, want, text.String())
		}
		see(0)
	}
	text.Reset()
	for i := range 100 {
		see(i + 1)
	}
	if got := strings.Count(text.String(), "level=WARN"); got != maxTroubles {
		t.Errorf("%d lines of 100 owners, want %d", got, maxTroubles)
	}
}
