// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// What is accepted of a card is not that of another one that is recorded at the same address, by address or name.
func TestAcceptWhereAnotherIs(t *testing.T) {
	now := placed(2, 0, 1, 2, 4) // what was third is gone, and the second, whose link is down, has its place
	for name, c := range map[string]struct {
		link bool // of the second, counts still
		gone bool
	}{
		"0000:03:00.0": {link: true},
		"mlx5_2":       {link: true},
		"mlx5_1":       {gone: true},
		"mlx5_1:1":     {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "inventory.json")
			see := func(at time.Time) *fabric.Node {
				n := now(at) // with the names that they had
				n.HCAs[0].Name, n.HCAs[1].Name, n.HCAs[2].Name = "mlx5_0", "mlx5_1", "mlx5_3"
				return n
			}
			n := watched(t, file, placed(0, 1, 2, 3, 4), see, see)
			if _, err := Accept(file, n, []string{name}, "me"); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(*testing.T) {
				m := Open(file, "", slog.New(slog.DiscardHandler))
				defer m.Close()
				n = m.Update(see(begin.Add(20 * time.Hour)))
			})
			for h, p := range n.Ports {
				if p.Down() && p.Seen.Active != c.link {
					t.Errorf("the link of %s counts: %t", h.Name, p.Seen.Active)
				}
			}
			if gone := len(n.Remembered) > 0; gone != c.gone {
				t.Errorf("gone: %+v", n.Remembered)
			}
		})
	}
}
