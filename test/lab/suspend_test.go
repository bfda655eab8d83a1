// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var suspend = flag.Bool("suspend", false, "suspend the guest; it must run the suite from memory (SUSPEND=1 of test.sh)")

const (
	asleepFor = 90 * time.Second
	// resumedWithin is the timeout of a scrape by default.
	resumedWithin = 10 * time.Second
)

// TestSuspend suspends the guest to memory while a job moves data; the alarm of its clock wakes it.
// CLOCK_MONOTONIC does not count the sleep, CLOCK_BOOTTIME and CLOCK_REALTIME do. The exporter goes on as if
// there had been none: its first answer is in time, with the same findings and verdicts; no counter goes
// back, missed readings are not repeated, and later changes are seen.
func TestSuspend(t *testing.T) {
	if !*suspend {
		t.Skip("only in a guest of its own, which runs it from memory (make lab-full)")
	}
	nvml := jobDriver(t)
	x := startWith(t, "--gpu.nvml-library="+nvml, "--observer.slow-interval=5s")
	stop, gid := pingpongServer(t)
	defer stop()
	pid, end := rankOf(t, "RDMA="+gid, "UVERBS=1", "SLURM_JOB_ID=4100")
	defer end()
	describe(t, pid)
	rdma := is(1, "job_transport", "training_job", "slurm/4100-of-user-0", "transport", "rdma")
	write(t, debug("fakehca_0", "np_cnp_sent"), "41000")
	eventually(t, "the job is seen", func() error {
		s, err := x.scrape()
		return errors.Join(err, rdma(s))
	})
	before := x.agrees(t, append(everything, rdma, is(41000, "hca_cnp_sent_total", "device", "fakehca_0"))...)
	logged := len(x.lines())

	begin := clock(t, unix.CLOCK_MONOTONIC)
	sleep(t)
	after, err := x.scrapeWithin(resumedWithin)
	if err != nil {
		t.Fatalf("the first scrape: %v", err)
	}
	t.Logf("the first scrape has %d series, %s after the one before by the monotonic clock", len(after), clock(t, unix.CLOCK_MONOTONIC)-begin)
	if err := errors.Join(rdma(after), diff("series", lasting(before), lasting(after))); err != nil {
		t.Error(err)
	}
	if asked, asks := commands(before), commands(after)-commands(before); asked == 0 || asks > asked {
		t.Errorf("%g commands to drivers after %g since the start, at which everything is read", asks, asked)
	}
	goesOn(t, before, after)
	for _, path := range []string{"/-/healthy", "/-/ready", "/", "/status.json", "/jobs.json"} {
		if _, err := x.getWithin(path, resumedWithin); err != nil {
			t.Error(err)
		}
	}

	write(t, debug("fakehca_0", "np_cnp_sent"), "41007")
	undone(t, "ip link set rdma1.100 down", "ip link set rdma1.100 up")
	goesOn(t, before, x.agrees(t, append(everything, is(41007, "hca_cnp_sent_total", "device", "fakehca_0"))...))
	for _, line := range x.lines()[logged:] {
		t.Error("it logs after the suspend: ", line)
	}
	x.stop(t)
}

// sleep suspends the guest.
func sleep(t *testing.T) {
	t.Helper()
	const alarm = "/sys/class/rtc/rtc0/wakealarm"
	write(t, alarm, "0")
	write(t, alarm, fmt.Sprintf("+%.0f", asleepFor.Seconds()))
	boot, monotonic := clock(t, unix.CLOCK_BOOTTIME), clock(t, unix.CLOCK_MONOTONIC)
	write(t, "/sys/power/state", "mem") // returns when it is awake
	boot, monotonic = clock(t, unix.CLOCK_BOOTTIME)-boot, clock(t, unix.CLOCK_MONOTONIC)-monotonic
	t.Logf("CLOCK_BOOTTIME went on by %s, CLOCK_MONOTONIC by %s", boot, monotonic)
	if asleep := boot - monotonic; asleep < asleepFor*3/4 {
		t.Fatalf("it was asleep for %s, expected about %s", asleep, asleepFor)
	}
}

func clock(t *testing.T, id int32) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano()).Round(time.Millisecond)
}

// goesOn compares what a suspend must not set back.
func goesOn(t *testing.T, before, after scrape) {
	t.Helper()
	now := map[string]float64{}
	for _, m := range after {
		now[m.String()] = m.value
	}
	for _, m := range before {
		value, there := now[m.String()]
		switch {
		case m.counts() && (!there || value < m.value):
			t.Errorf("%v was %g, and is %g (%t)", m, m.value, value, there)
		case m.name == "node_boot_time_seconds" && math.Abs(value-m.value) > 1:
			t.Errorf("the node booted at %.0f, and then at %.0f", m.value, value)
		}
	}
}
