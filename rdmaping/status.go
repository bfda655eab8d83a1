// SPDX-License-Identifier: Apache-2.0

package rdmaping

import (
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Group is the peers of a rail that have a path in common.
type Group string

// The groups. Loopback is the rail itself: what is slow there is this host.
const (
	Loopback Group = "loopback"
	Near     Group = "leaf"   // on the same leaf
	Far      Group = "fabric" // on another leaf, or it is not known
)

// Clock is what round-trip times are by.
type Clock string

// The clocks. Times of hosts have the ways between their NICs and their processes in them.
const (
	OfNIC  Clock = "nic"
	OfCPUs Clock = "host"
)

// Fault is where a node loses messages, as far as it can tell alone.
type Fault string

// The faults. What is elsewhere, others have to tell.
const (
	OfHost    Fault = "host"
	OfRail    Fault = "rail"
	Elsewhere Fault = "elsewhere"
)

// Faults returns all faults.
func Faults() []Fault { return []Fault{OfHost, OfRail, Elsewhere} }

// Uncovered is why a rail is not pinged from.
type Uncovered string

// The reasons.
const (
	UncoveredMoved  Uncovered = "moved" // a pod has it
	UncoveredMany   Uncovered = "too_many"
	UncoveredFailed Uncovered = "not_opened"
	UncoveredLoader Uncovered = "worker" // the process that has libibverbs does not run
	UncoveredPaused Uncovered = "maintenance"
	UncoveredAlone  Uncovered = "no_peers"
)

// Status is what the pings of a node found so far.
type Status struct {
	Enabled bool
	Targets int // that may be asked
	LeftOut int // entries and sources that are wrong
	Untold  int // peers that answer, or refuse the connection, and tell no rails
	Starts  int // of the process that has libibverbs
	Rails   []RailStatus
}

// RailStatus is one rail.
type RailStatus struct {
	Device    string
	Port      int
	Rail      int
	Leaf      string
	Address   string // by which the targets know this node
	Uncovered Uncovered
	Loop      Count
	Leaves    []LeafCount
	Large     Count                    // messages of the path MTU; one is lost where a small one is not
	Flows     Count                    // flow labels to peers, each minute; one is lost where only that one is dead
	Clock     Clock                    // of RTT
	RTT       map[Group]*dto.Histogram // not changed any more
	Host      time.Duration            // of messages with times by the NIC, the time in this host
	Reordered uint64                   // messages that later ones of the same flow overtook
	Doubtful  uint64                   // messages whose times cannot be
	Answered  time.Time                // when a peer last did
	// Fault is that of the windows that closed last; without Judged nothing is known.
	Fault  Fault
	Judged bool
	Bad    []BadPeer // at most three, the worst first
}

// Count is messages of which the fate is known.
type Count struct{ Sent, Lost uint64 }

// LeafCount is messages to the rails of a leaf.
type LeafCount struct {
	Leaf  string
	Group Group
	Count
}

// BadPeer is a peer that a window lost messages to.
type BadPeer struct {
	Address string
	Ratio   float64
}
