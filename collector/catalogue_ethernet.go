// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"

	"gpufabric_exporter/internal/counters"
)

// The catalogue of Ethernet statistics: a family for each meaning of fabric's tables, which also say under which kernel
// names it is found; and families for what has no meaning of its own.
var (
	ethernetFamilies = newEthernetFamilies()

	ethernetFECInfo = &Family{
		Name: "ethernet_fec_info", Type: Info, Labels: []string{"device", "port", "netdev", "mode"},
		Help:   "Forward error correction that is in force on the link, by mode: none, rs (Reed-Solomon), baser (Fire code), llrs (low latency Reed-Solomon).",
		Source: fecMessage, Cadence: Slow, Stability: Stable, Collector: "ethernet",
	}
	ethernetStatisticTotal = &Family{
		Name: "ethernet_statistic_total", Type: Counter, Labels: []string{"device", "port", "netdev", "statistic"},
		Help: "Statistics of the network interface that --collector.netdev.stats-include asks for and that have no metric of their own, under the name and in the unit of " +
			"the kernel; at most 64 an interface. They are only taken to be counters.",
		Source: statsIoctl, Cadence: Medium, Stability: Experimental, Collector: "ethernet",
	}
	ethernetStatisticsDropped = &Family{
		Name: "ethernet_statistics_dropped", Type: Gauge, Labels: []string{"device", "port", "netdev"},
		Help: "How many statistics of the network interface have no series, because it has at most 60 with a metric of their own, and 64 without; absent when there are none. " +
			"Rows of priorities without PFC are dropped first, those that count traffic before those that count pauses and loss.",
		Source: statsIoctl, Cadence: Medium, Stability: Experimental, Collector: "ethernet",
	}
)

// Where statistics come from.
const (
	statsIoctl   = "ETHTOOL_GSTATS"
	pauseMessage = "ETHTOOL_MSG_PAUSE_GET"
	fecMessage   = "ETHTOOL_MSG_FEC_GET"
)

// ethernetCatalogue returns all of them, in the order of documentation.
func ethernetCatalogue() []*Family {
	var list []*Family
	for _, row := range ethernetRows() {
		list = append(list, ethernetFamilies[row.meaning])
	}
	return append(list, ethernetFECInfo, ethernetStatisticTotal, ethernetStatisticsDropped)
}

func newEthernetFamilies() map[counters.Meaning]*Family {
	families := map[counters.Meaning]*Family{}
	for _, row := range ethernetRows() {
		f := &Family{
			Name: row.name, Type: Counter, Labels: []string{"device", "port", "netdev"},
			Help:   row.help + " Kernel names: " + statNames(row.meaning) + ".",
			Source: statsIoctl, Cadence: Medium, Stability: Stable, Collector: "ethernet",
		}
		if ofCompute(row.meaning) {
			f.Help += " Only of compute ports."
		}
		if row.message != "" {
			f.Source += "; " + row.message
		}
		if row.meaning.PerPriority() {
			f.Labels = append(f.Labels, "priority")
		}
		switch u := row.meaning.Unit(); u {
		case counters.UnitRatio:
			f.Type, f.Unit = Gauge, string(u)
		case counters.UnitBytes, counters.UnitSeconds:
			f.Unit = string(u)
		}
		families[row.meaning] = f
	}
	return families
}

// statNames lists under which names the drivers count it, for those who search by them.
func statNames(m counters.Meaning) string {
	var list []string
	for _, t := range counters.StatTables() {
		var names, older []string
		for name, spec := range t.Rows() {
			switch {
			case spec.Meaning != m:
			case spec.Older:
				older = append(older, name)
			default:
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			list = append(list, t.Name+" "+strings.Join(names, " + "))
		}
		switch {
		case len(names) > 0 && len(older) > 0:
			list[len(list)-1] += " (once " + strings.Join(older, " + ") + ")"
		case len(older) > 0:
			list = append(list, t.Name+" (once "+strings.Join(older, " + ")+")")
		}
	}
	return strings.Join(list, ", ")
}
