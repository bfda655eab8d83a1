// SPDX-License-Identifier: Apache-2.0

package log

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// took is the least time of a few for which the lines are read, for each byte.
func took(lines ...string) float64 {
	best, size := time.Hour, 0
	for _, line := range lines {
		size += len(line)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 7 {
		l, begun := New(), processor()
		for range 200_000 / (size + 1) {
			for _, line := range lines {
				l.Add(line[:min(len(line), MaxLine)])
			}
		}
		best = min(best, processor()-begun)
	}
	return float64(best)
}

// No line that a user can write takes many times as long as lines of NCCL with as many bytes: these took 7 to
// 126 times as long. Processor times are compared within this run.
func TestHostileLines(t *testing.T) {
	const info = "gpu1:41:50 [0] NCCL INFO "
	usual := took(info+"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA", info+"NCCL_IB_TC set by environment to 106.")
	for name, line := range map[string]string{
		"names with slashes":     info + "Channel  via NET" + strings.Repeat("/", 4000),
		"devices without number": info + "Channel  via NET" + strings.Repeat("/x", 2000),
		"blanks at the end":      strings.Repeat("NCCL ", 400) + strings.Repeat(" ", 2000),
		"versions":               strings.Repeat("NCCL version 1 ", 133) + strings.Repeat(" ", 2000),
		"long decimals":          info + "Init timings " + strings.Repeat("total 2.2250738585072011360574097967091319759348195463516456e-308 ", 60),
		"words before":           strings.Repeat("a:1:x ", 680),
		"no channels":            info + "4 coll channels, " + strings.Repeat(", ", 1900) + "x",
		"ports":                  info + "NET/IB : Using [" + strings.Repeat("a:x/b ", 600),
		"bytes":                  "NCCL WARN " + strings.Repeat("\x80", 4000),
	} {
		if cost := took(line) / usual; cost > 8 {
			t.Errorf("%s: %.1f times as long as lines of NCCL, expected at most 8", name, cost)
		}
	}
}

// processor is the processor time of the calling thread, which other processes do not increase.
func processor() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
