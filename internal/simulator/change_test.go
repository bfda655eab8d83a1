// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// texts are the files of a tree as they are.
func texts(t *testing.T, tree *Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, e := range onDisk(t, tree) {
		if all[name] = e.text; e.kind == regular {
			b, err := os.ReadFile(tree.path(name))
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(b)
		}
	}
	return all
}

// A node that is shown in the tree of another has the files that it has in a tree of its own, to the letter.
func TestShow(t *testing.T) {
	tree := materialise(t, healthyNode(h100))
	for _, name := range []string{"counters-garbage", "device-gone", "job-inspector", "healthy"} {
		if err := tree.Step(70); err != nil {
			t.Fatal(err)
		}
		_ = tree.Remove("mlx5_7") // which is plugged in again
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Show(s.Build()); err != nil {
			t.Fatal(err)
		}
		fresh := materialise(t, s.Build())
		if want, got := texts(t, fresh), texts(t, tree); !maps.Equal(got, want) {
			t.Errorf("%s: %s", name, summary(onDisk(t, fresh).to(onDisk(t, tree))))
		}
	}
	n := healthyNode(h100)
	n.HCAs[0].PCI = ""
	if err := tree.Show(n); err == nil {
		t.Error("a contradiction was accepted")
	}
	if left, _ := filepath.Glob(filepath.Join(tree.Procfs(), "*.next")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestRemoveAndAdd(t *testing.T) {
	n := small()
	tree := materialise(t, n)
	state := filepath.Join(tree.Sysfs(), "class/infiniband/mlx5_5/ports/1/state")
	open, err := os.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := tree.Remove("mlx5_5"); err != nil {
		t.Fatal(err)
	}
	gone := n.Clone()
	gone.Unplug("mlx5_5")
	sameAs(t, tree, gone)
	if n, err := open.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("the open file of a removed device reads %d bytes, %v", n, err)
	}
	if err := tree.Add("mlx5_5"); err != nil {
		t.Fatal(err)
	}
	sameAs(t, tree, n)
	for want, err := range map[string]error{
		`no hca "mlx5_x"`:             tree.Remove("mlx5_x"),
		`hca "mlx5_5" is not removed`: tree.Add("mlx5_5"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestEdit(t *testing.T) {
	n := small()
	tree := materialise(t, n)
	move := func(n *Node) { n.SetAddrs("enp24s0np0") }
	if err := tree.Edit(move); err != nil {
		t.Fatal(err)
	}
	move(n)
	sameAs(t, tree, n)
	if err := tree.Edit(func(n *Node) { n.HCAs[0].PCI = "" }); err == nil {
		t.Error("a contradiction was accepted")
	}
	sameAs(t, tree, n)
}

// A table of the kernel has no empty lines, whatever was unplugged or plugged in.
func TestRoutesFollow(t *testing.T) {
	tree := materialise(t, healthyNode(h100))
	table := func() string {
		b, err := os.ReadFile(filepath.Join(tree.Procfs(), "net", "route"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := table()
	if err := tree.Remove("mlx5_5"); err != nil {
		t.Fatal(err)
	}
	if after := table(); len(after) >= len(before) || strings.Contains(after, "\n\n") {
		t.Errorf("unplugged: %q", after)
	}
	if err := tree.Add("mlx5_5"); err != nil {
		t.Fatal(err)
	}
	if after := table(); after != before {
		t.Errorf("plugged in: %q, want %q", after, before)
	}
}
