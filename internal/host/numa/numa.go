// SPDX-License-Identifier: Apache-2.0

// Package numa reads which NUMA nodes the processors are of and how far the nodes are from each other, as the
// firmware says (ACPI SLIT): sysfs devices/system/node. It reads once, opens nothing that hangs, and returns
// what it read as plain data, which any number of goroutines may use.
package numa

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds: CONFIG_NR_CPUS and CONFIG_NODES_SHIFT of common kernels are at most that.
const (
	maxCPUs  = 8192
	maxNodes = 1024
)

// Nodes are the NUMA nodes of a machine.
type Nodes struct {
	of        map[int]int   // node of each CPU that is online
	distances map[int][]int // from a node to each node by number; 0: there is no such node
}

// Read reads the nodes of the sysfs mounted at root. A kernel without NUMA has none, which is an error that
// wraps fs.ErrNotExist.
func Read(root string) (*Nodes, error) {
	dir := filepath.Join(root, "devices/system/node")
	text, err := read(filepath.Join(dir, "online"))
	if err != nil {
		return nil, fmt.Errorf("NUMA nodes: %w", err)
	}
	online, err := list(text, maxNodes)
	if err != nil {
		return nil, fmt.Errorf("NUMA nodes: online: %w", err)
	}
	n := &Nodes{map[int]int{}, map[int][]int{}}
	for _, node := range online {
		at := filepath.Join(dir, "node"+strconv.Itoa(node))
		cpus, err := read(filepath.Join(at, "cpulist"))
		if err != nil {
			return nil, fmt.Errorf("NUMA nodes: %w", err)
		}
		all, err := list(cpus, maxCPUs)
		if err != nil {
			return nil, fmt.Errorf("NUMA nodes: cpulist of node %d: %w", node, err)
		}
		for _, cpu := range all {
			n.of[cpu] = node
		}
		text, err := read(filepath.Join(at, "distance"))
		if err != nil {
			return nil, fmt.Errorf("NUMA nodes: %w", err)
		}
		fields := strings.Fields(text) // one for each node that is online, in their order
		if len(fields) != len(online) {
			return nil, fmt.Errorf("NUMA nodes: distance of node %d has %d values, expected %d", node, len(fields), len(online))
		}
		row := make([]int, online[len(online)-1]+1)
		for i, f := range fields {
			if row[online[i]], err = strconv.Atoi(f); err != nil {
				return nil, fmt.Errorf("NUMA nodes: distance of node %d: %w", node, err)
			}
		}
		n.distances[node] = row
	}
	return n, nil
}

// From returns the least distance to each node, by number, from one of these CPUs ("0-55,112"); 0: there is
// no such node. It is nil where the list cannot be parsed or none of the CPUs is of a node.
func (n *Nodes) From(cpus string) []int {
	all, err := list(cpus, maxCPUs)
	if err != nil {
		return nil
	}
	var least []int
	seen := map[int]bool{}
	for _, cpu := range all {
		node, known := n.of[cpu]
		if !known || seen[node] {
			continue
		}
		seen[node] = true
		row := n.distances[node]
		if least == nil {
			least = append(least, row...)
			continue
		}
		for i, d := range row {
			least[i] = min(least[i], d)
		}
	}
	return least
}

func read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(b), err
}

// list parses a list of the kernel (bitmap_parselist), of numbers below most. An empty one is that of a node
// without CPUs.
func list(text string, most int) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to >= most {
			return nil, fmt.Errorf("%.32q is no range of numbers below %d", part, most)
		}
		if len(all)+to-from >= most {
			return nil, fmt.Errorf("more than %d numbers", most)
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	return all, nil
}
