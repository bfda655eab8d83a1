// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A log that nobody reads delays the first line a little and the others not at all, and what is dropped is counted.
func TestLogThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, q := (&Flags{format: formatLogfmt}).Queued(w)
		begin := time.Now()
		const lines = 10_000
		for i := range lines {
			log.Info("said", "number", i)
		}
		if took := time.Since(begin); took > usual {
			t.Errorf("logging took %s", took)
		}
		if q.Dropped() == 0 || len(q.waiting) > mostWaiting {
			t.Errorf("%d lines dropped, %d bytes wait", q.Dropped(), len(q.waiting))
		}
		begin = time.Now()
		if q.Close(); time.Since(begin) != leaving {
			t.Errorf("closed after %s", time.Since(begin))
		}

		var read bytes.Buffer // it is read again
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = io.Copy(&read, r) })
		q.flush(time.Hour)
		log.Info("the last")
		w.Close()
		reading.Wait()
		text := read.String()
		said := uint64(strings.Count(text, "msg=said"))
		if said+q.Dropped() != lines || !strings.Contains(text, fmt.Sprintf("did not keep up\" dropped=%d\n", q.Dropped())) || !strings.HasSuffix(text, "msg=\"the last\"\n") {
			t.Errorf("%d lines written, %d dropped, the end is\n%s", said, q.Dropped(), text[max(0, len(text)-400):])
		}
	})
}

// What is logged is written when the call returns, in its order, from whatever goroutine it comes.
func TestQueuedLinesAreWrittenAtOnce(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log, q := (&Flags{format: formatJSON, level: slog.LevelInfo}).Queued(file)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 200 {
				log.Info("said", "by", i, "number", k)
			}
		})
	}
	all.Wait()
	q.flush(time.Minute) // a loaded machine may be late
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	next := [8]int{}
	for line := range strings.Lines(string(text)) {
		var by, number int
		at := strings.Index(line, `"by":`)
		if _, err := fmt.Sscanf(line[at:], `"by":%d,`, &by); err != nil {
			t.Fatal(line, err)
		}
		if _, err := fmt.Sscanf(line[strings.Index(line, `"number":`):], `"number":%d,`, &number); err != nil || number != next[by] {
			t.Fatalf("%s: expected number %d", line, next[by])
		}
		next[by]++
	}
	if q.Dropped() > 0 || next != [8]int{200, 200, 200, 200, 200, 200, 200, 200} {
		t.Errorf("%d dropped, %v written", q.Dropped(), next)
	}
}

// disk takes what is written to it unless it is full.
type disk struct {
	bytes.Buffer
	full bool
}

func (d *disk) Write(p []byte) (int, error) {
	if d.full {
		return 0, syscall.ENOSPC
	}
	return d.Buffer.Write(p)
}

// Lines that a full disk does not take count as dropped, and the log says so when there is space again.
func TestLogOnAFullDisk(t *testing.T) {
	d := &disk{full: true}
	log, q := (&Flags{format: formatLogfmt}).Queued(d)
	for range 3 {
		log.Info("said")
		q.flush(time.Minute)
	}
	if q.Dropped() != 3 {
		t.Errorf("%d lines dropped, expected 3", q.Dropped())
	}
	d.full = false
	for range 2 {
		log.Info("said again")
		q.flush(time.Minute)
	}
	if text := d.String(); strings.Count(text, "dropped=3\n") != 1 || strings.Count(text, "dropped=") != 1 || strings.Count(text, "said again") != 2 {
		t.Error(text)
	}
}
