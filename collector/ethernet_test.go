// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

// roce is a node whose device dev0 has an Ethernet port with these interfaces; the first is the port's.
func roce(interfaces ...fabric.NetDev) *fabric.Node {
	h := device("dev0")
	h.Ports[0].LinkLayer, h.Ports[0].NetDev = known(fabric.LinkEthernet), known(interfaces[0].Name)
	n := nodeOf(h)
	n.NetDevs = interfaces
	return n
}

// nic is an interface with statistics: names and values, as of counters.
func nic(driver string, values ...any) fabric.NetDev {
	d := fabric.NetDev{Name: "eth0", Driver: known(driver)}
	d.QoS.Counters = counted(values...)
	return d
}

func pfcOn(d fabric.NetDev, priorities ...int) fabric.NetDev {
	var mask fabric.PriorityMask
	for _, p := range priorities {
		mask |= 1 << p
	}
	d.QoS.PFC = known(fabric.PFC{Enabled: mask})
	return d
}

// ethernetSeries returns what the collector emits.
func ethernetSeries(t *testing.T, n *fabric.Node) []string {
	t.Helper()
	s, err := NewSet([]string{"ethernet"})
	if err != nil {
		t.Fatal(err)
	}
	families := s.Gather(n, ConfigState{})
	checkCatalogue(t, families, map[string]bool{})
	scrape(t, n) // for its lint
	var lines []string
	for line := range strings.Lines(text(t, families)) {
		if line, ok := strings.CutPrefix(line, Prefix); ok && (strings.HasPrefix(line, "ethernet_") || strings.HasPrefix(line, "roce_")) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func checkEthernet(t *testing.T, n *fabric.Node, want ...string) {
	t.Helper()
	got := ethernetSeries(t, n)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

const ofEth0 = `{device="dev0",netdev="eth0",port="1"} `

func ofPriority(p int) string {
	return fmt.Sprintf(`{device="dev0",netdev="eth0",port="1",priority="%d"} `, p)
}

func TestEveryStatisticHasItsFamily(t *testing.T) {
	names := map[string]bool{}
	for _, f := range append(countersFamilies(), cmFamilies()...) {
		names[f.Name] = true
	}
	rows := map[counters.Meaning]bool{}
	priorities := false
	for _, row := range ethernetRows() {
		if names[row.name] || rows[row.meaning] {
			t.Errorf("%s is there twice", row.name)
		}
		names[row.name], rows[row.meaning] = true, true
		per := row.meaning.PerPriority()
		if per != strings.HasPrefix(row.name, "roce_") {
			t.Errorf("%s: what is per priority begins with roce_", row.name)
		}
		if priorities && !per {
			t.Errorf("%s comes after rows of priorities", row.name)
		}
		priorities = priorities || per
		for _, tx := range []string{"_transmitted", "_received"} {
			if strings.Contains("_"+string(row.meaning), tx) != strings.Contains(row.name, tx) {
				t.Errorf("%s is in another direction than %s", row.name, row.meaning)
			}
		}
	}
	for _, table := range counters.StatTables() {
		for name, spec := range table.Rows() {
			f := statFamilies[spec.Meaning]
			switch {
			case f == nil:
				t.Errorf("statistics have the meaning %q, which has no metric: add its row to ethernetRows() in collector/ethernet_families.go", spec.Meaning)
			case !strings.Contains(f.Help, name):
				t.Errorf("%s: no %s of %s in %q", f.Name, name, table.Name, f.Help)
			case (f.Type == Gauge) != spec.Gauge:
				t.Errorf("%s %s: a %s", table.Name, name, f.Type)
			}
		}
	}
}

// Every driver's list of names through the collector: what of it has which metric. PFC is on for priority 3 and counts
// are 1, 2, 3, ... there; the other priorities count nothing.
func TestDriverStatistics(t *testing.T) {
	for _, table := range counters.StatTables() {
		driver := table.Drivers[0]
		file, err := os.ReadFile(filepath.Join("../internal/counters/testdata/ethernet", driver))
		if err != nil {
			t.Fatal(err)
		}
		var values []any
		for i, name := range strings.Split(strings.TrimSpace(string(file)), "\n") {
			spec, ok := counters.StatSpecOf(driver, name)
			switch {
			case !ok: // the reader does not give it away
			case spec.Priority != counters.NoPriority && spec.Priority != 3:
				values = append(values, name, 0)
			default:
				values = append(values, name, i+1)
			}
		}
		d := pfcOn(nic(driver, values...), 3)
		d.QoS.ETS = known(fabric.ETS{PriorityClass: [fabric.NumPriorities]int{3: 1}})
		lines := ethernetSeries(t, roce(d))
		for _, line := range lines {
			if strings.Contains(line, "statistic=") {
				t.Errorf("%s: %s", driver, line)
			}
		}
		if len(values) == 0 {
			continue // nothing is mapped
		}
		golden(t, filepath.Join("testdata/ethernet", driver+".metrics"), []byte(strings.Join(lines, "\n")+"\n"))
	}
}

func TestStatisticsDifferByDriver(t *testing.T) {
	list := []any{"rx_pause", 1, "rx_pause_frames", 2}
	other := func(names ...string) []string {
		var lines []string
		for i := 0; i < len(names); i += 2 {
			lines = append(lines, `ethernet_statistic_total{device="dev0",netdev="eth0",port="1",statistic="`+names[i]+`"} `+names[i+1])
		}
		return lines
	}
	checkEthernet(t, roce(nic("mlx4_core", list...)), append(other("rx_pause_frames", "2"), "ethernet_received_pause_frames_total"+ofEth0+"1")...)
	checkEthernet(t, roce(nic("bnxt_en", list...)), append(other("rx_pause", "1"), "ethernet_received_pause_frames_total"+ofEth0+"2")...)
	checkEthernet(t, roce(nic("nosuch", list...)), other("rx_pause", "1", "rx_pause_frames", "2")...)
	unknown := nic("", list...)
	unknown.Driver = fabric.UnknownFact[string](fabric.ReasonIO, "test", now)
	checkEthernet(t, roce(unknown), other("rx_pause", "1", "rx_pause_frames", "2")...)
}

func TestLosslessAndLossy(t *testing.T) {
	list := []any{
		"rx_prio0_bytes", 100, "rx_prio0_discards", 0, "rx_prio0_marked", 0, "rx_prio1_discards", 0, "rx_prio1_bytes", 0,
		"rx_prio3_bytes", 0, "rx_prio3_discards", 0, "rx_prio3_pause_duration", 2_000_000, "tx_prio3_pause_duration", 0,
	}
	// Lossless: whatever is 0 on the priority with PFC is there, of the others only what is not, and discards.
	checkEthernet(t, roce(pfcOn(nic("mlx5_core", list...), 3)),
		"roce_priority_received_bytes_total"+ofPriority(0)+"100", "roce_received_discards_total"+ofPriority(0)+"0",
		"roce_priority_received_bytes_total"+ofPriority(3)+"0", "roce_received_discards_total"+ofPriority(3)+"0",
		"roce_received_pause_seconds_total"+ofPriority(3)+"2", "roce_transmitted_pause_seconds_total"+ofPriority(3)+"0")
	// Lossy, or not known: only what counts.
	lossy := []string{
		"roce_priority_received_bytes_total" + ofPriority(0) + "100", "roce_received_discards_total" + ofPriority(0) + "0",
		"roce_received_discards_total" + ofPriority(3) + "0", "roce_received_pause_seconds_total" + ofPriority(3) + "2",
	}
	checkEthernet(t, roce(pfcOn(nic("mlx5_core", list...))), lossy...)
	checkEthernet(t, roce(nic("mlx5_core", list...)), lossy...)
	// PFC is on and the driver counts nothing of it.
	checkEthernet(t, roce(pfcOn(nic("ena", "wd_expired", nil), 3)))
}

func TestUnknownStatistics(t *testing.T) {
	unread := nic("mlx5_core")
	unread.QoS.Counters = fabric.UnknownFact[[]fabric.Counter](fabric.ReasonRTNLStuck, "test", now)
	checkEthernet(t, roce(unread))
	checkEthernet(t, roce(pfcOn(nic("mlx5_core", "rx_prio3_pause", nil, "rx_discards_phy", nil, "nosuch", nil, "tx_discards_phy", 4), 3)),
		"ethernet_transmitted_discards_total"+ofEth0+"4")
	all := nic("mlx5_core")
	all.QoS.Counters = known([]fabric.Counter{{Name: "rx_discards_phy", Value: known(uint64(math.MaxUint64))}})
	checkEthernet(t, roce(all))
}

func TestStatisticsThatAddUp(t *testing.T) {
	ice := func(values ...any) *fabric.Node { return roce(nic("ice", values...)) }
	checkEthernet(t, ice("link_xon_rx.nic", 1, "link_xoff_rx.nic", 20), "ethernet_received_pause_frames_total"+ofEth0+"21")
	checkEthernet(t, ice("rx_priority_3_xon.nic", 1, "rx_priority_3_xoff.nic", 20), "roce_received_pause_frames_total"+ofPriority(3)+"21")
	checkEthernet(t, ice("link_xon_rx.nic", 1, "link_xoff_rx.nic", nil)) // half of it would be a lie
	checkEthernet(t, ice("link_xon_rx.nic", 1), `ethernet_statistic_total{device="dev0",netdev="eth0",port="1",statistic="link_xon_rx.nic"} 1`)
	checkEthernet(t, ice("link_xon_rx.nic", 1, "link_xoff_rx.nic", 20, "link_xon_rx.nic", 300), "ethernet_received_pause_frames_total"+ofEth0+"21")
	var cos []any
	for i := range 8 {
		cos = append(cos, fmt.Sprintf("rx_discard_packets_cos%d", i), 10)
	}
	checkEthernet(t, roce(nic("bnxt_en", cos...)), "ethernet_received_discards_total"+ofEth0+"80")
}

// Priorities of one class have one queue of bnxt: its traffic is attributed to none of those that share it.
func TestTrafficOfClasses(t *testing.T) {
	d := pfcOn(nic("bnxt_en", "tx_bytes_pri0", 7, "tx_bytes_pri1", 7, "tx_bytes_pri3", 900, "rx_packets_pri3", 5, "rx_packets_pri4", 7), 3)
	checkEthernet(t, roce(d)) // classes are not known
	d.QoS.ETS = known(fabric.ETS{PriorityClass: [fabric.NumPriorities]int{3: 1}})
	checkEthernet(t, roce(d), "roce_priority_transmitted_bytes_total"+ofPriority(3)+"900", "roce_priority_received_packets_total"+ofPriority(3)+"5")
}

func TestStatisticUnits(t *testing.T) {
	checkEthernet(t, roce(nic("mlx5_core", "outbound_pci_stalled_wr", 25, "outbound_pci_stalled_rd_events", 7, "rx_global_pause_duration", 3_000_000)),
		"ethernet_pcie_write_stalled_ratio"+ofEth0+"0.25", "ethernet_pcie_read_stalled_seconds_total"+ofEth0+"7", "ethernet_received_pause_seconds_total"+ofEth0+"3")
}

func TestBondsAndVLANs(t *testing.T) {
	part := func(name string, n int) fabric.NetDev {
		d := nic("mlx5_core", "rx_discards_phy", n)
		d.Name, d.Lower = name, fabric.AbsentFact[[]string]("test", now)
		return d
	}
	over := func(name string, lower ...string) fabric.NetDev {
		d := fabric.NetDev{Name: name, Driver: fabric.AbsentFact[string]("test", now), Lower: known(lower)}
		d.QoS.Counters = counted("rx_discards_phy", 99)
		return d
	}
	want := []string{
		`ethernet_received_discards_total{device="dev0",netdev="eth0",port="1"} 1`,
		`ethernet_received_discards_total{device="dev0",netdev="eth1",port="1"} 2`,
	}
	eth0, eth1, bond := part("eth0", 1), part("eth1", 2), over("bond0", "eth0", "eth1")
	checkEthernet(t, roce(bond, eth0, eth1), want...)
	checkEthernet(t, roce(over("bond0.7", "bond0"), bond, eth0, eth1), want...)
	checkEthernet(t, roce(over("eth1.7", "eth1"), eth1), want[1])
	checkEthernet(t, roce(over("ring", "ring2"), over("ring2", "ring", "eth0"), eth0), want[0])
	checkEthernet(t, roce(over("bond0", "gone")))
}

func TestOnlyEthernetPorts(t *testing.T) {
	for _, change := range []func(p *fabric.Port){
		func(p *fabric.Port) { p.LinkLayer = known(fabric.LinkInfiniBand) },
		func(p *fabric.Port) { p.LinkLayer = known(fabric.LinkUnspecified) },
		func(p *fabric.Port) { p.LinkLayer = fabric.UnknownFact[fabric.LinkLayer](fabric.ReasonIO, "test", now) },
		func(p *fabric.Port) { p.NetDev = fabric.AbsentFact[string]("test", now) },
		func(p *fabric.Port) { p.NetDev = known("") },
	} {
		n := roce(nic("mlx5_core", "rx_discards_phy", 1))
		if ok, why := hasEthernetPort(n); !ok || why != "" {
			t.Errorf("a RoCE port is not supported: %s", why)
		}
		change(&n.HCAs[0].Ports[0])
		checkEthernet(t, n)
		if ok, why := hasEthernetPort(n); ok || !strings.Contains(why, "Ethernet") {
			t.Errorf("%+v is supported: %s", n.HCAs[0].Ports[0], why)
		}
	}
	if ok, _ := hasEthernetPort(nodeOf()); ok {
		t.Error("a node without RDMA is supported")
	}
}

// What ethtool says beside the statistics counts where the driver has no statistic of it.
func TestFECAndPause(t *testing.T) {
	d := nic("mlx5_core", "rx_corrected_bits_phy", 5)
	none := fabric.UnknownFact[uint64](fabric.ReasonMissing, "test", now)
	d.QoS.FEC = known(fabric.FEC{Active: "rs", CorrectedBlocks: known(uint64(7)), UncorrectableBlocks: none, CorrectedBits: known(uint64(4))})
	d.QoS.Pause = known(fabric.Pause{Receive: true, Received: known(uint64(8)), Transmitted: none})
	info := `ethernet_fec_info{device="dev0",mode="rs",netdev="eth0",port="1"} 1`
	checkEthernet(t, roce(d), info, "ethernet_fec_bit_corrections_total"+ofEth0+"5", "ethernet_fec_corrected_blocks_total"+ofEth0+"7")
	// The statistics cannot be read for once: an older number of another message would look like a reset.
	d.QoS.Counters = fabric.UnknownFact[[]fabric.Counter](fabric.ReasonRTNLStuck, "test", now)
	checkEthernet(t, roce(d), info, "ethernet_fec_corrected_blocks_total"+ofEth0+"7")
	d.Driver = fabric.UnknownFact[string](fabric.ReasonIO, "test", now)
	checkEthernet(t, roce(d), info)
	d.Driver = known("nosuch")
	d.QoS.FEC = known(fabric.FEC{CorrectedBlocks: none, UncorrectableBlocks: known(uint64(0)), CorrectedBits: known(uint64(4))})
	checkEthernet(t, roce(d), "ethernet_fec_uncorrectable_blocks_total"+ofEth0+"0", "ethernet_fec_bit_corrections_total"+ofEth0+"4",
		"ethernet_received_pause_frames_total"+ofEth0+"8")
}

// worst is an interface of which every statistic of the table counts.
func worst(table counters.StatTable) fabric.NetDev {
	var values []any
	for name := range table.Stats() {
		values = append(values, name, len(values)/2+1)
	}
	d := nic(table.Drivers[0], values...)
	d.QoS.ETS = known(fabric.ETS{PriorityClass: [fabric.NumPriorities]int{0, 1, 2, 3, 4, 5, 6, 7}})
	n := known(uint64(1))
	d.QoS.FEC = known(fabric.FEC{Active: "rs", CorrectedBlocks: n, UncorrectableBlocks: n, CorrectedBits: n})
	d.QoS.Pause = known(fabric.Pause{Received: n, Transmitted: n})
	return d
}

func TestEthernetBudget(t *testing.T) {
	const budget = 60
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, table := range counters.StatTables() {
		lines := ethernetSeries(t, roce(pfcOn(worst(table), all...)))
		t.Logf("%s: %d series", table.Name, len(lines))
		if len(lines) > budget {
			t.Errorf("%s: %d series, the budget is %d", table.Name, len(lines), budget)
		}
		again := ethernetSeries(t, roce(pfcOn(worst(table), all...)))
		if !slices.Equal(lines, again) {
			t.Errorf("%s: another choice the second time", table.Name)
		}
	}
	// What stays of the worst case of mlx5: all of the port, and of every priority what matters most.
	table := counters.StatTables()[0]
	out := strings.Join(ethernetSeries(t, roce(pfcOn(worst(table), all...))), "\n")
	for _, row := range ethernetRows() {
		want := 1
		if row.meaning.PerPriority() {
			want = 8
		}
		if row.message == "" && !counters.StatMeans("mlx5_core", row.meaning) {
			want = 0
		}
		if row.meaning == counters.StatReceivedPauseFrames {
			break
		}
		if got := strings.Count(out, row.name+"{"); got != want {
			t.Errorf("%d series of %s, want %d", got, row.name, want)
		}
	}
	if !strings.Contains(out, "ethernet_statistics_dropped"+ofEth0) {
		t.Errorf("no metric shows what is missing:\n%s", out)
	}
	// Where one priority has PFC, it goes first.
	out = strings.Join(ethernetSeries(t, roce(pfcOn(worst(table), 5))), "\n")
	if got := strings.Count(out, `priority="5"`); got != 13 {
		t.Errorf("the lossless priority has %d series:\n%s", got, out)
	}
}

// An interface that carries no training traffic has the statistics of its health, and no more.
func TestInterfacesOfOtherRoles(t *testing.T) {
	table := counters.StatTables()[0]
	n := roce(pfcOn(worst(table), 3))
	all := ethernetSeries(t, n)
	n.HCAs[0].Ports[0].Role = known(fabric.RoleCompute)
	if got := ethernetSeries(t, n); !slices.Equal(got, all) {
		t.Errorf("a compute port has %d series, one whose role is not known %d", len(got), len(all))
	}
	n.HCAs[0].Ports[0].Role = known(fabric.RoleStorage)
	has := map[string]bool{}
	for _, line := range ethernetSeries(t, n) {
		name, _, _ := strings.Cut(line, "{")
		has[name] = true
	}
	for _, row := range ethernetRows() {
		one := strings.Contains(strings.Join(all, "\n"), row.name+"{")
		if one && has[row.name] == ofCompute(row.meaning) {
			t.Errorf("%s of a storage port: %t", row.name, has[row.name])
		}
	}
}

// A lossless port as they are: RoCE on 3, CNPs on 6, TCP on 0, nothing dropped.
func TestUsualPortFits(t *testing.T) {
	table := counters.StatTables()[0]
	var values []any
	for name, spec := range table.Stats() {
		pause := strings.Contains(name, "pause")
		switch {
		case pause && spec.Priority != 3 && spec.Priority != counters.NoPriority, strings.Contains(name, "global"):
			continue // the driver shows them with PFC on only, and without it only
		case pause, slices.Contains([]int{0, 3, 6}, spec.Priority) && (strings.Contains(name, "bytes") || strings.Contains(name, "packets")):
			values = append(values, name, 1000)
		default:
			values = append(values, name, 0)
		}
	}
	d := worst(table)
	d.QoS.Counters = counted(values...)
	lines := ethernetSeries(t, roce(pfcOn(d, 3)))
	t.Logf("%d series", len(lines))
	if slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, "ethernet_statistics_dropped") }) {
		t.Errorf("rows are missing from %d", len(lines))
	}
}

func TestStatisticsThatUsersAskFor(t *testing.T) {
	var values []any
	for i := range maxRaw + 5 {
		values = append(values, fmt.Sprintf("rx%d_packets", i), i)
	}
	lines := ethernetSeries(t, roce(nic("mlx5_core", append(values, "rx_discards_phy", 1)...)))
	if len(lines) != maxRaw+2 || !slices.Contains(lines, "ethernet_statistics_dropped"+ofEth0+"5") || !slices.Contains(lines, "ethernet_received_discards_total"+ofEth0+"1") {
		t.Errorf("%d series: %v", len(lines), lines)
	}
	long := strings.Repeat("x", 1000)
	checkEthernet(t, roce(nic("mlx5_core", `a"b`, 1, "bad\xff", 2, "bad\xfe", 3, long, 4, long+"2", 5)),
		`ethernet_statistic_total{device="dev0",netdev="eth0",port="1",statistic="a\"b"} 1`,
		"ethernet_statistic_total{device=\"dev0\",netdev=\"eth0\",port=\"1\",statistic=\"bad?\"} 2",
		`ethernet_statistic_total{device="dev0",netdev="eth0",port="1",statistic="`+long[:maxRawName]+`"} 4`)
}
