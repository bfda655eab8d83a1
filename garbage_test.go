// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// TestGarbage: the exporter collects garbage when there is some, not by the clock, unless its environment
// says otherwise.
func TestGarbage(t *testing.T) {
	value := func(text, name string) float64 {
		t.Helper()
		found := regexp.MustCompile("(?m)^" + name + " (.+)$").FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no metric %s", name)
		}
		v, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const percent, limit, cycles = "go_gc_gogc_percent", "go_gc_gomemlimit_bytes", "go_gc_duration_seconds_count"
	t.Run("default", func(t *testing.T) {
		h := startHost(t, self)
		text, _ := h.scrape()
		if value(text, percent) < math.MaxInt32 { // a percentage has Go collect every two minutes
			t.Errorf("%s is %g, want it off", percent, value(text, percent))
		}
		before := value(text, cycles)
		for n := 0; value(text, cycles) < before+2; n++ {
			if text, _ = h.scrape(); n == 1000 {
				t.Fatalf("no garbage was collected in %d scrapes", n)
			}
		}
		if most := 64.0 * (1 << 20); value(text, limit) > most {
			t.Errorf("%s is %g, want %g at most", limit, value(text, limit), most)
		}
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("GOGC", "50")
		if text, _ := startHost(t, self).scrape(); value(text, percent) != 50 {
			t.Errorf("%s is %g, want 50", percent, value(text, percent))
		}
	})
}

// TestGarbageOfLargeNode: the limit follows what is in use, else nothing but garbage would be collected.
func TestGarbageOfLargeNode(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	collectByNeed()
	const inUse = 64 << 20
	follows := func(what string, limit func(int64) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			runtime.GC()
			now := debug.SetMemoryLimit(-1)
			if limit(now) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("with %s the limit is %d", what, now)
			}
			time.Sleep(time.Millisecond) // finalizers run in a goroutine of their own
		}
	}
	large := make([]byte, inUse)
	follows("64 MiB in use", func(limit int64) bool { return limit > inUse+mostGarbage && limit < 2*inUse })
	runtime.KeepAlive(large)
	follows("little in use", func(limit int64) bool { return limit < inUse })
}
