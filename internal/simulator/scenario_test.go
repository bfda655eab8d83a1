// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
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
		"port-donw":    `unknown scenario "port-donw"; did you mean port-down?`,
		"flapping":     `unknown scenario "flapping"; did you mean link-flapping?`,
		"Healthy":      `unknown scenario "Healthy"; did you mean healthy?`,
		"pfc_storm":    `unknown scenario "pfc_storm"; did you mean pfc-storm?`,
		"":             `unknown scenario ""`,
		"quux-quux-ax": `unknown scenario "quux-quux-ax"`,
	} {
		if _, err := Find(asked); err == nil || err.Error() != want {
			t.Errorf("Find(%q): %v", asked, err)
		}
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	all := Scenarios()
	for _, s := range scenarios() {
		if !slices.ContainsFunc(platforms(), func(p platform) bool { return p.name == s.Platform }) {
			t.Errorf("scenario %s: there is no platform %q: name one of platforms() in internal/simulator/platform.go", s.Name, s.Platform)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	unique(t, "scenario", all, func(s Scenario) string { return s.Name })
	name, what := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, s := range all {
		if !name.MatchString(s.Name) || s.Summary == "" || strings.ContainsAny(s.Summary, "\n.") || s.Truth == "" {
			t.Errorf("scenario %q: the name is words in lower case with hyphens, Summary one line without a full stop, and Truth says what a user should see and why", s.Name)
		}
		if !strings.Contains(s.Config(), "compute_ports: ") {
			t.Errorf("%s: config %q", s.Name, s.Config())
		}
		if s.OverTime && len(s.Expect)+len(s.GPUs) == 0 {
			t.Errorf("%s: nothing to find over time", s.Name)
		}
		healthy := s.platform.build()
		for _, f := range s.Expect {
			if !what.MatchString(f.What) || (f.Device != "" && healthy.HCA(f.Device) == nil) || (f.Device == "") != (f.Port == 0) {
				t.Errorf("%s: finding %+v", s.Name, f)
			}
		}
	}
	checkGPULabels(t, all, what)
	all[0].Expect, all[0].Name = append(all[0].Expect[:0], Finding{What: "scribble"}), "scribble"
	if fresh := Scenarios()[0]; fresh.Name == "scribble" || (len(fresh.Expect) > 0 && fresh.Expect[0].What == "scribble") {
		t.Error("Scenarios does not return copies")
	}
}

// TestScenariosDifferWhereTheySay compares every scenario with the healthy node of its platform: each path
// that differs must match one of the patterns, and each pattern must match some path.
func TestScenariosDifferWhereTheySay(t *testing.T) {
	const (
		port   = `sys/devices/.*/infiniband/%s/ports/1/`
		netdev = `sys/devices/.*/net/%s/`
		nccl   = `root/etc/nccl\.conf`
		v4     = `proc/(1/)?net/route`
		v6     = `proc/(1/)?net/ipv6_route`
		moving = `(hw_)?counters/(port_(xmit|rcv)_(data|packets)|unicast_(xmit|rcv)_packets|rx_write_requests|[rn]p_.*)`
		marks  = `hw_counters/(np_ecn_marked_roce_packets|np_cnp_sent|rp_cnp_handled)`
		stats  = `ethernet/%s/stats/`
		rdma   = `[rt]x_(vport_rdma_unicast_(packets|bytes)|prio3_(packets|bytes)|(packets|bytes)_phy)`
		cnps   = `[rt]x_prio6_(packets|bytes)`
		// what PFC changes: itself, the buffers and the names of what is counted
		pfc      = `ethernet/%s/(dcb/(pfc|buffers)|stats/[rt]x_prio3_pause.*)`
		pfcFiles = `qos/(prio2buffer|buffer_size)`
		rails    = `en(p24|p64|p79|p94|p154|p192|p206|p220)s0np0`
		carried  = `stats/[rt]x_prio[03]_(packets|bytes)`
	)
	enable := func(name string) []string {
		return []string{fmt.Sprintf(netdev+pfcFiles, name), fmt.Sprintf(pfc, name)}
	}
	ethernet := func(name, what string) string { return fmt.Sprintf(`ethernet/%s/`, name) + what }
	down := func(device, name string) []string {
		return []string{
			fmt.Sprintf(port+`(state|phys_state|rate)`, device), fmt.Sprintf(netdev+`(carrier|operstate|speed)`, name),
			fmt.Sprintf(port+moving, device), ethernet(name, `(carrier|stats/.*|fec)`),
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
		"retransmissions": append(only("mlx5_5", `hw_counters/(out_of_sequence|packet_seq_err|local_ack_timeout_err|roce_adp_retrans|duplicate_request)`), fmt.Sprintf(port+moving, "mlx5_5"), fmt.Sprintf(stats, "enp192s0np0")+rdma),
		"congestion":      append(only("mlx5_[0-7]", marks), fmt.Sprintf(stats, rails)+cnps),
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
		"healthy-128-ports":      nil,
		"port-down-of-128":       down(`mlx5_(9|79|8[0-5])`, `rdma9(v\d)?`),
		"healthy-roce-bond":      nil,
		"healthy-roce-vlan":      nil,
		"vf-qos-unknown":         nil,
		"traffic-class-104":      {nccl},
		"pfc-off":                enable("enp79s0np0"),
		"pfc-other-priority":     append(enable("enp192s0np0"), ethernet("enp192s0np0", `stats/[rt]x_prio4_pause.*`)),
		"trust-pcp":              {fmt.Sprintf(netdev+`qos/tc_num`, "enp94s0np0"), ethernet("enp94s0np0", `dcb/apps`), ethernet("enp94s0np0", carried)},
		"dscp-map-wrong":         {ethernet("enp206s0np0", `dcb/apps`), ethernet("enp206s0np0", `stats/[rt]x_prio[23]_(packets|bytes)`)},
		"nccl-tc-5":              {nccl, ethernet(rails, carried)},
		"ofed-traffic-class":     {`sys/devices/.*/infiniband/mlx5_4/tc/1/traffic_class`, ethernet("enp154s0np0", carried)},
		"ecn-np-off":             {fmt.Sprintf(netdev+`ecn/roce_np/enable/3`, "enp64s0np0"), fmt.Sprintf(port+`hw_counters/np_cnp_sent`, "mlx5_1"), ethernet("enp64s0np0", `stats/tx_prio6_(packets|bytes)`)},
		"global-pause":           append(enable("enp220s0np0"), ethernet("enp220s0np0", `(pause|stats/[rt]x_global_pause.*)`)),
		"bond-member-pfc-off":    enable("ens13f1np1"),
		"vlan-sl-wrong":          {nccl, ethernet(`ens[56]np0`, `stats/[rt]x_prio[23]_(packets|bytes)`)},
		"marked-no-cnp":          append(only("mlx5_[01]", marks), ethernet(`enp65s0f[01]np[01]`, `stats/`+cnps)),
		"wrong-priority":         {ethernet(rails, carried)},
		"pfc-storm":              append(only("mlx5_7", moving), ethernet("enp220s0np0", `stats/(`+rdma+`|tx_prio3_pause(_duration)?|tx_pause_storm_warning_events|outbound_pci_stalled_wr|rx_buffer_passed_thres_phy)`)),
		"paused-by-network":      append(only("mlx5_0", moving), ethernet("enp24s0np0", `stats/(`+rdma+`|rx_prio3_pause.*)`)),
		"lossless-drops":         append(only("mlx5_2", `hw_counters/out_of_sequence`), fmt.Sprintf(netdev+`qos/buffer_size`, "enp79s0np0"), ethernet("enp79s0np0", `(dcb/buffers|stats/(rx_prio3_(buf_)?discards?|rx_discards_phy|tx_prio3_pause(_duration)?))`)),
		"lossy-design":           append(append(enable(rails), only("mlx5_[0-7]", marks)...), ethernet(rails, `stats/`+cnps)),
		"lossy-unstated":         enable(rails),
		"pcie-errors":            {`sys/devices/.*/aer_dev_(correctable|nonfatal)`},
		"statistics-refused":     {ethernet("enp79s0np0", `refuses`)},
		"brief-pauses":           {ethernet(rails, `stats/[rt]x_prio3_pause.*`)},
		"port-down":              down("mlx5_3", "enp94s0np0"),
		"link-flapping":          down("mlx5_4", "enp154s0np0"),
		"pcie-nic-x8":            {`sys/devices/.*/0000:4[ef]:00\.0/current_link_width`},
		"pcie-nic-gen3":          {`sys/devices/.*/0000:(bf|c0):00\.0/current_link_speed`},
		"pcie-acs-on":            {`sys/devices/.*/config`},
		"pcie-numa-wrong":        {`sys/devices/.*/0000:9a:00\.0/numa_node`},
		"pcie-nic-shared":        {`nvml/(3/.*|pairs/.*)`, `sys/devices/.*/0000:61:00\.0(/.*)?`, `sys/devices/.*/0000:4e:04\.0(/.*)?`, `sys/bus/pci/.*/0000:(61|53|4e):0[04]\.0`, `sys/kernel/iommu_groups/\d+(/.*)?`},
		"pcie-gpus-idle":         {`nvml/\d/(Processes|Utilization|Memory|BAR1|ClockReasons|PCIeGeneration)`, `sys/devices/.*/current_link_speed`},
		"device-gone":            {`sys/devices/pci0000:bd/.*/0000:c0:00.0(/.*)?`, `sys/class/infiniband/mlx5_5`, `sys/class/infiniband_verbs/uverbs5`, `sys/class/net/enp192s0np0`, `sys/bus/pci/.*/0000:c0:00\.0`, `sys/bus/auxiliary/.*/mlx5_core\.rdma\.5`, `sys/kernel/iommu_groups/\d+(/.*)?`, v4, `ethernet/enp192s0np0(/.*)?`},
		"no-rdma":                {`sys/class/infiniband(_verbs)?(/.*)?`, `sys/devices/.*/infiniband(_verbs)?(/.*)?`, `sys/(bus/auxiliary|devices/.*/mlx5_core\.rdma\.\d+)(/.*)?`},
		"rate-degraded":          {fmt.Sprintf(port+`rate`, "mlx5_6"), fmt.Sprintf(netdev+`speed`, "enp206s0np0")},
		"rate-mismatch":          {fmt.Sprintf(port+`rate`, "mlx5_1")},
		"gid-missing":            append(only("mlx5_2", moving), fmt.Sprintf(port+`(gids|gid_attrs/types|gid_attrs/ndevs)/[23]`, "mlx5_2"), v4, ethernet("enp79s0np0", `stats/`+rdma)),
		"gid-roce-v1-only":       {fmt.Sprintf(port+`gids/[123]`, "mlx5_7"), fmt.Sprintf(port+`gid_attrs/types/[123]`, "mlx5_7"), fmt.Sprintf(port+`gid_attrs/ndevs/[23]`, "mlx5_7")},
		"gid-index-pinned":       {fmt.Sprintf(port+`gids/[24]`, "mlx5_2"), fmt.Sprintf(port+`gid_attrs/types/[234]`, "mlx5_2"), fmt.Sprintf(port+`gid_attrs/ndevs/[24]`, "mlx5_2"), nccl},
		"ipv6-only":              {fmt.Sprintf(port+`gids/[23]`, `mlx5_(\d|bond_0)`), v4, v6, nccl},
		"ipv6-only-family-unset": {fmt.Sprintf(port+`gids/[23]`, `mlx5_(\d|bond_0)`), v4, v6},
	}
	maps.Copy(differences, map[string][]string{
		"healthy-uncabled-ports": nil, "healthy-mixed-vendors": nil, "healthy-half-cabled": nil, "healthy-single-card": nil,
		"healthy-mixed-nics-roce": nil, "healthy-mixed-nics-ib": nil, "healthy-oci-h100": nil,
		"compute-ports-surplus": {
			`sys/devices/.*/infiniband/mlx5_[29](/.*)?`, `sys/class/infiniband/mlx5_[29]`, `sys/devices/.*/uverbs2/ibdev`, `sys/devices/.*/net/ens33np0/speed`,
			`sys/devices/.*/0000:1c:00\.0/(config|device|current_link_speed|max_link_speed)`, `sys/devices/.*/0000:17:08\.0/current_link_speed`, nccl,
		},
		"probe-tcp-fallback": nil, "probe-gdr-lost": nil, "probe-slow": nil, "probe-wrong-result": nil, "probe-failing": nil, // only NCCL differs
		"adaptive-routing": append(only("mlx5_[0-7]", `hw_counters/out_of_sequence`), nccl),
		"fresh-boot": {
			`sys/devices/.*/(counters|hw_counters|cm_[rt]x_\w+)/.*`, `sys/devices/.*/statistics/.*`, `ethernet/.*/(stats/.*|fec)`,
			`nvml/\d/(Processes|Utilization|Memory|BAR1|ClockReasons|PCIeGeneration)`, `sys/devices/.*/current_link_speed`,
		},
		"mig-meant":             {`nvml/\d/(MIG|Processes|Utilization|Memory|BAR1)`, `nvml/pairs/\d-\d`},
		"firmware-mismatch":     {`sys/devices/.*/infiniband/mlx5_3/fw_ver`},
		"mtu-mismatch":          {fmt.Sprintf(netdev+`mtu`, "enp192s0np0")},
		"ib-not-configured":     append(only("mlx5_6", `(state|lid|sm_lid)`), fmt.Sprintf(netdev+`(carrier|operstate|speed)`, "ibp141s0"), ethernet("ibp141s0", `carrier`), fmt.Sprintf(port, "mlx5_6")+`(counters/port_xmit_wait|`+moving+`)`),
		"storage-port-down":     {fmt.Sprintf(port+`(state|phys_state|rate)`, "mlx5_9"), fmt.Sprintf(netdev+`(carrier|operstate|speed)`, "enp231s0f1np1"), ethernet("enp231s0f1np1", `(carrier|stats/.*|fec)`)},
		"ib-rate-degraded":      append(only("mlx5_8", `rate`), fmt.Sprintf(netdev+`speed`, "ibp186s0")),
		"nccl-variable-unknown": {nccl},
		"nccl-rdma-off":         {nccl},
		"nccl-rdma-off-efa":     {nccl},
		"nccl-timeout-99":       {nccl},
		"nccl-algo-unknown":     {nccl},
		"nccl-deprecated":       {nccl},
		"nccl-hca-prefix":       {nccl},
		"nccl-hca-short":        {nccl},
		"post-fec-errors":       {ethernet("enp24s0np0", `(fec|stats/rx_(pcs_symbol_err|crc_errors)_phy)`)},
		"buffer-shared":         {fmt.Sprintf(netdev+pfcFiles, "enp206s0np0"), ethernet("enp206s0np0", `dcb/buffers`)},
		"ets-starved":           {ethernet("enp64s0np0", `dcb/ets`)},
		"cnp-with-data":         {fmt.Sprintf(netdev+`ecn/roce_np/cnp_(dscp|802p_prio)`, "enp154s0np0"), ethernet("enp154s0np0", `stats/tx_prio[36]_(packets|bytes)`)},
		"bnxt-pfc-off":          {ethernet("ens4np0", `dcb/pfc`)},

		"memlock-low":              {`proc/2964/limits`},
		"memlock-of-containers":    {`proc/(\d+)(/.*)?`},
		"socket-interface-missing": {nccl},
		"socket-interface-down":    {nccl, `sys/.*/eno2(/.*)?`, `ethernet/eno2(/.*)?`},
		"socket-interface-list":    {nccl},

		"moved-to-pod":             moved(`mlx5_[0-7]`, `enp\d+s0np0`),
		"moved-to-pod-ib":          moved(`mlx5_[0-3]`, `ibp\d+s0`),
		"interfaces-in-pod":        append(moved(``, `enp\d+s0np0`)[2:], fmt.Sprintf(port+`gid_attrs/ndevs/\d`, `mlx5_[0-7]`)),
		"device-gone-beside-moved": append(moved(`mlx5_[0-7]`, `enp\d+s0np0`), `sys/devices/pci0000:bd/.*/0000:c0:00.0(/.*)?`, `sys/class/infiniband_verbs/uverbs5`, `sys/bus/pci/.*/0000:c0:00\.0`, `sys/bus/auxiliary/.*/mlx5_core\.rdma\.5`, `sys/kernel/iommu_groups/\d+(/.*)?`),
	})
	stopped, silent := []string{`sys/devices/.*/(counters|hw_counters)/.*`}, `ethernet/.*/stats/.*`
	stoppedRoCE := append([]string{silent}, stopped...)
	kernel := []string{`root/dev(/kmsg)?`}
	logs := append([]string{`root/var(/log(/jobs(/.*)?)?)?`}, kernel...)
	inspector := append([]string{`root/run(/nccl_inspector(/.*)?)?`}, kernel...)
	maps.Copy(differences, map[string][]string{ // only processes differ, and what they carry
		"job-slurm": nil, "job-pyxis": nil, "job-kubernetes": nil, "job-efa": nil, "job-gib": nil, "job-hidden": nil, "job-data-loading": nil,
		"job-checkpoint": nil, "job-two": nil, "job-ending": nil, "job-mixed": nil, "job-misaligned": nil,
		"job-kubernetes-moved": moved(`mlx5_[0-7]`, `enp\d+s0np0`), "job-moved-log": moved(`mlx5_[0-7]`, `enp\d+s0np0`),
		"job-log-healthy": logs, "job-log-retries": logs, "job-offload-off": logs, "kernel-mlx5-health": kernel,
		"job-inspector": inspector, "job-bandwidth-falls": inspector,
		"job-log-lies": stoppedRoCE, "job-slingshot": stoppedRoCE, "job-tcp-unprivileged": stoppedRoCE,
		"job-tcpx": stoppedRoCE, "job-fastrak": stoppedRoCE, "job-tcp": stoppedRoCE, "job-tcp-no-devices": stoppedRoCE, "job-efa-fallback": stopped,
		"job-tcp-hidden": stoppedRoCE, "job-checkpoint-local": stoppedRoCE, "job-gloo": stoppedRoCE, "job-one-node": stoppedRoCE, "job-mpi-holds-verbs": stoppedRoCE,
		"job-hang": stoppedRoCE, "job-rank-dead": stoppedRoCE, "job-straggler": {`nvml/3/Utilization`},
		"job-starting": append([]string{`nvml/\d/Utilization`}, stoppedRoCE...),
	})
	maps.Copy(differences, differencesOfGPUs())
	for name := range differences {
		if !slices.ContainsFunc(Scenarios(), func(s Scenario) bool { return s.Name == name }) {
			t.Errorf("differences in internal/simulator/scenario_test.go has %q, which is no scenario: add it to internal/simulator/scenarios*.go", name)
		}
	}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			want, ok := differences[s.Name]
			const step = 105 // a flapping link is down, and counters that are cleared each minute were
			base, node := s.platform.build().at(step), built(t, s).at(step)
			ch := layoutAndAnswers(base).to(layoutAndAnswers(node))
			if !ok {
				t.Fatalf("add %q to differences in internal/simulator/scenario_test.go, with patterns of the files that differ:\n%s", s.Name, summary(ch))
			}
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

// built is the node of a scenario.
func built(t *testing.T, s Scenario) (n *Node) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("scenario %s: its edit ends with %v: has platform %s what it changes?", s.Name, p, s.Platform)
		}
	}()
	return s.Build()
}

// moved is where a node differs that gave devices with their interfaces to a pod.
func moved(devices, interfaces string) []string {
	return []string{
		`sys/class/infiniband/` + devices, `sys/devices/.*/infiniband/` + devices + `(/.*)?`,
		`sys/class/net/` + interfaces, `sys/devices/.*/net/` + interfaces + `(/.*)?`, `ethernet/` + interfaces + `(/.*)?`, `proc/(1/)?net/route`,
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
