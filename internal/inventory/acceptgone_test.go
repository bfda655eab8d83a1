// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// What is accepted by the address of a card that is gone is not that of another card, which is there now.
func TestAcceptGoneWhereAnotherIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.json")
	now := placed(2, 0, 1, 2, 4)
	n := watched(t, file, placed(0, 1, 2, 3, 4), now, now)
	if _, err := Accept(file, n, []string{"0000:03:00.0"}, "me"); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(*testing.T) {
		m := Open(file, "", slog.New(slog.DiscardHandler))
		defer m.Close()
		n = m.Update(now(begin.Add(20 * time.Hour)))
	})
	for h, p := range n.Ports {
		if p.Down() && !p.Seen.Active {
			t.Errorf("what %s had is forgotten", h.Name)
		}
	}
}
