// SPDX-License-Identifier: Apache-2.0

// Package cgroup looks in the file system of control groups for those that schedulers make: for the jobs of Slurm, and
// that there is a kubelet. It only lists directories.
//
// An FS may be used by any number of goroutines. A directory that is there and cannot be listed is an error,
// and so is a file system without any control group, or with a part of them only, as containers have: then
// nothing is known.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"gpufabric_exporter/internal/fabric"
)

// What is looked at most. A node has tens of services and hundreds of jobs.
const (
	maxEntries = 1 << 16
	maxJobs    = 256
)

// FS is the file system of control groups, "/sys/fs/cgroup".
type FS struct{ path string }

// New returns the FS mounted at path.
func New(path string) *FS { return &FS{path} }

// Cgroups looks for the groups of Slurm and of kubelet, of both versions of control groups:
//
//   - Slurm with version 2: job_<id> in slurmstepd.scope or <node>_slurmstepd.scope, in system.slice or what
//     CgroupSlice names, up to two slices deep;
//   - Slurm with version 1: <controller>/slurm/uid_<uid>/job_<id>, or slurm_<node> where a machine has several slurmd;
//   - kubelet: kubepods, kubepods.slice, or with a prefix, in the root or in the first slice.
func (f *FS) Cgroups() (fabric.Cgroups, error) {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return fabric.Cgroups{}, fmt.Errorf("control groups: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	w := walk{root: root, jobs: map[string]bool{}}
	top, err := w.list(".")
	if err != nil {
		return fabric.Cgroups{}, err
	}
	if w.exists("cgroup.controllers") { // version 2 alone
		err = w.hierarchy(".", top)
	} else {
		err = w.controllers(top)
	}
	if err != nil {
		return fabric.Cgroups{}, err
	}
	for id := range w.jobs {
		w.found.SlurmJobs = append(w.found.SlurmJobs, id)
	}
	slices.Sort(w.found.SlurmJobs)
	return w.found, nil
}

// ID returns the ID that the kernel has for a control group of version 2 (cgroup_id of linux/cgroup.h), by
// its path from the root of the hierarchy: the inode of its directory. An error where there is no such group
// or no hierarchy of version 2.
func (f *FS) ID(path string) (uint64, error) {
	for _, at := range []string{f.path, f.path + "/unified"} { // the second one beside hierarchies of version 1
		root, err := os.OpenRoot(at)
		if err != nil {
			return 0, fmt.Errorf("control groups: %w", err)
		}
		id, err := idBelow(root, path)
		_ = root.Close()
		if !errors.Is(err, fs.ErrNotExist) {
			return id, err
		}
	}
	return 0, fmt.Errorf("control group: %w", fs.ErrNotExist)
}

func idBelow(root *os.Root, path string) (uint64, error) {
	if _, err := root.Lstat("cgroup.procs"); err != nil { // no control group
		return 0, err
	}
	if _, err := root.Lstat(path + "/cgroup.controllers"); err != nil {
		return 0, err
	}
	info, err := root.Lstat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fs.ErrInvalid
	}
	return st.Ino, nil
}

// walk is one look.
type walk struct {
	root    *os.Root
	entries int
	found   fabric.Cgroups
	jobs    map[string]bool
}

func (w *walk) exists(name string) bool {
	_, err := w.root.Lstat(name)
	return err == nil
}

// controllers looks through the hierarchies of version 1, each of which has a directory; one of them may be version 2.
func (w *walk) controllers(names []string) error {
	hierarchies := 0
	for _, name := range names {
		if !w.exists(name + "/cgroup.procs") {
			continue
		}
		hierarchies++
		entries, err := w.list(name)
		if err == nil {
			err = w.hierarchy(name, entries)
		}
		if err != nil {
			return err
		}
	}
	if hierarchies == 0 {
		return fabric.Because(fabric.ReasonMissing, "control groups: none in "+w.root.Name())
	}
	return nil
}

// hierarchy looks at a hierarchy if it is all there. In a control group namespace, what shows as the root is none: only
// roots of version 1 have a release_agent, and only those of version 2 have no cgroup.events.
func (w *walk) hierarchy(dir string, names []string) error {
	v2 := w.exists(dir + "/cgroup.controllers")
	if v2 && w.exists(dir+"/cgroup.events") || !v2 && !w.exists(dir+"/release_agent") {
		return fabric.Because(fabric.ReasonMissing, "control groups: "+w.root.Name()+"/"+dir+" is not the root of the node's")
	}
	return w.slices(dir, names, 2)
}

// slices looks at what is in a group, and in slices so many levels below it.
func (w *walk) slices(dir string, names []string, levels int) error {
	for _, name := range names {
		var err error
		path := dir + "/" + name
		switch {
		case strings.HasSuffix(name, "slurmstepd.scope"):
			w.found.Slurm = true
			err = w.jobsIn(path)
		case name == "slurm" || strings.HasPrefix(name, "slurm_"):
			w.found.Slurm = true
			err = w.users(path)
		case strings.Contains(name, "kubepods"):
			w.found.Pods = true
		case strings.HasSuffix(name, ".slice") && levels > 0:
			var entries []string
			if entries, err = w.list(path); err == nil {
				err = w.slices(path, entries, levels-1)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) users(dir string) error {
	names, err := w.list(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "uid_") {
			if err := w.jobsIn(dir + "/" + name); err != nil {
				return err
			}
		}
	}
	w.addJobs(names) // of a Slurm without folders of users
	return nil
}

func (w *walk) jobsIn(dir string) error {
	names, err := w.list(dir)
	w.addJobs(names)
	return err
}

func (w *walk) addJobs(names []string) {
	for _, name := range names {
		if id, is := strings.CutPrefix(name, "job_"); is && id != "" && len(w.jobs) < maxJobs {
			w.jobs[id] = true
		}
	}
}

// list returns the directories in one. One that was removed meanwhile is empty.
func (w *walk) list(name string) ([]string, error) {
	dir, err := w.root.Open(name)
	if err != nil && name != "." && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	defer func() { _ = dir.Close() }()
	var names []string
	for {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			if w.entries++; w.entries > maxEntries {
				return nil, fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("control groups: more than %d entries", maxEntries))
			}
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("control groups: %s: %w", name, err)
		}
	}
}
