// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"os"
	"testing"
)

// TestMain lays simulated nodes, thousands of small files each, out in memory where that can be had.
func TestMain(m *testing.M) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	m.Run()
}

// withoutRace leaves a test of a command that looks once to the run without the race detector: make test has both.
func withoutRace(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a command that looks once is tested without the race detector")
	}
}
