// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/jobs/owned"
)

const (
	ranks         = 8
	communicators = 64
)

// folder plants a file of each rank, a minute old.
func folder(t testing.TB, content, name string) string {
	t.Helper()
	dir := t.TempDir()
	for i := range ranks {
		write(t, filepath.Join(dir, fmt.Sprintf(name, i)), content, time.Now().Add(-time.Minute))
	}
	return dir
}

// interval is what a rank writes in one interval: so many records of each communicator.
func interval(records int) string {
	var b strings.Builder
	for c := range communicators {
		for i := range records {
			b.WriteString(coll30(c, "AllReduce", uint64(i), 256<<20, 178.263, 9498))
		}
	}
	return b.String()
}

// cost returns how long a reading takes after each rank appended to its file: the best of a few.
func cost(t testing.TB, appended string, times int) time.Duration {
	dir := folder(t, interval(1), "node1-pid1%d.log")
	r := start(dir)
	read(t, r, time.Now())
	best := time.Hour
	for range times {
		appendAll(t, dir, appended)
		begin := time.Now()
		if n := len(read(t, r, time.Now()).Files); n != ranks {
			t.Fatalf("%d files", n)
		}
		best = min(best, time.Since(begin))
	}
	return best
}

func appendAll(t testing.TB, dir, text string) {
	t.Helper()
	for i := range ranks {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("node1-pid1%d.log", i)), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A reading costs little more than the parsing of what was appended, and less than twenty times as much where
// twenty times as much was.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: times under the race detector say nothing; make test runs it without")
	}
	lines := strings.Split(strings.TrimSpace(strings.Repeat(interval(1), ranks)), "\n")
	parsing := time.Hour
	for range 5 {
		begin := time.Now()
		for _, line := range lines {
			if _, kind := parseLine([]byte(line), &origin{}); kind != lineRecord {
				t.Fatal(line)
			}
		}
		parsing = min(parsing, time.Since(begin))
	}
	one, many := cost(t, interval(1), 10), cost(t, interval(20), 10)
	t.Logf("%d records: parsed in %s, read in %s; with 20 times as many in %s", len(lines), parsing, one, many)
	if one > 3*parsing {
		t.Errorf("%d records are read in %s, parsed in %s: at most three times as long expected", len(lines), one, parsing)
	}
	if many > 20*one {
		t.Errorf("20 times as many records are read in %s, one of each in %s: at most twenty times as long expected", many, one)
	}
}

// BenchmarkRead reads the files of 8 ranks with 64 communicators: all anew, unchanged, and with what an
// interval appends. The limit is 5 ms for an interval of one record for each communicator, as releases up to
// 2.29 write them.
func BenchmarkRead(b *testing.B) {
	var metrics strings.Builder
	for i := range communicators {
		for _, collective := range []string{"AllReduce", "ReduceScatter"} {
			metrics.WriteString(metricsOf30(collective, "256-257MB", fmt.Sprintf("DP Group %d", i), 2, 178.263, 9498.47))
		}
	}
	for mode, dir := range map[string]string{
		"prometheus": folder(b, metrics.String(), "nccl_inspector_metrics_5a3d2c10-0000-4000-8000-00000000000%d.prom"),
		"json":       folder(b, interval(2), "node1-pid1%d.log"),
	} {
		b.Run(mode+"/new", func(b *testing.B) { scrapes(b, func() *Reader { return start(dir) }) })
		b.Run(mode+"/unchanged", func(b *testing.B) {
			r := start(dir)
			scrapes(b, func() *Reader { return r })
		})
	}
	for _, records := range []int{1, 20} {
		b.Run(fmt.Sprintf("json/appended/%d", records), func(b *testing.B) {
			dir, text := folder(b, interval(1), "node1-pid1%d.log"), interval(records)
			r := start(dir)
			read(b, r, time.Now())
			scrapes(b, func() *Reader {
				appendAll(b, dir, text)
				return r
			})
		})
	}
}

// scrapes benchmarks the reader that next returns, and also prints the processor time of a reading, which
// other processes do not increase.
func scrapes(b *testing.B, next func() *Reader) {
	spent := 0.0
	for b.Loop() {
		b.StopTimer()
		r := next()
		b.StartTimer()
		before := processorTime(b)
		if n := len(read(b, r, time.Now()).Files); n != ranks {
			b.Fatal(n)
		}
		spent += processorTime(b) - before
	}
	b.ReportMetric(spent/float64(b.N)*1e3, "core-ms/op")
}

// processorTime is that of this process, in seconds.
func processorTime(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// Numbers that Inspector does not write are refused, and not parsed for thirty times as long as its own.
func TestHostileNumbers(t *testing.T) {
	took := func(text string) time.Duration {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		least := time.Hour
		for range 7 {
			begun := owned.Spent()
			for range 1000 {
				parseFloat([]byte(text))
			}
			least = min(least, owned.Spent()-begun)
		}
		return least
	}
	usual := took("178.263000")
	for _, text := range []string{"2.2250738585072011360574097967091319759348195463516456e-308", "0." + strings.Repeat("0", 700) + strings.Repeat("7", 100), "1.7976931348623159e308", "0x1.8p-1000"} {
		if cost := took(text); cost > 30*usual {
			t.Errorf("%s: %s, and %s for one of Inspector", text, cost, usual)
		}
	}
}
