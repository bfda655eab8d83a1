// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"encoding/binary"
	"fmt"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// Selectors of CEE, DCB_APP_IDTYPE_*.
const (
	ceeEtherType = 0
	ceePort      = 1 // TCP or UDP
)

// decodeCEEPFC reads a u8 for each priority. The drivers' values are off, both ways, sending and receiving only. There
// are neither counters nor capabilities.
func decodeCEEPFC(b []byte) (fabric.PFC, error) {
	settings, err := parse(b)
	if err != nil {
		return fabric.PFC{}, err
	}
	var v fabric.PFC
	for p := range fabric.NumPriorities {
		setting, err := u8(settings[pfcPriority0+p])
		if err != nil {
			return fabric.PFC{}, fmt.Errorf("priority %d: %w", p, err)
		}
		if setting > 3 {
			return fabric.PFC{}, netlink.Malformed("%d for priority %d, expected at most 3", setting, p)
		}
		if setting != 0 {
			v.Enabled |= 1 << p
		}
	}
	return v, nil
}

// decodeCEEApps reads the table of a driver that uses CEE, where an entry has a set of priorities: it becomes one App
// for each. The kernel has one table for CEE and IEEE; entries that can only be of IEEE are left out.
func decodeCEEApps(b []byte) ([]fabric.App, error) {
	apps := []fabric.App{}
	d := netlink.Decode(b, nil)
	for d.Next() {
		if d.Type() != attrApp {
			continue
		}
		app, priorities, err := decodeCEEApp(d.Bytes())
		if err != nil {
			return nil, fmt.Errorf("DCB_ATTR_APP: %w", err)
		}
		for _, app.Priority = range priorities.Priorities() {
			if len(apps) == maxApps {
				return nil, netlink.Malformed("more than %d entries", maxApps)
			}
			apps = append(apps, app)
		}
	}
	return sorted(apps), d.Err()
}

func decodeCEEApp(b []byte) (app fabric.App, priorities fabric.PriorityMask, err error) {
	fields, err := parse(b)
	if err != nil {
		return app, 0, err
	}
	idType, err := u8(fields[appIDType])
	if err != nil {
		return app, 0, fmt.Errorf("DCB_APP_ATTR_IDTYPE: %w", err)
	}
	id := fields[appID]
	if len(id) != 2 {
		return app, 0, netlink.Malformed("DCB_APP_ATTR_ID: %d bytes, expected 2", len(id))
	}
	set, err := u8(fields[appPriority])
	if err != nil {
		return app, 0, fmt.Errorf("DCB_APP_ATTR_PRIORITY: %w", err)
	}
	app.Protocol = int(binary.NativeEndian.Uint16(id))
	switch idType {
	case ceeEtherType:
		app.Selector = fabric.AppEtherType
	case ceePort:
		app.Selector = fabric.AppAny
	default:
		return app, 0, nil
	}
	return app, fabric.PriorityMask(set), nil
}
