// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestCounter(t *testing.T) {
	for _, test := range []struct {
		counter Counter
		steps   int
		want    uint64
	}{
		{Counter{Start: 5, PerStep: 7}, 3, 26},
		{Counter{Start: 5, PerStep: 7, Every: 10}, 9, 5},
		{Counter{Start: 5, PerStep: 7, Every: 10}, 25, 19},
		{Counter{Start: 1<<32 - 2, PerStep: 3, Bits: 32}, 1, 1},
		{Counter{Start: 14, PerStep: 3, Bits: 4, Sticks: true}, 1, 15},
		{Counter{Start: 1<<64 - 1, PerStep: 2}, 1, 1},
	} {
		if got := test.counter.at(test.steps).value(); got != test.want {
			t.Errorf("%+v after %d steps: %d, want %d", test.counter, test.steps, got, test.want)
		}
	}
}

// TestCountersOfDrivers counts the counters of one device of each driver.
func TestCountersOfDrivers(t *testing.T) {
	for device, want := range map[string]struct {
		platform                   string
		pma, port, cm, ofTheDevice int
	}{
		"mlx5_0":       {h100, 21, 31, 44, 0},
		"mlx5_1":       {a100, 21, 27, 44, 0},
		"mlx5_2":       {"sriov-vf", 8, 26, 44, 0},
		"mlx4_0":       {"two-port", 21, 0, 44, 25},
		"bnxt_re0":     {"bnxt-roce", 0, 92, 44, 0},
		"rocep138s0f0": {"irdma-roce", 0, 46, 44, 0},
		"rdmap79s0":    {"efa", 0, 17, 0, 12},
		"ionic_0":      {"ionic-roce", 0, 42, 44, 0},
		"mana_0":       {"mana", 0, 34, 44, 6},
	} {
		h := healthyNode(want.platform).HCA(device)
		p := h.Port(1)
		if len(p.PMA) != want.pma || len(p.HW) != want.port || len(p.CM) != want.cm || len(h.HW) != want.ofTheDevice {
			t.Errorf("%s: %d PMA, %d hardware and %d CM counters, %d of the device", device, len(p.PMA), len(p.HW), len(p.CM), len(h.HW))
		}
		for _, all := range [][]Statistic{p.PMA, p.HW, p.CM, h.HW} {
			unique(t, device+" counter", all, func(s Statistic) string { return s.Name })
		}
	}
	n := healthyNode(h100)
	for name, bits := range map[string]int{
		"excessive_buffer_overrun_errors": 4, "link_downed": 8, "symbol_error": 16, "port_xmit_wait": 32, "port_xmit_data": 0,
		"out_of_sequence": 32, "np_cnp_sent": 0,
	} {
		if s := n.HCA("mlx5_0").Port(1).Statistic(name); s.Bits != bits {
			t.Errorf("%s has %d bits, want %d", name, s.Bits, bits)
		}
	}
}

// TestTrafficIsConsistent compares the counters of bytes, words and packets with each other.
func TestTrafficIsConsistent(t *testing.T) {
	inPackets := map[string]uint64{"packets": 1, "pkts": 1, "UDP": 1, "data": wordsPerPacket, "bytes": bytesPerPacket, "Octets": bytesPerPacket}
	traffic := regexp.MustCompile(`^(?:port|unicast|(?:[tr]x_(?:roce_only_|rdma_ucast_)?)|ip4|[TR]x)_?(?:xmit_|rcv_|In|Out)?(packets|pkts|data|bytes|Octets|UDP)$`)
	eachPlatform(t, func(t *testing.T, n *Node) {
		for _, step := range []int{0, 1000} {
			for _, h := range n.at(step).HCAs {
				packets := map[uint64]bool{} // sent and received
				for _, p := range h.Ports {
					for _, s := range slices.Concat(p.PMA, p.HW) {
						if m := traffic.FindStringSubmatch(s.Name); m != nil {
							packets[s.value()/inPackets[m[1]]] = true
							if s.value()%inPackets[m[1]] != 0 {
								t.Errorf("%s %s = %d", h.Name, s.Name, s.value())
							}
						}
					}
				}
				if idle := packets[0] && len(packets) == 1; !idle && len(packets) != 2 {
					t.Errorf("%s at step %d: packets %v", h.Name, step, packets)
				}
			}
		}
	})
}

// TestHealthyCounters moves healthy nodes: traffic flows through compute ports and no others, and no counter of
// errors moves.
func TestHealthyCounters(t *testing.T) {
	quiet := map[string]string{
		"dgx-a100-ib": "mlx5_4 mlx5_5", "dgx-h100-roce": "mlx5_8 mlx5_9 mlx5_bond_0", "two-port": "mlx4_0",
		"dual-port": "mlx5_1 mlx5_3 mlx5_5 mlx5_7", "mixed-vendors": "rocep138s0f0",
		"half-cabled": "mlx5_1 mlx5_3 mlx5_5 mlx5_7", "single-card": "mlx5_0 mlx5_1",
		"mixed-nics-roce": "mlx5_2", "mixed-nics-ib": "mlx5_2 mlx5_3", "oci-h100": "mlx5_2 mlx5_11",
	}
	trouble := regexp.MustCompile(`err|exceed|retr|drop|discard|dup|out_of|oos|outof|nak|link_downed|fatal|overrun`)
	for _, p := range platforms() {
		n := p.build()
		later := n.at(600)
		for i, h := range n.HCAs {
			moved := 0
			after := statistics(later.HCAs[i])
			for k, s := range statistics(h) {
				if after[k].value() == s.value() {
					continue
				}
				moved++
				if trouble.MatchString(strings.ToLower(s.Name)) && s.Name != "recoverable_errors" {
					t.Errorf("%s: %s of %s moves", p.name, s.Name, h.Name)
				}
			}
			if slices.Contains(strings.Fields(quiet[p.name]), h.Name) != (moved == 0) {
				t.Errorf("%s: %d counters of %s move", p.name, moved, h.Name)
			}
		}
	}
}

// statistics returns all counters of a device and its ports.
func statistics(h HCA) []Statistic {
	all := h.HW
	for _, p := range h.Ports {
		all = slices.Concat(all, p.PMA, p.HW, p.CM)
	}
	return all
}

func TestCountersStopWithTheLink(t *testing.T) {
	n := small()
	n.Flaps = []Flap{{"mlx5_4", 60, 20}}
	n.HCA("mlx5_4").Port(1).ClearEvery = 90
	n.LinkDown("mlx5_0")
	packets := func(device, name string, step int) uint64 {
		return n.at(step).HCA(device).Port(1).Statistic(name).value() / n.HCA(device).Port(1).Statistic(name).PerStep
	}
	for step, want := range map[int]uint64{39: 39, 59: 39, 60: 40, 99: 79} {
		if got := packets("mlx5_4", "rx_write_requests", step) - packets("mlx5_4", "rx_write_requests", 0); got != want {
			t.Errorf("step %d: %d steps of traffic, want %d", step, got, want)
		}
	}
	for step, want := range map[int]uint64{90: 0, 99: 9, 119: 9, 120: 10, 179: 49, 180: 0, 190: 10} {
		if got := packets("mlx5_4", "port_xmit_packets", step); got != want {
			t.Errorf("step %d: %d steps of traffic since the counters were cleared, want %d", step, got, want)
		}
	}
	if packets("mlx5_0", "port_xmit_data", 100) != packets("mlx5_0", "port_xmit_data", 0) {
		t.Error("a port without a link sends")
	}
}

func TestCounterFiles(t *testing.T) {
	s, err := Find("counters-garbage")
	if err != nil {
		t.Fatal(err)
	}
	tree := materialise(t, s.Build())
	port := filepath.Join(tree.Sysfs(), "class/infiniband/mlx5_4/ports/1")
	file := func(name string) string {
		b, err := os.ReadFile(filepath.Join(port, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	for name, want := range map[string]string{
		"counters/symbol_error": "N/A (no PMA)\n", "counters/port_xmit_discards": "", "hw_counters/roce_slow_restart_cnps": "\n",
		"hw_counters/lifespan": "12\n", "hw_counters/out_of_sequence": "0\n", "cm_rx_duplicates/sidr_rep": "0\n",
	} {
		if got := file(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, err := os.ReadFile(filepath.Join(port, "counters/VL15_dropped")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("VL15_dropped: %v", err)
	}
	// Counters move under descriptors that are open, and files that are not numbers stay unchanged.
	open, err := os.Open(filepath.Join(port, "counters/port_xmit_data"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := tree.Step(3); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	count, _ := open.ReadAt(buf, 0)
	if got, now := strings.TrimSpace(string(buf[:count])), strings.TrimSpace(file("counters/port_xmit_data")); got != now {
		t.Errorf("the open file reads %s, a new one %s", got, now)
	}
	if got := file("counters/symbol_error"); got != "N/A (no PMA)\n" {
		t.Errorf("symbol_error %q after a step", got)
	}
}

func TestCounterScenarios(t *testing.T) {
	at := func(scenario, device, counter string, step int) uint64 {
		s, err := Find(scenario)
		if err != nil {
			t.Fatal(err)
		}
		return s.Build().at(step).HCA(device).Port(1).Statistic(counter).value()
	}
	for _, test := range []struct {
		scenario, device, counter string
		steps                     []int
		want                      []uint64
	}{
		{"counter-saturated", "mlx5_2", "excessive_buffer_overrun_errors", []int{0, 100}, []uint64{15, 15}},
		{"counter-saturated", "mlx5_7", "port_xmit_wait", []int{0, 100}, []uint64{1<<32 - 1, 1<<32 - 1}},
		{"qp-death", "mlx5_3", "req_transport_retries_exceeded", []int{0, 29, 30, 61}, []uint64{0, 0, 4, 8}},
		{"retransmissions", "mlx5_5", "out_of_sequence", []int{0, 1, 10}, []uint64{0, 184, 1840}},
		{"retransmissions", "mlx5_6", "out_of_sequence", []int{0, 10}, []uint64{0, 0}},
		{"counter-reset", "mlx5_1", "port_xmit_packets", []int{60, 120}, []uint64{0, 0}},
	} {
		for i, step := range test.steps {
			if got := at(test.scenario, test.device, test.counter, step); got != test.want[i] {
				t.Errorf("%s: %s of %s at step %d is %d, want %d", test.scenario, test.counter, test.device, step, got, test.want[i])
			}
		}
	}
	if before, after := at("counter-reset", "mlx5_1", "out_of_buffer", 59), at("counter-reset", "mlx5_1", "out_of_buffer", 60); before != after {
		t.Error("perfquery -R does not clear hardware counters")
	}
	if sent := at("counter-reset", "mlx5_1", "port_xmit_data", 59); sent <= at("counter-reset", "mlx5_1", "port_xmit_data", 61) {
		t.Errorf("port_xmit_data does not go backwards from %d", sent)
	}
	if at("congestion", "mlx5_0", "np_cnp_sent", 10) < 100_000 {
		t.Error("congestion: no notifications")
	}
}

// TestVirtualFunctions looks at the links between functions, and unplugs a physical one.
func TestVirtualFunctions(t *testing.T) {
	n := healthyNode("sriov-vf")
	f := n.layout()
	const pf = "sys/bus/pci/devices/0000:18:00.0"
	dir := "sys/devices/" + n.Function("0000:18:00.0").Path
	for name, want := range map[string]string{
		dir + "/sriov_numvfs": "2\n", dir + "/virtfn1": "../0000:18:00.2", strings.TrimSuffix(dir, "0") + "1/physfn": "../0000:18:00.0",
	} {
		if got := f[name].text; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, ok := f[pf]; !ok || f["sys/devices/pci0001:00/0001:00:05.0/physfn"].text != "" || f["sys/devices/pci0001:00/0001:00:05.0/numa_node"].text != "-1\n" {
		t.Error("the function of a guest")
	}
	n.Unplug("mlx5_0")
	if err := n.check(); err != nil || n.HCA("mlx5_2") != nil || n.NetDev("enp24s0v1") != nil || n.HCA("mlx5_4") == nil {
		t.Errorf("without the physical function: %v, %v", n.HCAs, err)
	}
}
