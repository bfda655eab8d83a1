// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"errors"
	"io"

	"gpufabric_exporter/internal/host/nccllog"
	"gpufabric_exporter/internal/signature"
)

// file is how far a file was read, and what it said.
type file struct {
	from   int64 // offset of the next byte
	fresh  bool  // nothing was read yet
	past   bool  // it was there before the Reader: its beginning says how NCCL was set up, and no failure of it counts
	inside bool  // of a line whose beginning is not read or was judged already: the rest is passed over
	setup  setup
}

// read reads at most share bytes, in pieces of the buffer. It returns how many were skipped. A line without an end stays for the
// next call, unless it is longer than what is read of a line.
func (f *file) read(in io.ReaderAt, size, share int64, buffer []byte, failed func(id string)) (skipped uint64, err error) {
	if f.fresh && f.past && f.from <= size {
		if err := f.begin(in, share, buffer); err != nil {
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
	f.from, err = f.lines(in, f.from, min(size, f.from+share), buffer, failed)
	return skipped, err
}

// begin reads the beginning of a file that was there before the Reader.
func (f *file) begin(in io.ReaderAt, share int64, buffer []byte) error {
	if _, err := f.lines(in, 0, min(f.from, share), buffer, func(string) {}); err != nil {
		return err
	}
	f.setup.gap, f.inside = f.from > share, false
	if f.from == 0 {
		return nil
	}
	var last [1]byte
	if _, err := in.ReadAt(last[:], f.from-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	f.inside = last[0] != '\n'
	return nil
}

// lines reads the lines from one offset to another, and returns the offset behind the last that is complete.
func (f *file) lines(in io.ReaderAt, from, to int64, buffer []byte, failed func(id string)) (int64, error) {
	log := nccllog.New()
	defer func() { f.setup.add(log) }()
	for from < to {
		n, err := in.ReadAt(buffer[:min(int64(len(buffer)), to-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return from, err
		}
		used := f.chunk(buffer[:n], log, failed)
		from += int64(used)
		if used == 0 { // the end, or a line that is being written
			return from, nil
		}
	}
	return from, nil
}

// chunk takes the lines of a piece and returns how many bytes it used up.
func (f *file) chunk(data []byte, log *nccllog.Log, failed func(id string)) (used int) {
	for used < len(data) {
		rest := data[used:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if f.inside {
				return len(data)
			}
			if len(rest) < nccllog.MaxLine {
				return used
			}
			line(rest[:nccllog.MaxLine], log, failed)
			f.inside = true
			return len(data)
		}
		if !f.inside {
			line(rest[:min(end, nccllog.MaxLine)], log, failed)
		}
		f.inside = false
		used += end + 1
	}
	return used
}

// shortest is how many bytes a line must have to say something: "NCCL ", and each text of a signature is longer.
const shortest = len("NCCL ")

// line takes one line. Messages of the kernel in it are none of the kernel: anyone can write them.
func line(data []byte, log *nccllog.Log, failed func(id string)) {
	if len(data) < shortest {
		return
	}
	text := string(bytes.TrimLeft(bytes.TrimRight(data, "\r"), "\x00")) // zeros: it was truncated while its process wrote
	e, isNCCL := log.Add(text)
	var s *signature.Signature
	switch {
	case !isNCCL:
		s, _ = signature.MatchLine(text)
	case e.Level == nccllog.Warn:
		s, _ = signature.Match(signature.NCCL, e.Message)
	case e.Level == nccllog.Info:
		s = signature.MatchInfo(e.Message)
	}
	if s != nil && s.Source != signature.Kernel {
		failed(s.ID)
	}
}
