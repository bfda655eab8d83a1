// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"gpufabric_exporter/internal/nccl/log"
)

// Read reads a log to its end, or the first maxBytes of it.
func Read(from io.Reader) (*Result, error) {
	r := newReading()
	if err := r.read("", from, maxBytes); err != nil {
		return nil, err
	}
	return r.result(), nil
}

// read reads one of the logs.
func (r *reading) read(name string, from io.Reader, most int64) error {
	const buffer = 64 << 10
	limited := &io.LimitedReader{R: from, N: most + 1}
	in := bufio.NewReaderSize(limited, buffer)
	if err := refuse(in); err != nil {
		return err
	}
	r.begin(name)
	var begun []byte // of a line that is longer than the buffer
	for {
		line, err := in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full && !errors.Is(err, io.EOF) {
			return err
		}
		cut := limited.N == 0
		r.Cut = r.Cut || cut
		if begun != nil {
			line = append(begun, line...)
		}
		if full {
			line = r.overwritten(line)
			begun = bytes.Clone(line[:min(len(line), log.MaxLine+1)])
			continue
		}
		begun = nil
		if err == nil || len(line) > 0 && !cut {
			r.part(r.overwritten(bytes.TrimRight(line, "\r\n")))
		}
		if err != nil {
			return nil
		}
	}
}

// overwritten reads what a terminal shows no more, as it returned to the begin of the line (bars of progress), and
// returns the rest. All of a line counts as one, and as one step.
func (r *reading) overwritten(line []byte) []byte {
	for {
		before, rest, found := bytes.Cut(line, []byte{'\r'})
		if !found {
			return line
		}
		if len(before) > 0 {
			steps := r.said.steps
			r.part(before)
			r.Lines--
			r.lines.Lines--
			r.said.steps = steps
		}
		line = rest
	}
}

func unprintable(line []byte) bool {
	ascii := true
	for _, b := range line {
		if b < ' ' && b != '\t' || b == 0x7f {
			return true
		}
		ascii = ascii && b < utf8.RuneSelf
	}
	return !ascii && !utf8.Valid(line)
}
