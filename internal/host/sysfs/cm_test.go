// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// cm is what the connection manager counts, as recorded from rxe.
func cm() tree {
	t := tree{}
	for _, name := range []string{"cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries", "cm_rx_duplicates"} {
		t = t.with(counters(name, "apr", "drep", "dreq", "lap", "mra", "rej", "rep", "req", "rtu", "sidr_rep", "sidr_req"))
	}
	return t
}

func TestCM(t *testing.T) {
	const port = "devices/virtual/infiniband/rxe0/ports/1"
	d, h, root := rxe("rxe0", 1).counting(t, "rxe0")
	must(t, d.ReadCM(&h, now))
	absent(t, "CM", h.Ports[0].Counters.CM)

	cm().under(port).write(t, root)
	must(t, d.ReadCM(&h, now))
	absent(t, "CM before its directories are looked for again", h.Ports[0].Counters.CM)
	h.Ports[0].Counters.CM = fabric.Fact[[]fabric.Counter]{}
	must(t, d.ReadCM(&h, now.Add(listEvery)))
	got := h.Ports[0].Counters.CM
	if len(got.Value) != 44 || got.Source != "class/infiniband/rxe0/ports/1" {
		t.Fatalf("%d counters from %q", len(got.Value), got.Source)
	}
	for i, name := range map[int]string{0: "cm_rx_msgs/apr", 7: "cm_rx_msgs/req", 11: "cm_tx_msgs/apr", 30: "cm_tx_retries/rtu", 43: "cm_rx_duplicates/sidr_req"} {
		if c := got.Value[i]; c.Name != name || c.Value.Value != uint64(100+i%11) || c.Value.Source != "class/infiniband/rxe0/ports/1/"+name {
			t.Errorf("%d: %+v, want %s", i, c, name)
		}
	}
	tree{port + "/cm_tx_msgs/req": "!EINVAL"}.write(t, root)
	must(t, d.ReadCM(&h, now.Add(listEvery)))
	if got := valueOf(t, h.Ports[0].Counters.CM, "cm_tx_msgs/req"); got.Reason != fabric.ReasonUnsupported {
		t.Errorf("refused: %+v", got)
	}
	if got := valueOf(t, h.Ports[0].Counters.CM, "cm_rx_msgs/req"); got.Value != 107 {
		t.Errorf("another: %+v", got)
	}
	if c := d.Commands(); len(c) != 0 {
		t.Errorf("commands %v", c)
	}

	// A directory that cannot be listed may hide some.
	must(t, os.RemoveAll(filepath.Join(root, port, "cm_tx_retries")))
	must(t, os.Symlink("cm_tx_retries", filepath.Join(root, port, "cm_tx_retries")))
	must(t, d.ReadCM(&h, now.Add(2*listEvery)))
	if cm := h.Ports[0].Counters.CM; cm.State != fabric.Unknown || !strings.HasSuffix(cm.Source, "/cm_tx_retries") {
		t.Errorf("half readable: %+v", cm.Meta())
	}
}

// TestReloadedCM: ib_cm is a module; while it is away its directories are, and the device stays.
func TestReloadedCM(t *testing.T) {
	const port = "devices/virtual/infiniband/rxe0/ports/1"
	d, h, root := rxe("rxe0", 1).with(counters("cm_rx_msgs", "req").under(port)).counting(t, "rxe0")
	must(t, d.ReadCM(&h, now))
	known(t, "before", valueOf(t, h.Ports[0].Counters.CM, "cm_rx_msgs/req"), 100)
	must(t, os.RemoveAll(filepath.Join(root, port, "cm_rx_msgs")))
	must(t, d.ReadCM(&h, now))
	unknown(t, "away", valueOf(t, h.Ports[0].Counters.CM, "cm_rx_msgs/req"), fabric.ReasonMissing)
	counters("cm_rx_msgs", "req").under(port).write(t, root)
	later := now.Add(listEvery)
	must(t, d.ReadCM(&h, later))
	if got := valueOf(t, h.Ports[0].Counters.CM, "cm_rx_msgs/req"); got.Value != 100 || !got.At.Equal(later) {
		t.Errorf("after: %+v", got)
	}
}
