// SPDX-License-Identifier: Apache-2.0

package program

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
		os.Exit(New(new(Options)).Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	m.Run()
}
