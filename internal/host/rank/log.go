// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const (
	logVariable = "NCCL_DEBUG_FILE"
	// What is read of a log at most, in bytes. How the connections of a communicator go is said where it is made: mostly at the beginning.
	logHead = 128 << 10
	logTail = 64 << 10
)

// log reads the log that NCCL writes, by the descriptor that it keeps open for it (ncclDebugInit of src/debug.cc): no path of the user is
// followed, and what another process put at the path is not read.
func (r *Reader) log(ctx context.Context, dir, job, pattern string, now time.Time) fabric.Fact[fabric.NCCLLog] {
	source := dir + "/fd"
	is := logName(pattern)
	found := -1
	_, err := r.descriptors(dir, r.buffer, maxFiles, nil, func(n int, target []byte) bool {
		if bytes.HasPrefix(target, []byte("/")) && is(path.Base(string(target))) {
			found = n
		}
		return found < 0
	})
	switch {
	case err != nil:
		return fabric.UnknownFact[fabric.NCCLLog](reasonOf(err), source, now)
	case found < 0: // not yet: NCCL opens it with its first message
		return fabric.UnknownFact[fabric.NCCLLog](fabric.ReasonMissing, source, now)
	case r.sources.Log == nil:
		return fabric.UnknownFact[fabric.NCCLLog](fabric.ReasonNotRead, source, now)
	}
	return attempt(ctx, r.stuck, job, source, now, func() (fabric.NCCLLog, error) { return r.readLog(dir, strconv.Itoa(found)) })
}

// logName returns a function that reports whether NCCL would make a name of pattern, with %h (host) and %p (process) in it.
func logName(pattern string) func(name string) bool {
	var expression strings.Builder
	for i := 0; i < len(pattern); i++ {
		what := byte('%')
		if i+1 < len(pattern) {
			what = pattern[i+1]
		}
		switch {
		case pattern[i] != '%':
			expression.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			continue
		case what == 'h':
			expression.WriteString(".+")
		case what == 'p':
			expression.WriteString("[0-9]+")
		default:
			expression.WriteString("%")
			if what != '%' {
				expression.WriteString(regexp.QuoteMeta(string(what)))
			}
		}
		i++
	}
	matches, err := regexp.Compile("^" + expression.String() + "( \\(deleted\\))?$")
	if err != nil { // not of valid UTF-8
		return func(string) bool { return false }
	}
	return matches.MatchString
}

// readLog reads the beginning and the end of a log that a process has open. The type of its file system is known from the mounts of the
// process before the file system is asked anything: that of a server or of FUSE may never answer.
func (r *Reader) readLog(dir, descriptor string) (fabric.NCCLLog, error) {
	id, err := open(r, dir+"/fdinfo/"+descriptor, parseMountID)
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	kind, err := open(r, dir+"/mountinfo", func(f io.Reader) (string, error) { return mountType(f, id) })
	if err != nil {
		return fabric.NCCLLog{}, err
	}
	if !isLocal(kind) {
		return fabric.NCCLLog{}, errRemote
	}
	file, err := retry(func() (int, error) {
		return unix.Openat(r.at(), dir+"/fd/"+descriptor, unix.O_PATH|unix.O_CLOEXEC, 0)
	})
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

// mountType finds the type of the file system of a mount in mountinfo, by its ID. A file may be on a mount of another namespace, which
// is not in the list: its type is not known.
func mountType(f io.Reader, id string) (string, error) {
	lines := bufio.NewScanner(io.LimitReader(f, maxMounts))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		if before, after, ok := strings.Cut(lines.Text(), " - "); ok && strings.HasPrefix(before, id+" ") {
			kind, _, _ := strings.Cut(after, " ")
			return kind, nil
		}
	}
	return "", fabric.Because(fabric.ReasonUnsupported, "file of another mount namespace")
}
