// SPDX-License-Identifier: Apache-2.0

// Package inspector reads the files of NCCL Inspector, the profiler plugin that NCCL ships: those of its Prometheus mode (NCCL
// 2.29.3 and later, nccl_inspector_metrics_<GPU UUID>.prom) and those of its JSON mode (2.28 and later, <host>-pid<pid>.log).
// The formats are those of inspector_prom.cc and inspector_json.cc in https://github.com/NVIDIA/nccl.
//
// Jobs write the files, so nothing in them is trusted: only regular files with one name are read, without following
// links, in the folder and the folders in it; sizes, lines and numbers of files are bounded; texts never leave the package,
// only words of fixed lists and numbers do. A line without an end waits until it is whole. Inspector rewrites a file of the
// Prometheus mode in place: one that changed in the last second keeps its earlier reading. A file of the JSON mode grows, and
// only what was appended is read.
//
// Concurrency: a Reader belongs to one goroutine at a time. On a file system that does not answer, Read does not return. Errors
// say that the folder could not be listed; a file that cannot be read is counted in the reading.
package inspector

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

const (
	maxFiles    = 64      // that are read
	maxNames    = 1024    // in one folder
	maxFolders  = 64      // below the one that is configured
	maxMetrics  = 1 << 20 // bytes of a file of the Prometheus mode: 64 communicators with two kinds each have about 60 KiB
	maxLine     = 2 << 10 // bytes of a line of the Prometheus mode; Inspector's own buffer is as large
	settleAfter = time.Second

	// staleAfter is how old a file may be. Inspector writes every 30 s or less often; files of the JSON mode stay when their
	// job has ended.
	staleAfter = 10 * time.Minute
	maxAhead   = time.Minute // of the clock, for files on a server
)

// Reader reads the files of one folder. It keeps what it parsed, by file, until the file changes or goes.
type Reader struct {
	folder string
	parsed map[string]parsed
}

// parsed is a file as it was when it was read.
type parsed struct {
	inode, device uint64
	size          int64
	changed       unix.Timespec // mtime
	log           *appended     // of a file of the JSON mode
	file          fabric.InspectorFile
	refused       fabric.Refusal // empty: it was read
}

// New returns a Reader of the folder, which need not exist yet.
func New(folder string) *Reader { return &Reader{folder: folder, parsed: map[string]parsed{}} }

// Read reads the files that changed since the last call. A folder that does not exist has none.
func (r *Reader) Read(now time.Time) (fabric.InspectorReading, error) {
	look := look{reader: r, now: now, logs: maxAllLogs, seen: map[string]parsed{}, reading: fabric.InspectorReading{Refused: map[fabric.Refusal]int{}}}
	dir, err := os.Open(r.folder)
	if errors.Is(err, fs.ErrNotExist) {
		r.parsed = look.seen
		return look.reading, nil
	}
	if err != nil {
		return fabric.InspectorReading{}, err
	}
	defer dir.Close()
	folders, err := look.list(dir, "")
	if err != nil {
		return fabric.InspectorReading{}, err
	}
	for i, name := range folders {
		if i == maxFolders {
			look.reading.Refused[fabric.RefusedTooMany] += len(folders) - i
			break
		}
		look.descend(dir, name)
	}
	r.parsed = look.seen
	return look.reading, nil
}

// look is one call of Read.
type look struct {
	reader  *Reader
	now     time.Time
	logs    int64 // bytes of files of the JSON mode that may still be read
	seen    map[string]parsed
	reading fabric.InspectorReading
}

// descend reads the files of a folder in the configured one: jobs of several users need folders of their own.
func (l *look) descend(at *os.File, name string) {
	fd, err := openat.OpenEntry(at, name, unix.O_DIRECTORY)
	if err != nil {
		l.refuse(err)
		return
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if _, err := l.list(dir, name); err != nil {
		l.refuse(err)
	}
}

// list reads the files of a folder and returns the folders in it.
func (l *look) list(dir *os.File, below string) (folders []string, err error) {
	entries, err := dir.ReadDir(maxNames + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxNames {
		l.reading.Refused[fabric.RefusedTooMany]++
		entries = entries[:maxNames]
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		} else if file, ok := named(e.Name()); ok {
			l.take(dir, path.Join(below, e.Name()), e.Name(), file)
		}
	}
	return folders, nil
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

func (l *look) take(dir *os.File, key, name string, file fabric.InspectorFile) {
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return // its job ended meanwhile
	}
	if age := l.now.Sub(time.Unix(st.Mtim.Unix())); age > staleAfter || age < -maxAhead {
		return
	}
	if len(l.seen) == maxFiles {
		l.reading.Refused[fabric.RefusedTooMany]++
		return
	}
	p, err := l.read(dir, key, name, file, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.refuse(err)
		return
	}
	l.seen[key] = p
	if p.refused != "" {
		l.reading.Refused[p.refused]++
	} else if len(p.file.Samples) > 0 {
		l.reading.Files = append(l.reading.Files, p.file)
	}
}

// read returns the earlier reading of a file that did not change, else a new one.
func (l *look) read(dir *os.File, key, name string, file fabric.InspectorFile, st *unix.Stat_t) (parsed, error) {
	p := parsed{inode: st.Ino, device: st.Dev, size: st.Size, changed: st.Mtim, file: file}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 {
		p.refused = fabric.RefusedNotRegular
		return p, nil
	}
	last, known := l.reader.parsed[key]
	known = known && last.inode == p.inode && last.device == p.device
	if known && last.size == p.size && last.changed == p.changed {
		return last, nil
	}
	if age := l.now.Sub(time.Unix(st.Mtim.Unix())); file.GPU != "" && age >= 0 && age < settleAfter {
		if known {
			return last, nil // and compared again in the next call
		}
		return parsed{}, nil // not settled yet: neither read nor refused
	}
	fd, err := openat.OpenEntry(dir, name, 0)
	if err != nil {
		return parsed{}, err
	}
	f := os.NewFile(uintptr(fd), key)
	defer f.Close()
	if p.log = new(appended); known && last.log != nil {
		p.log = last.log
	}
	err = l.parse(f, &p)
	return p, err
}

// parse reads the open file, which may be another one than that which was looked at.
func (l *look) parse(f *os.File, p *parsed) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 {
		p.refused = fabric.RefusedNotRegular
		return nil
	}
	p.inode, p.device, p.size, p.changed = st.Ino, st.Dev, st.Size, st.Mtim
	p.file.Owner, p.file.Written = st.Uid, time.Unix(st.Mtim.Unix())
	if p.file.GPU == "" {
		return l.parseLog(f, p)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMetrics+1))
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

// parseLog reads what was appended to a file of the JSON mode.
func (l *look) parseLog(f *os.File, p *parsed) (err error) {
	most := int64(maxAppended)
	if l.logs < most {
		most = maxRecord
	}
	l.logs -= min(max(p.size-p.log.offset, 0), most)
	if p.refused, err = p.log.read(f, p.size, most, l.now); err == nil && p.refused == "" {
		p.file.Samples, p.file.Totals = p.log.samples(l.now)
	}
	return err
}

func (l *look) refuse(err error) {
	why := fabric.RefusedUnreadable
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		why = fabric.RefusedNotRegular
	}
	l.reading.Refused[why]++
}
