// SPDX-License-Identifier: Apache-2.0

// Package inspector reads the files of NCCL Inspector, the profiler plugin that NCCL ships: those of its
// Prometheus mode (NCCL 2.29.3 and later, nccl_inspector_metrics_<GPU UUID>.prom) and those of its JSON mode
// (2.28 and later, <host>-pid<pid>.log). The formats are those of inspector_prom.cc and inspector_json.cc in
// https://github.com/NVIDIA/nccl, of JSON v4.0 to v4.4. From v4.3 on a line with the header of a communicator stands
// before its records; a sample of a large file has the records behind such a line alone. An odd line costs itself.
//
// Jobs write the files, so nothing in them is trusted: only regular files with one name are read, without following
// links, in the folder and the folders in it; sizes, lines and numbers of files are bounded, and divided
// among those who write the files (package owned); texts never leave the package, only words of fixed lists
// and numbers do. A line without an end waits until it is whole. Inspector rewrites a file of the Prometheus
// mode in place: one that changed in the last second keeps its earlier reading. A
// file of the JSON mode grows, and only what was appended is read.
//
// Concurrency: a Reader belongs to one goroutine at a time. Where the folder is on a file system that does
// not answer, Read does not return. Errors say that the folder could not be listed; a file that cannot be
// read is counted in the reading.
package inspector

import (
	"maps"
	"regexp"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

const (
	maxFiles    = 64      // that are read
	maxMetrics  = 1 << 20 // bytes of a file of the Prometheus mode: 64 communicators with two kinds each have about 60 KiB
	maxAll      = 4 << 20 // bytes that are read in one call, of all files together
	maxLine     = 2 << 10 // bytes of a line of the Prometheus mode; Inspector's own buffer is as large
	settleAfter = time.Second

	// staleAfter is how old a file may be. Inspector writes every 30 s or less often; files of the JSON mode
	// stay when their job has ended.
	staleAfter = 10 * time.Minute
)

// Reader reads the files of one folder. It keeps what it parsed, by file, until the file changes or goes.
type Reader struct {
	finder *owned.Finder
	turns  *owned.Turns
	parsed map[string]parsed
}

// parsed is a file as it was when it was read.
type parsed struct {
	id      owned.Identity
	size    int64
	changed time.Time
	log     *appended // of a file of the JSON mode
	file    fabric.InspectorFile
	refused fabric.Refusal // empty: it was read
}

// New returns a Reader of the folder, which need not exist yet.
func New(folder string, owners *owned.Owners) *Reader {
	tree := owned.Tree{
		Folder: folder,
		Enter:  func(depth int, _ string) bool { return depth == 0 }, // jobs of several users need folders of their own
		Take: func(_ int, name string) bool {
			_, is := named(name)
			return is
		},
	}
	return &Reader{finder: owned.New([]owned.Tree{tree}, owners.Users), turns: &owners.Turns, parsed: map[string]parsed{}}
}

// Read reads the files that changed since the last call. A folder that does not exist has none.
func (r *Reader) Read(now time.Time) (fabric.InspectorReading, error) {
	r.turns.Collect()
	found, err := r.finder.Look()
	if err != nil {
		return fabric.InspectorReading{}, err
	}
	var recent []owned.File
	for _, f := range found.Files {
		if f.Recent(now, staleAfter) {
			recent = append(recent, f)
		}
	}
	chosen := found.Choose(recent, now, maxFiles)
	r.update(&found, chosen, now)
	seen := map[string]parsed{}
	reading := fabric.InspectorReading{Refused: found.Refused, Shortage: fabric.ShortageOf(found.Lost)}
	for i := range chosen {
		p, known := r.last(&chosen[i])
		if !known {
			continue
		}
		seen[chosen[i].Path()] = p
		if p.refused != "" {
			reading.Refused[p.refused]++
		} else if len(p.file.Samples) > 0 {
			reading.Files = append(reading.Files, p.file)
		}
	}
	r.parsed = seen
	return reading, nil
}

// update reads the files of one owner after those of another. What is known of the files of an owner whose
// turn has not ended stays.
func (r *Reader) update(found *owned.Found, chosen []owned.File, now time.Time) {
	ready := r.turns.Ready(found, chosen)
	unread := func(f *owned.File) int64 {
		last, known := r.last(f)
		return last.unread(f, known)
	}
	for _, g := range owned.Groups(ready, maxAll, unread) {
		if g.Demand == 0 {
			continue
		}
		if r.turns.Busy(g.Owner) {
			found.Lost[g.Owner]++
			continue
		}
		t := r.turn(&g, now)
		if !r.turns.Take(g.Owner, t.run, func() { r.merge(t) }) { // t is of the read alone
			found.Lost[g.Owner]++
			continue
		}
		found.Lose(g.Owner, t.lost)
		for _, err := range t.errs {
			found.Refuse(err)
		}
	}
}

func (r *Reader) turn(g *owned.Group, now time.Time) *turn {
	t := &turn{now: now, files: g.Files, share: g.Share, read: map[string]parsed{}}
	for i := range g.Files {
		last, known := r.last(&g.Files[i])
		t.last, t.known = append(t.last, last), append(t.known, known)
	}
	return t
}

// merge takes over what the turn of an owner found.
func (r *Reader) merge(t *turn) {
	for _, file := range t.failed {
		delete(r.parsed, file)
	}
	maps.Copy(r.parsed, t.read)
}

// last is what is known of a file. False: nothing.
func (r *Reader) last(f *owned.File) (parsed, bool) {
	if p := r.parsed[f.Path()]; p.id == f.Identity {
		return p, true
	}
	return parsed{}, false
}

var (
	metricsName = regexp.MustCompile(`^nccl_inspector_metrics_(?:GPU-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.prom$`)
	logName     = regexp.MustCompile(`^[A-Za-z0-9._-]+-pid([0-9]{1,10})\.log$`)
)

// named returns what the name of a file shows of it. False: it is no file of Inspector.
func named(name string) (fabric.InspectorFile, bool) {
	if m := metricsName.FindStringSubmatch(name); m != nil {
		return fabric.InspectorFile{GPU: "GPU-" + m[1]}, true
	}
	if m := logName.FindStringSubmatch(name); m != nil {
		pid, err := strconv.Atoi(m[1])
		return fabric.InspectorFile{PID: pid}, err == nil && pid > 0
	}
	return fabric.InspectorFile{}, false
}
