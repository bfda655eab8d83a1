// SPDX-License-Identifier: Apache-2.0

// Package rdmaping is small RDMA messages between nodes, by which a rail, a path or a leaf that is dead, lossy or slow
// is found while jobs run: the words that its rooms share. peers chooses rails, verbs asks and answers in a process
// of its own, locate says where messages get lost.
//
// It is plain data. It stands beside probes, and not among them: it needs no GPU, no NCCL and no gate.
package rdmaping

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Bounds of messages.
const (
	Least   = 64   // bytes of a message
	Longest = 4096 // the largest MTU there is
	// PerSecond is how many messages a rail asks in a second at most.
	PerSecond = 64
	// MaxRails is how many queue pairs a node has at most.
	MaxRails = 8
	// MaxRail is the highest number of a rail.
	MaxRail = 63
	// MaxTimeout is how long an answer is waited for at most.
	MaxTimeout = 5 * time.Second
)

// GID is the address of a port, as 32 hexadecimal digits in JSON.
type GID [16]byte

// IsOfOne reports whether the address is not multicast, of IPv4 either, nor broadcast, nor none.
func (g GID) IsOfOne() bool {
	a := netip.AddrFrom16(g).Unmap()
	return !a.IsMulticast() && !a.IsUnspecified() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// MarshalText is for JSON.
func (g GID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(g[:])), nil }

// UnmarshalText is for JSON.
func (g *GID) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(g) {
		return fmt.Errorf("%d characters, expected %d", len(text), hex.EncodedLen(len(g)))
	}
	_, err := hex.Decode(g[:], text)
	return err
}

// String is the GID as an IPv6 address.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Link is what carries messages.
type Link string

// The links. On neither is anything else spoken: iWARP has no UD queue pairs.
const (
	InfiniBand Link = "infiniband"
	Ethernet   Link = "ethernet"
)

// Endpoint is where a rail can be asked. Q_Key and key are drawn anew each time it is opened: who does not know them
// gets no answer.
type Endpoint struct {
	Device string `json:"device"`
	Rail   int    `json:"rail"` // its number among the compute ports of the node
	Link   Link   `json:"link"`
	GID    GID    `json:"gid"`
	LID    uint16 `json:"lid"` // of InfiniBand
	PKey   uint16 `json:"pkey"`
	QPN    uint32 `json:"qpn"`
	QKey   uint32 `json:"qkey"` // the NIC drops what has another one
	MTU    int    `json:"mtu"`
	Key    uint64 `json:"key,string"`
	Timed  bool   `json:"timed,omitempty"` // completions have times of the NIC
	RoCE   int    `json:"roce,omitempty"`  // version that the GID is for, of Ethernet; 0: not known
}

// Limited reports whether the endpoint is a limited member of its partition. Only full members get its messages, so it
// does not even reach itself.
func (e Endpoint) Limited() bool { return e.Link == InfiniBand && e.PKey&0x8000 == 0 }

// Check says what cannot be in an endpoint that another node tells of itself.
func (e Endpoint) Check() error {
	switch {
	case e.Link != InfiniBand && e.Link != Ethernet:
		return fmt.Errorf("link %.20q", e.Link)
	case !e.GID.IsOfOne(): // what many receive would reach others
		return fmt.Errorf("GID %s", e.GID)
	case e.Link == InfiniBand && (e.LID == 0 || e.LID >= 0xc000):
		return fmt.Errorf("LID %d", e.LID)
	case e.QPN < 2 || e.QPN >= 1<<24-1: // 0 and 1 are those of management, the last is of multicast
		return fmt.Errorf("queue pair %d", e.QPN)
	case e.QKey == 0 || e.QKey>>31 != 0: // the top bit is of privileged ones
		return fmt.Errorf("Q_Key %#x", e.QKey)
	case e.MTU < 256 || e.MTU > Longest:
		return fmt.Errorf("MTU %d", e.MTU)
	case e.RoCE < 0 || e.RoCE > 2:
		return fmt.Errorf("RoCE version %d", e.RoCE)
	case e.Rail < 0 || e.Rail > MaxRail:
		return fmt.Errorf("rail %d", e.Rail)
	case len(e.Device) > 64 || strings.ContainsFunc(e.Device, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("device %.64q", e.Device)
	}
	return nil
}

// Request is what a worker is asked: one of its parts.
type Request struct {
	Open  *Open  `json:"open,omitempty"`
	Round *Round `json:"round,omitempty"`
}

// Open makes a queue pair that answers, and asks.
type Open struct {
	Library      string `json:"library,omitempty"` // empty: libibverbs.so.1
	Device       string `json:"device"`
	Port         int    `json:"port"`
	GIDIndex     int    `json:"gid_index"`
	TrafficClass int    `json:"traffic_class"`
	ServiceLevel int    `json:"service_level"`
	PKeyIndex    int    `json:"pkey_index"`
}

// Round sends messages, those of one rail one after the other, and waits for all answers.
type Round struct {
	Asks    []Ask         `json:"asks"`
	Gap     time.Duration `json:"gap"` // between two messages of a rail
	Timeout time.Duration `json:"timeout"`
}

// Ask is one message to an endpoint.
type Ask struct {
	Device string   `json:"device"` // that asks
	To     Endpoint `json:"to"`
	Size   int      `json:"size"`
	Flow   uint32   `json:"flow"` // label: it selects one of several equal paths
	ByHand bool     `json:"by_hand,omitempty"`
}

// Reply is the answer to a Request.
type Reply struct {
	Endpoint *Endpoint `json:"endpoint,omitempty"` // of Open
	Pongs    []Pong    `json:"pongs,omitempty"`    // of Round, one for each message
	Failure  *Failure  `json:"failure,omitempty"`  // of Open
}

// Pong is what came of a message.
type Pong struct {
	Failure *Failure `json:"failure,omitempty"` // it was not sent

	Lost    bool          `json:"lost,omitempty"`
	RTT     time.Duration `json:"rtt"`     // from before it was sent until the answer was seen, by the clock of this host
	Remote  time.Duration `json:"remote"`  // of it, the time between message and answer in the other host
	Network time.Duration `json:"network"` // of it, the time outside of both hosts
	// Timed: Remote and Network are by the clocks of both NICs. Else both hosts' ways to their NICs are in Network.
	Timed bool `json:"timed,omitempty"`
	// Doubtful: what was told of Remote cannot be; it and Network are zero.
	Doubtful bool `json:"doubtful,omitempty"`
	// Reordered: what was sent later on the same flow came before.
	Reordered bool `json:"reordered,omitempty"`
}

// Initiator is how long the message and its answer were in this host, which only times of NICs tell.
func (p *Pong) Initiator() time.Duration { return max(0, p.RTT-p.Remote-p.Network) }

// Failure is why there is no answer, other than that none came.
type Failure struct {
	Step  string `json:"step"` // a function of libibverbs, or what holds
	Errno int    `json:"errno"`
	Text  string `json:"text"`
}

// Steps of a Failure of a message that was not sent, which says nothing of the fabric.
const (
	Unmade  = "the way to the peer is still being made" // an address handle: it is looked for, or others are before it
	TooFast = "more than 64 messages in a second"
	TooMany = "more than 64 peers"
	Busy    = "the NIC has not sent the messages before"
)

// Unsent reports whether the message was not sent, for a reason that says nothing of the fabric.
func (f *Failure) Unsent() bool {
	return f.Step == Unmade || f.Step == TooFast || f.Step == TooMany || f.Step == Busy
}

func (f *Failure) Error() string {
	if f.Text == "" {
		return f.Step
	}
	return f.Step + ": " + f.Text
}
