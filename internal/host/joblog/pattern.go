// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

const (
	wildcards = `*?[\`
	maxDepth  = 8 // parts of a pattern from the first wildcard on
)

// Pattern says which files are logs: a folder, and names below it with wildcards of path.Match.
type Pattern struct {
	folder string
	parts  []string
}

// ParsePattern parses an absolute path with wildcards. Errors say what was expected.
func ParsePattern(s string) (Pattern, error) {
	const example = "such as /var/log/jobs/*/nccl*.log"
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" {
		return Pattern{}, errors.New("expected an absolute path, which may have the wildcards *, ? and [...], " + example)
	}
	if _, err := path.Match(s, ""); err != nil {
		return Pattern{}, errors.New("expected wildcards *, ? and [...], " + example)
	}
	parts := strings.Split(s[1:], "/")
	fixed := slices.IndexFunc(parts, func(p string) bool { return strings.ContainsAny(p, wildcards) })
	if fixed < 0 {
		fixed = len(parts) - 1
	}
	switch {
	case fixed == 0:
		return Pattern{}, errors.New("expected a folder before the first wildcard, " + example)
	case len(parts)-fixed > maxDepth:
		return Pattern{}, fmt.Errorf("expected at most %d parts from the first wildcard on", maxDepth)
	case slices.Contains(parts[fixed:], "**"):
		return Pattern{}, errors.New("** is not taken: expected one * for each folder, " + example)
	}
	return Pattern{folder: "/" + strings.Join(parts[:fixed], "/"), parts: parts[fixed:]}, nil
}

// folder is a folder below that of a pattern.
type folder struct {
	root  string
	below []string
}

// open opens it without following a link that is below the folder of the pattern.
func (f folder) open() (*os.File, error) {
	at, err := os.Open(f.root)
	for _, name := range f.below {
		if err != nil {
			break
		}
		var fd int
		fd, err = openat.OpenEntry(at, name, unix.O_DIRECTORY)
		_ = at.Close()
		if err == nil {
			at = os.NewFile(uintptr(fd), name)
		}
	}
	if err != nil {
		return nil, err
	}
	return at, nil
}

// walk finds the files of a pattern. A folder that does not exist has none.
func (l *look) walk(p Pattern) {
	dir, err := os.Open(p.folder)
	if err != nil {
		l.refuse(err)
		return
	}
	defer dir.Close()
	l.descend(dir, folder{root: p.folder}, p.parts)
}

func (l *look) descend(dir *os.File, at folder, parts []string) {
	entries, err := l.list(dir)
	if err != nil {
		l.refuse(err)
		return
	}
	for _, e := range entries {
		if fits, _ := path.Match(parts[0], e.Name()); !fits {
			continue
		}
		switch {
		case len(parts) == 1:
			l.take(dir, at, e.Name())
		case e.IsDir():
			fd, err := openat.OpenEntry(dir, e.Name(), unix.O_DIRECTORY)
			if err != nil {
				l.refuse(err)
				continue
			}
			sub := os.NewFile(uintptr(fd), e.Name())
			l.descend(sub, folder{at.root, append(slices.Clone(at.below), e.Name())}, parts[1:])
			_ = sub.Close()
		}
	}
}

// list lists a folder as far as names are left.
func (l *look) list(dir *os.File) ([]fs.DirEntry, error) {
	entries, err := dir.ReadDir(l.left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > l.left {
		l.refused[fabric.RefusedTooMany]++
		entries = entries[:l.left]
	}
	l.left -= len(entries)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// take notes a file.
func (l *look) take(dir *os.File, at folder, name string) {
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return // its job ended meanwhile
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR: // of another pattern
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1:
		l.refused[fabric.RefusedNotRegular]++
	default:
		id := identity{st.Dev, st.Ino}
		l.found[id] = found{id, at, name, st.Size, time.Unix(st.Mtim.Unix()), st.Uid}
	}
}
