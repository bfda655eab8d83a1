// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"encoding/binary"

	"gpufabric_exporter/internal/host/netlink"
)

// Rewriting says what becomes of the identifiers in an Exchange.
type Rewriting struct {
	Keep func(device string) bool // whether messages about a device stay
	Name func(string) string      // of a device or network interface
	GUID func(guid uint64) uint64 // of a node or system image
}

// Rewrite returns the exchange with its identifiers replaced, and with no other attributes than those that Client
// reads. Of a message that is malformed nothing stays.
func Rewrite(e netlink.Exchange, r Rewriting) netlink.Exchange {
	return e.Rewrite(r.Name, r.rules().Rewrite)
}

func (r Rewriting) rules() netlink.Rules {
	rules := netlink.Rules{
		attrDevName: netlink.Rename(func(device string) (string, error) {
			if !r.Keep(device) {
				return "", netlink.ErrLeaveOut
			}
			return r.Name(device), nil
		}),
		attrNdevName:     netlink.Rename(func(netdev string) (string, error) { return r.Name(netdev), nil }),
		attrNodeGUID:     r.guid,
		attrSysImageGUID: r.guid,
		attrStatHWCounters: netlink.Rules{attrStatHWCounterEntry: netlink.Rules{
			attrStatHWCounterName: netlink.Keep, attrStatHWCounterValue: netlink.Keep,
		}.Rewrite}.Rewrite,
	}
	for _, kind := range []uint16{
		attrDevIndex, attrPortIndex, attrFWVersion, attrDevNodeType, attrDevType, attrDevProtocol, attrPortState,
		attrPortPhysState,
		attrNdevIndex, attrLID, attrSMLID, attrLMC, attrCapFlags, attrSysNetNSMode, attrSysCopyOnFork, attrSysMonitorMode,
	} {
		rules[kind] = netlink.Keep
	}
	return rules
}

func (r Rewriting) guid(payload []byte) ([]byte, error) {
	if len(payload) != 8 {
		return nil, netlink.Malformed("GUID of %d bytes, expected 8", len(payload))
	}
	return binary.NativeEndian.AppendUint64(nil, r.GUID(binary.NativeEndian.Uint64(payload))), nil
}
