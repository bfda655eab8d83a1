// SPDX-License-Identifier: Apache-2.0

// Package library finds shared libraries where the dynamic loader looks for them, and reads their versions.
// It loads nothing.
//
// Everything that it reads is untrusted: search paths, the loader's cache, folders and libraries. Only
// regular files are opened, below a root that no link leads out of; folders, files and links are bounded.
// What cannot be read has not been found.
//
// Concurrency: all functions may be called by any number of goroutines. They keep nothing.
package library

import (
	"bytes"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpufabric_exporter/internal/ownership"
)

// Limits of a search.
const (
	maxFolders    = 256      // of a search path
	maxLevels     = 64       // capabilities of processors in one folder
	maxCandidates = 256      // Python packages
	maxLoaderFile = 16 << 20 // bytes of ld.so.cache
	maxPath       = 4096     // PATH_MAX
)

// standard are the folders that the loader always searches, below the root.
var standard = []string{"lib64", "usr/lib64", "lib", "usr/lib", "lib/*-linux-gnu", "usr/lib/*-linux-gnu"}

// levels are folders for capabilities of processors that a full folder must not hide.
var levels = []string{"x86-64-v4", "x86-64-v3", "x86-64-v2"}

// pythonPlaces are where packages of Python are, below the root: of distributions, of images, and of
// environments in /opt and beside it.
var pythonPlaces = []string{
	"usr/local/lib*/python3*/*-packages",
	"usr/lib*/python3*/*-packages",
	"opt/*/lib/python3*/site-packages",
	"opt/*/envs/*/lib/python3*/site-packages",
	"usr/local/*/lib/python3*/site-packages",
	"venv/lib/python3*/site-packages",
	".venv/lib/python3*/site-packages",
}

// Locate returns the absolute paths, below root, of what dlopen may load for a name without a slash, in the
// order of the loader: those in libraryPath (LD_LIBRARY_PATH), in the loader's cache, and in the folders that
// it always searches. Each folder comes with its folders for capabilities of the processor. root is where the
// file system begins.
func Locate(root, name, libraryPath string) []string {
	var found []string
	look := func(dir string) {
		const byProcessor = "glibc-hwcaps"
		at := filepath.Join(root, dir)
		for _, level := range slices.Concat(levels, names(filepath.Join(at, byProcessor), maxLevels)) {
			if file := filepath.Join(dir, byProcessor, level, name); exists(filepath.Join(root, file)) {
				found = append(found, file)
			}
		}
		if exists(filepath.Join(at, name)) {
			found = append(found, filepath.Join(dir, name))
		}
	}
	dirs := Folders(libraryPath)
	for _, dir := range dirs[:min(len(dirs), maxFolders)] {
		if filepath.IsAbs(dir) && len(dir) < maxPath {
			look(dir)
		}
	}
	found = append(found, cached(root, name)...)
	for _, dir := range StandardFolders(root) {
		look(dir)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(found, func(file string) bool {
		before := seen[file]
		seen[file] = true
		return before
	})
}

// StandardFolders returns the folders that the loader always searches.
func StandardFolders(root string) []string {
	var list []string
	for _, pattern := range standard {
		dirs, _ := fs.Glob(os.DirFS(root), pattern)
		for _, dir := range dirs {
			list = append(list, "/"+dir)
		}
	}
	return list
}

// Packaged returns the absolute paths, below root, of a file in Python packages, such as
// nvidia/nccl/lib/libnccl.so.2: for each place the newest version of Python first. complete is false if there
// are more.
func Packaged(root, file string) (found []string, complete bool) {
	tree := os.DirFS(root)
	for _, place := range pythonPlaces {
		list, _ := fs.Glob(tree, path.Join(place, file)) // the patterns are well-formed
		slices.Reverse(list)
		for _, name := range list {
			if len(found) == maxCandidates {
				return found, false
			}
			found = append(found, "/"+name)
		}
	}
	return found, true
}

// Folders takes a search path of the loader apart.
func Folders(libraryPath string) []string {
	return strings.FieldsFunc(libraryPath, func(r rune) bool { return r == ':' || r == ';' })
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// names returns the first entries of a folder; none where it cannot be read, because the loader cannot either.
func names(dir string, most int) []string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(most)
	slices.Sort(list)
	return list
}

// cached returns the paths that the loader's cache has for a name.
func cached(root, name string) []string {
	var found []string
	for dir := range foldersInCache(root, "/"+name+"\x00") {
		found = append(found, dir+"/"+name)
	}
	return found
}

// cachedFolders returns the folders in which the loader's cache has libraries whose name begins so.
func cachedFolders(root, prefix string) []string {
	return slices.Collect(foldersInCache(root, "/"+prefix))
}

// foldersInCache yields what stands before a text in the paths of the loader's cache. ldconfig lets strings
// share their ends (glibc 2.33), so the name may be there as the end of a path only.
func foldersInCache(root, text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		opened, err := ownership.Open(root, "/etc/ld.so.cache")
		if err != nil {
			return
		}
		defer opened.File.Close()
		rest, err := io.ReadAll(io.LimitReader(opened.File, maxLoaderFile))
		if err != nil {
			return
		}
		for range maxCandidates {
			before, after, more := bytes.Cut(rest, []byte(text))
			if !more {
				return
			}
			dir := before[bytes.LastIndexByte(before, 0)+1:]
			if len(dir) > 0 && dir[0] == '/' && len(dir) < maxPath && !yield(string(dir)) {
				return
			}
			rest = after
		}
	}
}

// maxFiles bounds how many entries of a folder are read.
const maxFiles = 1 << 16

// Matching returns the absolute paths, below root, of shared libraries whose name begins so, in the folders
// of libraryPath, in the loader's cache and in the folders that the loader always searches.
func Matching(root, prefix, libraryPath string) []string {
	var dirs []string
	for _, dir := range Folders(libraryPath) {
		if filepath.IsAbs(dir) && len(dirs) < maxFolders {
			dirs = append(dirs, dir)
		}
	}
	dirs = append(dirs, cachedFolders(root, prefix)...)
	dirs = append(dirs, StandardFolders(root)...)
	slices.Sort(dirs)
	var found []string
	for _, dir := range slices.Compact(dirs) {
		found = append(found, Files(root, dir, prefix)...)
	}
	return found
}

// Files returns the absolute paths, below root, of shared libraries in one folder whose name begins so.
func Files(root, dir, prefix string) []string {
	var found []string
	for _, name := range names(filepath.Join(root, dir), maxFiles) {
		if strings.HasPrefix(name, prefix) && strings.Contains(name, ".so") {
			found = append(found, path.Join(dir, name))
		}
	}
	return found
}
