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
	"syscall"
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
// one but root and the user of this process can have put them there, because what is in them will run. The error, which
// is fs.ErrNotExist if there is none at all, says what was passed over.
//
// It reads directories and loads nothing. root is where the file system begins, "/" but for tests.
func Find(root, given, libraryPath string) (string, error) {
	if given != "" {
		return given, nil
	}
	if loaderHas(root, libraryPath) {
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
			if err := trusted(root, name); err != nil {
				passed = err
				continue
			}
			return filepath.Join(root, name), nil
		}
	}
	return "", fmt.Errorf("look for %s, which neither the loader nor Python has: %w", defaultNCCL, passed)
}

// loaderHas tells whether dlopen will find the name.
func loaderHas(root, libraryPath string) bool {
	for dir := range strings.FieldsFuncSeq(libraryPath, func(r rune) bool { return r == ':' || r == ';' }) {
		if filepath.IsAbs(dir) {
			if _, err := os.Stat(filepath.Join(root, dir, defaultNCCL)); err == nil {
				return true
			}
		}
	}
	f, err := os.Open(filepath.Join(root, "etc/ld.so.cache"))
	if err != nil {
		return false
	}
	defer f.Close()
	cache, err := io.ReadAll(io.LimitReader(f, maxLoaderFile))
	return err == nil && bytes.Contains(cache, []byte("\x00"+defaultNCCL+"\x00"))
}

// trusted tells whether a file and all directories above it, after symbolic links, belong to root or to the user of this
// process, and nobody else may write to them.
func trusted(root, name string) error {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	at, err := filepath.EvalSymlinks(filepath.Join(root, name))
	if err != nil {
		return err
	}
	for ; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: no owner", at)
		}
		others := st.Uid != 0 && int(st.Uid) != os.Geteuid()
		others = others || info.Mode().Perm()&0o002 != 0
		others = others || info.Mode().Perm()&0o020 != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid()
		if others {
			return fmt.Errorf("%s: owner %d:%d, mode %v: %w: others could have put it there", at, st.Uid, st.Gid, info.Mode(), fs.ErrPermission)
		}
		if at == root || at == "/" {
			return nil
		}
	}
}
