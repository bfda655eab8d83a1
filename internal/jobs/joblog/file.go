// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"errors"
	"io"

	"gpufabric_exporter/internal/nccl/failure"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// file is how far a file was read, and what it said.
type file struct {
	from   int64 // offset of the next byte
	fresh  bool  // nothing was read yet
	past   bool  // it was there before the Reader: its beginning says how NCCL was set up, and no failure of it counts
	inside bool  // of a line whose beginning is not read or was judged already: the rest is passed over
	setup  setup
	reader *failure.Reader // nil: nothing was read
}

// part is how much of a file is read, and how.
type part struct {
	in     io.ReaderAt
	share  int64       // bytes
	buffer []byte      // that are read at once
	enough func() bool // the time is over: the rest is for the next call
	failed func(id string)
}

// unread is how much of a file of that size there is to read.
func (f *file) unread(size int64) int64 {
	switch {
	case f.fresh && f.past && f.from <= size:
		return max(1, min(f.from, maxRead)) // its beginning
	case size < f.from:
		return max(1, size)
	}
	return min(size-f.from, maxBehind)
}

// read reads a part. It returns how many bytes were skipped. A line without an end stays for the next call,
// unless it is longer than what is read of a line.
func (f *file) read(p *part, size int64) (skipped uint64, err error) {
	if f.fresh && f.past && f.from <= size {
		if err := f.begin(p); err != nil {
			return 0, err
		}
	}
	f.fresh = false
	if size < f.from { // truncated, or another file with the same inode
		*f = file{}
	}
	if behind := size - f.from; behind > maxBehind {
		skipped = uint64(behind - keepBytes)
		f.from, f.inside, f.setup.gap = size-keepBytes, true, true
	}
	f.from, err = f.lines(p, f.from, min(size, f.from+p.share))
	return skipped, err
}

// begin reads the beginning of a file that was there before the Reader.
func (f *file) begin(p *part) error {
	first := *p
	first.failed = func(string) {}
	if _, err := f.lines(&first, 0, min(f.from, p.share)); err != nil {
		return err
	}
	f.setup.gap, f.inside = f.from > p.share || p.enough(), false
	if f.from == 0 {
		return nil
	}
	var last [1]byte
	if _, err := p.in.ReadAt(last[:], f.from-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	f.inside = last[0] != '\n'
	return nil
}

// lines reads the lines from one offset to another, and returns the offset behind the last that is complete.
func (f *file) lines(p *part, from, to int64) (int64, error) {
	if f.reader == nil {
		f.reader = failure.New(maxThreads, false)
	}
	f.reader.Log = *log.New()
	defer func() { f.setup.add(&f.reader.Log) }()
	for from < to && !p.enough() {
		n, err := p.in.ReadAt(p.buffer[:min(int64(len(p.buffer)), to-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return from, err
		}
		used := f.chunk(p.buffer[:n], p.failed)
		from += int64(used)
		if used == 0 { // the end, or a line that is being written
			return from, nil
		}
	}
	return from, nil
}

// chunk takes the lines of a piece and returns how many bytes it used up.
func (f *file) chunk(data []byte, failed func(id string)) (used int) {
	for used < len(data) {
		rest := data[used:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if f.inside {
				return len(data)
			}
			if len(rest) < log.MaxLine {
				return used
			}
			f.line(rest[:log.MaxLine], failed)
			f.inside = true
			return len(data)
		}
		if !f.inside {
			f.line(rest[:min(end, log.MaxLine)], failed)
		}
		f.inside = false
		used += end + 1
	}
	return used
}

// shortest is how many bytes a line must have to say something: "NCCL ", and each text of a signature is longer.
const shortest = len("NCCL ")

// line takes one line. Messages of the kernel in it are none of the kernel: anyone can write them.
func (f *file) line(data []byte, failed func(id string)) {
	if len(data) < shortest {
		return
	}
	text := string(bytes.TrimLeft(bytes.TrimRight(data, "\r"), "\x00")) // zeros: it was truncated while its process wrote
	if _, found, is := f.reader.Add(text); is && found.Signature != nil && found.Signature.Source != signature.Kernel {
		failed(found.Signature.ID)
	}
}
