// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	maxRecord    = 8 << 10 // bytes of a line of the JSON mode: 500 without NCCL_INSPECTOR_DUMP_VERBOSE
	maxAppended  = 16 * maxRecord
	maxSequences = 1024 // of a file: 64 communicators use some 200
	maxGap       = 1e6  // collectives between two records, beyond which their numbers are not accepted
	maxWeight    = 1e4  // collectives that one record stands for
)

// appended is what is known of a file of the JSON mode, which grows for as long as its job runs. Only what
// was appended since the last reading is read, and of more than maxAppended an even sample, each record of
// which stands for several.
type appended struct {
	offset int64 // of the end of the last line that was read; 0: none was
	latest map[kind]latest
	totals map[operation]*fabric.CollectiveTotal
	last   map[sequence]uint64 // number of the last collective
	origin origin              // of what is appended next
}

// latest is what the last reading that had records of a kind said of it.
type latest struct {
	sum
	at time.Time
}

// operation is the key of totals.
type operation struct {
	collective string
	nodes      bool
}

// sequence is what NCCL numbers collectives in: a communicator, for each operation (ncclComm.seqNumber in
// src/include/comm.h).
type sequence struct {
	communicator, rank uint64
	collective         string
}

// read reads what was appended to a file of that size: all, or a sample of at most that many bytes. What it
// refuses adds nothing.
func (a *appended) read(f io.ReaderAt, size, most int64, now time.Time) (fabric.Refusal, error) {
	if whole, err := a.continues(f, size); err != nil {
		return "", err
	} else if !whole {
		*a = appended{latest: map[kind]latest{}, totals: map[operation]*fabric.CollectiveTotal{}, last: map[sequence]uint64{}}
	}
	from, known := a.offset, a.offset > 0
	if !known {
		from = max(size-most, 0)
	}
	end, refused, err := lastLine(f, from, size)
	if err != nil || refused != "" || end == from {
		return refused, err
	}
	l := lines{}
	at := a.origin
	for _, s := range sections(from, end, most) {
		if !known || s.from != from {
			at = origin{}
		}
		if err := l.read(f, s, known && s.from == from, &at); err != nil {
			return "", err
		}
		if a.origin = at; s.end != end {
			a.origin = origin{}
		}
	}
	a.offset = end
	if l.odd && !l.fine {
		return fabric.RefusedMalformed, nil
	}
	if l.seen > 0 {
		a.add(l.records, min(float64(end-from)/float64(l.seen), maxWeight), now)
	}
	return "", nil
}

// continues reports whether the file still has the line that was read last. False: it is new, was truncated,
// or is another one.
func (a *appended) continues(f io.ReaderAt, size int64) (bool, error) {
	if a.offset == 0 || size < a.offset {
		return false, nil
	}
	var before [1]byte
	if _, err := f.ReadAt(before[:], a.offset-1); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return before[0] == '\n', nil
}

// lastLine returns where the last whole line ends, from itself if there is none yet.
func lastLine(f io.ReaderAt, from, size int64) (end int64, refused fabric.Refusal, err error) {
	tail := section{max(from, size-maxRecord), size}
	data, err := tail.bytes(f)
	if err != nil {
		return 0, "", err
	}
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
		return tail.from + int64(i) + 1, "", nil
	}
	if size-from > maxRecord {
		return 0, fabric.RefusedTooLarge, nil
	}
	return from, "", nil
}

// section is a part of a file.
type section struct{ from, end int64 }

// sections returns the parts of a range that are read: all, or parts at random places, evenly spread.
// Inspector writes one communicator after the other: the end alone would be of the last one.
func sections(from, end, most int64) []section {
	if end-from <= most {
		return []section{{from, end}}
	}
	list := make([]section, max(most/maxRecord, 1))
	stride := (end - from) / int64(len(list))
	for i := range list {
		at := from + int64(i)*stride + rand.Int64N(stride-maxRecord+1)
		list[i] = section{at, at + maxRecord}
	}
	return list
}

// bytes reads a section, which may be shorter by now.
func (s section) bytes(f io.ReaderAt) ([]byte, error) {
	data := make([]byte, s.end-s.from)
	n, err := f.ReadAt(data, s.from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// lines are what was read of a file.
type lines struct {
	records   []record
	seen      int64 // bytes of lines, without those whose origin was not read
	odd, fine bool  // there are lines that Inspector does not write, and that it does
}

// read adds the records of the whole lines of a section. An odd line costs itself alone.
func (l *lines) read(f io.ReaderAt, s section, lineBegins bool, at *origin) error {
	data, err := s.bytes(f)
	if err != nil {
		return err
	}
	if s.from > 0 && !lineBegins {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return nil
		}
		data = rest
		if len(bytes.TrimSpace(line)) == 0 {
			l.seen += int64(len(line)) + 1
			continue
		}
		r, kind := parseLine(line, at)
		l.odd, l.fine = l.odd || kind == lineOdd, l.fine || kind != lineOdd
		if kind != linePassed || at.known {
			l.seen += int64(len(line)) + 1
		}
		if kind == lineRecord {
			l.records = append(l.records, r)
		}
	}
}

// add adds records, each of which stands for that many.
func (a *appended) add(records []record, weight float64, now time.Time) {
	recent := sums{}
	for i := range records {
		r := &records[i]
		if !r.known {
			continue
		}
		s := recent.of(r.kind)
		s.addBandwidth(r.bandwidth)
		if !s.addDuration(r.duration) {
			continue
		}
		o := operation{r.collective, r.nodes}
		if a.totals[o] == nil {
			a.totals[o] = &fabric.CollectiveTotal{Collective: r.collective, Nodes: r.nodes}
		}
		t := a.totals[o]
		t.Recorded, t.Seconds = t.Recorded+weight, t.Seconds+weight*r.duration/1e6
		if r.sequential {
			t.Launched += a.launched(r.sequence, r.number)
		}
	}
	for k, s := range recent {
		a.latest[k] = latest{*s, now}
	}
}

// launched returns how many collectives the record says were launched since the last one of its communicator.
func (a *appended) launched(s sequence, number uint64) float64 {
	last, known := a.last[s]
	switch {
	case known && number > last && number-last <= maxGap:
		a.last[s] = number
		return float64(number - last)
	case known && number <= last && last-number <= maxGap: // completed out of order
		return 0
	case len(a.last) == maxSequences:
		clear(a.last)
	}
	a.last[s] = number
	return 1
}

// samples returns what is known of each kind that was not seen too long ago, and the totals, both sorted and
// for the caller to keep.
func (a *appended) samples(now time.Time) ([]fabric.CollectiveSample, []fabric.CollectiveTotal) {
	recent := sums{}
	for k, l := range a.latest {
		if now.Sub(l.at) > staleAfter {
			delete(a.latest, k)
			continue
		}
		recent[k] = &l.sum
	}
	totals := make([]fabric.CollectiveTotal, 0, len(a.totals))
	for _, t := range a.totals {
		totals = append(totals, *t)
	}
	slices.SortFunc(totals, func(a, b fabric.CollectiveTotal) int {
		return cmp.Or(cmp.Compare(a.Collective, b.Collective), compareBool(a.Nodes, b.Nodes))
	})
	return recent.samples(), totals
}
