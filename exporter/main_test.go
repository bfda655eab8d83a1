// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"os"
	"testing"
)

// asProgram is the variable of the environment that makes the test binary this program.
const asProgram = "GPUFABRIC_TEST_AS_PROGRAM"

// TestMain lays simulated nodes, thousands of small files each, out in memory where that can be had.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Run(context.Background(), os.Args[1:], Options{}))
	}
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
