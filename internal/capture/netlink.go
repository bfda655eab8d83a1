// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/json"
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/rdmanl"
)

// netlinkDevice is what NETLINK_RDMA says of a device.
type netlinkDevice struct {
	Index     uint32          `json:"index"`
	Name      string          `json:"name"`
	Firmware  string          `json:"firmware"`
	NodeGUID  string          `json:"node_guid"`
	ImageGUID string          `json:"sys_image_guid"`
	NodeType  fabric.NodeType `json:"node_type"`
	Protocol  string          `json:"protocol"`
	Ports     []netlinkPort   `json:"ports"`
}

// netlinkPort is what it says of a port: PORT_GET and STAT_GET, or why not.
type netlinkPort struct {
	Number        uint32           `json:"number"`
	State         fabric.PortState `json:"state"`
	PhysState     fabric.PhysState `json:"phys_state"`
	NetDev        string           `json:"netdev"`
	Error         string           `json:"error,omitempty"`
	Counters      []rdmanl.Counter `json:"counters"`
	CountersError string           `json:"counters_error,omitempty"`
}

// netlink asks the RDMA core about these devices. A copy of some sysfs has nothing to do with this kernel's netlink,
// and without the class, opening the socket would load the RDMA core.
func (s *session) netlink(u *unit, devices []string) error {
	if len(devices) == 0 || !s.sys.IsKernel() || !u.begin(rdmaName) {
		return nil
	}
	c, err := rdmanl.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Devices()
	if err != nil {
		u.fail(rdmaName, err) // those that could be decoded are here
	}
	answers := []netlinkDevice{}
	for _, d := range list {
		if slices.Contains(devices, d.Name) {
			answers = append(answers, askDevice(u, c, d))
		}
	}
	b, err := json.Marshal(answers)
	if err != nil {
		return err
	}
	u.put(rdmaName, entry{kind: regular, text: string(b)})
	return nil
}

func askDevice(u *unit, c *rdmanl.Client, d rdmanl.Device) netlinkDevice {
	const maxPorts = 256
	answer := netlinkDevice{
		Index: d.Index, Name: d.Name, Firmware: d.Firmware, NodeGUID: d.NodeGUID, ImageGUID: d.ImageGUID,
		NodeType: d.NodeType, Protocol: d.Protocol, Ports: []netlinkPort{},
	}
	for n := uint32(1); n <= min(d.Ports, maxPorts); n++ {
		if !u.begin(fmt.Sprintf("netlink %s port %d", d.Name, n)) {
			break
		}
		p := netlinkPort{Number: n}
		if v, err := c.Port(d.Index, n); err != nil {
			p.Error = reason(err)
		} else {
			p.State, p.PhysState, p.NetDev = v.State, v.PhysState, v.NetDev
		}
		var err error
		if p.Counters, err = c.Counters(d.Index, n); err != nil {
			p.CountersError = reason(err)
		}
		answer.Ports = append(answer.Ports, p)
	}
	return answer
}

// netlink replaces the identifiers in the answers.
func (a *anonymiser) netlink(text string) string {
	var devices []netlinkDevice
	if json.Unmarshal([]byte(text), &devices) != nil {
		return "" // cannot be: it was marshalled above
	}
	for i := range devices {
		d := &devices[i]
		d.Name, d.NodeGUID, d.ImageGUID = a.name(d.Name), a.text(d.NodeGUID), a.text(d.ImageGUID)
		for k := range d.Ports {
			d.Ports[k].NetDev = a.name(d.Ports[k].NetDev)
		}
	}
	b, err := json.MarshalIndent(devices, "", " ")
	if err != nil {
		return ""
	}
	return string(b) + "\n"
}
