// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"encoding/binary"

	"gpufabric_exporter/internal/host/replay"
)

// Rewriting says what becomes of the identifiers in an Exchange.
type Rewriting struct {
	Keep func(device string) bool // whether messages about a device stay
	Name func(string) string      // of a device or network interface
	GUID func(guid uint64) uint64 // of a node or system image
}

// Rewrite returns the exchange with its identifiers replaced, and with no other attributes than those that Client
// reads: what is in them, nobody can tell. Of a message that is malformed nothing stays.
func (e Exchange) Rewrite(r Rewriting) Exchange {
	messages := []replay.Bytes{}
	for _, m := range e.Messages {
		var d decoder
		if b, keep := r.attributes(&d, m); d.err != nil {
			messages = append(messages, replay.Bytes{})
		} else if keep {
			messages = append(messages, b)
		}
	}
	e.Messages = messages
	return e
}

// attributes rewrites the attributes of one level. keep is false in a message about a device that is not to be kept.
func (r Rewriting) attributes(d *decoder, b []byte) (out []byte, keep bool) {
	keep = true
	out = []byte{}
	for a, data := range d.attributes(b) {
		switch a {
		case attrDevName:
			name := d.text(a, data)
			keep = keep && r.Keep(name)
			data = append([]byte(r.Name(name)), 0)
		case attrNdevName:
			data = append([]byte(r.Name(d.text(a, data))), 0)
		case attrNodeGUID, attrSysImageGUID:
			data = binary.NativeEndian.AppendUint64(nil, r.GUID(d.u64(a, data)))
		case attrStatHWCounters, attrStatHWCounterEntry:
			data, _ = r.attributes(d, data)
		case attrDevIndex, attrPortIndex, attrFWVersion, attrDevNodeType, attrDevProtocol, attrPortState, attrPortPhysState,
			attrNdevIndex, attrLID, attrSMLID, attrLMC, attrCapFlags, attrStatHWCounterName, attrStatHWCounterValue,
			attrSysNetNSMode, attrSysCopyOnFork, attrSysMonitorMode:
		default:
			continue
		}
		out = appendAttribute(out, a, data)
	}
	return out, keep
}

// appendAttribute appends an attribute as the kernel lays it out (nla_put).
func appendAttribute(b []byte, a attr, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(headerSize+len(data)))
	b = binary.NativeEndian.AppendUint16(b, uint16(a))
	b = append(b, data...)
	return append(b, make([]byte, -len(b)&(alignment-1))...)
}
