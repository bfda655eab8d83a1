// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const cmSource = "/sys/class/infiniband/<device>/ports/<port>/cm_{rx,tx}_msgs, cm_tx_retries, cm_rx_duplicates"

// The rows of the collector cm.
var (
	cmReceived = &Family{
		Name: "cm_received_messages_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager received, by message (req, rep, rej, ...). Kernel names: cm_rx_msgs.",
		Source: cmSource, Cadence: Slow, Stability: Experimental,
	}
	cmReceivedDuplicates = &Family{
		Name: "cm_received_duplicates_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Duplicate messages of the connection manager received, because the remote side did not receive the answer. Kernel names: cm_rx_duplicates.",
		Source: cmSource, Cadence: Slow, Stability: Experimental,
	}
	cmTransmitted = &Family{
		Name: "cm_transmitted_messages_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager sent, retries included. Kernel names: cm_tx_msgs.",
		Source: cmSource, Cadence: Slow, Stability: Experimental,
	}
	cmTransmitRetries = &Family{
		Name: "cm_transmit_retries_total", Type: Counter, Labels: []string{"device", "port", "message"},
		Help:   "Messages of the connection manager sent again, because no answer arrived in time. Kernel names: cm_tx_retries.",
		Source: cmSource, Cadence: Slow, Stability: Experimental,
	}
)

// cmFamilies are the rows of the collector cm, in the order of documentation.
func cmFamilies() []*Family {
	return []*Family{
		cmReceived, cmReceivedDuplicates, cmTransmitted, cmTransmitRetries,
	}
}

func collectCM(n *fabric.Node, emit emit) {
	families := map[string]*Family{
		"cm_rx_msgs": cmReceived, "cm_rx_duplicates": cmReceivedDuplicates, "cm_tx_msgs": cmTransmitted,
		"cm_tx_retries": cmTransmitRetries,
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			p := &h.Ports[k]
			list := distinct(p.Counters.CM.Or(nil)) // the kernel has 44
			for i := range list[:min(len(list), maxRaw)] {
				c := &list[i]
				group, message, _ := strings.Cut(c.Name, "/")
				if v, ok := reading(c); ok && families[group] != nil {
					emit(families[group], float64(v), h.Name, strconv.Itoa(p.Number), label(message))
				}
			}
		}
	}
}

// hasCounters reports whether any driver of the node counts anything.
func hasCounters(n *fabric.Node) (bool, string) {
	if ok, why := hasRDMA(n); !ok {
		return false, why
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.HWCounters.State != fabric.Absent {
			return true, ""
		}
		for k := range h.Ports {
			if c := &h.Ports[k].Counters; c.PMA.State != fabric.Absent || c.HW.State != fabric.Absent {
				return true, ""
			}
		}
	}
	return false, "no driver of this node has counters, or this sysfs is of a network namespace that does not show them"
}

func hasCM(n *fabric.Node) (bool, string) {
	if ok, why := hasRDMA(n); !ok {
		return false, why
	}
	for i := range n.HCAs {
		for k := range n.HCAs[i].Ports {
			if n.HCAs[i].Ports[k].Counters.CM.State != fabric.Absent {
				return true, ""
			}
		}
	}
	return false, "no port of this node has connection manager counters"
}

// distinct leaves out counters whose labels would be those of an earlier one.
func distinct(list []fabric.Counter) []fabric.Counter {
	seen := map[string]bool{}
	var out []fabric.Counter
	for _, c := range list {
		if l := label(c.Name); !seen[l] {
			seen[l] = true
			out = append(out, c)
		}
	}
	return out
}
