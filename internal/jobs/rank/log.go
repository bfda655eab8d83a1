// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const (
	logVariable = "NCCL_DEBUG_FILE"
	// What is read of a log at most, in bytes. How the connections of a communicator go is said where it is
	// made: mostly at the beginning.
	logHead = 128 << 10
	logTail = 64 << 10

	maxLogName   = 255 // bytes: NAME_MAX
	maxPIDDigits = 7   // PID_MAX_LIMIT is 4,194,304
)

// log reads the log that NCCL writes, by the descriptor that it keeps open for it (ncclDebugInit of
// src/debug.cc): no path of the user is followed, and what another process put at the path is not read.
func (v *visit) log(pattern string) fabric.Fact[fabric.NCCLLog] {
	r, dir, now := v.r, v.dir, v.now
	source := dir + "/fd"
	is := logName(pattern)
	found := -1
	_, err := r.descriptors(dir, r.buffer, maxFiles, nil, func(n int, target []byte) bool {
		if bytes.HasPrefix(target, []byte("/")) && is(path.Base(string(target))) {
			found = n
		}
		return found < 0 && v.ctx.Err() == nil
	})
	switch {
	case err != nil:
		return fabric.UnknownFact[fabric.NCCLLog](reasonOf(err), source, now)
	case found < 0: // not yet: NCCL opens it with its first message
		return fabric.UnknownFact[fabric.NCCLLog](fabric.ReasonMissing, source, now)
	case r.sources.Log == nil:
		return fabric.UnknownFact[fabric.NCCLLog](fabric.ReasonNotRead, source, now)
	}
	return attempt(v, "/fd", func() (fabric.NCCLLog, error) { return r.readLog(dir, strconv.Itoa(found)) })
}

// logName returns a function that reports whether NCCL would make a name of pattern, with %h (host) and %p
// (process) in it. One process writes one host and one number for all of them, so a name has only few ways to
// match, each of which is compared once.
func logName(pattern string) func(name string) bool {
	type piece struct {
		text string
		kind byte // 'h', 'p', or 0 for text
	}
	var pieces []piece
	hosts, numbers, literal := 0, 0, 0
	for i := 0; i < len(pattern) && len(pattern) <= maxLogName; i++ {
		p := piece{text: pattern[i : i+1]}
		if pattern[i] == '%' && i+1 < len(pattern) {
			i++
			switch pattern[i] {
			case 'h', 'p':
				p = piece{kind: pattern[i]}
			case '%':
			default:
				p.text = pattern[i-1 : i+1]
			}
		}
		switch literal += len(p.text); p.kind {
		case 'h':
			hosts++
		case 'p':
			numbers++
		}
		pieces = append(pieces, p)
	}
	fits := func(name string, host, number int) bool { // with a host and a number of so many bytes
		var h, n string
		for _, p := range pieces {
			switch {
			case p.kind == 'h' && h == "" && len(name) >= host:
				h, p.text = name[:host], name[:host]
			case p.kind == 'h':
				p.text = h
			case p.kind == 'p' && n == "" && len(name) >= number && strings.Trim(name[:number], "0123456789") == "":
				n, p.text = name[:number], name[:number]
			case p.kind == 'p':
				p.text = n
			}
			rest, ok := strings.CutPrefix(name, p.text)
			if !ok || p.text == "" {
				return false
			}
			name = rest
		}
		return name == ""
	}
	matches := func(name string) bool {
		spare := len(name) - literal
		if len(pieces) == 0 || len(name) > maxLogName || spare < 0 {
			return false
		}
		for number := 1; number <= maxPIDDigits; number++ {
			switch left := spare - numbers*number; {
			case hosts == 0 && left == 0, hosts > 0 && left >= hosts && left%hosts == 0:
				if fits(name, left/max(1, hosts), number) {
					return true
				}
			}
			if numbers == 0 {
				break
			}
		}
		return false
	}
	return func(name string) bool {
		bare, deleted := strings.CutSuffix(name, " (deleted)")
		return matches(name) || deleted && matches(bare)
	}
}

// readLog reads the beginning and the end of a log that a process has open. The type of its file system is
// known from the mounts of the process before the file system is asked anything: that of a server or of FUSE
// may never answer.
func (r *Reader) readLog(dir, descriptor string) (fabric.NCCLLog, error) {
	id, err := parsed(r, dir+"/fdinfo/"+descriptor, parseMountID)
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	kind, err := parsed(r, dir+"/mountinfo", func(f io.Reader) (string, error) { return mountType(f, id) })
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	if !isLocal(kind) || kind == "overlay" && !r.mountsOfNode(dir) {
		return fabric.NCCLLog{}, errRemote
	}
	file, err := r.open(dir+"/fd/"+descriptor, unix.O_PATH)
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	defer func() { _ = unix.Close(file) }()
	f, err := regular(file, logVariable)
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	defer f.Close()
	text := make([]byte, logHead+logTail)
	defer clear(text)
	head, err := readAt(f, text[:logHead], 0)
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	st, err := f.Stat()
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	from := max(int64(len(head)), st.Size()-logTail)
	tail, err := readAt(f, text[logHead:], from)
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	return r.sources.Log(head, tail, from-int64(len(head))), nil
}

// readAt fills the buffer as far as the file reaches.
func readAt(f io.ReaderAt, buffer []byte, from int64) ([]byte, error) {
	n, err := f.ReadAt(buffer, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buffer[:n], err
}

// parseMountID reads the mount that an open file is on from fdinfo (seq_show of fs/proc/fd.c): a line "mnt_id:	29".
func parseMountID(f io.Reader) (string, error) {
	lines := bufio.NewScanner(io.LimitReader(f, 4<<10))
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", malformed("fdinfo")
}

// mountType finds the type of the file system of a mount in mountinfo, by its ID. A file may be on a mount of
// another namespace, which is not in the list: its type is not known.
func mountType(f io.Reader, id string) (string, error) {
	lines := bufio.NewScanner(io.LimitReader(f, maxMounts))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		if before, after, ok := strings.Cut(lines.Text(), " - "); ok && strings.HasPrefix(before, id+" ") {
			kind, _, _ := strings.Cut(after, " ")
			return kind, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fabric.Because(fabric.ReasonUnsupported, "file of another mount namespace")
}
