// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"sync"
	"testing"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
)

// scrapes are nodes that one set sees one after the other: the list of counters, the driver and the device change.
func scrapes() []*fabric.Node {
	nodes := []*fabric.Node{
		port1("mlx5_core", counted("port_xmit_data", 1000), counted("duplicate_request", 1, "dup_req", 2)),
		port1("mlx5_core", counted("port_xmit_data", 2000), counted("duplicate_request", 3, "dup_req", nil)),
		port1("mlx5_core", counted("port_xmit_data", nil), counted("dup_req", 2, "duplicate_request", 4)),
		port1("mlx5_core", noCounters, counted("duplicate_request", 5)),
		port1("bnxt_en", noCounters, counted("duplicate_request", 1, "dup_req", 2)),
		port1("ice", noCounters, counted("ip4OutOctets", 1, "ip6OutOctets", 20)),
		port1("ice", noCounters, counted("ip4OutOctets", 1, "ip6OutOctets", nil)),
		port1("ice", noCounters, counted("ip4OutOctets", 1)),
		port1("efa", counted("port_xmit_data", 1), counted("tx_bytes", 9)),
		port1("efa", counted("port_xmit_data", nil), counted("tx_bytes", 9)),
		port1("mlx5_core", noCounters, noCounters),
	}
	device := port1("mana", noCounters, counted("received_cnps", 1))
	device.HCAs[0].HWCounters = counted("received_cnps", 2, "sent_cnps", 3)
	return append(nodes, device)
}

// A plan that is kept changes nothing: every node looks as it does to a set that has seen no other.
func TestPlansAreForgotten(t *testing.T) {
	set := func() *Set {
		s, err := NewSet([]string{"counters"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var want []string
	for _, n := range scrapes() {
		want = append(want, text(t, set().Gather(n, ConfigState{})))
	}
	shared := set()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				for i, n := range scrapes() {
					if got := text(t, shared.Gather(n, ConfigState{})); got != want[i] {
						t.Errorf("node %d: got\n%s\nwant\n%s", i, got, want[i])
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestPlansAreBounded(t *testing.T) {
	var p plans
	for i := range 10 * maxPlans {
		list := counted(fmt.Sprint("odd", i), i).Value
		made := p.of(counters.PlacePort, "ionic", list)
		if again := p.of(counters.PlacePort, "ionic", list); again != made {
			t.Fatalf("the plan of list %d was not kept", i)
		}
		if n := len(*p.made.Load()); n > maxPlans {
			t.Fatalf("%d plans", n)
		}
	}
}

// A collector that panics loses its own series.
func TestPanicLeavesNothing(t *testing.T) {
	out := sink{families: make([]exposition.Family, len(catalogue))}
	out.emit(nodeGPUs, 8)
	if err := out.run(&collector{collect: func(_ *fabric.Node, emit emit) {
		emit(hcaMoved, 1, "mlx5_0", "device")
		panic("broken")
	}}, nil); err == nil {
		t.Error("no error")
	}
	if len(out.families[hcaMoved.place].Series) != 0 || len(out.families[nodeGPUs.place].Series) != 1 {
		t.Errorf("%+v", out.families)
	}
}
