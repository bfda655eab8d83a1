// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// The words in which the command probe and the page describe results.

// Name is the probe in words.
func (k Key) Name() string {
	if k.Device == "" {
		return string(k.Kind)
	}
	return fmt.Sprintf("%s %s port %d", k.Kind, k.Device, k.Port)
}

// SizeText is a number of bytes in the largest unit that leaves no rest.
func SizeText(n uint64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n>>unit.shift > 0 && n&(1<<unit.shift-1) == 0 {
			return strconv.FormatUint(n>>unit.shift, 10) + " " + unit.name
		}
	}
	return strconv.FormatUint(n, 10) + " bytes"
}

// Bandwidth is bytes per second as nccl-tests shows them.
func Bandwidth(bytesPerSecond float64) string { return fmt.Sprintf("%.2f GB/s", bytesPerSecond/1e9) }

// Text is a time to a tenth of a second: "3.2 s".
func (t Seconds) Text() string { return fmt.Sprintf("%.1f s", float64(t)) }

// Brief is a time to a tenth of a millisecond: 1.0013s, 13.2ms, 100µs.
func (t Seconds) Brief() string { return t.Duration().Round(100 * time.Microsecond).String() }

// Microseconds is a time as nccl-tests prints it, to a hundredth of a microsecond and without a unit.
func (t Seconds) Microseconds() string { return strconv.FormatFloat(1e6*float64(t), 'f', 2, 64) }

// OrUnknown is a version or a name, or "unknown".
func OrUnknown(s string) string { return cmp.Or(s, "unknown") }

// YesNo is "yes" or "no".
func YesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// Word is a fact in one word: its value, "none" or "unknown".
func Word[T any](f Fact[T], word func(T) string) string {
	switch v, ok := f.Get(); {
	case ok:
		return word(v)
	case f.State == fabric.Absent:
		return "none"
	}
	return "unknown"
}

// ReleaseText says how soon the GPUs were free after a run; empty: not observed.
func (r *Result) ReleaseText() string {
	if took, ok := r.Release.Get(); ok {
		return fmt.Sprintf("idle %s after its ranks were killed or asked to close", took.Brief())
	}
	if r.Left != "" {
		return "not confirmed idle: " + r.Left
	}
	return ""
}

// Counted is a number of things, in words.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// MaxText is the length in bytes of errors and other words in a Result.
const MaxText = 512

// Printable makes foreign text fit for a page, a log and the state file: at most n bytes that can be printed, without
// credentials.
func Printable(s string, n int) string {
	return fabric.Clip(fabric.MaskCredentials(fabric.Printable(s, len(s))), n)
}
