// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/spelling"
)

// binary is the format of what is no text of any kind.
const binary = "binary"

// unread is a file of a folder that was passed over.
type unread struct{ name, format string }

// passed names a file that was passed over, and its format.
func (r *Result) passed(i int) string {
	name := r.unread[i].name
	if r.hidden != nil {
		name = fmt.Sprintf("unread%d", i+1)
	}
	return name + " (" + r.unread[i].format + ")"
}

// NotRead are the files of folders that are no text, with their formats.
func (r *Result) NotRead() []string {
	var list []string
	for i := range r.unread {
		list = append(list, r.passed(i))
	}
	return list
}

// log reports whether it may be a log: compressed, in another encoding, or with the name of one.
func (u unread) log() bool {
	name := strings.ToLower(u.name)
	return u.format != binary || slices.Contains([]string{".log", ".txt", ".out", ".err"}, filepath.Ext(name)) ||
		has(name, []string{"log", "stdout", "stderr", "dmesg", "slurm", "rank"})
}

// Undecided says why the log does not show that all is well; empty: it does.
func (r *Result) Undecided() string {
	if why := r.undecided(); why != "" {
		return why
	}
	var logs []string
	for i, u := range r.unread {
		if u.log() {
			logs = append(logs, r.passed(i))
		}
	}
	switch {
	case len(logs) > 0:
		return "what was read shows no failure, and these were not read: " + spelling.Few(logs, 8)
	case r.Long > 0:
		return fmt.Sprintf("what was read shows no failure, and the ends of %s longer than %d bytes were not read",
			spelling.Plural(int(r.Long), "line", "lines"), log.MaxLine)
	}
	return ""
}

// notText is the error of input that is not text.
type notText struct{ format, text string }

func (e *notText) Error() string { return ErrNotText.Error() + e.text }
func (e *notText) Unwrap() error { return ErrNotText }

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
			return &notText{c.name, fmt.Sprintf(": it is compressed with %s: expected a log (%s FILE | gpufabric_exporter explain -)", c.name, c.command)}
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) || wide(head) {
		return &notText{"UTF-16", " in UTF-8 but in UTF-16: expected a log (iconv -f UTF-16 -t UTF-8 FILE)"}
	}
	controls := 0
	for _, b := range head {
		if b != 0 && b < ' ' && !strings.ContainsRune("\t\n\r\x1b\b\f", rune(b)) {
			controls++
		}
	}
	const tolerated = 5 // percent; random bytes have 10
	if controls*100 > len(head)*tolerated {
		return &notText{binary, fmt.Sprintf(": %d of its first %d bytes are control characters: expected a log", controls, len(head))}
	}
	return nil
}

// wide reports whether nearly every second byte is zero and the others are not, as in UTF-16.
func wide(head []byte) bool {
	var zeros [2]int
	for i, b := range head {
		if b == 0 {
			zeros[i%2]++
		}
	}
	pairs := len(head) / 2
	const few = 10 // of that many
	return pairs >= few && max(zeros[0], zeros[1]) > pairs-pairs/few && min(zeros[0], zeros[1]) < pairs/few
}
