// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/jobs/owned"
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

// tree is what is looked for.
func (p Pattern) tree() owned.Tree {
	fits := func(depth int, name string) bool {
		is, _ := path.Match(p.parts[depth], name)
		return is
	}
	last := len(p.parts) - 1
	return owned.Tree{
		Folder: p.folder,
		Enter:  func(depth int, name string) bool { return depth < last && fits(depth, name) },
		Take:   func(depth int, name string) bool { return depth == last && fits(depth, name) },
	}
}
