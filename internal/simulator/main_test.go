// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"os"
	"slices"
	"testing"
)

// TestMain lays simulated nodes, thousands of small files each, out in memory where that can be had.
func TestMain(m *testing.M) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	m.Run()
}

// healthyNode is the node of a platform with which nothing is wrong.
func healthyNode(name string) *Node {
	all := platforms()
	return all[slices.IndexFunc(all, func(p platform) bool { return p.name == name })].build()
}
