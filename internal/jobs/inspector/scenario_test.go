// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpufabric_exporter/internal/simulator"
)

// What the alert on bandwidth is tested with (alerts/inspector_test.yml) is what files of this scenario give.
func TestScenario(t *testing.T) {
	s, err := simulator.Find("job-bandwidth-falls")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	tree, err := s.Build().Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := start(filepath.Join(tree.Rootfs(), "run/nccl_inspector"))
	for _, c := range []struct {
		step              int
		between, launched float64
	}{{0, 360e9, 1}, {60, 360e9, 241}, {120, 120e9, 481}, {180, 120e9, 721}} {
		if err := tree.Step(c.step); err != nil {
			t.Fatal(err)
		}
		reading := read(t, r, time.Now())
		if len(reading.Files) != 8 || len(reading.Refused) > 0 {
			t.Fatalf("step %d: %d files, refused %v", c.step, len(reading.Files), reading.Refused)
		}
		samples, totals := reading.Files[0].Samples, reading.Files[0].Totals
		if len(samples) != 2 || samples[0].BusBandwidth != 350e9 || samples[1].BusBandwidth != c.between || len(totals) != 2 || totals[1].Launched != c.launched {
			t.Errorf("step %d: %+v, %+v", c.step, samples, totals)
		}
	}
}
