// SPDX-License-Identifier: Apache-2.0

// Package profiles reads profiles of platforms: what is compiled in, and what a site adds in a folder of its
// own. docs/PROFILES.md describes their format. Which of them fits a node is decided by package fabric.
//
// All functions may be called at once from any number of goroutines. On a file system that does not answer,
// Load does not return.
//
// A file of the site that is damaged, contradicts itself, or that others could have written is left out, with
// one error that names it; the other profiles are in force.
package profiles

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/ownership"
)

// Limits of a site's folder.
const (
	maxFiles   = 64
	maxEntries = 1024
	maxSize    = 64 << 10 // of a file
)

//go:embed builtin/*.yaml
var builtin embed.FS

// Builtin returns the profiles that are compiled in, by name. Nothing may be changed in them.
var Builtin = sync.OnceValue(func() []fabric.Profile {
	var all []fabric.Profile
	for _, name := range builtinFiles() {
		data, _ := builtin.ReadFile(name)
		if p, err := Parse(data); err == nil { // a test sees to it
			all = append(all, p)
		}
	}
	return all
})

func builtinFiles() []string {
	names, _ := fs.Glob(builtin, "builtin/*.yaml") // the pattern is right
	return names
}

// Set is what there is to recognize a node by.
type Set struct {
	Profiles []fabric.Profile // by name
	Problems []error          // what was left out of the site's, one line each
}

// Load returns the profiles that are compiled in and those of a site's folder, *.yaml and *.yml; without a
// folder only the former. One of the site takes the place of a compiled-in one with the same name. If it is
// damaged, neither is in force: the site may have taken out on purpose
// what the compiled-in one states.
func Load(folder string) (s Set) {
	all := map[string]fabric.Profile{}
	for _, p := range Builtin() {
		all[p.Name] = p
	}
	leftOut := func(err error) {
		const most = 1024
		if text := fabric.Printable(err.Error(), most); text != err.Error() {
			err = errors.New(text)
		}
		s.Problems = append(s.Problems, err)
	}
	names, err := list(folder)
	if err != nil {
		leftOut(err)
	}
	for _, name := range names {
		p, err := read(filepath.Join(folder, name))
		other := all[p.Name].File
		switch {
		case err == nil && other == "":
			all[p.Name] = p
			continue
		case err == nil:
			err = fmt.Errorf("%s: name %s: %s has it already", p.File, p.Name, other)
		case other == "":
			delete(all, p.Name)
		}
		leftOut(err)
	}
	s.Profiles = slices.SortedFunc(maps.Values(all), func(a, b fabric.Profile) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// list returns the names of the profiles in a folder that no other user could have written to.
func list(folder string) ([]string, error) {
	if folder == "" {
		return nil, nil
	}
	if _, err := ownership.Check("/", folder); err != nil {
		return nil, err
	}
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(names) > maxEntries: // which of them are first is chance
		return nil, fmt.Errorf("%s: more than %d files: none of them is read", folder, maxEntries)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		ext := strings.ToLower(path.Ext(name))
		return strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml"
	})
	slices.Sort(names)
	if len(names) > maxFiles {
		return names[:maxFiles], fmt.Errorf("%s: more than %d profiles: those after %s are left out", folder, maxFiles,
			names[maxFiles-1])
	}
	return names, nil
}

// read returns the profile in a file that no other user could have written. With an error, it has at most the
// name: that in the file, or of the file.
func read(file string) (p fabric.Profile, err error) {
	p.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	found, err := ownership.Open("/", file)
	if found.File != nil {
		defer found.File.Close()
	}
	if err = cmp.Or(found.Others, err); err != nil {
		return p, err
	}
	data, err := io.ReadAll(io.LimitReader(found.File, maxSize+1))
	if err != nil {
		return p, err
	}
	of, err := Parse(data)
	of.Name = cmp.Or(of.Name, p.Name)
	if err != nil {
		return of, fmt.Errorf("%s: %w", file, err)
	}
	of.File = file
	return of, nil
}
