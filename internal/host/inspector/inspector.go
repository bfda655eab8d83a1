// SPDX-License-Identifier: Apache-2.0

// Package inspector reads the files of NCCL Inspector, the profiler plugin that NCCL ships: those of its Prometheus mode (NCCL
// 2.29.3 and later, nccl_inspector_metrics_<GPU UUID>.prom) and those of its JSON mode (2.28 and later, <host>-pid<pid>.log).
// The formats are those of inspector_prom.cc and inspector_json.cc in https://github.com/NVIDIA/nccl.
//
// Jobs write the files, so nothing in them is trusted: only regular files with one name are read, without following
// links, in the folder and the folders in it; sizes, lines and numbers of files are bounded, and divided among those who write the
// files (package owned); texts never leave the package, only words of fixed lists and numbers do. A line without an end waits until it
// is whole. Inspector rewrites a file of the Prometheus mode in place: one that changed in the last second keeps its earlier reading. A
// file of the JSON mode grows, and only what was appended is read.
//
// Concurrency: a Reader belongs to one goroutine at a time. Where the folder is on a file system that does not answer, Read does not
// return. Errors say that the folder could not be listed; a file that cannot be read is counted in the reading.
package inspector

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/owned"
)

const (
	maxFiles    = 64      // that are read
	maxMetrics  = 1 << 20 // bytes of a file of the Prometheus mode: 64 communicators with two kinds each have about 60 KiB
	maxAll      = 4 << 20 // bytes that are read in one call, of all files together
	maxLine     = 2 << 10 // bytes of a line of the Prometheus mode; Inspector's own buffer is as large
	settleAfter = time.Second

	// staleAfter is how old a file may be. Inspector writes every 30 s or less often; files of the JSON mode stay when their
	// job has ended.
	staleAfter = 10 * time.Minute
)

// Reader reads the files of one folder. It keeps what it parsed, by file, until the file changes or goes.
type Reader struct {
	finder *owned.Finder
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
func New(folder string) *Reader {
	tree := owned.Tree{
		Folder: folder,
		Enter:  func(depth int, _ string) bool { return depth == 0 }, // jobs of several users need folders of their own
		Take: func(_ int, name string) bool {
			_, is := named(name)
			return is
		},
	}
	return &Reader{finder: owned.New([]owned.Tree{tree}), parsed: map[string]parsed{}}
}

// Read reads the files that changed since the last call. A folder that does not exist has none.
func (r *Reader) Read(now time.Time) (fabric.InspectorReading, error) {
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
	look := look{reader: r, now: now, seen: map[string]parsed{}, found: &found}
	for _, g := range owned.Groups(found.Choose(recent, now, maxFiles), maxAll, look.unread) {
		look.group(&g)
	}
	r.parsed = look.seen
	look.reading.Refused, look.reading.Shortage = found.Refused, fabric.ShortageOf(found.Lost)
	return look.reading, nil
}

// look is one call of Read.
type look struct {
	reader  *Reader
	now     time.Time
	found   *owned.Found
	seen    map[string]parsed
	reading fabric.InspectorReading
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

// group reads the files of an owner.
func (l *look) group(g *owned.Group) {
	demands := make([]int64, len(g.Files))
	for i := range g.Files {
		demands[i] = l.unread(&g.Files[i])
	}
	for i, share := range owned.Divide(g.Share, demands) {
		f := &g.Files[i]
		p, err := l.read(f, share)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			l.found.Refuse(err)
			continue
		}
		l.seen[f.Path()] = p
		if p.refused != "" {
			l.found.Refused[p.refused]++
		} else if len(p.file.Samples) > 0 {
			l.reading.Files = append(l.reading.Files, p.file)
		}
	}
}

// last is what is known of a file. False: nothing.
func (l *look) last(f *owned.File) (parsed, bool) {
	if p := l.reader.parsed[f.Path()]; p.id == f.Identity {
		return p, true
	}
	return parsed{}, false
}

// unread is how many bytes of a file there are to read.
func (l *look) unread(f *owned.File) int64 {
	last, known := l.last(f)
	file, _ := named(f.Name)
	switch {
	case known && last.size == f.Size && last.changed.Equal(f.Changed):
		return 0
	case file.GPU != "":
		return min(f.Size, maxMetrics)
	case known && last.log != nil:
		return min(max(f.Size-last.log.offset, 0), maxAppended)
	}
	return min(f.Size, maxAppended)
}

// read returns the earlier reading of a file that did not change, else a new one.
func (l *look) read(f *owned.File, share int64) (parsed, error) {
	last, known := l.last(f)
	if known && last.size == f.Size && last.changed.Equal(f.Changed) {
		return last, nil
	}
	file, _ := named(f.Name)
	if age := l.now.Sub(f.Changed); file.GPU != "" && age >= 0 && age < settleAfter {
		return last, nil // not settled yet, and compared again in the next call
	}
	if file.GPU != "" && share < min(f.Size, maxMetrics) {
		l.found.Lose(f.Owner, 1)
		return last, nil
	}
	in, err := f.Open()
	if err != nil {
		return parsed{}, err
	}
	defer in.Close()
	p := parsed{id: f.Identity, file: file}
	if p.log = new(appended); known && last.log != nil {
		p.log = last.log
	}
	err = l.parse(in, f, &p, share)
	return p, err
}

// parse reads the open file, which may have changed since it was found.
func (l *look) parse(in *os.File, f *owned.File, p *parsed, share int64) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	p.size, p.changed = info.Size(), info.ModTime()
	p.file.Owner, p.file.Written = f.UID, p.changed
	if p.file.GPU == "" {
		return l.parseLog(in, p, share)
	}
	data, err := io.ReadAll(io.LimitReader(in, maxMetrics+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxMetrics:
		p.refused = fabric.RefusedTooLarge
		return nil
	}
	samples, ok := parseMetrics(data)
	if p.file.Samples = samples; !ok {
		p.refused = fabric.RefusedMalformed
	}
	return nil
}

// parseLog reads what was appended to a file of the JSON mode, or a sample of it.
func (l *look) parseLog(in *os.File, p *parsed, share int64) (err error) {
	most := min(max(share, maxRecord), maxAppended)
	if p.refused, err = p.log.read(in, p.size, most, l.now); err == nil && p.refused == "" {
		p.file.Samples, p.file.Totals = p.log.samples(l.now)
	}
	return err
}
