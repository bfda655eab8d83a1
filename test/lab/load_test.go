// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// callCounts is how often fakehca was asked what a driver would ask its firmware, by device and kind.
type callCounts map[string]map[string]int

// callKinds are in the order of the bits of stall_what.
var callKinds = []string{"query_port", "process_mad", "get_hw_stats", "gstats", "dcb", "gstrings", "pause", "fec"}

func calls(t *testing.T) callCounts {
	t.Helper()
	dirs, err := filepath.Glob("/sys/kernel/debug/fakehca/*")
	if err != nil || len(dirs) != 6 {
		t.Fatal(dirs, err)
	}
	all := make(callCounts)
	for _, dir := range dirs {
		counts := make(map[string]int)
		for _, kind := range callKinds {
			if counts[kind], err = strconv.Atoi(read(dir, "calls_"+kind)); err != nil {
				t.Fatal(err)
			}
		}
		all["fakehca_"+filepath.Base(dir)] = counts
	}
	return all
}

// since is how many more they are than before.
func (c callCounts) since(before callCounts) callCounts {
	more := make(callCounts)
	for device, counts := range c {
		more[device] = make(map[string]int)
		for kind, n := range counts {
			more[device][kind] = n - before[device][kind]
		}
	}
	return more
}

func (c callCounts) sum(kind string) (n int) {
	for _, counts := range c {
		n += counts[kind]
	}
	return n
}

// load has scrapers scrape, each with a pause after each scrape, until it is enough.
func (x *exporter) load(scrapers int, pause time.Duration, enough func() bool) (scrapes int64, err error) {
	var done atomic.Int64
	var failed sync.Map
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range scrapers {
		all.Go(func() {
			for {
				if _, err := x.get("/metrics"); err != nil {
					failed.Store(err.Error(), err)
				}
				done.Add(1)
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	for end := time.Now().Add(time.Minute); !enough() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	close(stop)
	all.Wait()
	failed.Range(func(_, e any) bool {
		err = errors.Join(err, e.(error))
		return true
	})
	return done.Load(), err
}

// Fifty scrapers ask the drivers no more than one does. What a reading asks is the same, down to the single command,
// and no reading comes before its time, however many wait for it: each port is asked once for its state and once for
// its counters with every reading, for its slow facts when they are due, and a device that is left out is never asked.
// Commands are counted by reading: how many readings fall into a minute depends on when it begins.
func testDriverLoad(t *testing.T, _ *exporter) {
	const fast, medium, slow, readings = 3 * time.Second, 10 * time.Second, 12 * time.Second, 5
	begin := calls(t)
	x := startWith(t, "--observer.fast-interval="+fast.String(), "--observer.medium-interval="+medium.String(), "--observer.slow-interval="+slow.String(), "--web.max-requests=0",
		"--collector.device-include=fakehca_[1-5]")
	if _, err := x.scrape(); err != nil { // the first reading is over
		t.Fatal(err)
	}
	for _, load := range []struct {
		scrapers int
		pause    time.Duration
	}{{1, 100 * time.Millisecond}, {50, time.Second}} {
		var from time.Time // before the first reading of the load
		var before callCounts
		eventually(t, "a reading", func() error {
			from, before = time.Now(), calls(t)
			if _, err := x.scrape(); err != nil {
				return err
			}
			if calls(t)["fakehca_1"]["get_hw_stats"] == before["fakehca_1"]["get_hw_stats"] {
				return errors.New("no reading")
			}
			return nil
		})
		scrapes, err := x.load(load.scrapers, load.pause, func() bool {
			did := calls(t).since(before)
			for device, n := range did {
				if n["get_hw_stats"] <= readings && device != "fakehca_0" {
					return false
				}
			}
			return true
		})
		took := time.Since(from)
		if err != nil {
			t.Error(err)
		}
		did := calls(t).since(before)
		delete(did, "fakehca_0")
		t.Logf("%d scrapers, %d scrapes in %.1f s:", load.scrapers, scrapes, took.Seconds())
		for _, device := range slices.Sorted(maps.Keys(did)) {
			n, slowReadings := did[device], 0
			if slowReadings, err = asExpected(device, n); err != nil {
				t.Errorf("%d scrapers: %v", load.scrapers, err)
			}
			if most, mostSlow := int(took/fast)+1, int(took/slow)+1; n["get_hw_stats"] > most || slowReadings > mostSlow || slowReadings < 1 {
				t.Errorf("%d scrapers: %s was read %d times, %d times with slow facts; want at most %d and %d in %v",
					load.scrapers, device, n["get_hw_stats"], slowReadings, most, mostSlow, took)
			}
			if err := ethernetAsExpected(device, n, int(took/medium)+1, int(took/slow)+1); err != nil {
				t.Errorf("%d scrapers: in %v, %v", load.scrapers, took, err)
			}
			t.Logf("  %s: statistics %d, names %d, DCB %d, pause %d, FEC %d", device, n["gstats"], n["gstrings"], n["dcb"], n["pause"], n["fec"])
			t.Logf("  %s: %d readings, %d with slow facts: query_port %d, process_mad %d, get_hw_stats %d; at this cadence a minute has at most %d and %d",
				device, n["get_hw_stats"], slowReadings, n["query_port"], n["process_mad"], n["get_hw_stats"], time.Minute/fast, time.Minute/slow)
		}
	}
	s, err := x.scrape()
	if err != nil {
		t.Fatal(err)
	}
	did := calls(t).since(begin)
	for kind, n := range did["fakehca_0"] {
		if n != 0 {
			t.Errorf("the device that is left out had %d calls of %s", n, kind)
		}
	}
	for _, kind := range callKinds[:3] {
		if v, err := s.one("exporter_driver_commands_total", "kind", kind); err != nil || int(v) != did.sum(kind) {
			t.Errorf("exporter_driver_commands_total of %s is %v (%v), the driver counted %d", kind, v, err, did.sum(kind))
		}
	}
	for kind, c := range map[string]struct {
		call string
		each int // calls for each question
	}{"ethtool_stats": {"gstats", 1}, "dcb_get": {"dcb", dcbCalls}, "pause_get": {"pause", 1}, "fec_get": {"fec", 1}} {
		if v, err := s.one("exporter_driver_commands_total", "kind", kind); err != nil || c.each*int(v) != did.sum(c.call) {
			t.Errorf("exporter_driver_commands_total of %s is %v (%v), the driver counted %d calls of %s, %d a question", kind, v, err, did.sum(c.call), c.call, c.each)
		}
	}
}

// dcbCalls is how often DCB_CMD_IEEE_GET calls the driver: PFC, ETS, maximum rates, buffers.
const dcbCalls = 4

// ethernetAsExpected checks what the driver of the device's interface was asked: all statistics and their names as
// often as the statistics are read, and for the rest once with the slow facts. The interface of an InfiniBand port is
// asked nothing.
func ethernetAsExpected(device string, n map[string]int, mostStatistics, mostSlow int) error {
	if p := (port{Device: device, Number: 1}); p.file("link_layer") == "InfiniBand" {
		mostStatistics, mostSlow = 0, 0
	}
	var errs []error
	if g := n["gstats"]; g > mostStatistics || g == 0 && mostStatistics > 0 || n["gstrings"] < g || n["gstrings"] > g+1 {
		errs = append(errs, fmt.Errorf("%s: %d readings of the statistics and %d of their names, expected 1 to %d of each", device, g, n["gstrings"], mostStatistics))
	}
	for kind, each := range map[string]int{"dcb": dcbCalls, "pause": 1, "fec": 1} {
		if c := n[kind]; c%each != 0 || c/each > mostSlow || c == 0 && mostSlow > 0 {
			errs = append(errs, fmt.Errorf("%s: %d calls of %s, expected %d to %d, %d a reading", device, c, kind, each, each*mostSlow, each))
		}
	}
	return errors.Join(errs...)
}

// asExpected returns how many of the readings had slow facts: get_hw_stats is called once for each reading, query_port
// once as well and for each file among the slow facts, process_mad once for each file in counters/, of which five
// show traffic and are fast.
func asExpected(device string, n map[string]int) (slowReadings int, err error) {
	p := port{Device: device, Number: 1}
	slowFiles := 1 // rate
	if p.file("link_layer") == "InfiniBand" {
		slowFiles = 3 // lid, sm_lid
	}
	const traffic = 5
	readings := n["get_hw_stats"]
	slowReadings = (n["query_port"] - readings) / slowFiles
	for kind, want := range map[string]int{
		"query_port":  readings + slowFiles*slowReadings,
		"process_mad": traffic*readings + (p.entries("counters")-traffic)*slowReadings,
	} {
		if n[kind] != want {
			err = errors.Join(err, fmt.Errorf("%s %v: %d calls of %s, want %d", device, n, n[kind], kind, want))
		}
	}
	return slowReadings, err
}

// The RDMA drivers and ib_core itself can be unloaded beneath a running exporter, and come back.
func testUnload(t *testing.T, x *exporter) {
	x.agrees(t, append(everything, counters)...)
	for _, netdev := range []string{"rdma0", "iw0", "iw1"} {
		command(t, "ip link del "+netdev)
	}
	t.Cleanup(func() {
		for _, script := range []string{"rxe.sh", "siw.sh", "fakehca.sh"} {
			command(t, "sh -e ./"+script)
		}
		x.agrees(t, append(everything, addresses, counters)...)
	})
	for _, modules := range []string{"fakehca", "rdma_rxe", "siw"} {
		command(t, "modprobe -r "+modules)
	}
	if _, err := os.Stat("/sys/module/ib_core"); err == nil {
		command(t, "modprobe -r ib_core")
	}
	if text := read("/sys/module/ib_core/refcnt"); text != "" {
		t.Errorf("ib_core is loaded, with %s references", text)
	}
	x.agrees(t, func(s scrape) error {
		return errors.Join(is(0, "scrape_collector_supported", "collector", "hca")(s), is(1, "scrape_collector_success", "collector", "hca")(s),
			none("hca_info")(s), none("hca_stuck")(s))
	})
	if _, err := os.Stat("/sys/module/ib_core"); err == nil {
		t.Error("a scrape loads ib_core")
	}
}
