// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// maxThreads bounds the threads of a process that are looked for among those with RDMA objects.
const maxThreads = 1 << 12

// addVerbs gives RDMA objects to the candidate whose thread made them. The kernel may have lost the thread,
// or hide it: that a process has none is only known when it has no uverbs device open either.
func (r *Reader) addVerbs(list []fabric.RankCandidate, now time.Time) {
	const source = "RDMA_NLDEV_CMD_RES_*_GET"
	reason := fabric.ReasonNotRead
	var use map[int]*fabric.VerbsUse
	beyond := map[int]bool{} // with more threads than are read
	if r.sources.Verbs != nil && len(list) > 0 {
		reason = fabric.ReasonPrivilege
		if r.samePIDs {
			var of map[int]int
			of, beyond = r.threads(list)
			var err error
			reason = ""
			if use, err = r.sources.Verbs(func(task int) int { return of[task] }); err != nil {
				reason = fabric.ReasonOf(err)
			}
		}
	}
	for i := range list {
		c := &list[i]
		files, readable := c.Files.Get()
		switch v := use[c.PID]; {
		case reason != "":
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](reason, source, now)
		case beyond[c.PID]:
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonMalformed, source, now)
		case v != nil:
			slices.Sort(v.Devices)
			c.Verbs = fabric.Known(*v, source, now)
		case readable && files.Complete && len(files.Uverbs) == 0:
			c.Verbs = fabric.Known(fabric.VerbsUse{}, source, now)
		case !readable:
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](c.Files.Reason, source, now)
		default:
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonMissing, source, now)
		}
	}
}

// threads returns the process of each thread of the candidates that may use verbs, and those with more
// threads than are read.
func (r *Reader) threads(list []fabric.RankCandidate) (of map[int]int, beyond map[int]bool) {
	of, beyond = map[int]int{}, map[int]bool{}
	for i := range list {
		c := &list[i]
		p := r.known[c.PID]
		if files, readable := c.Files.Get(); p == nil || readable && files.Complete && len(files.Uverbs) == 0 {
			continue
		}
		r.listThreads(c.PID, p)
		if p.share.threads += len(p.threads); len(p.threads) > maxThreads || p.share.threads > threadsEach {
			beyond[c.PID] = true
			r.exceeds(p.share, c.PID, "threads", fabric.ReasonMalformed)
			continue
		}
		of[c.PID] = c.PID
		for _, task := range p.threads {
			of[task] = c.PID
		}
	}
	return of, beyond
}

// listThreads takes note of the threads of a process, if there are more or fewer than before, and at each
// listAge-th look.
func (r *Reader) listThreads(pid int, p *process) {
	r.calls++
	dir := strconv.Itoa(pid) + "/task"
	var st unix.Stat_t // the number of links is that of threads, and a constant (proc_task_getattr of fs/proc/base.c)
	if err := unix.Fstatat(r.at(), dir, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		p.threads, p.links = nil, 0
		return
	}
	if uint64(st.Nlink) == p.links && r.look%listAge != p.turn {
		return
	}
	r.calls += 2
	p.threads, p.links = p.threads[:0], uint64(st.Nlink)
	fd, err := r.open(dir, asFolder)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	_ = r.entries(fd, r.buffer, func(e openat.Entry) error { // a process that ends has fewer
		if task := parsePID(e.Name); task > 0 {
			p.threads = append(p.threads, task)
		}
		if len(p.threads) > maxThreads {
			return errEnough
		}
		return nil
	})
}
