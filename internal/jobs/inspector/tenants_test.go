// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Whatever one user does, the files of another are read, and the reading says who lost something.
func TestTenants(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the files of several users")
	}
	now := time.Now()
	large := strings.Repeat(metricsOf30("AllReduce", "256-257MB", "DP Group 0", 2, 178.263, 9498.47), 1800)
	for name, c := range map[string]struct {
		plant func(dir string)
		lost  bool
		maybe bool // lost: it depends on how far the folders are listed when others are found
	}{
		"empty files": {func(dir string) {
			for i := range 3 * maxFiles {
				write(t, filepath.Join(dir, "aaa", fmt.Sprintf("x-pid%d.log", i+1)), "", now)
			}
		}, true, false},
		"dates in the future": {func(dir string) {
			for i := range 3 * maxFiles {
				write(t, filepath.Join(dir, "aaa", fmt.Sprintf("x-pid%d.log", i+1)), "", now.Add(50*time.Second))
			}
		}, true, false},
		"names": {func(dir string) {
			for i := range 2500 {
				write(t, filepath.Join(dir, "aaa", strconv.Itoa(i)), "", now)
			}
		}, true, false},
		"folders": {func(dir string) {
			for i := range 1200 {
				sub := filepath.Join(dir, fmt.Sprintf("a%d", i))
				if err := os.Mkdir(sub, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(sub, 1001, 1001); err != nil {
					t.Fatal(err)
				}
			}
		}, true, true},
		"bytes": {func(dir string) {
			for i := range 32 {
				file := fmt.Sprintf("nccl_inspector_metrics_5a3d2c10-0000-4000-8000-0000000000%02d.prom", i)
				write(t, filepath.Join(dir, "aaa", file), large, now.Add(-time.Minute))
			}
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, uid := range map[string]int{"aaa": 1001, "job": 1002} {
				if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(dir, "job", logFile), record28("AllReduce", 1<<20, "3.0", 7), now.Add(-time.Minute))
			write(t, filepath.Join(dir, "job", metricsFile), metricsOf30("AllReduce", "1-2MB", "a", 2, 100, 10), now.Add(-time.Minute))
			c.plant(dir)
			v := read(t, start(dir), now)
			files := 0
			for _, f := range v.Files {
				if f.PID == 4242 || f.GPU == "GPU-"+uuid {
					files++
				}
			}
			if lost := v.Shortage.Any(); files != 2 || lost != c.lost && !c.maybe || lost && v.Shortage.Most != (fabric.FileOwner{UID: 1001}) {
				t.Errorf("%d of 2 files of the other user, %+v, refused %v", files, v.Shortage, v.Refused)
			}
		})
	}
}
