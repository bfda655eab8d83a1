// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"testing"
)

func TestNameFilter(t *testing.T) {
	for filter, takes := range map[string][]string{
		"":                     {"mlx5_0", "mlx5_1", "mlx5_10", "bnxt_re0"},
		"mlx5_1":               {"mlx5_1", "mlx5_10"},
		"=mlx5_1":              {"mlx5_1"},
		"^mlx5_1":              {"mlx5_0", "bnxt_re0"},
		"^=mlx5_1":             {"mlx5_0", "mlx5_10", "bnxt_re0"},
		"=mlx5_0:1,mlx5_1:2":   {"mlx5_0"},
		"=mlx5_0:1:3:0,nosuch": {"mlx5_0"},
		"=mlx5_0:x,mlx5_1:":    nil,
		"=mlx5_0:1x":           {"mlx5_0"},
		"mlx5_0, bnxt":         {"mlx5_0"}, // the blank is part of the name
		"^":                    nil,
		",":                    {"mlx5_0", "mlx5_1", "mlx5_10", "bnxt_re0"},
	} {
		var got []string
		for _, name := range []string{"mlx5_0", "mlx5_1", "mlx5_10", "bnxt_re0"} {
			if ParseNameFilter(filter).Takes(name, 1) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, takes) {
			t.Errorf("%q takes %v, want %v", filter, got, takes)
		}
	}
}
