// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
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
	for {
		line, long, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		cut := limited.N == 0
		r.Cut = r.Cut || cut
		if err == nil || len(line) > 0 && !cut {
			r.line(line, long)
		}
		if err != nil {
			return nil
		}
	}
}

// readLine returns a line, or the beginning of a long one whose rest it skips. The line is valid until the next call.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	line, err = in.ReadSlice('\n')
	if len(line) > log.MaxLine {
		line, long = line[:log.MaxLine], true
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, long, err
	}
	line = bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line, true, err
}

// compressed is how archives begin, and what prints them.
var compressed = []struct{ magic, name, command string }{
	{"\x1f\x8b", "gzip", "zcat"}, {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"}, {"\xfd7zXZ\x00", "xz", "xzcat"}, {"BZh", "bzip2", "bzcat"},
}

// refuse looks at the first bytes. Zeros are no sign of a binary file: a log that was truncated while it was
// written begins with them.
func refuse(in *bufio.Reader) error {
	head, err := in.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, c := range compressed {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return fmt.Errorf("%w: it is compressed with %s: expected a log (%s FILE | gpufabric_exporter explain -)",
				ErrNotText, c.name, c.command)
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return fmt.Errorf("%w in UTF-8 but in UTF-16: expected a log (iconv -f UTF-16 -t UTF-8 FILE)", ErrNotText)
	}
	controls := 0
	for _, b := range head {
		if b != 0 && b < ' ' && !strings.ContainsRune("\t\n\r\x1b\b\f", rune(b)) {
			controls++
		}
	}
	const tolerated = 5 // percent; random bytes have 10
	if controls*100 > len(head)*tolerated {
		return fmt.Errorf("%w: %d of its first %d bytes are control characters: expected a log", ErrNotText, controls,
			len(head))
	}
	return nil
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
