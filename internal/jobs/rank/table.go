// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
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

// process is one that procfs shows. The inode of its directory in procfs distinguishes it from a later one
// with its PID; procfs may give it another inode when memory was short, and then it is examined once more.
type process struct {
	inode   uint64
	kind    kind
	seen    int       // number of the look that saw it last
	born    time.Time // when it was seen first, or its details were
	next    time.Time // when it is examined again
	start   uint64    // of candidates and children, and of what was one before it got another inode
	image   image
	whose   whose          // of candidates and children
	share   *share         // of its owner; nil where it has not been asked for, or has too few descriptors for a GPU
	cuda    bool           // a candidate that uses CUDA
	rank    *process       // of a child
	details *details       // of a candidate
	targets map[int]target // of a candidate, by descriptor
	turn    int            // look%listAge at which all of its descriptors and threads are read again
	threads []int          // of a candidate that may use verbs
	links   uint64         // of the folder of its threads
}

// A process is examined again when its age has doubled since the last time: one that opens a GPU later than
// it started is found within as long as that took, and within the longest interval.
const (
	shortest = 5 * time.Second
	longest  = 15 * time.Minute
	// againAtOnce bounds the processes that are examined again in one look, and fewAgain those of them that had
	// no descriptor for a GPU the last time. These cost one call each, and have no owner: a user can have tens
	// of thousands, for which others do not wait.
	againAtOnce = 32
	fewAgain    = 2048
	// maxCalls bounds the system calls after which a look examines no further process: some 20 ms. The others wait for the
	// next look.
	maxCalls = 6000
)

// again sets when the process is examined next.
func (p *process) again(now time.Time) {
	p.next = now.Add(min(max(now.Sub(p.born), shortest), longest))
}

// list takes note of the processes in procfs, and returns how many there are. Those that are listed have a
// place in any case.
func (r *Reader) list(listed map[int][]string, now time.Time) (int, error) {
	if _, err := unix.Seek(r.at(), 0, unix.SEEK_SET); err != nil {
		return 0, err
	}
	n := 0
	err := r.entries(r.at(), r.buffer, func(e openat.Entry) error {
		pid := parsePID(e.Name)
		if pid == 0 {
			return nil
		}
		n++
		r.see(pid, e.Inode, now, n <= maxProcesses)
		return nil
	})
	if err == nil && n == 0 { // this process at least is there
		err = fabric.Because(fabric.ReasonMalformed, "no process")
	}
	if err != nil {
		return 0, err
	}
	for pid := range listed { // whatever else there is
		var st unix.Stat_t
		if n > maxProcesses && r.known[pid] == nil && unix.Fstatat(r.at(), strconv.Itoa(pid), &st,
			unix.AT_SYMLINK_NOFOLLOW) == nil {
			r.see(pid, st.Ino, now, true)
		}
	}
	if n > maxProcesses {
		r.exceeded = append(r.exceeded, fabric.Excess{
			What:   fmt.Sprintf("more than %d processes", maxProcesses),
			Reason: fabric.ReasonMalformed,
		})
	}
	if len(r.known) > n || n > maxProcesses {
		maps.DeleteFunc(r.known, func(_ int, p *process) bool { return p.seen != r.look })
	}
	return n, nil
}

// see takes note of a process, of a new one only if there is room for it.
func (r *Reader) see(pid int, inode uint64, now time.Time, room bool) {
	p := r.known[pid]
	if p == nil || p.inode != inode {
		if p == nil && !room {
			return
		}
		next := &process{inode: inode, born: now}
		if p != nil && (p.kind == candidate || p.kind == fresh) { // it may be the same process
			next.start, next.share, next.whose = p.start, p.share, p.whose
		}
		p = next
		r.known[pid] = p
	}
	p.seen = r.look
	if p.share != nil {
		p.share.seen = r.look
	}
}

// entries calls f with each entry of a directory, see openat.Entries.
func (r *Reader) entries(fd int, buffer []byte, f func(openat.Entry) error) error {
	calls, err := openat.Entries(fd, buffer, f)
	r.calls += calls
	return err
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

// holder is a process that holds a GPU, as was just found.
type holder struct {
	pid int
	p   *process
	st  stat
}

// examine reads processes that are new or due, and separates candidates from their children. done: none is
// left for the next look.
func (r *Reader) examine(ctx context.Context, gpus fabric.Fact[map[int][]string], now time.Time) (done bool) {
	listed := func(pid int) bool { return len(gpus.Value[pid]) > 0 && gpus.State == fabric.OK }
	var holders []holder
	var waiting []int
	screen := func(pid int, calls int) {
		p := r.known[pid]
		switch found, waits := r.screen(pid, p, listed(pid), calls, now); {
		case waits:
			waiting = append(waiting, pid)
		case found != nil:
			holders = append(holders, *found)
		}
	}
	for _, pid := range r.due(now, listed) {
		if ctx.Err() == nil {
			screen(pid, callsEach)
		}
	}
	again := waiting
	waiting = nil
	for _, pid := range again { // what others left
		screen(pid, maxCalls)
	}
	done = true
	for _, pid := range waiting {
		p := r.known[pid]
		done = done && p.kind != fresh
		if p.share != nil && p.kind == fresh && now.Sub(p.born) > late {
			r.exceeds(p.share, pid, "processes", fabric.ReasonNotRead)
		}
	}
	// Parents come before what they forked.
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Or(cmp.Compare(a.st.start, b.st.start), a.pid-b.pid) })
	for _, h := range holders {
		if up := r.known[h.st.parent]; up != nil && up.kind == fresh && !listed(h.pid) { // its parent comes first
			h.p.kind, done = fresh, false
			continue
		}
		h.p.start, h.p.image = h.st.start, h.st.image
		dir := strconv.Itoa(h.pid)
		h.p.kind, h.p.rank, h.p.share, h.p.whose = candidate, nil, r.shareOf(r.ownerOf(dir, true)), r.whoseIs(dir, now)
		if listed(h.pid) {
			continue
		}
		if rank := r.ancestor(h.st, h.p); rank != nil {
			h.p.kind, h.p.rank = child, rank
		}
	}
	return done
}

// screen looks whether a process holds a GPU. waits: it is left for later, as this look, or its owner, has
// had that many calls.
func (r *Reader) screen(pid int, p *process, listed bool, calls int, now time.Time) (found *holder, waits bool) {
	if r.calls > maxCalls && !listed {
		return nil, true
	}
	dir := strconv.Itoa(pid)
	n, err := r.count(dir)
	few := r.counts && n <= standard || err != nil // threads of the kernel, of which a node has thousands, have none
	if !few && p.share == nil {
		p.share = r.shareOf(r.ownerOf(dir, false))
	}
	holds := false
	if !few {
		s := r.refreshed(p.share)
		if s.calls > calls && !listed {
			return nil, true
		}
		before := r.calls
		holds, err = r.holdsGPU(dir)
		s.calls += r.calls - before
	}
	p.again(now)
	switch {
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		p.kind = denied
	case err != nil: // it has ended
		p.kind = other
	case !holds:
		p.kind = other
	}
	if !holds && !listed {
		return nil, false
	}
	st, err := r.stat(dir)
	if err != nil {
		return nil, false
	}
	return &holder{pid, p, st}, false
}

// due returns the PIDs of processes that are to be examined: those that are listed, then new ones by PID,
// because parents mostly come before children, then some of those whose time has come, the longest ago first.
func (r *Reader) due(now time.Time, listed func(pid int) bool) []int {
	var first, pids, old []int
	for pid, p := range r.known {
		switch {
		case p.kind == candidate:
		case listed(pid):
			first = append(first, pid)
		case p.kind == fresh:
			pids = append(pids, pid)
		case !now.Before(p.next):
			old = append(old, pid)
		}
	}
	slices.Sort(first)
	slices.Sort(pids)
	pids = append(first, pids...)
	slices.SortFunc(old, func(a, b int) int { return cmp.Or(r.known[a].next.Compare(r.known[b].next), a-b) })
	n, few := 0, 0
	for _, pid := range old {
		switch s := r.known[pid].share; {
		case s == nil && few < fewAgain:
			few++
		case s != nil && n < againAtOnce && r.refreshed(s).again < againEach:
			s.again++
			n++
		default:
			continue
		}
		pids = append(pids, pid)
	}
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
		if up.cuda = up.cuda || r.usesCUDA(strconv.Itoa(st.parent)); up.cuda {
			return up
		}
	case child:
		return up.rank
	}
	return nil
}
