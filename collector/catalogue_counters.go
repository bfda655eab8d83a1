// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// The catalogue of counters: a family for each meaning of fabric's counter tables, which also say under which
// kernel names it is found; and families for what has no meaning of its own.
var (
	countFamilies = newCountFamilies()

	hwCountersTotal = &Family{
		Name: "hca_hw_counters_total", Type: Counter, Labels: []string{"device", "port", "counter"},
		Help: "Hardware counters that have no metric of their own, under the name and in the unit of the kernel; at most 64 a port. " +
			"port is empty for counters of the whole device. " +
			"A name that docs/COUNTERS.md does not list is only taken to be a counter.",
		Source: hwSource, Cadence: Fast, Stability: Experimental, Collector: "counters",
	}
	hwCountersValue = &Family{
		Name: "hca_hw_counters_value", Type: Gauge, Labels: []string{"device", "port", "counter"},
		Help: "What drivers show among their hardware counters though it goes up and down, under the name and in the unit of the kernel. " +
			"port is empty for values of the whole device.",
		Source: hwSource, Cadence: Fast, Stability: Experimental, Collector: "counters",
	}
	hwCountersDropped = &Family{
		Name: "hca_hw_counters_dropped", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "How many hardware counters have no series because there are more than 64 without a metric of their own; absent when there are none.",
		Source: hwSource, Cadence: Fast, Stability: Experimental, Collector: "counters",
	}
	hwCountersLifespan = &Family{
		Name: "hca_hw_counters_lifespan_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"device", "port"},
		Help:   "How long the kernel answers reads of the port's hardware counters from memory before it asks the device again.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/hw_counters/lifespan", Cadence: Slow, Stability: Stable, Collector: "counters",
	}
	counterSaturated = &Family{
		Name: "hca_counter_saturated", Type: Gauge, Labels: []string{"device", "port", "counter"},
		Help: "1 for a counter of 4 to 32 bits, under its kernel name, that has reached its maximum and counts no more until somebody clears it " +
			"(perfquery -R); its rate says nothing meanwhile. Absent otherwise.",
		Source: pmaSource, Cadence: Slow, Stability: Stable, Collector: "counters",
	}

	cmReceived = &Family{
		Name: "cm_received_messages_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager received, by message (req, rep, rej, ...). Kernel names: cm_rx_msgs.",
		Source: cmSource, Cadence: Slow, Stability: Experimental, Collector: "cm",
	}
	cmReceivedDuplicates = &Family{
		Name: "cm_received_duplicates_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager received again, because the other side missed the answer. Kernel names: cm_rx_duplicates.",
		Source: cmSource, Cadence: Slow, Stability: Experimental, Collector: "cm",
	}
	cmTransmitted = &Family{
		Name: "cm_transmitted_messages_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager sent, retries included. Kernel names: cm_tx_msgs.",
		Source: cmSource, Cadence: Slow, Stability: Experimental, Collector: "cm",
	}
	cmTransmitRetries = &Family{
		Name: "cm_transmit_retries_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager sent again, because no answer came in time. Kernel names: cm_tx_retries.",
		Source: cmSource, Cadence: Slow, Stability: Experimental, Collector: "cm",
	}
)

// Where counters come from.
const (
	pmaSource    = "/sys/class/infiniband/<device>/ports/<port>/counters, counters_ext"
	hwSource     = "/sys/class/infiniband/<device>/ports/<port>/hw_counters, RDMA_NLDEV_CMD_STAT_GET; /sys/class/infiniband/<device>/hw_counters"
	cmSource     = "/sys/class/infiniband/<device>/ports/<port>/cm_{rx,tx}_msgs, cm_tx_retries, cm_rx_duplicates"
	pmaAndSource = pmaSource + "; " + hwSource
)

// counterFamilies returns all of them, in the order of documentation.
func counterFamilies() []*Family {
	var list []*Family
	for _, row := range countRows() {
		list = append(list, countFamilies[row.meaning])
	}
	return append(list, counterSaturated, hwCountersTotal, hwCountersValue, hwCountersDropped, hwCountersLifespan,
		cmReceived, cmReceivedDuplicates, cmTransmitted, cmTransmitRetries)
}

func newCountFamilies() map[fabric.Meaning]*Family {
	families := map[fabric.Meaning]*Family{}
	for _, row := range countRows() {
		if ofInfiniBand(row.meaning) {
			row.help += ibLink
		}
		f := &Family{
			Name: row.name, Type: Counter, Labels: []string{"device", "port"},
			Help:   row.help + " Kernel names: " + kernelNames(row.meaning) + ".",
			Source: countSource(row.meaning), Cadence: row.cadence, Stability: Stable, Collector: "counters",
		}
		if u := row.meaning.Unit(); u == fabric.UnitBytes || u == fabric.UnitTicks {
			f.Unit = string(u)
		}
		families[row.meaning] = f
	}
	return families
}

// kernelNames lists under which names the drivers count it, for those who search by them.
func kernelNames(m fabric.Meaning) string {
	var list []string
	for _, t := range fabric.CounterTables() {
		if t.Place == fabric.PlacePMA && t.Drivers[0] != fabric.AnyDriver {
			continue // the names of the standard
		}
		var names []string
		for name, spec := range t.Counters() {
			if spec.Meaning == m {
				names = append(names, name)
			}
		}
		if len(names) > 0 && !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, t.Name+" ") }) {
			list = append(list, t.Name+" "+strings.Join(names, " + "))
		}
	}
	return strings.Join(list, ", ")
}

func countSource(m fabric.Meaning) string {
	pma, hw := false, false
	for _, t := range fabric.CounterTables() {
		for _, spec := range t.Counters() {
			if spec.Meaning == m {
				of := t.Place == fabric.PlacePMA || t.Place == fabric.PlacePMAExt
				pma, hw = pma || of, hw || !of
			}
		}
	}
	switch {
	case pma && hw:
		return pmaAndSource
	case pma:
		return pmaSource
	case hw:
		return hwSource
	default:
		panic(fmt.Sprintf("collector: no driver counts %s", m))
	}
}
