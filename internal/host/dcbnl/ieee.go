// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"encoding/binary"
	"fmt"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// decodePFC reads struct ieee_pfc:
//
//	u8 pfc_cap, u8 pfc_en, u8 mbc, u16 delay at 4, u64 requests[8] at 8, u64 indications[8] at 72
func decodePFC(b []byte) (fabric.PFC, error) {
	if err := atLeast(b, 136); err != nil {
		return fabric.PFC{}, err
	}
	v := fabric.PFC{
		Enabled: fabric.PriorityMask(b[1]),
		Classes: int(b[0]),
		Delay:   int(binary.NativeEndian.Uint16(b[4:])),
	}
	for p := range fabric.NumPriorities {
		v.Sent[p] = binary.NativeEndian.Uint64(b[8+8*p:])
		v.Received[p] = binary.NativeEndian.Uint64(b[72+8*p:])
	}
	return v, nil
}

// decodeETS reads struct ieee_ets, of which the recommendations to the link partner follow what is read:
//
//	u8 willing, u8 ets_cap, u8 cbs, u8 tc_tx_bw[8] at 3, u8 tc_rx_bw[8], u8 tc_tsa[8] at 19, u8 prio_tc[8] at 27, ...
func decodeETS(b []byte) (fabric.ETS, error) {
	if err := atLeast(b, 59); err != nil {
		return fabric.ETS{}, err
	}
	v := fabric.ETS{Willing: b[0] != 0, Classes: int(b[1])}
	for i := range fabric.NumPriorities {
		v.Bandwidth[i], v.Algorithm[i], v.PriorityClass[i] = int(b[3+i]), fabric.TSA(b[19+i]), int(b[27+i])
		if v.Bandwidth[i] > 100 {
			return fabric.ETS{}, netlink.Malformed("bandwidth %d of class %d, expected at most 100", v.Bandwidth[i], i)
		}
		if v.PriorityClass[i] >= fabric.NumPriorities {
			return fabric.ETS{}, netlink.Malformed("class %d of priority %d, expected at most 7", v.PriorityClass[i], i)
		}
	}
	return v, nil
}

// decodeBuffers reads struct dcbnl_buffer:
//
//	u8 prio2buffer[8], u32 buffer_size[8] at 8, u32 total_size at 40
func decodeBuffers(b []byte) (fabric.Buffers, error) {
	if err := atLeast(b, 44); err != nil {
		return fabric.Buffers{}, err
	}
	v := fabric.Buffers{Total: int(binary.NativeEndian.Uint32(b[40:]))}
	for i := range fabric.NumPriorities {
		v.OfPriority[i], v.Bytes[i] = int(b[i]), int(binary.NativeEndian.Uint32(b[8+4*i:]))
		if v.OfPriority[i] >= fabric.NumPriorities {
			return fabric.Buffers{}, netlink.Malformed("buffer %d of priority %d, expected at most 7", v.OfPriority[i], i)
		}
	}
	return v, nil
}

// decodeApps reads the table of struct dcb_app, all in the byte order of the host:
//
//	u8 selector, u8 priority, u16 protocol
//
// Entries are of two types since Linux 6.2, one for selectors of the standard and one for others. An entry whose
// selector is not known here is left out like an attribute that is not.
func decodeApps(b []byte) ([]fabric.App, error) {
	apps := []fabric.App{}
	d := netlink.Decode(b, nil)
	for d.Next() {
		if d.Type() != ieeeApp && d.Type() != dcbApp {
			continue
		}
		app, err := decodeApp(d.Bytes())
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(apps), err)
		}
		if !isSelector(app.Selector) {
			continue
		}
		if len(apps) == maxApps {
			return nil, netlink.Malformed("more than %d entries", maxApps)
		}
		apps = append(apps, app)
	}
	return sorted(apps), d.Err()
}

func decodeApp(b []byte) (fabric.App, error) {
	if err := atLeast(b, 4); err != nil {
		return fabric.App{}, err
	}
	v := fabric.App{
		Selector: fabric.AppSelector(b[0]), Protocol: int(binary.NativeEndian.Uint16(b[2:])),
		Priority: int(b[1]),
	}
	switch {
	case !isSelector(v.Selector): // whatever it means
	case v.Priority >= fabric.NumPriorities:
		return fabric.App{}, netlink.Malformed("priority %d, expected at most 7", v.Priority)
	case v.Selector == fabric.AppDSCP && v.Protocol >= fabric.NumDSCP:
		return fabric.App{}, netlink.Malformed("dscp %d, expected at most 63", v.Protocol)
	}
	return v, nil
}

func isSelector(s fabric.AppSelector) bool {
	return s >= fabric.AppEtherType && s <= fabric.AppDSCP || s == fabric.AppPCP
}
