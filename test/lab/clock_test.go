// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The clock of the host is set a day ahead and a day back, as by a time server or when a virtual machine
// resumes. The monotonic clock does not see it, and neither do intervals: devices are read as often as
// before, and every fact and verdict stays.
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
	seen := func() []string {
		s, err := x.scrape()
		if err != nil {
			t.Fatal(err)
		}
		return lasting(s)
	}
	asked := func() float64 {
		s, err := x.scrape()
		if err != nil {
			t.Fatal(err)
		}
		return commands(s)
	}
	before := seen()
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		set(actual().Add(jump))
		earlier := asked()
		eventually(t, fmt.Sprintf("devices are read after a jump of %s", jump), func() error {
			if now := asked(); now <= earlier {
				return fmt.Errorf("%g commands, then %g", earlier, now)
			}
			return nil
		})
		eventually(t, fmt.Sprintf("nothing changes with a jump of %s", jump), func() error { return diff("series", before, seen()) })
		x.agrees(t, everything...)
	}
}

// lasting is what neither a clock nor a suspend changes.
func lasting(s scrape) (lines []string) {
	for _, m := range s {
		switch m.name {
		case "check_failed", "check_unknown", "exporter_source_up", "hca_port_state", "roce_pfc_enabled", "gid_info", "job_transport", "job_misconfigured":
			lines = append(lines, fmt.Sprint(m, m.value))
		}
	}
	return lines
}

// commands is how often drivers were asked.
func commands(s scrape) (n float64) {
	for _, m := range s.find("exporter_driver_commands_total") {
		n += m.value
	}
	return n
}
