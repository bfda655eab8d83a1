// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/ownership"
)

// pythonPlaces are where packages of Python are, below the root: of distributions, of images, and of environments in /opt
// and beside it.
var pythonPlaces = []string{
	"usr/local/lib*/python3*/*-packages",
	"usr/lib*/python3*/*-packages",
	"opt/*/lib/python3*/site-packages",
	"opt/*/envs/*/lib/python3*/site-packages",
	"usr/local/*/lib/python3*/site-packages",
	"venv/lib/python3*/site-packages",
	".venv/lib/python3*/site-packages",
}

const (
	inPackages    = "nvidia/nccl/lib/" + defaultNCCL
	maxCandidates = 256
	maxLoaderFile = 16 << 20 // bytes of ld.so.cache that are looked at
)

// Find says what to load as NCCL: given if that is not empty; else libnccl.so.2, if libraryPath (LD_LIBRARY_PATH) or the
// loader's cache has it; else the library in a Python package, the first one that is found. Those are taken only if no
// one but root and the user of this process can have put them there (package ownership), because what is in them will
// run; Vet holds the others to the same. The error, which is fs.ErrNotExist if there is none at all, says what was
// passed over.
//
// It reads directories and loads nothing. root is where the file system begins, "/" but for tests.
func Find(root, given, libraryPath string) (string, error) {
	if given != "" {
		return given, nil
	}
	if len(locate(root, defaultNCCL, libraryPath)) > 0 {
		return defaultNCCL, nil
	}
	tree := os.DirFS(root)
	passed := fs.ErrNotExist
	seen := 0
	for _, place := range pythonPlaces {
		found, err := fs.Glob(tree, path.Join(place, inPackages))
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", defaultNCCL, err)
		}
		slices.Reverse(found) // newer versions of Python come last
		for _, name := range found {
			if seen++; seen > maxCandidates {
				return "", fmt.Errorf("look for %s: more than %d, none of them trusted: %w", defaultNCCL, maxCandidates, passed)
			}
			if _, err := ownership.Check(root, name); err != nil {
				passed = err
				continue
			}
			return filepath.Join(root, name), nil
		}
	}
	return "", fmt.Errorf("look for %s, which neither the loader nor Python has: %w", defaultNCCL, passed)
}

// locate returns the absolute paths, below root, of what dlopen may load for a name without a slash: those in libraryPath, its folders
// for capabilities of the processor included, in the loader's cache and in the folders that the loader always searches.
func locate(root, name, libraryPath string) []string {
	var found []string
	look := func(dir string) {
		at := filepath.Join(root, dir)
		if exists(filepath.Join(at, name)) {
			found = append(found, filepath.Join(dir, name))
		}
		const byProcessor = "glibc-hwcaps"
		levels, _ := os.ReadDir(filepath.Join(at, byProcessor)) // of what cannot be read, the loader reads nothing either
		for _, level := range levels {
			if file := filepath.Join(dir, byProcessor, level.Name(), name); exists(filepath.Join(root, file)) {
				found = append(found, file)
			}
		}
	}
	for _, dir := range folders(libraryPath) {
		if filepath.IsAbs(dir) {
			look(dir)
		}
	}
	found = append(found, cached(root, name)...)
	for _, pattern := range []string{"lib64", "usr/lib64", "lib", "usr/lib", "lib/*-linux-gnu", "usr/lib/*-linux-gnu"} {
		dirs, _ := fs.Glob(os.DirFS(root), pattern)
		for _, dir := range dirs {
			look("/" + dir)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// folders takes a search path of the loader apart.
func folders(libraryPath string) []string {
	return strings.FieldsFunc(libraryPath, func(r rune) bool { return r == ':' || r == ';' })
}

// cached returns the paths that the loader's cache has for a name. ldconfig lets strings share their ends (glibc 2.33), so
// the name may be there as the end of a path only.
func cached(root, name string) []string {
	f, err := os.Open(filepath.Join(root, "etc/ld.so.cache"))
	if err != nil {
		return nil
	}
	defer f.Close()
	cache, err := io.ReadAll(io.LimitReader(f, maxLoaderFile))
	if err != nil {
		return nil
	}
	var found []string
	for rest := cache; ; {
		before, after, more := bytes.Cut(rest, []byte("/"+name+"\x00"))
		if !more {
			return found
		}
		dir := before[bytes.LastIndexByte(before, 0)+1:]
		if len(dir) > 0 && dir[0] == '/' && len(dir) < unix.PathMax {
			found = append(found, string(dir)+"/"+name)
		}
		rest = after
	}
}
