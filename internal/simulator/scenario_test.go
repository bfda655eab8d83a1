// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	s, err := Find("port-down")
	if err != nil || s.Name != "port-down" || s.Build() == nil {
		t.Fatalf("%v, %v", s, err)
	}
	for asked, want := range map[string]string{
		"port-donw":    `unknown scenario "port-donw", did you mean "port-down"? (valid: congestion, counter-reset, `,
		"flapping":     `unknown scenario "flapping", did you mean "link-flapping"? (valid: `,
		"Healthy":      `unknown scenario "Healthy", did you mean "healthy"? (valid: `,
		"":             `unknown scenario "" (valid: `,
		"quux-quux-ax": `unknown scenario "quux-quux-ax" (valid: `,
	} {
		if _, err := Find(asked); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Find(%q): %v", asked, err)
		}
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	all := Scenarios()
	if !slices.IsSortedFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	unique(t, "scenario", all, func(s Scenario) string { return s.Name })
	name, what := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, s := range all {
		if !name.MatchString(s.Name) || s.Summary == "" || strings.ContainsAny(s.Summary, "\n.") || s.Truth == "" {
			t.Errorf("%s: name, summary or truth", s.Name)
		}
		if !strings.Contains(s.Config(), "compute_ports: ") {
			t.Errorf("%s: config %q", s.Name, s.Config())
		}
		if s.OverTime && len(s.Expect) == 0 {
			t.Errorf("%s: nothing to find over time", s.Name)
		}
		healthy := s.platform.build()
		for _, f := range s.Expect {
			if !what.MatchString(f.What) || (f.Device != "" && healthy.HCA(f.Device) == nil) || (f.Device == "") != (f.Port == 0) {
				t.Errorf("%s: finding %+v", s.Name, f)
			}
		}
	}
	all[0].Expect, all[0].Name = append(all[0].Expect[:0], Finding{What: "scribble"}), "scribble"
	if fresh := Scenarios()[0]; fresh.Name == "scribble" || (len(fresh.Expect) > 0 && fresh.Expect[0].What == "scribble") {
		t.Error("Scenarios does not return copies")
	}
}

// TestScenariosDifferWhereTheySay holds every scenario against the healthy node of its platform: each path
// that differs must match one of the patterns, and each pattern must match some path.
func TestScenariosDifferWhereTheySay(t *testing.T) {
	const (
		port   = `sys/devices/.*/infiniband/%s/ports/1/`
		netdev = `sys/devices/.*/net/%s/`
		nccl   = `root/etc/nccl\.conf`
		v4     = `proc/(1/)?net/route`
		v6     = `proc/(1/)?net/ipv6_route`
		moving = `(hw_)?counters/(port_(xmit|rcv)_(data|packets)|unicast_(xmit|rcv)_packets|rx_write_requests|[rn]p_.*)`
	)
	down := func(device, name string) []string {
		return []string{
			fmt.Sprintf(port+`(state|phys_state|rate)`, device), fmt.Sprintf(netdev+`(carrier|operstate|speed)`, name),
			fmt.Sprintf(port+moving, device),
		}
	}
	only := func(device, counters string) []string { return []string{fmt.Sprintf(port+counters, device)} }
	differences := map[string][]string{
		"counter-saturated": append(
			only("mlx5_2", `counters/excessive_buffer_overrun_errors`), only("mlx5_7", `counters/(link_downed|port_xmit_wait)`)...),
		"counters-garbage": append(
			only("mlx5_4", `counters/(symbol_error|link_downed|port_rcv_errors|multicast_rcv_packets|port_xmit_discards|VL15_dropped)`),
			only("mlx5_4", `hw_counters/(out_of_buffer|rnr_nak_retry_err|roce_slow_restart_cnps)`)...),
		"counter-reset":   only("mlx5_1", `counters/(port_(xmit|rcv)_(data|packets)|unicast_(xmit|rcv)_packets|port_xmit_wait)`),
		"retransmissions": append(only("mlx5_5", `hw_counters/(out_of_sequence|packet_seq_err|local_ack_timeout_err|roce_adp_retrans|duplicate_request)`), only("mlx5_5", moving)...),
		"congestion":      only("mlx5_[0-7]", `hw_counters/(np_ecn_marked_roce_packets|np_cnp_sent|rp_cnp_handled)`),
		"qp-death":        only("mlx5_3", `hw_counters/(local_ack_timeout_err|req_(transport_retries_exceeded|cqe_error|cqe_flush_error))`),

		"healthy":                nil,
		"healthy-ib":             nil,
		"healthy-bnxt-roce":      nil,
		"healthy-irdma-roce":     nil,
		"healthy-ionic-roce":     nil,
		"healthy-efa":            nil,
		"healthy-mana":           nil,
		"healthy-sriov-vf":       nil,
		"healthy-two-port":       nil,
		"port-down":              down("mlx5_3", "enp94s0np0"),
		"link-flapping":          down("mlx5_4", "enp154s0np0"),
		"device-gone":            {`sys/devices/pci0000:bd/.*/0000:c0:00.0(/.*)?`, `sys/class/infiniband/mlx5_5`, `sys/class/net/enp192s0np0`, `sys/bus/pci/.*/0000:c0:00\.0`, `sys/bus/auxiliary/.*/mlx5_core\.rdma\.5`, v4},
		"no-rdma":                {`sys/class/infiniband(/.*)?`, `sys/devices/.*/infiniband(/.*)?`, `sys/(bus/auxiliary|devices/.*/mlx5_core\.rdma\.\d+)(/.*)?`},
		"rate-degraded":          {fmt.Sprintf(port+`rate`, "mlx5_6"), fmt.Sprintf(netdev+`speed`, "enp206s0np0")},
		"rate-mismatch":          {fmt.Sprintf(port+`rate`, "mlx5_1")},
		"gid-missing":            {fmt.Sprintf(port+`(gids|gid_attrs/types|gid_attrs/ndevs)/[23]`, "mlx5_2"), v4},
		"gid-roce-v1-only":       {fmt.Sprintf(port+`gids/[123]`, "mlx5_7"), fmt.Sprintf(port+`gid_attrs/types/[123]`, "mlx5_7"), fmt.Sprintf(port+`gid_attrs/ndevs/[23]`, "mlx5_7")},
		"gid-index-pinned":       {fmt.Sprintf(port+`gids/[24]`, "mlx5_2"), fmt.Sprintf(port+`gid_attrs/types/[234]`, "mlx5_2"), fmt.Sprintf(port+`gid_attrs/ndevs/[24]`, "mlx5_2"), nccl},
		"ipv6-only":              {fmt.Sprintf(port+`gids/[23]`, `mlx5_(\d|bond_0)`), v4, v6, nccl},
		"ipv6-only-family-unset": {fmt.Sprintf(port+`gids/[23]`, `mlx5_(\d|bond_0)`), v4, v6},
	}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			want, ok := differences[s.Name]
			if !ok {
				t.Fatal("this test does not know how the scenario differs")
			}
			const step = 105 // a flapping link is down, and counters that are cleared each minute were
			base, node := s.platform.build().at(step), s.Build().at(step)
			ch := base.layout().to(node.layout())
			patterns := make([]*regexp.Regexp, len(want))
			for i := range want {
				patterns[i] = regexp.MustCompile("^" + want[i] + "$")
			}
			unused := slices.Clone(patterns)
			for _, name := range slices.Concat(ch.removed, ch.added, ch.changed) {
				match := func(p *regexp.Regexp) bool { return p.MatchString(name) }
				// The counters of an interface stop with its link.
				if !slices.ContainsFunc(patterns, match) && path.Base(path.Dir(name)) != "statistics" {
					t.Errorf("differs at %s", name)
				}
				unused = slices.DeleteFunc(unused, match)
			}
			if len(unused) > 0 {
				t.Errorf("does not differ at %q", unused)
			}
			t.Log(summary(ch))
		})
	}
}

func summary(ch changes) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, "%d removed, %d added, %d changed\n", len(ch.removed), len(ch.added), len(ch.changed))
	for _, part := range []struct {
		sign  string
		names []string
	}{{"-", ch.removed}, {"+", ch.added}, {"~", ch.changed}} {
		for i, name := range part.names {
			if i == 8 {
				fmt.Fprintf(&b, "%s … %d more\n", part.sign, len(part.names)-i)
				break
			}
			fmt.Fprintln(&b, part.sign, name)
		}
	}
	return b.String()
}
