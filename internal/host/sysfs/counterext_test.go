// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// OFED for kernels before 4.5 shows what has 64 bits in a directory of its own, beside counters/ with 32 bits
// that stick (names as prometheus/procfs reads them, class_infiniband.go). What is in both is read in the
// wider one only.
func TestExtendedPMA(t *testing.T) {
	wide := []string{
		"port_multicast_rcv_packets", "port_multicast_xmit_packets", "port_rcv_data_64", "port_rcv_packets_64",
		"port_unicast_rcv_packets", "port_unicast_xmit_packets", "port_xmit_data_64", "port_xmit_packets_64",
	}
	narrow := slices.DeleteFunc(slices.Clone(pmaNames), func(s string) bool { return strings.Contains(s, "cast_") })
	port := strings.TrimSuffix(mlx5Port, "/")
	old := mlx5("mlx5_0", mlx5PCI, "hca0").with(counters("counters", narrow...).under(port), counters("counters_ext", wide...).under(port))
	d, h, root := old.counting(t, "mlx5_0")
	must(t, d.ReadPMA(&h, true, now))
	pma := h.Ports[0].Counters.PMA
	for i, name := range wide {
		known(t, name, valueOf(t, pma, name), uint64(100+i))
	}
	for _, name := range []string{"port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets"} {
		if slices.Contains(names(pma.Value), name) {
			t.Errorf("%s has 32 bits and is there beside 64", name)
		}
	}
	known(t, "port_xmit_wait", valueOf(t, pma, "port_xmit_wait"), uint64(100+slices.Index(narrow, "port_xmit_wait")))
	if got, want := d.Commands()[fabric.CommandProcessMAD], uint64(len(narrow)-4+len(wide)); got != want {
		t.Errorf("the driver was asked %d times, want %d", got, want)
	}
	for _, name := range wide {
		tree{mlx5Port + "counters_ext/" + name: "7\n"}.write(t, root)
	}
	must(t, d.ReadPMA(&h, false, now.Add(15*time.Second)))
	value := func(name string) uint64 { return valueOf(t, h.Ports[0].Counters.PMA, name).Value }
	if value("port_rcv_data_64") != 7 || value("port_unicast_rcv_packets") != 104 {
		t.Errorf("between slow reads traffic is %d, and what is slow %d", value("port_rcv_data_64"), value("port_unicast_rcv_packets"))
	}
	must(t, d.ReadPMA(&h, true, now.Add(time.Minute)))
	if got := value("port_unicast_rcv_packets"); got != 7 {
		t.Errorf("what is slow is %d with the next slow read", got)
	}

	both := mlx5Counting().with(counters("counters_ext", wide...).under(port))
	d, h, _ = both.counting(t, "mlx5_0")
	must(t, d.ReadPMA(&h, true, now))
	if got := names(h.Ports[0].Counters.PMA.Value); !slices.Equal(got, pmaNames) {
		t.Errorf("counters/ has all of them, got %q", got)
	}
}
