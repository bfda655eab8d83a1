// SPDX-License-Identifier: Apache-2.0

// Package joblog follows logs of running jobs, and finds failures and the transport of NCCL in them.
//
// Jobs write the logs, so nothing in them is trusted: only regular files with one name are read, without
// following links below the folder before the first wildcard. Names, files, bytes, lines and processor time
// are bounded, and divided among those who write the files (package owned). No text leaves the package, only
// IDs of signatures, words of fixed lists and numbers.
//
// Lines that a log had when the Reader was created do not count as failures: an exporter that restarts would count them
// again. No descriptor stays open, which would keep a file system of a job from being unmounted.
//
// Concurrency: a Reader belongs to one goroutine at a time. Where the folder before the first wildcard is on
// a file system that does not answer, Read does not return. Errors are those of that folder; what else cannot
// be read is counted.
package joblog

import (
	"maps"
	"os"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

const (
	maxFiles  = 64       // that are read
	maxRead   = 4 << 20  // bytes that are read in one call, of all files together
	leastRead = 8 << 10  // of a file that has as many: room for a line
	piece     = 64 << 10 // bytes that are read at once
	// maxThreads is how many threads of a log are remembered that warned of something, of which it is not known
	// whether it matters.
	maxThreads = 256
	maxBehind  = 16 << 20 // bytes that are left for the next calls; of more, all but the last keepBytes are skipped
	keepBytes  = 1 << 20

	readTime = 250 * time.Millisecond // processor time of one call
	ownTime  = 100 * time.Millisecond // of an owner

	// staleAfter is how old a file may be. A rank that logs nothing for so long did its set-up long ago.
	staleAfter = time.Hour
)

// Reader follows the files that fit patterns.
type Reader struct {
	finder   *owned.Finder
	turns    *owned.Turns
	looked   bool
	began    time.Time // the first call
	partial  bool      // the first call did not see all files that were there
	files    map[owned.Identity]*followed
	failures fabric.Failures
	skipped  uint64
	buffer   []byte // nil: the read of an owner has it
	// Tests have their own.
	spent func() time.Duration // processor time of the calling thread
	open  func(f *owned.File) (*os.File, error)
}

// followed is a file with what is known of it. While a read of it has not returned, only that read touches the state.
type followed struct {
	state *file
	shown fabric.LogFile
}

// New returns a Reader of the files that fit one of the patterns.
func New(patterns []Pattern, owners *owned.Owners) *Reader {
	var trees []owned.Tree
	for _, p := range patterns {
		trees = append(trees, p.tree())
	}
	return &Reader{
		finder: owned.New(trees, owners.Users), turns: &owners.Turns, files: map[owned.Identity]*followed{},
		spent: owned.Spent, open: (*owned.File).Open,
	}
}

// Read reads what was written since the last call.
func (r *Reader) Read(now time.Time) (fabric.LogReading, error) {
	r.turns.Collect()
	found, err := r.finder.Look()
	maps.DeleteFunc(r.files, func(id owned.Identity, _ *followed) bool { _, is := found.Files[id]; return !is })
	if !r.looked {
		r.began, r.partial = now, !found.Whole || err != nil
	}
	var recent []owned.File
	for id, f := range found.Files {
		if r.files[id] == nil {
			r.files[id] = &followed{state: r.begin(&f), shown: fabric.LogFile{Owner: f.UID, Transport: fabric.LogUnknown}}
		}
		if now.Sub(f.Changed) <= staleAfter {
			recent = append(recent, f)
		}
	}
	r.looked = true
	active := found.Choose(recent, now, maxFiles)
	r.follow(&found, active, now)
	v := fabric.LogReading{
		Failures: slices.Clone(r.failures), Refused: found.Refused, Skipped: r.skipped,
		Shortage: fabric.ShortageOf(found.Lost),
	}
	for i := range active {
		v.Files = append(v.Files, r.files[active[i].Identity].shown)
	}
	return v, err
}

// begin returns a file of which nothing was read. What it has at the first call is of the past.
func (r *Reader) begin(f *owned.File) *file {
	if !r.looked || r.partial && f.Born.Before(r.began) {
		return &file{from: f.Size, past: true, fresh: true}
	}
	return &file{fresh: true}
}

// follow reads the next bytes of the files. Owners who have least to read come first, and leave their time to
// the others.
func (r *Reader) follow(found *owned.Found, active []owned.File, now time.Time) {
	ready := r.turns.Ready(found, active)
	groups := owned.Groups(ready, maxRead, func(f *owned.File) int64 { return r.files[f.Identity].state.unread(f.Size) })
	left := readTime
	for i := range groups {
		g := &groups[i]
		if g.Demand == 0 {
			continue
		}
		if r.turns.Busy(g.Owner) {
			found.Lost[g.Owner]++
			continue
		}
		t := r.turn(g, now, min(ownTime, left/time.Duration(len(groups)-i)))
		if !r.turns.Take(g.Owner, t.run, func() { r.merge(t) }) { // t is of the read alone
			found.Lost[g.Owner]++
			continue
		}
		for _, err := range t.errs {
			found.Refuse(err)
		}
		if t.over || t.skipped > 0 {
			found.Lost[g.Owner]++
		}
		left -= t.used
	}
}

func (r *Reader) turn(g *owned.Group, now time.Time, allowed time.Duration) *turn {
	t := &turn{now: now, files: g.Files, share: g.Share, allowed: allowed, spent: r.spent, open: r.open, buffer: r.buffer}
	for i := range g.Files {
		t.states = append(t.states, r.files[g.Files[i].Identity])
	}
	r.buffer = nil
	return t
}

// merge takes over what the read of an owner found.
func (r *Reader) merge(t *turn) {
	r.buffer = t.buffer
	r.skipped += t.skipped
	r.failures.Merge(t.failures)
	for i, f := range t.states {
		f.shown = fabric.LogFile{
			Owner: t.files[i].UID, Transport: f.state.setup.transport(), Offloads: f.state.setup.offloads(),
			Setup: f.state.setup.longest,
		}
	}
}
