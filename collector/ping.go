// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

const (
	pingName      = "ping"
	pingSource    = "RDMA ping (rdma_ping in the configuration)"
	pingPrivilege = "access to /dev/infiniband/uverbs*"
)

var (
	railLabels = []string{"device", "port"}
	leafLabels = []string{"device", "port", "peers", "leaf", "peer_leaf"}
)

// pingRow is a row of the collector ping.
func pingRow(name string, kind Type, unit string, labels []string, help string) *Family {
	return &Family{
		Name: "ping_" + name, Type: kind, Unit: unit, Labels: labels, Help: help, Source: pingSource, Cadence: Self,
		Privilege: pingPrivilege, Stability: Experimental,
	}
}

// The rows of the collector ping: at most 60 series for a rail.
var (
	pingTargets = pingRow("targets", Gauge, "", nil,
		"Number of targets that rails may choose their peers from.")
	pingTargetErrors = pingRow("target_errors", Gauge, "", nil,
		"Number of sources of targets that cannot be read, or of which entries are left out, and 1 more each where no target is this node, and where the names and addresses of this host cannot be read; the log has the reasons.")
	pingUntold = pingRow("targets_without_rails", Gauge, "", nil,
		"Number of targets that rails of this node chose as peers and whose exporter answers and tells no rails; the log has the reasons. Those that do not run, cannot be reached, have just begun, or are in maintenance are not among them.")
	pingStarts = pingRow("worker_starts_total", Counter, "", nil,
		"Number of starts of the process that sends the messages, since the exporter started.")
	pingUncovered = pingRow("uncovered", Gauge, "", []string{"device", "port", "reason"},
		"1 while the rail is not pinged from. reason: moved (a pod has the device), too_many (more than eight rails), not_opened (the log has the reason), worker (the process that sends does not run), maintenance, no_peers (no target is one, or none tells where it answers). Absent otherwise.")
	pingInfo = pingRow("info", Info, "", []string{"device", "port", "rail", "leaf", "address"},
		"A rail that takes part; constant 1. rail is its number among the compute ports of the node, leaf its switch according to the targets, address the node as the targets name it, which is peer in other series.")
	pingRTT = pingRow("rtt_seconds", Histogram, "seconds", []string{"device", "port", "peers", "clock"},
		"Time from when a message is sent until its answer comes, without the time that it was in the other host. clock: nic (by the clocks of both NICs: the network alone; peers whose NIC has none are left out), host (by that of the processor: with the ways between NIC and processor in both hosts). peers: leaf (rails on the same leaf), fabric (on other leaves, or the leaf is not known), loopback (the rail itself: what is slow there is this host, not the fabric).")
	pingHost = pingRow("host_seconds_total", Counter, "seconds", railLabels,
		"Time that the messages of gpufabric_ping_rtt_seconds and their answers were in this host: before the NIC had sent the message, and after it had the answer. Absent without times of the NIC.")
	pingDoubtful = pingRow("doubtful_times_total", Counter, "", railLabels,
		"Number of answers without a time, because what the other host told of it cannot be: negative, or longer than the round trip.")
	pingReordered = pingRow("reordered_total", Counter, "", railLabels,
		"Number of messages with an answer that a later one of the same flow overtook. Nothing is lost by that; adaptive routing does it. Mostly seen with times of the NIC, where two answers follow each other.")
	pingFlows = pingRow("flows_total", Counter, "", railLabels,
		"Number of flows (a flow label to a peer) with three messages or more, summed up each minute. Each flow takes one of several equal paths.")
	pingFlowsLost = pingRow("flows_lost_total", Counter, "", railLabels,
		"Number of these flows that lost all messages while the peer answered those of other flows: one of the equal paths is dead.")
	pingMessages = pingRow("messages_total", Counter, "", leafLabels,
		"Number of messages to other rails whose fate is known, by the leaf of the rail and that of the peers; peers is leaf where these are one, else fabric. What a peer does not answer is held until it answers again or was asked over HTTP, so a restart of its exporter loses nothing.")
	pingLost = pingRow("lost_total", Counter, "", leafLabels,
		"Number of these messages that were not answered in time (half a second, or half of rdma_ping.interval where that is less), or could not be sent because there is no way to the peer.")
	pingLoopback = pingRow("loopback_messages_total", Counter, "", railLabels,
		"Number of messages of the rail to itself.")
	pingLoopbackLost = pingRow("loopback_lost_total", Counter, "", railLabels,
		"Number of these messages that were not answered in time (half a second, or half of rdma_ping.interval where that is less).")
	pingLarge = pingRow("large_messages_total", Counter, "", railLabels,
		"Number of messages of the full path MTU to peers that answered a small one: one a minute and peer.")
	pingLargeLost = pingRow("large_lost_total", Counter, "", railLabels,
		"Number of these messages that were not answered: something on the path has a smaller MTU.")
	pingAnswer = pingRow("last_answer_timestamp_seconds", Gauge, "seconds", railLabels,
		"When a peer last answered the rail, in seconds since the epoch. Absent if none has yet.")
	pingFault = pingRow("fault", Gauge, "", []string{"device", "port", "fault"},
		"1 for where the rail loses messages, as far as the node can tell alone, in the last 5 s, 30 s, 10 minutes and an hour; 0 for the others. host (its loopback loses, too), rail (with all peers), elsewhere (with some of them: others have to tell where). Absent while no window has closed.")
	pingPeerLoss = pingRow("peer_loss_ratio", Gauge, "ratio", []string{"device", "port", "rail", "leaf", "peer"},
		"Share of the messages to the peer that was lost in one of these times, of the three worst peers. rail and leaf are those of this node. Absent for all others.")
)

func pingFamilies() []*Family {
	return []*Family{
		pingTargets, pingTargetErrors, pingUntold, pingStarts, pingUncovered, pingInfo, pingRTT, pingHost, pingDoubtful,
		pingReordered, pingFlows, pingFlowsLost, pingMessages, pingLost, pingLoopback, pingLoopbackLost, pingLarge,
		pingLargeLost, pingAnswer, pingFault, pingPeerLoss,
	}
}

// WithPing returns the set with what RDMA ping found. It is asked in every Gather, by any number of goroutines at
// once, and must not wait for anything.
func (s *Set) WithPing(status func() rdmaping.Status) *Set {
	with := &Set{collectors: slices.Clone(s.collectors)}
	for i := range with.collectors {
		if c := &with.collectors[i]; c.Name == pingName {
			*c = pingCollector(status)
		}
	}
	return with
}

func noPing() rdmaping.Status { return rdmaping.Status{} }

func pingCollector(status func() rdmaping.Status) collector {
	return collector{
		About: About{
			Name: pingName, Default: true,
			Help: "What small RDMA messages between nodes found: round-trip time, loss, and where it is.",
		},
		families: pingFamilies(),
		collect:  func(_ *fabric.Node, emit emit) { collectPing(status(), emit) },
		supported: func(*fabric.Node) (bool, string) {
			return status().Enabled, "RDMA ping is not switched on (rdma_ping.enabled in the configuration)"
		},
		histograms: func(put putHistogram) {
			for _, r := range status().Rails {
				for g, h := range r.RTT {
					if r.Uncovered == "" {
						put(pingRTT, h, r.Device, strconv.Itoa(r.Port), string(g), string(r.Clock))
					}
				}
			}
		},
	}
}

func collectPing(s rdmaping.Status, emit emit) {
	if !s.Enabled {
		return
	}
	emit(pingTargets, float64(s.Targets))
	emit(pingTargetErrors, float64(s.LeftOut))
	emit(pingUntold, float64(s.Untold))
	emit(pingStarts, float64(s.Starts))
	for i := range s.Rails {
		r := &s.Rails[i]
		device, port := label(r.Device), strconv.Itoa(r.Port)
		if r.Uncovered != "" {
			emit(pingUncovered, 1, device, port, string(r.Uncovered))
			continue
		}
		emit(pingInfo, 1, device, port, strconv.Itoa(r.Rail), r.Leaf, r.Address)
		if r.Clock == rdmaping.OfNIC {
			emit(pingHost, r.Host.Seconds(), device, port)
		}
		emit(pingDoubtful, float64(r.Doubtful), device, port)
		emit(pingReordered, float64(r.Reordered), device, port)
		emit(pingFlows, float64(r.Flows.Sent), device, port)
		emit(pingFlowsLost, float64(r.Flows.Lost), device, port)
		for _, l := range r.Leaves {
			emit(pingMessages, float64(l.Sent), device, port, string(l.Group), r.Leaf, l.Leaf)
			emit(pingLost, float64(l.Lost), device, port, string(l.Group), r.Leaf, l.Leaf)
		}
		emit(pingLoopback, float64(r.Loop.Sent), device, port)
		emit(pingLoopbackLost, float64(r.Loop.Lost), device, port)
		emit(pingLarge, float64(r.Large.Sent), device, port)
		emit(pingLargeLost, float64(r.Large.Lost), device, port)
		if !r.Answered.IsZero() {
			emit(pingAnswer, float64(r.Answered.UnixNano())/float64(time.Second), device, port)
		}
		if r.Judged {
			for _, f := range rdmaping.Faults() {
				emit(pingFault, bit(f == r.Fault), device, port, string(f))
			}
		}
		for _, p := range r.Bad {
			emit(pingPeerLoss, p.Ratio, device, port, strconv.Itoa(r.Rail), r.Leaf, p.Address)
		}
	}
}
