// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The clock of the host is set a day ahead and a day back, as by a time server or when a virtual machine resumes. The monotonic
// clock does not see it, and neither do intervals: devices are read as often as before, and every fact and verdict stays.
func testClock(t *testing.T, x *exporter) {
	begin := time.Now() // with the monotonic clock
	set := func(to time.Time) {
		t.Helper()
		ts := unix.NsecToTimespec(to.UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
			t.Fatal(err)
		}
	}
	actual := func() time.Time { return begin.Round(0).Add(time.Since(begin)) } // what the clock would say
	t.Cleanup(func() { set(actual()) })
	lasting := func() (lines []string) {
		s, err := x.scrape()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range s {
			if slices.Contains([]string{"check_failed", "check_unknown", "exporter_source_up", "hca_port_state", "roce_pfc_enabled", "gid_info"}, m.name) {
				lines = append(lines, fmt.Sprint(m, m.value))
			}
		}
		return lines
	}
	commands := func() (n float64) {
		s, err := x.scrape()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range s.find("exporter_driver_commands_total") {
			n += m.value
		}
		return n
	}
	before := lasting()
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		set(actual().Add(jump))
		asked := commands()
		eventually(t, fmt.Sprintf("devices are read after a jump of %s", jump), func() error {
			if now := commands(); now <= asked {
				return fmt.Errorf("%g commands, then %g", asked, now)
			}
			return nil
		})
		eventually(t, fmt.Sprintf("nothing changes with a jump of %s", jump), func() error { return diff("series", before, lasting()) })
		x.agrees(t, everything...)
	}
}
