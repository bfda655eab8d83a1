// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// Rewrite returns the exchange with another name for its interface, and with no other attributes than those that
// Client reads: the settings of the link partner, for one, are left out. Of a message that is malformed nothing stays.
func Rewrite(e netlink.Exchange, name func(netdev string) string) netlink.Exchange {
	rules := netlink.Rules{
		attrIfName: netlink.Rename(func(netdev string) (string, error) { return name(netdev), nil }),
		attrIEEE: netlink.Rules{
			ieeeETS: netlink.Keep, ieeePFC: netlink.Keep, ieeeBuffer: netlink.Keep,
			ieeeAppTable: netlink.Rules{ieeeApp: netlink.Keep, dcbApp: netlink.Keep}.Rewrite,
		}.Rewrite,
		attrCEE:  netlink.Rules{ceePFC: netlink.Keep, ceeAppTable: netlink.Keep}.Rewrite,
		attrDCBX: netlink.Keep,
	}
	return e.Rewrite(name, func(message []byte) ([]byte, error) {
		if err := atLeast(message, messageHeader); err != nil {
			return nil, err
		}
		b, err := rules.Rewrite(message[messageHeader:])
		return append([]byte{unix.AF_UNSPEC, message[1], 0, 0}, b...), err
	})
}
