// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Devices do not count as compared with a record that replaces one; what cannot be read is said to be unread.
func TestCompared(t *testing.T) {
	unread := func(at time.Time) *fabric.Node {
		n := placed(0, 1, 2)(at)
		n.Sources = n.Sources[1:] // without the PCI bus
		return n
	}
	damage := func(file string) error { return os.WriteFile(file, []byte("{}"), 0o600) }
	for name, c := range map[string]struct {
		boot             string
		file             func(file string) error
		again            string // the start after boot
		see              func(time.Time) *fabric.Node
		volatile         bool
		compared, unread bool
	}{
		"after a reboot":                  {boot: "b", see: placed(0, 1, 2), compared: true},
		"lost a card":                     {boot: "b", see: placed(0, 1), compared: true},
		"the bus cannot be read":          {boot: "b", see: unread, unread: true},
		"of this start":                   {boot: "a", see: placed(0, 1, 2), compared: true},
		"removed before the start":        {boot: "b", see: placed(0, 1, 2), file: os.Remove, compared: true},
		"lost at the start":               {boot: "b", see: placed(0, 1, 2), file: os.Remove, volatile: true},
		"damaged":                         {boot: "b", see: placed(0, 1, 2), file: damage},
		"damaged, before another start":   {boot: "b", see: placed(0, 1, 2), file: damage, again: "c", compared: true},
		"damaged, no start is told apart": {see: placed(0, 1, 2), file: damage},
		"that of another node":            {boot: "b", see: placed(0, 11, 12)},
		"the kernel tells no start apart": {see: placed(0, 1, 2), compared: true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "inventory.json")
			var n *fabric.Node
			look := func(boot string, see func(time.Time) *fabric.Node) {
				synctest.Test(t, func(*testing.T) {
					for range 2 { // so that a file is there
						m := Open(file, boot, slog.New(slog.DiscardHandler))
						m.volatile = c.volatile
						n = m.Update(see(begin))
						m.Close()
					}
				})
			}
			look("a", placed(0, 1, 2))
			if c.file != nil {
				if err := c.file(file); err != nil {
					t.Fatal(err)
				}
			}
			look(c.boot, c.see)
			if c.again != "" {
				look(c.again, c.see)
			}
			if c.file != nil && !c.compared && n.Unrecorded == "" {
				t.Error("nothing says so")
			}
			if n.DevicesCompared != c.compared || n.DevicesUnread != c.unread {
				t.Errorf("compared %t, unread %t", n.DevicesCompared, n.DevicesUnread)
			}
		})
	}
}
