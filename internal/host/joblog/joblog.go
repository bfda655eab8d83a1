// SPDX-License-Identifier: Apache-2.0

// Package joblog follows logs of running jobs, and finds failures and the transport of NCCL in them.
//
// Jobs write the logs, so nothing in them is trusted: only regular files with one name are read, without following links
// below the folder before the first wildcard. Names, files, bytes and lines are bounded. No text leaves the package, only IDs of
// signatures, words of fixed lists and numbers.
//
// Lines that a log had when the Reader was created do not count as failures: an exporter that restarts would count them
// again. No descriptor stays open, which would keep a file system of a job from being unmounted.
//
// Concurrency: a Reader belongs to one goroutine at a time. On a file system that does not answer, Read does not return. It has no
// errors: what cannot be read is counted.
package joblog

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

const (
	maxFiles  = 64      // that are read, those that were written last
	maxNames  = 2048    // of files and folders that are looked at in one call
	maxRead   = 4 << 20 // bytes that are read in one call, of all files together
	minShare  = maxRead / maxFiles
	maxBehind = 16 << 20 // bytes that are left for the next calls; of more, all but the last keepBytes are skipped
	keepBytes = 1 << 20

	// staleAfter is how old a file may be. A rank that logs nothing for so long did its set-up long ago.
	staleAfter = time.Hour
)

// Reader follows the files that fit patterns.
type Reader struct {
	patterns []Pattern
	files    map[identity]*file
	looked   bool
	failures fabric.Failures
	skipped  uint64
	buffer   []byte
}

// New returns a Reader of the files that fit one of the patterns.
func New(patterns []Pattern) *Reader {
	return &Reader{patterns: patterns, files: map[identity]*file{}}
}

// identity distinguishes a file from all others that exist at the same time, whatever its name.
type identity struct{ device, inode uint64 }

// Read reads what was written since the last call.
func (r *Reader) Read(now time.Time) fabric.LogReading {
	look := look{left: maxNames, found: map[identity]found{}, refused: map[fabric.Refusal]int{}}
	for _, p := range r.patterns {
		look.walk(p)
	}
	r.forget(look.found)
	for id, f := range look.found {
		if r.files[id] == nil {
			r.files[id] = &file{from: f.size, past: !r.looked, fresh: true}
			if r.looked {
				r.files[id].from = 0
			}
		}
	}
	r.looked = true
	active := look.active(now)
	share := int64(maxRead / max(1, len(active)))
	for _, f := range active {
		if err := r.follow(f, share, now); err != nil {
			look.refuse(err)
		}
	}
	return r.reading(active, look.refused)
}

// forget drops the files that are gone.
func (r *Reader) forget(there map[identity]found) {
	maps.DeleteFunc(r.files, func(id identity, _ *file) bool { _, is := there[id]; return !is })
}

func (r *Reader) reading(active []found, refused map[fabric.Refusal]int) fabric.LogReading {
	v := fabric.LogReading{Failures: slices.Clone(r.failures), Refused: refused, Skipped: r.skipped}
	for _, f := range active {
		if state := r.files[f.id]; state != nil {
			v.Files = append(v.Files, fabric.LogFile{Owner: f.owner, Transport: state.setup.transport(), Offloads: state.setup.offloads(), Setup: state.setup.longest})
		}
	}
	return v
}

// follow reads the next bytes of a file.
func (r *Reader) follow(f found, share int64, now time.Time) error {
	state := r.files[f.id]
	if !state.fresh && f.size == state.from {
		return nil
	}
	at, err := f.folder.open()
	if err != nil {
		return err
	}
	defer at.Close()
	fd, err := openat.OpenEntry(at, f.name, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), f.name)
	defer in.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.name, Err: err}
	}
	if (identity{st.Dev, st.Ino}) != f.id || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // replaced meanwhile: found in the next call
	}
	if r.buffer == nil {
		r.buffer = make([]byte, minShare)
	}
	skipped, err := state.read(in, st.Size, share, r.buffer, func(id string) { r.failures.Add(id, now, true) })
	r.skipped += skipped
	return err
}

// found is a file that fits a pattern.
type found struct {
	id      identity
	folder  folder
	name    string
	size    int64
	changed time.Time
	owner   uint32
}

// look is one call of Read.
type look struct {
	left    int // names that may still be looked at
	found   map[identity]found
	refused map[fabric.Refusal]int
}

// active returns the files that were written last.
func (l *look) active(now time.Time) []found {
	var list []found
	for _, f := range l.found {
		if now.Sub(f.changed) <= staleAfter {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b found) int {
		return cmp.Or(b.changed.Compare(a.changed), cmp.Compare(a.name, b.name), cmp.Compare(a.id.inode, b.id.inode))
	})
	if len(list) > maxFiles {
		l.refused[fabric.RefusedTooMany] += len(list) - maxFiles
		list = list[:maxFiles]
	}
	return list
}

func (l *look) refuse(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist): // its job ended meanwhile
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR):
		l.refused[fabric.RefusedNotRegular]++
	default:
		l.refused[fabric.RefusedUnreadable]++
	}
}
