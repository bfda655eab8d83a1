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
