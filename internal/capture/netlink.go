// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/json"
	"fmt"
	"slices"

	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/rdmanl"
)

// netlink asks the RDMA core what the exporter asks it, about these devices. A copy of some sysfs has nothing to do
// with this kernel's netlink, and without the class, opening the socket would load the RDMA core.
func (s *session) netlink(u *unit, devices []string) error {
	if !u.has(sysPart+"/"+rdmaClass) || !s.sys.IsKernel() || !u.begin(rdmaName) {
		return nil
	}
	c, err := rdmanl.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	exchanges := []netlink.Exchange{}
	c.Record(func(e netlink.Exchange) {
		exchanges = append(exchanges, rdmanl.Rewrite(e, rdmanl.Rewriting{
			Keep: func(device string) bool { return slices.Contains(devices, device) },
			Name: func(s string) string { return s },
			GUID: func(v uint64) uint64 { return v },
		}))
	})
	_, err = c.System()
	u.note(rdmaName+" system", err)
	list, err := c.Devices()
	u.note(rdmaName+" devices", err) // those that could be decoded are here
	for _, d := range list {
		if slices.Contains(devices, d.Name) {
			askDevice(u, c, d)
		}
	}
	text, err := marshal(exchanges)
	u.put(rdmaName, entry{kind: regular, text: text})
	return err
}

// askDevice asks for the state and the counters of each port.
func askDevice(u *unit, c *rdmanl.Client, d rdmanl.Device) {
	const maxPorts = 256
	for n := uint32(1); n <= min(d.Ports, maxPorts); n++ {
		name := fmt.Sprintf("%s %s port %d", rdmaName, d.Name, n)
		if !u.begin(name) {
			return
		}
		port, err := c.Port(d.Index, n)
		u.note(name, err)
		u.namePort(fmt.Sprintf("%s/%d", d.Name, n), port.NetDev)
		_, _ = c.Counters(d.Index, n) // many have none; the recording shows which
	}
}

// marshal returns the text of a file with exchanges. It is as long as it will be when names in it are replaced.
func marshal(exchanges []netlink.Exchange) (string, error) {
	b, err := json.MarshalIndent(exchanges, "", " ")
	return string(b) + "\n", err
}

// rewriteAll replaces the identifiers in a file with exchanges.
func rewriteAll(text string, rewrite func(netlink.Exchange) netlink.Exchange) string {
	var exchanges []netlink.Exchange
	if json.Unmarshal([]byte(text), &exchanges) != nil {
		return "" // cannot be: it was marshalled above
	}
	for i, e := range exchanges {
		exchanges[i] = rewrite(e)
	}
	text, err := marshal(exchanges)
	if err != nil {
		return ""
	}
	return text
}
