// SPDX-License-Identifier: Apache-2.0

// Package installto is the command install-to: it copies this program out of its image, for a container whose image
// lacks it, with the loader and the C library under which it runs here. So the copy also runs where the C library is
// older, or another one.
//
// It reads its own files only, and replaces each file in the folder as a whole.
package installto

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/files"
)

// Loader is the name of the copied loader, on every architecture.
const Loader = "ld.so"

// New returns the command.
func New() *command.Command {
	folder := ""
	return &command.Command{
		Name: "install-to",
		Help: "Copy this program into a folder, with the loader and the C library that it runs with here, for containers whose images lack it: DIR/" + command.Name + " preflight, or, with any C library, DIR/" + Loader + " --library-path DIR DIR/" + command.Name + " preflight.",
		Define: func(f *command.Flags) {
			f.Argument("folder", "The folder, which exists.", command.File(&folder))
			f.Check(func() error {
				if folder == "" {
					return errors.New("install-to: expected a folder")
				}
				return nil
			})
		},
		Run: func(_ context.Context, c *command.Call) int {
			if err := install(folder); err != nil {
				return c.Fail(err)
			}
			return command.OK
		},
	}
}

// install copies the program and what is loaded with it.
func install(folder string) error {
	loaded, err := libraries()
	if err != nil {
		return err
	}
	for name, file := range loaded {
		if err := put(file, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return put("/proc/self/exe", filepath.Join(folder, command.Name))
}

// wanted are the loader and the parts of glibc, by the names under which programs ask for them.
var wanted = regexp.MustCompile(`^(ld-linux.*|lib(c|dl|pthread|resolv|rt|m))\.so\.[0-9]+$`)

// libraries returns the files of the loader and of glibc in this process, by the names that they get.
func libraries() (map[string]string, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = maps.Close() }() // it is read
	var paths []string
	s := bufio.NewScanner(maps)
	for s.Scan() {
		if at := strings.Index(s.Text(), "/"); at > 0 && strings.Contains(s.Text(), ".so") {
			paths = append(paths, s.Text()[at:])
		}
	}
	found := map[string]string{}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		name, err := soname(path)
		switch {
		case err != nil:
			return nil, err
		case strings.HasPrefix(name, "ld-linux"):
			found[Loader] = path
		case wanted.MatchString(name):
			found[name] = path
		}
	}
	return found, s.Err()
}

// soname is the name by which programs ask for a library, whatever its file is called.
func soname(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = f.Close() }() // it is read
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[0], nil
}

// put copies a file that can be run.
func put(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // a file of this process
	if err != nil {
		return err
	}
	if err := files.Replace(to, content); err != nil {
		return fmt.Errorf("%s: %w: expected a folder that exists and that user %d may write to", to, err, os.Geteuid())
	}
	return os.Chmod(to, 0o755) //nolint:gosec // for users of other containers
}
