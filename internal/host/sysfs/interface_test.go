// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
)

func TestInterfaces(t *testing.T) {
	f, _ := netdev("lo", "", tree{"operstate": "unknown\n"}).with(
		netdev("bond0", "", nil), netdev("eno2", "", tree{"operstate": "down\n"}), netdev("eno3", "", tree{"operstate": "!EIO"}),
		tree{"class/net/bonding_masters": "bond0\n"}).open(t)
	got := f.Interfaces(now)
	if got.State != fabric.OK || len(got.Value) != 4 {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []struct{ name, state string }{{"bond0", "up"}, {"eno2", "down"}, {"eno3", ""}, {"lo", "unknown"}} {
		is := got.Value[i]
		if is.Name != want.name {
			t.Errorf("%d is %s", i, is.Name)
		}
		if want.state == "" {
			unknown(t, is.Name, is.OperState, fabric.ReasonIO)
		} else {
			known(t, is.Name, is.OperState, want.state)
		}
	}
	f, _ = tree{"class/infiniband/mlx5_0/node_type": "1\n"}.open(t)
	unknown(t, "interfaces", f.Interfaces(now), fabric.ReasonMissing)
	many := tree{}
	for i := range maxInterfaces + 1 {
		many["class/net/veth"+itoa(i)] = "x"
	}
	f, _ = many.open(t)
	unknown(t, "too many", f.Interfaces(now), fabric.ReasonMalformed)
}
