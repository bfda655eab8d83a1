// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Three devices hang, each in another call: they are named, everything else goes on in time, nothing piles up, and
// all is as before when they answer again.
func testStuckDevices(t *testing.T, _ *exporter) {
	stuck := []string{"fakehca_1", "fakehca_2", "fakehca_3"} // in query_port, process_mad, get_hw_stats
	var named []func(scrape) error
	for _, device := range stuck {
		named = append(named, is(1, "hca_stuck", "device", device), none("hca_port_state", "device", device), none("hca_out_of_sequence_total", "device", device))
	}
	standstill{
		what: "three devices", devices: stuck, named: named,
		hold: func() {
			for i, device := range stuck {
				set(t, debug(device, "stall_what"), strconv.Itoa(1<<i))
				set(t, debug(device, "stall_ms"), "300000") // longer than the test
			}
		},
		release: func() {
			for _, device := range stuck {
				write(t, debug(device, "stall_ms"), "0")
			}
		},
	}.test(t)
}

// A process holds the kernel's rtnl lock while its driver hangs: network interfaces cannot be read, and neither can
// the ports of Soft-RoCE and siw, whose drivers take that lock. The others do not suffer.
func testStuckRTNL(t *testing.T, _ *exporter) {
	const holder, changed = "fakehca_4", "fakehca_3"
	software := []string{"rxe0", "rxe1", "siw0", "siw1"}
	named := []func(scrape) error{is(0, "exporter_source_up", "source", "netdev"), is(0, "hca_stuck", "device", holder)}
	for _, device := range software {
		named = append(named, is(1, "hca_stuck", "device", device), none("hca_port_state", "device", device))
	}
	var ethtool *exec.Cmd
	standstill{
		what: "the rtnl lock", devices: software, named: named,
		lost:    []string{"hca_port_rate_mismatch", "roce_*", "ethernet_*"}, // all that interfaces are asked for
		changed: changed,
		hold: func() {
			set(t, debug(holder, "stall_what"), "8") // ethtool -S, under the lock
			set(t, debug(holder, "stall_ms"), "300000")
			before := calls(t)
			ethtool = exec.Command("ethtool", "-S", "hca4")
			if err := ethtool.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the lock is held", func() error {
				if calls(t).since(before)[holder]["gstats"] == 0 {
					return errors.New("no call")
				}
				return nil
			})
			set(t, debug(changed, "down"), "1") // interfaces are read again with the rate of a port that changed
		},
		release: func() {
			write(t, debug(holder, "stall_ms"), "0")
			if err := ethtool.Wait(); err != nil {
				t.Error(err)
			}
		},
	}.test(t)
}

// A standstill is something that hangs, and what must go on.
type standstill struct {
	what          string
	hold, release func()
	devices       []string             // that have no facts now
	changed       string               // a device that is another on purpose
	lost          []string             // metrics that the other devices lose, as patterns
	named         []func(scrape) error // what the exporter says of it
}

// others are the series of the devices that do not hang.
func (s standstill) others(from scrape) (lines []string) {
	moving := append([]string{"exporter_source_up", "exporter_source_unknown", "scrape_source_duration_seconds", "hca_port_expected_rate_bytes_per_second", "exporter_facts_unknown"}, s.lost...)
	for _, m := range from {
		moves := slices.ContainsFunc(moving, func(pattern string) bool { ok, _ := path.Match(pattern, m.name); return ok })
		if d := m.labels["device"]; d != "" && d != s.changed && !slices.Contains(s.devices, d) && !moves {
			lines = append(lines, fmt.Sprint(m, " ", m.value))
		}
	}
	return lines
}

func (s standstill) test(t *testing.T) {
	const timeout = 15 * time.Second // a scrape waits half as long for what hangs; the guest is emulated
	scrapes := 50
	if *full {
		scrapes = 1000
	}
	x := startWith(t, "--observer.fast-interval=500ms")
	x.agrees(t, append(everything, counters)...)
	time.Sleep(time.Second) // the series of the second reading are those of all that follow
	before := s.others(x.agrees(t, everything...))
	released := false
	release := func() {
		if !released {
			released = true
			s.release()
		}
	}
	s.hold()
	t.Cleanup(release)

	begin, slowest := time.Now(), time.Duration(0)
	get := func() string {
		t.Helper()
		begin := time.Now()
		text, err := x.getWithin("/metrics", timeout)
		if err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begin))
		return text
	}
	inTime := func() scrape {
		t.Helper()
		now, err := parse(get())
		if err != nil {
			t.Fatal(err)
		}
		if err := diff("series of what goes on", before, s.others(now)); err != nil {
			t.Fatal(err)
		}
		return now
	}
	says := func(now scrape) error {
		var errs []error
		for _, check := range s.named {
			errs = append(errs, check(now))
		}
		return errors.Join(errs...)
	}
	eventually(t, "what is stuck is named", func() error { return says(inTime()) })
	named, first := time.Since(begin), slowest
	for range scrapes / 5 { // connections and threads come to their usual number
		get()
	}

	asked, threads, files := calls(t), x.entries(t, "task"), x.entries(t, "fd")
	begin, slowest = time.Now(), 0
	for i := range scrapes {
		if i%10 != 0 { // the guest is too slow to look into each
			get()
		} else if err := says(inTime()); err != nil {
			t.Fatal(err)
		}
	}
	each := time.Since(begin) / time.Duration(scrapes)
	t.Logf("%s: named after %.1f s, slowest scrape till then %.2f s; %d scrapes later, %d ms each, slowest %d ms: threads %d→%d, descriptors %d→%d",
		s.what, named.Seconds(), first.Seconds(), scrapes, each.Milliseconds(), slowest.Milliseconds(),
		threads, x.entries(t, "task"), files, x.entries(t, "fd"))
	if n := x.entries(t, "task"); n > threads+4 { // Go starts one when several are in system calls, and ends none
		t.Errorf("%d threads, %d before", n, threads)
	}
	if n := x.entries(t, "fd"); n > files+2 { // a connection may come and one go
		t.Errorf("%d descriptors, %d before", n, files)
	}
	did := calls(t).since(asked)
	for _, device := range s.devices {
		for kind, n := range did[device] {
			if n != 0 {
				t.Errorf("%s had %d more calls of %s while it hung", device, n, kind)
			}
		}
	}
	release()
	begin = time.Now()
	x.agrees(t, append(everything, counters, func(s scrape) error {
		if stuck := slices.DeleteFunc(s.find("hca_stuck"), func(m sample) bool { return m.value == 0 }); len(stuck) > 0 {
			return fmt.Errorf("still stuck: %v", stuck)
		}
		return is(1, "exporter_source_up", "source", "netdev")(s)
	})...)
	t.Logf("%s: back %.1f s after it was let go", s.what, time.Since(begin).Seconds())
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
