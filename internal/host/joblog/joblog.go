// SPDX-License-Identifier: Apache-2.0

// Package joblog follows logs of running jobs, and finds failures and the transport of NCCL in them.
//
// Jobs write the logs, so nothing in them is trusted: only regular files with one name are read, without following links
// below the folder before the first wildcard. Names, files, bytes, lines and processor time are bounded, and divided among those who
// write the files (package owned). No text leaves the package, only IDs of signatures, words of fixed lists and numbers.
//
// Lines that a log had when the Reader was created do not count as failures: an exporter that restarts would count them
// again. No descriptor stays open, which would keep a file system of a job from being unmounted.
//
// Concurrency: a Reader belongs to one goroutine at a time. Where the folder before the first wildcard is on a file system that does not
// answer, Read does not return. Errors are those of that folder; what else cannot be read is counted.
package joblog

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/owned"
)

const (
	maxFiles  = 64       // that are read
	maxRead   = 4 << 20  // bytes that are read in one call, of all files together
	leastRead = 8 << 10  // of a file that has as many: room for a line
	piece     = 64 << 10 // bytes that are read at once
	maxBehind = 16 << 20 // bytes that are left for the next calls; of more, all but the last keepBytes are skipped
	keepBytes = 1 << 20

	readTime = 250 * time.Millisecond // processor time of one call
	ownTime  = 100 * time.Millisecond // of an owner

	// staleAfter is how old a file may be. A rank that logs nothing for so long did its set-up long ago.
	staleAfter = time.Hour
)

// Reader follows the files that fit patterns.
type Reader struct {
	finder   *owned.Finder
	looked   bool
	began    time.Time // the first call
	partial  bool      // the first call did not see all files that were there
	files    map[owned.Identity]*file
	failures fabric.Failures
	skipped  uint64
	buffer   []byte
	spent    func() time.Duration // processor time; tests have their own
}

// New returns a Reader of the files that fit one of the patterns.
func New(patterns []Pattern) *Reader {
	var trees []owned.Tree
	for _, p := range patterns {
		trees = append(trees, p.tree())
	}
	return &Reader{finder: owned.New(trees), files: map[owned.Identity]*file{}, spent: owned.Spent}
}

// Read reads what was written since the last call.
func (r *Reader) Read(now time.Time) (fabric.LogReading, error) {
	runtime.LockOSThread() // whose processor time counts
	defer runtime.UnlockOSThread()
	found, err := r.finder.Look()
	maps.DeleteFunc(r.files, func(id owned.Identity, _ *file) bool { _, is := found.Files[id]; return !is })
	if !r.looked {
		r.began, r.partial = now, !found.Whole || err != nil
	}
	var recent []owned.File
	for id, f := range found.Files {
		if r.files[id] == nil {
			r.files[id] = r.begin(&f)
		}
		if now.Sub(f.Changed) <= staleAfter {
			recent = append(recent, f)
		}
	}
	r.looked = true
	active := found.Choose(recent, now, maxFiles)
	r.follow(&found, active, now)
	return r.reading(&found, active), err
}

// begin returns a file of which nothing was read. What it has at the first call is of the past.
func (r *Reader) begin(f *owned.File) *file {
	if !r.looked || r.partial && f.Born.Before(r.began) {
		return &file{from: f.Size, past: true, fresh: true}
	}
	return &file{fresh: true}
}

func (r *Reader) reading(found *owned.Found, active []owned.File) fabric.LogReading {
	v := fabric.LogReading{Failures: slices.Clone(r.failures), Refused: found.Refused, Skipped: r.skipped, Shortage: fabric.ShortageOf(found.Lost)}
	for i := range active {
		state := r.files[active[i].Identity]
		v.Files = append(v.Files, fabric.LogFile{Owner: active[i].UID, Transport: state.setup.transport(), Offloads: state.setup.offloads(), Setup: state.setup.longest})
	}
	return v
}

// follow reads the next bytes of the files. Owners who have least to read come first, and leave their time to the others.
func (r *Reader) follow(found *owned.Found, active []owned.File, now time.Time) {
	demand := func(f *owned.File) int64 { return r.files[f.Identity].unread(f.Size) }
	groups := owned.Groups(active, maxRead, demand)
	begun := r.spent()
	for i := range groups {
		g := &groups[i]
		allowed := min(ownTime, (readTime-(r.spent()-begun))/time.Duration(len(groups)-i))
		over := r.spent() + allowed
		skipped := r.skipped
		r.followOwn(found, g, over, now)
		if r.spent() >= over || r.skipped > skipped {
			found.Lost[g.Owner]++
		}
	}
}

// followOwn reads the files of an owner until his time is over.
func (r *Reader) followOwn(found *owned.Found, g *owned.Group, over time.Duration, now time.Time) {
	demands := make([]int64, len(g.Files))
	for i := range g.Files {
		demands[i] = r.files[g.Files[i].Identity].unread(g.Files[i].Size)
	}
	for i, share := range owned.Divide(g.Share, demands) {
		left := (over - r.spent()) / time.Duration(len(demands)-i)
		if left <= 0 {
			return
		}
		if demands[i] == 0 {
			continue
		}
		until := r.spent() + left
		enough := func() bool { return r.spent() >= until }
		if err := r.followOne(&g.Files[i], max(share, leastRead), enough, now); err != nil {
			found.Refuse(err)
		}
	}
}

// followOne reads the next bytes of a file.
func (r *Reader) followOne(f *owned.File, share int64, enough func() bool, now time.Time) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if r.buffer == nil {
		r.buffer = make([]byte, piece)
	}
	p := part{in: in, share: share, buffer: r.buffer, enough: enough, failed: func(id string) { r.failures.Add(id, now, true) }}
	skipped, err := r.files[f.Identity].read(&p, info.Size())
	r.skipped += skipped
	return err
}
