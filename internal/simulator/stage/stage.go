// SPDX-License-Identifier: Apache-2.0

// Package stage shows simulated nodes in tests. A node is thousands of files, of which scenarios of a
// platform share nearly all: one tree for each platform shows them one after the other.
package stage

import (
	"os"
	"path/filepath"
	"testing"

	"gpufabric_exporter/internal/simulator"
)

// Stage has a tree for each platform. It belongs to one test, which may show a node in a tree that is no longer read.
type Stage struct {
	dir   string
	trees map[string]*simulator.Tree
}

// New is a stage for a test, in memory where that can be had.
func New(t testing.TB) *Stage {
	t.Helper()
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = t.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "stage")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &Stage{dir: dir, trees: map[string]*simulator.Tree{}}
}

// Show lays the node of a scenario out at its beginning.
func (s *Stage) Show(t testing.TB, one simulator.Scenario) *simulator.Tree {
	t.Helper()
	return s.Set(t, one.Platform, one.Build())
}

// Set lays a node out at its beginning, in place of the last one that looked much like it.
func (s *Stage) Set(t testing.TB, like string, n *simulator.Node) *simulator.Tree {
	t.Helper()
	tree := s.trees[like]
	if tree != nil {
		if err := tree.Show(n); err != nil {
			t.Fatal(err)
		}
		return tree
	}
	tree, err := n.Materialise(filepath.Join(s.dir, like))
	if err != nil {
		t.Fatal(err)
	}
	s.trees[like] = tree
	return tree
}
