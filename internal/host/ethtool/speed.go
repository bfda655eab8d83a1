// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

const attrSpeed = 5 // ETHTOOL_A_LINKMODES_SPEED, Mb/s

// Speed returns the speed of an interface in bytes per second. It waits for the rtnl lock asleep, unlike a read of
// the file net/<if>/speed: before Linux 6.15 that tries again and again (restart_syscall in
// net/core/net-sysfs.c) and so takes a whole processor for as long as another process holds the lock.
func (c *Client) Speed(netdev string, now time.Time) fabric.Fact[float64] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernel == nil {
		return fabric.UnknownFact[float64](fabric.ReasonOf(errClosed), msgLinkModes.String(), now)
	}
	megabits, err := ask(c, msgLinkModes, netdev, decodeSpeed)
	f := fact(float64(megabits)*1e6/8, err, msgLinkModes, now)
	if err == nil && megabits == 0 {
		return fabric.UnknownFact[float64](fabric.ReasonUnsupported, f.Source, now)
	}
	return f
}

// HasNetlink reports whether the kernel has ethtool netlink, which Speed and Read need.
func (c *Client) HasNetlink() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kernel != nil && c.connect() == nil
}

// decodeSpeed reads what linkmodes_fill_reply of net/ethtool/linkmodes.c writes. The speed is 0 when the driver does
// not know it, as without a link.
func decodeSpeed(b []byte) (megabits uint32, err error) {
	const (
		unknown = 1<<32 - 1   // SPEED_UNKNOWN
		fastest = 100_000_000 // Mb/s
	)
	d := netlink.Decode(b, func(kind uint16) string {
		return nameIn([]string{attrSpeed: "ETHTOOL_A_LINKMODES_SPEED"},
			kind)
	})
	for d.Next() {
		if d.Type() != attrSpeed {
			continue
		}
		if megabits = d.Uint32(); megabits == unknown {
			megabits = 0
		}
		if megabits > fastest {
			d.Fail("%d, expected %d at most", megabits, fastest)
		}
	}
	if err := d.Err(); err != nil {
		return 0, err
	}
	return megabits, nil
}
