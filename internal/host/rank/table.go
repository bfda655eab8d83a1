// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// kind is what is known of a process.
type kind uint8

const (
	fresh     kind = iota // not examined yet
	other                 // holds no GPU
	denied                // its descriptors may not be read
	child                 // forked from a candidate, and runs its program
	candidate             // holds a GPU
)

// process is one that procfs shows. The inode of its directory in procfs distinguishes it from a later one with its PID; procfs may
// give it another inode when memory was short, and then it is examined once more.
type process struct {
	inode   uint64
	kind    kind
	seen    int       // number of the look that saw it last
	born    time.Time // when it was seen first
	next    time.Time // when it is examined again
	start   uint64    // of candidates and children
	image   image
	user    uint32         // of a candidate: owner of its directory in procfs
	cuda    bool           // a candidate that uses CUDA
	rank    *process       // of a child
	details *details       // of a candidate
	targets map[int]target // of a candidate, by descriptor
	turn    int            // look%listAge at which all of its descriptors are read again
}

// A process is examined again when its age has doubled since the last time: one that opens a GPU later than it started is
// found within as long as that took, and within the longest interval.
const (
	shortest = 5 * time.Second
	longest  = 15 * time.Minute
	// againAtOnce bounds the processes that are examined again in one look.
	againAtOnce = 32
	// maxCalls bounds the system calls after which a look examines no further process: some 20 ms. The others wait for the
	// next look.
	maxCalls = 6000
)

// again sets when the process is examined next.
func (p *process) again(now time.Time) {
	p.next = now.Add(min(max(now.Sub(p.born), shortest), longest))
}

// list takes note of the processes in procfs, and returns how many there are.
func (r *Reader) list(now time.Time) (int, error) {
	if _, err := unix.Seek(r.at(), 0, unix.SEEK_SET); err != nil {
		return 0, err
	}
	n := 0
	err := r.entries(r.at(), r.buffer, func(inode uint64, name []byte) error {
		pid := parsePID(name)
		if pid == 0 {
			return nil
		}
		if n++; n > maxProcesses {
			return fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("more than %d processes", maxProcesses))
		}
		p := r.known[pid]
		if p == nil || p.inode != inode {
			p = &process{inode: inode, born: now}
			r.known[pid] = p
		}
		p.seen = r.look
		return nil
	})
	if err == nil && n == 0 { // this process at least is there
		err = fabric.Because(fabric.ReasonMalformed, "no process")
	}
	if err != nil {
		return 0, err
	}
	if len(r.known) > n {
		for pid, p := range r.known {
			if p.seen != r.look {
				delete(r.known, pid)
			}
		}
	}
	return n, nil
}

// entries calls f with each entry of a directory; the name is valid until f returns. So many are asked for at once as fit into
// the buffer.
func (r *Reader) entries(fd int, buffer []byte, f func(inode uint64, name []byte) error) error {
	for {
		r.calls++
		n, err := unix.Getdents(fd, buffer)
		if err != nil || n <= 0 {
			return err
		}
		// struct linux_dirent64: inode, offset, length, type, name with a NUL.
		const atLength, atName = 16, 19
		for b := buffer[:n]; len(b) > atName; {
			size := int(binary.NativeEndian.Uint16(b[atLength:]))
			if size <= atName || size > len(b) {
				return fabric.Because(fabric.ReasonMalformed, "directory entry of an impossible length")
			}
			name := b[atName:size]
			if i := slices.Index(name, 0); i >= 0 {
				name = name[:i]
			}
			if err := f(binary.NativeEndian.Uint64(b), name); err != nil {
				return err
			}
			b = b[size:]
		}
	}
}

// parsePID returns 0 for what is no PID.
func parsePID(name []byte) int {
	n := 0
	for _, c := range name {
		if c < '0' || c > '9' || n > 1<<22 { // PID_MAX_LIMIT
			return 0
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// examine reads processes that are new or due, and separates candidates from their children. done: none is left for the next
// look.
func (r *Reader) examine(ctx context.Context, gpus fabric.Fact[map[int][]string], now time.Time) (done bool) {
	listed := func(pid int) bool { return len(gpus.Value[pid]) > 0 && gpus.State == fabric.OK }
	type holder struct {
		pid int
		p   *process
		st  stat
	}
	var holders []holder
	repeated := 0
	done = true
	for _, pid := range r.due(now, listed) {
		p := r.known[pid]
		due := p.kind == fresh || listed(pid) && p.kind != candidate
		if !due && p.kind != candidate && !now.Before(p.next) && repeated < againAtOnce {
			repeated++
			due = true
		}
		if !due || ctx.Err() != nil {
			continue
		}
		if r.calls > maxCalls && !listed(pid) {
			done = done && p.kind != fresh
			continue
		}
		p.again(now)
		dir := strconv.Itoa(pid)
		holds, err := r.holdsGPU(dir)
		switch {
		case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
			p.kind = denied
		case err != nil: // it has ended
			p.kind = other
		case !holds:
			p.kind = other
		}
		if !holds && !listed(pid) {
			continue
		}
		st, err := r.stat(dir)
		if err != nil {
			continue
		}
		holders = append(holders, holder{pid, p, st})
	}
	// Parents come before what they forked.
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Or(cmp.Compare(a.st.start, b.st.start), a.pid-b.pid) })
	for _, h := range holders {
		if up := r.known[h.st.parent]; up != nil && up.kind == fresh && !listed(h.pid) { // its parent comes first
			h.p.kind, done = fresh, false
			continue
		}
		h.p.start, h.p.image = h.st.start, h.st.image
		h.p.kind, h.p.rank, h.p.user = candidate, nil, r.owner(strconv.Itoa(h.pid))
		if listed(h.pid) {
			continue
		}
		if rank := r.ancestor(h.st, h.p); rank != nil {
			h.p.kind, h.p.rank = child, rank
		}
	}
	return done
}

// owner is the user whose process it is; root if it may not be traced by its user, or has ended.
func (r *Reader) owner(dir string) uint32 {
	r.calls++
	var st unix.Stat_t
	if unix.Fstatat(r.at(), dir, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return st.Uid
}

// due returns the PIDs of processes that may have to be examined, in their order: parents mostly come before children.
func (r *Reader) due(now time.Time, listed func(pid int) bool) []int {
	var pids []int
	for pid, p := range r.known {
		if p.kind != candidate && (p.kind == fresh || !now.Before(p.next) || listed(pid)) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// ancestor returns the candidate that a process was forked from, if both still run the same program (execve(2) gives a
// process other addresses) and it uses CUDA. CUDA does not work in a process that was forked from one that uses it, so
// such a process is no rank. One forked from a process that only counted the GPUs, as launchers do, may be one.
func (r *Reader) ancestor(st stat, p *process) *process {
	up := r.known[st.parent]
	if up == nil || up == p || st.image == (image{}) || up.image != st.image {
		return nil
	}
	switch up.kind {
	case candidate:
		up.cuda = up.cuda || r.usesCUDA(strconv.Itoa(st.parent))
		if !up.cuda {
			return nil
		}
		return up
	case child:
		return up.rank
	default:
		return nil
	}
}
