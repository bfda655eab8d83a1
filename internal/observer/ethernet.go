// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Ethernet asks the drivers of network interfaces how they treat classes of traffic and what they count. Every
// call takes the kernel's rtnl lock, under which most drivers wait for their firmware: it may block for ever. Its
// methods are called by one goroutine at a time.
type Ethernet interface {
	// ReadQoS fills in what the driver is asked for: PFC, ETS, Apps, Buffers, DCBX, Pause and FEC; all of them, or
	// none of them with an error. An error beside facts says why some of those are unknown.
	ReadQoS(netdev string, q *fabric.QoS, now time.Time) error
	// Statistics returns the statistics of the interface whose names are wanted, each name once, in the driver's
	// order. An interface whose driver has none returns an error that is errors.ErrUnsupported.
	Statistics(netdev string, wanted func(name string) bool, now time.Time) ([]fabric.Counter, error)
	// Instance returns the number of the interface that Statistics read last under the name, which no other interface
	// ever gets (ifindex); 0: none. It makes no request.
	Instance(netdev string) uint32
	// Commands counts what drivers were asked.
	Commands() fabric.Commands
	Close()
}
