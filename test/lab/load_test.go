// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// callCounts is how often fakehca was asked what a driver would ask its firmware, by device and kind.
type callCounts map[string]map[string]int

// callKinds are in the order of the bits of stall_what.
var callKinds = []string{"query_port", "process_mad", "get_hw_stats", "gstats", "dcb"}

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

// load has scrapers scrape for a while, each with a pause after each scrape.
func (x *exporter) load(scrapers int, pause, window time.Duration) (scrapes int64, err error) {
	var done atomic.Int64
	var failed sync.Map
	var all sync.WaitGroup
	for end, i := time.Now().Add(window), 0; i < scrapers; i++ {
		all.Go(func() {
			for time.Now().Before(end) {
				if _, err := x.get("/metrics"); err != nil {
					failed.Store(err.Error(), err)
				}
				done.Add(1)
				time.Sleep(min(pause, time.Until(end)))
			}
		})
	}
	all.Wait()
	failed.Range(func(_, e any) bool {
		err = errors.Join(err, e.(error))
		return true
	})
	return done.Load(), err
}

// Fifty scrapers ask the drivers no more than one does: each port is asked once for its state and once for its
// counters every five seconds, for its slow facts every ten here, and a device that is left out is never asked.
func testDriverLoad(t *testing.T, _ *exporter) {
	const fast, slow, window = 5 * time.Second, 10 * time.Second, 16 * time.Second
	begin := calls(t)
	x := startWith(t, "--observer.fast-interval="+fast.String(), "--observer.slow-interval="+slow.String(), "--web.max-requests=0",
		"--collector.device-include=fakehca_[1-5]")
	reads := make(map[int]int)
	for _, load := range []struct {
		scrapers int
		pause    time.Duration
	}{{1, 100 * time.Millisecond}, {50, time.Second}} {
		before := calls(t)
		eventually(t, "the window begins with a reading", func() error {
			if _, err := x.scrape(); err != nil {
				return err
			}
			if now := calls(t); now["fakehca_1"]["get_hw_stats"] == before["fakehca_1"]["get_hw_stats"] {
				return errors.New("no reading")
			}
			return nil
		})
		before = calls(t)
		scrapes, err := x.load(load.scrapers, load.pause, window)
		if err != nil {
			t.Error(err)
		}
		did := calls(t).since(before)
		for device, n := range did {
			if device != "fakehca_0" {
				if err := asExpected(device, n, window, fast, slow); err != nil {
					t.Errorf("%d scrapers: %v", load.scrapers, err)
				}
			}
		}
		reads[load.scrapers] = did["fakehca_1"]["get_hw_stats"]
		perMinute := func(kind string) float64 {
			return float64(did.sum(kind)) * float64(time.Minute/time.Second) / window.Seconds()
		}
		t.Logf("%d scrapers, %d scrapes: calls in %v of 5 devices %v; a minute: query_port %.0f, process_mad %.0f, get_hw_stats %.0f",
			load.scrapers, scrapes, window, did, perMinute("query_port"), perMinute("process_mad"), perMinute("get_hw_stats"))
	}
	if more := reads[50] - reads[1]; more < -1 || more > 1 {
		t.Errorf("readings of a port by number of scrapers: %v", reads)
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
		if v, err := s.one("driver_commands_total", "kind", kind); err != nil || int(v) != did.sum(kind) {
			t.Errorf("driver_commands_total of %s is %v (%v), the driver counted %d", kind, v, err, did.sum(kind))
		}
	}
	for _, kind := range callKinds[3:] {
		if n := did.sum(kind); n != 0 {
			t.Errorf("%d calls of %s", n, kind)
		}
	}
}

// asExpected: get_hw_stats once for each reading, query_port once as well and for each file among the slow
// facts, process_mad once for each file in counters/, of which five show traffic and are fast.
func asExpected(device string, n map[string]int, window, fast, slow time.Duration) error {
	p := port{Device: device, Number: 1}
	slowFiles := 1 // rate
	if p.file("link_layer") == "InfiniBand" {
		slowFiles = 3 // lid, sm_lid
	}
	const traffic = 5
	readings := n["get_hw_stats"]
	slowReadings := (n["query_port"] - readings) / slowFiles
	var errs []error
	if most := int(window/fast) + 1; readings < most-2 || readings > most {
		errs = append(errs, fmt.Errorf("%d readings", readings))
	}
	if most := int(window/slow) + 1; slowReadings < most-2 || slowReadings > most {
		errs = append(errs, fmt.Errorf("%d slow readings", slowReadings))
	}
	for kind, want := range map[string]int{
		"query_port":  readings + slowFiles*slowReadings,
		"process_mad": traffic*readings + (p.entries("counters")-traffic)*slowReadings,
	} {
		if n[kind] != want {
			errs = append(errs, fmt.Errorf("%d calls of %s, want %d", n[kind], kind, want))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s %v: %w", device, n, err)
	}
	return nil
}

// Three devices hang, each in another call: they are named, everything else goes on in time, nothing piles up, and
// all is as before when they answer again.
func testStuckDevices(t *testing.T, _ *exporter) {
	const timeout = 3 * time.Second
	stuck := []string{"fakehca_1", "fakehca_2", "fakehca_3"} // in query_port, process_mad, get_hw_stats
	x := startWith(t, "--observer.fast-interval=500ms")
	others := func(s scrape) (lines []string) {
		for _, m := range s {
			if d := m.labels["device"]; d != "" && !strings.Contains(strings.Join(stuck, " "), d) &&
				m.name != "source_up" && m.name != "scrape_source_duration_seconds" && m.name != "hca_port_expected_rate_bytes_per_second" {
				lines = append(lines, fmt.Sprint(m, " ", m.value))
			}
		}
		return lines
	}
	x.agrees(t, append(everything, counters)...)
	time.Sleep(time.Second) // the series of the second reading are those of all that follow
	before := x.agrees(t, everything...)
	for i, device := range stuck {
		set(t, debug(device, "stall_what"), strconv.Itoa(1<<i))
		set(t, debug(device, "stall_ms"), "300000") // longer than the test
	}
	begin := time.Now()
	slowest := time.Duration(0)
	inTime := func() scrape {
		t.Helper()
		begin := time.Now()
		s, err := x.scrapeWithin(timeout)
		slowest = max(slowest, time.Since(begin))
		if err != nil {
			t.Fatal(err)
		}
		if err := diff("series of the other devices", others(before), others(s)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	eventually(t, "the stuck devices are named", func() error {
		s := inTime()
		var errs []error
		for _, device := range stuck {
			errs = append(errs, is(1, "device_stuck", "device", device)(s))
		}
		return errors.Join(errs...)
	})
	named := time.Since(begin)
	asked, threads, files := calls(t), x.entries(t, "task"), x.entries(t, "fd")
	t.Logf("named after %v, slowest scrape till then %v", named, slowest)
	slowest = 0
	for i := range 100 {
		if i%10 != 0 { // the guest is too slow to look into each
			begin := time.Now()
			if _, err := x.getWithin("/metrics", timeout); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(begin))
			continue
		}
		s := inTime()
		for _, device := range stuck {
			if err := errors.Join(is(1, "device_stuck", "device", device)(s), none("hca_port_state", "device", device)(s),
				none("out_of_sequence_total", "device", device)(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("100 scrapes later, slowest %v: %d threads before, %d after; %d descriptors before, %d after", slowest,
		threads, x.entries(t, "task"), files, x.entries(t, "fd"))
	if n := x.entries(t, "task"); n > threads+2 {
		t.Errorf("%d threads, %d before", n, threads)
	}
	if n := x.entries(t, "fd"); n > files+2 { // a connection may come and one go
		t.Errorf("%d descriptors, %d before", n, files)
	}
	did := calls(t).since(asked)
	for _, device := range stuck {
		for kind, n := range did[device] {
			if n != 0 {
				t.Errorf("%s had %d more calls of %s while it hung", device, n, kind)
			}
		}
	}
	for _, device := range stuck {
		write(t, debug(device, "stall_ms"), "0")
	}
	begin = time.Now()
	var checks []func(scrape) error
	for _, device := range stuck {
		checks = append(checks, is(0, "device_stuck", "device", device))
	}
	x.agrees(t, append(append(checks, everything...), counters)...)
	t.Logf("back %v after they were let go", time.Since(begin))
}

// entries is the number of entries in a folder of /proc/PID.
func (x *exporter) entries(t *testing.T, folder string) int {
	t.Helper()
	entries, err := os.ReadDir(x.proc(folder))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
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
			none("hca_info")(s), none("device_stuck")(s))
	})
	if _, err := os.Stat("/sys/module/ib_core"); err == nil {
		t.Error("a scrape loads ib_core")
	}
}
