// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"reflect"
	"testing"

	"gpufabric_exporter/internal/host/openat"
)

// What is read with few descriptors is what is read with many, over and over, and no more stay open than may.
func TestFewDescriptors(t *testing.T) {
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	plenty, _ := base.device(t, "mlx5_0")
	want := all(t, plenty)
	before := len(openFiles(t))
	for _, limit := range []int{0, 1, 7, 20} {
		d, _ := base.device(t, "mlx5_0")
		budget := openat.NewBudget(limit)
		d.fs.Keep(budget)
		for range 3 {
			got := all(t, d)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%d descriptors: %+v, expected %+v", limit, got, want)
			}
			const own = 3 // the root, twice, and the directory of the device
			if more := len(openFiles(t)) - before; more > limit+own {
				t.Errorf("%d files stay open, expected at most %d and %d", more, limit, own)
			}
		}
		if budget.Refused() == 0 {
			t.Errorf("%d descriptors are said to suffice", limit)
		}
		d.Close()
		if n := budget.Kept(); n != 0 {
			t.Errorf("%d descriptors count as kept when the device is closed", n)
		}
		must(t, d.fs.Close())
	}
}
