// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// coll30 is a line as tag 2.30.7 writes it: the n-th collective of its kind of a communicator.
func coll30(communicator int, collective string, n uint64, size uint64, bandwidth float64, duration uint64) string {
	return fmt.Sprintf(`{"header":{"id":"0x%x","comm_name":"DP Group %d","rank":3,"n_ranks":16,"nnodes":2},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"9019a1912","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1748030377748202,"hostname":"node1","pid":4242},"coll_perf":{"coll":"%s","coll_sn":%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":%d,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.000000,"coll_busbw_gbs":%f}}`+"\n",
		0x5eed0000+communicator, communicator, collective, n, size, duration, bandwidth)
}

// showTotals is a total in one line.
func showTotals(list []fabric.CollectiveTotal) []string {
	var out []string
	for _, t := range list {
		out = append(out, fmt.Sprintf("%s %.4g recorded %.4g launched %.4g s", t.Collective, t.Recorded, t.Launched, t.Seconds))
	}
	return out
}

// only returns the one file that was read.
func only(t *testing.T, reading fabric.InspectorReading) fabric.InspectorFile {
	t.Helper()
	if len(reading.Files) != 1 {
		t.Fatalf("read %+v, refused %v", reading.Files, reading.Refused)
	}
	return reading.Files[0]
}

// A file that grows is read on from where the last whole line ended, and one that was cut or replaced from
// its beginning.
func TestGrowing(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	name := filepath.Join(dir, logFile)
	r := start(dir)
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		now = now.Add(30 * time.Second)
		if err := os.Chtimes(name, now, now); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(sample, total string) {
		t.Helper()
		f := only(t, read(t, r, now))
		if got := strings.Join(show(f.Samples), ", "); got != sample {
			t.Errorf("got  %s\nwant %s", got, sample)
		}
		if got := strings.Join(showTotals(f.Totals), ", "); got != total {
			t.Errorf("got  %s\nwant %s", got, total)
		}
	}
	const large = 256 << 20
	add(coll30(1, "AllReduce", 0, large, 100, 500_000))
	expect("AllReduce from_256MiB nodes 100 GB/s 500ms", "AllReduce 1 recorded 1 launched 0.5 s")

	half := coll30(1, "AllReduce", 2, large, 50, 1_000_000)
	add(coll30(1, "AllReduce", 1, large, 200, 250_000) + half[:100])
	expect("AllReduce from_256MiB nodes 200 GB/s 250ms", "AllReduce 2 recorded 2 launched 0.75 s")
	add("") // only the time changes
	expect("AllReduce from_256MiB nodes 200 GB/s 250ms", "AllReduce 2 recorded 2 launched 0.75 s")
	add(half[100:])
	expect("AllReduce from_256MiB nodes 50 GB/s 1s", "AllReduce 3 recorded 3 launched 1.75 s")

	// Inspector dropped records 3 to 6; another communicator counts apart; an operation that was not seen again
	// stays for a while.
	add(coll30(1, "AllReduce", 7, large, 50, 1_000_000) + coll30(2, "AllReduce", 900, large, 50, 1_000_000))
	add(coll30(2, "AllGather", 4, large, 50, 250_000))
	expect("AllGather from_256MiB nodes 50 GB/s 250ms, AllReduce from_256MiB nodes 50 GB/s 1s", "AllGather 1 recorded 1 launched 0.25 s, AllReduce 5 recorded 9 launched 3.75 s")
	now = now.Add(staleAfter)
	add(coll30(2, "AllGather", 6, large, 50, 250_000) + coll30(2, "AllGather", 5, large, 50, 250_000)) // completed out of order
	expect("AllGather from_256MiB nodes 50 GB/s 250ms", "AllGather 3 recorded 3 launched 0.75 s, AllReduce 5 recorded 9 launched 3.75 s")

	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	add(coll30(3, "Reduce", 4, large, 50, 250_000))
	expect("Reduce from_256MiB nodes 50 GB/s 250ms", "Reduce 1 recorded 1 launched 0.25 s")
	write(t, name, strings.Repeat(coll30(3, "Broadcast", 4, large, 50, 250_000), 3), now) // cut, and longer than it was
	expect("Broadcast from_256MiB nodes 50 GB/s 250ms", "Broadcast 3 recorded 1 launched 0.75 s")
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	add(strings.Repeat(coll30(3, "AllGather", 9, large, 50, 250_000), 20)) // another file of that name
	expect("AllGather from_256MiB nodes 50 GB/s 250ms", "AllGather 20 recorded 1 launched 5 s")
}

// counted counts the bytes that are read.
type counted struct {
	bytes.Reader
	n int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(p, at)
	c.n += n
	return n, err
}

// grow reads a file that begins with a text, and then what is appended to it. It returns the bytes that the
// second reading read.
func grow(t *testing.T, a *appended, before, after string) (n int, refused fabric.Refusal) {
	t.Helper()
	now := time.Now()
	for _, text := range []string{before, before + after} {
		c := &counted{}
		c.Reset([]byte(text))
		var err error
		if refused, err = a.read(c, int64(len(text)), maxAppended, now); err != nil {
			t.Fatal(err)
		}
		n = c.n
	}
	return n, refused
}

// What a reading costs depends on what was appended, up to a bound, and not on the size of the file.
func TestReadsWhatWasAppended(t *testing.T) {
	line := coll30(1, "AllReduce", 7, 1<<28, 100, 1000)
	for before, after := range map[int]int{1: 64, 1000: 64, 100_000: 64, 10: 100_000} {
		n, refused := grow(t, new(appended), strings.Repeat(line, before), strings.Repeat(line, after))
		if most := min(len(line)*after, maxAppended) + maxRecord + 1; n > most || refused != "" {
			t.Errorf("%d lines after %d: read %d bytes, at most %d expected, refused %q", after, before, n, most, refused)
		}
	}
}

// Of more than is read, a sample stands for all, whichever communicator was written first.
func TestSample(t *testing.T) {
	const times = 100
	var seconds, recorded, launched float64
	seen := map[string]bool{}
	first := coll30(9, "Broadcast", 1, 1<<28, 100, 1000)
	for i := range times {
		var log strings.Builder
		for c, collective := range []string{"AllReduce", "AllGather", "ReduceScatter", "Reduce"} {
			for n := range 250 {
				log.WriteString(coll30(c, collective, uint64(i*250+n), 1<<28, 100, 4000))
			}
		}
		a := &appended{}
		grow(t, a, first, log.String())
		_, totals := a.samples(time.Now())
		for _, s := range totals {
			if s.Collective != "Broadcast" {
				seconds, recorded, launched = seconds+s.Seconds, recorded+s.Recorded, launched+s.Launched
				seen[s.Collective] = true
			}
		}
	}
	if recorded /= times; len(seen) != 4 || math.Abs(recorded-1000) > 60 || math.Abs(seconds/times-4) > 0.24 {
		t.Errorf("1000 records of four operations, 4 s: %.0f records of %d operations, %.2f s", recorded, len(seen), seconds/times)
	}
	t.Logf("%.0f of 1000 records, %.2f of 4 s", recorded, seconds/times)
}

// What Inspector does not write adds nothing, and what comes after it is read again.
func TestLogRefused(t *testing.T) {
	good := coll30(1, "AllReduce", 7, 1<<28, 100, 1_000_000)
	for name, c := range map[string]struct {
		text string
		want fabric.Refusal
	}{
		"no JSON":           {"Traceback (most recent call last):\n", fabric.RefusedMalformed},
		"no record":         {`{"header":{"nnodes":1}}` + "\n", fabric.RefusedMalformed},
		"another type":      {strings.Replace(good, `"coll_sn":7`, `"coll_sn":"7"`, 1), fabric.RefusedMalformed},
		"negative number":   {strings.Replace(good, `"coll_sn":7`, `"coll_sn":-7`, 1), fabric.RefusedMalformed},
		"2^64":              {strings.Replace(good, `"coll_sn":7`, `"coll_sn":18446744073709551616`, 1), fabric.RefusedMalformed},
		"beyond a float":    {strings.Replace(good, `:1000000,`, `:1e999,`, 1), fabric.RefusedMalformed},
		"NaN":               {strings.Replace(good, `:1000000,`, `:NaN,`, 1), fabric.RefusedMalformed},
		"deep":              {strings.Repeat("[", 2000) + "\n", fabric.RefusedMalformed},
		"binary":            {"\x00\x1b[2J\xff\n", fabric.RefusedMalformed},
		"1 MB line":         {strings.Repeat("x", 1<<20), fabric.RefusedTooLarge},
		"1 MB line, ended":  {`{"header":"` + strings.Repeat("x", 1<<20) + "\"}\n", ""}, // not looked at: no line ends in the sample
		"hole":              {strings.Repeat("\x00", 100<<10), fabric.RefusedTooLarge},
		"blank":             {"\n \n\n", ""},
		"negative time":     {strings.Replace(good, `:1000000,`, `:-1000000,`, 1), ""},
		"2^63 microseconds": {strings.Replace(good, `:1000000,`, `:9223372036854775808,`, 1), ""},
		"unknown operation": {strings.Replace(good, `AllReduce`, `AllReduce\"} 1\n`, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &appended{}
			if _, refused := grow(t, a, good, c.text); refused != c.want {
				t.Errorf("refused %q, expected %q", refused, c.want)
			}
			if _, totals := a.samples(time.Now()); !slices.Equal(showTotals(totals), []string{"AllReduce 1 recorded 1 launched 1 s"}) {
				t.Errorf("adds %q", showTotals(totals))
			}
			if c.want == fabric.RefusedTooLarge {
				return // until the line ends
			}
			text := good + c.text + good
			refused, err := a.read(strings.NewReader(text), int64(len(text)), maxAppended, time.Now())
			if _, totals := a.samples(time.Now()); err != nil || refused != "" || !slices.Equal(showTotals(totals), []string{"AllReduce 2 recorded 1 launched 2 s"}) {
				t.Errorf("then refused %q, %q, %v", refused, showTotals(totals), err)
			}
		})
	}
}

// A file that is cut, or grows, while it is read gives what was whole when its size was taken.
func TestChangesWhileRead(t *testing.T) {
	line := coll30(1, "AllReduce", 7, 1<<28, 100, 1_000_000)
	for name, c := range map[string]struct {
		text string
		size int
		want []string
	}{
		"grows":       {strings.Repeat(line, 1000), len(line) + 10, []string{"AllReduce 1 recorded 1 launched 1 s"}},
		"cut":         {line, 2 * len(line), []string{"AllReduce 1 recorded 1 launched 1 s"}},
		"cut to none": {"", 100 * len(line), nil},
	} {
		a := &appended{}
		if _, err := a.read(strings.NewReader(c.text), int64(c.size), maxAppended, time.Now()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, totals := a.samples(time.Now()); !slices.Equal(showTotals(totals), c.want) {
			t.Errorf("%s: %q", name, showTotals(totals))
		}
	}
}

// A file with more communicators than are followed, or with names that no communicator has, is read within the bound.
func TestSequencesAreBounded(t *testing.T) {
	a := &appended{}
	for i := range 3 * maxSequences {
		a.launchedBy(t, coll30(i, "AllReduce", 5, 1<<28, 1, 1))
	}
	a.launchedBy(t, strings.Replace(coll30(1, "AllReduce", 5, 1<<28, 1, 1), "0x5eed", "0x"+strings.Repeat("f", 4000), 1))
	if len(a.last) > maxSequences {
		t.Errorf("%d sequences", len(a.last))
	}
	if _, totals := a.samples(time.Now()); len(totals) != 1 || totals[0].Launched > 3*maxSequences+1 {
		t.Errorf("%+v", totals)
	}
}

func (a *appended) launchedBy(t *testing.T, line string) {
	t.Helper()
	if a.totals == nil {
		a.latest, a.totals, a.last = map[kind]latest{}, map[operation]*fabric.CollectiveTotal{}, map[sequence]uint64{}
	}
	r, kind := parseLine([]byte(line), &origin{})
	if kind != lineRecord {
		t.Fatal(line)
	}
	a.add([]record{r}, 1, time.Now())
}
