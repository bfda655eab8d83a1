// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// machine writes the nodes of a machine: CPUs and distances by node.
func machine(t *testing.T, online string, nodes map[int][2]string) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, "devices/system/node", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("online", online)
	for n, v := range nodes {
		write(fmt.Sprintf("node%d/cpulist", n), v[0])
		write(fmt.Sprintf("node%d/distance", n), v[1])
	}
	return root
}

func TestFrom(t *testing.T) {
	two := machine(t, "0-1", map[int][2]string{0: {"0-3,8-11", "10 21"}, 1: {"4-7,12-15", "21 10"}})
	memory := machine(t, "0,2", map[int][2]string{0: {"0-71", "10 80"}, 2: {"", "80 10"}}) // Grace with the memory of a GPU
	for _, c := range []struct {
		root, cpus string
		want       []int
	}{
		{two, "0-15", []int{10, 10}},
		{two, "4", []int{21, 10}},
		{two, "12", []int{21, 10}},
		{two, "3,8", []int{10, 21}},
		{two, "99", nil},
		{two, "4-", nil},
		{two, "0-99999999", nil},
		{two, "", nil},
		{memory, "0-71", []int{10, 0, 80}},
	} {
		n, err := Read(c.root)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.From(c.cpus); !slices.Equal(got, c.want) {
			t.Errorf("from %q: %v, expected %v", c.cpus, got, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no NUMA: %v", err)
	}
	for name, root := range map[string]string{
		"fewer distances": machine(t, "0-1", map[int][2]string{0: {"0", "10"}, 1: {"1", "21 10"}}),
		"a word":          machine(t, "0", map[int][2]string{0: {"0", "near"}}),
		"a range":         machine(t, "1-0", nil),
		"a node is gone":  machine(t, "0-1", map[int][2]string{0: {"0", "10 21"}}),
	} {
		if n, err := Read(root); err == nil {
			t.Errorf("%s: %v", name, n)
		}
	}
}

// This machine, whatever it is: a process that may run everywhere is near every node that has CPUs.
func TestThisMachine(t *testing.T) {
	n, err := Read("/sys")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this kernel has no NUMA nodes in sysfs")
	}
	if err != nil {
		t.Fatal(err)
	}
	for cpu, node := range n.of {
		if d := n.From(strconv.Itoa(cpu)); d[node] != 10 {
			t.Errorf("CPU %d is %d from its node %d", cpu, d[node], node)
		}
	}
}
