// SPDX-License-Identifier: Apache-2.0

package dcbnl

import "gpufabric_exporter/internal/host/netlink"

// Attributes by level, with their numbers in linux/dcbnl.h.
const (
	// enum dcbnl_attrs
	attrIfName = 1
	attrIEEE   = 13
	attrDCBX   = 14
	attrCEE    = 16
	// enum ieee_attrs, in attrIEEE
	ieeeETS      = 1
	ieeePFC      = 2
	ieeeAppTable = 3
	ieeeBuffer   = 10
	// enum ieee_attrs_app, in ieeeAppTable
	ieeeApp = 1
	dcbApp  = 2
	// enum cee_attrs, in attrCEE
	ceePFC      = 6
	ceeAppTable = 7
	// enum dcbnl_attrs again, in ceeAppTable
	attrApp = 12
	// enum dcbnl_app_attrs, in attrApp
	appIDType   = 1
	appID       = 2
	appPriority = 3
	// enum dcbnl_pfc_up_attrs, in ceePFC: from here on one for each priority
	pfcPriority0 = 1

	maxAttribute = attrCEE
)

// attributes are the payloads of one level by attribute; nil without the attribute.
type attributes [maxAttribute + 1][]byte

// parse reads one level as the kernel itself does (nla_parse): an attribute that is not known is skipped, and of one
// that is repeated the last counts.
func parse(b []byte) (attributes, error) {
	var all attributes
	d := netlink.Decode(b, nil)
	for d.Next() {
		if int(d.Type()) < len(all) {
			all[d.Type()] = d.Bytes()
		}
	}
	return all, d.Err()
}

// u8 reads an attribute of one byte.
func u8(b []byte) (uint8, error) {
	if len(b) != 1 {
		return 0, netlink.Malformed("%d bytes, expected 1", len(b))
	}
	return b[0], nil
}

// atLeast checks the size of a struct. Kernels may append to one, and never took away.
func atLeast(b []byte, size int) error {
	if len(b) < size {
		return netlink.Malformed("%d bytes, expected %d or more", len(b), size)
	}
	return nil
}
