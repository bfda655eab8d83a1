// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// stat is what is read of /proc/PID/stat (do_task_stat of fs/proc/array.c).
type stat struct {
	command string
	parent  int
	start   uint64 // clock ticks since boot
	image   image
}

// image is where a program lies in memory: its first instruction, the stack and the arguments. They are random for each
// execve(2) and stay the same over fork(2). All are 0 for readers that may not trace the process.
type image struct{ code, stack, arguments uint64 }

// What is read of two files of a process at most, in bytes.
const (
	maxCgroup = 16 << 10
	maxStatus = 16 << 10
)

// Numbers of fields, the first is 1.
const (
	fieldState     = 3
	fieldParent    = 4
	fieldStart     = 22
	fieldCode      = 26
	fieldStack     = 28
	fieldArguments = 48
)

func (r *Reader) stat(dir string) (stat, error) {
	b, err := r.file(dir+"/stat", 4<<10)
	if err != nil {
		return stat{}, err
	}
	st, ok := parseStat(b)
	if !ok {
		return stat{}, malformed(dir + "/stat")
	}
	return st, nil
}

func parseStat(b []byte) (st stat, ok bool) {
	// The name of the program is in parentheses, and may have any character but NUL in it, parentheses and newlines too.
	first, last := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if first < 0 || last < first {
		return stat{}, false
	}
	st.command = plain(string(b[first+1:last]), 15)
	field := fieldState
	for text := range bytes.FieldsSeq(b[last+1:]) {
		var err error
		switch field {
		case fieldParent:
			st.parent, err = strconv.Atoi(string(text))
		case fieldStart:
			st.start, err = strconv.ParseUint(string(text), 10, 64)
		case fieldCode:
			st.image.code, err = strconv.ParseUint(string(text), 10, 64)
		case fieldStack:
			st.image.stack, err = strconv.ParseUint(string(text), 10, 64)
		case fieldArguments:
			st.image.arguments, err = strconv.ParseUint(string(text), 10, 64)
		}
		if err != nil {
			return stat{}, false
		}
		field++
	}
	if st.image.stack == 0 { // not shown to this reader
		st.image = image{}
	}
	return st, field > fieldStart && st.start > 0 && st.parent >= 0
}

// plain returns a name that a tenant chose without what could be taken for something else where it is shown,
// cut to a length.
func plain(s string, longest int) string {
	clean := func(c rune) rune {
		if c > ' ' && c < 0x7f && !strings.ContainsRune("\"'`\\<>&{}$", c) {
			return c
		}
		return '_'
	}
	s = strings.Map(clean, s)
	return s[:min(len(s), longest)]
}

// file reads the start of a file below procfs. The bytes are valid until the next call.
func (r *Reader) file(name string, limit int) ([]byte, error) {
	r.calls += 3
	fd, err := r.open(name, asFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	n := 0
	for b := r.buffer[:limit]; n < limit; {
		got, err := openat.Retry(func() (int, error) { return unix.Read(fd, b[n:]) })
		if err != nil {
			return nil, err
		}
		if got == 0 {
			break
		}
		n += got
		if n < limit {
			r.calls++
		}
	}
	return r.buffer[:n], nil
}

// readlink returns where a link below procfs leads. A link that is longer than is read leads to nothing that is
// looked for.
func (r *Reader) readlink(name string) (string, error) {
	r.calls++
	n, err := openat.Retry(func() (int, error) { return unix.Readlinkat(r.at(), name, r.links) })
	if err != nil {
		return "", err
	}
	return string(r.links[:n]), nil
}

func malformed(what string) error {
	return fabric.Because(fabric.ReasonMalformed, what+": not what procfs promises")
}
