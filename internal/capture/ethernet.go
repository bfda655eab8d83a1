// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
)

// Limits on what drivers of network interfaces are asked.
const (
	maxWires      = 256
	maxParameters = 64 // of one directory; Linux 6.12 has 22

	statisticBytes = 64 // of one in the archive, without its name
)

// congestion reads what MLNX_OFED adds to these interfaces, and where it does not show the parameters of congestion
// control, those in debugfs. Most of these files cost a command to the firmware; package sysfs has the details.
func (t *tree) congestion(wires []string) error {
	if len(wires) > maxWires {
		t.leaveOut("network interfaces", fmt.Sprintf("more than %d below RDMA ports: left out with all that follow", maxWires))
	}
	for _, name := range wires[:min(len(wires), maxWires)] {
		at, err := t.resolve(netClass + "/" + name)
		if err != nil {
			t.note(netClass+"/"+name, err)
			continue
		}
		t.attrs(at+"/qos", "trust", "dscp2prio")
		found := false
		for _, side := range []string{"roce_np", "roce_rp"} {
			dir := at + "/ecn/" + side
			found = t.parameters(dir) || found
			t.switches(dir + "/enable")
		}
		device, err := t.resolve(at + "/device")
		if function := path.Base(device); err == nil && !found && isFunction(function) {
			t.parameters(debugMLX5 + "/" + function + "/cc_params")
		}
	}
	return nil
}

// parameters reads the numbers in a directory and tells whether there are any.
func (t *tree) parameters(dir string) (found bool) {
	names := slices.DeleteFunc(t.list(dir), func(s string) bool { return s == "enable" })
	for _, name := range names[:min(len(names), maxParameters)] {
		if _, ok := t.attr(dir, name); ok {
			found = true
		}
	}
	return found
}

// switches reads for which priorities a side of congestion control is on. One that is unknown is enough to know
// nothing.
func (t *tree) switches(dir string) {
	for p := range fabric.NumPriorities {
		if _, ok := t.attr(dir, strconv.Itoa(p)); !ok {
			return
		}
	}
}

// isFunction tells whether a device is named as a PCI function.
func isFunction(name string) bool {
	ok, _ := path.Match("????*:??:??.?", name)
	return ok
}

// dialer opens what a kernel is asked with about its network interfaces.
type dialer func() (*dcbnl.Client, *ethtool.Client, error)

func dialKernel() (*dcbnl.Client, *ethtool.Client, error) {
	dcb, err := dcbnl.Dial()
	if err != nil {
		return nil, nil, err
	}
	tool, err := ethtool.Open()
	if err != nil {
		dcb.Close()
		return nil, nil, err
	}
	return dcb, tool, nil
}

// hasNetlink tells whether the kernel answers for its interfaces over ethtool netlink.
func (s *session) hasNetlink() bool {
	if s.o.dial == nil {
		return false
	}
	dcb, tool, err := s.o.dial()
	if err != nil {
		return false
	}
	defer dcb.Close()
	defer tool.Close()
	return tool.HasNetlink()
}

// drivers asks the drivers of network interfaces what the exporter asks them, once: of all that were found for their
// speeds, of the wires for the rest, and there for all statistics: which of them mean something, later versions of the
// program may know better. A copy of some sysfs has nothing to do with this kernel's interfaces.
func (s *session) drivers(u *unit, wires, found []string) error {
	if s.o.dial == nil || len(found) == 0 || !u.begin(dcbName) {
		return nil
	}
	dcb, tool, err := s.o.dial()
	if err != nil {
		return err
	}
	defer dcb.Close()
	defer tool.Close()
	same := func(name string) string { return name }
	answers, more := []netlink.Exchange{}, []netlink.Exchange{}
	dcb.Record(func(e netlink.Exchange) { answers = append(answers, dcbnl.Rewrite(e, same)) })
	room := maxBytes / 2
	tool.Record(func(e netlink.Exchange) {
		more = append(more, ethtool.Rewrite(e, same))
		for _, s := range e.Statistics {
			room -= statisticBytes + len(s.Name)
		}
	})
	if tool.HasNetlink() {
		for _, name := range found {
			if !u.begin(ethtoolName + " speed of " + name) {
				return nil
			}
			_ = tool.Speed(name, time.Now()) // many have none; the recording tells
		}
	}
	for _, name := range wires[:min(len(wires), maxWires)] {
		if !u.begin(ethtoolName + " " + name) {
			return nil
		}
		if room < 0 {
			u.leaveOut(name, "too many statistics: left out with all that follow")
			break
		}
		askWire(u, dcb, tool, name)
	}
	text, err := marshal(answers)
	u.put(dcbName, entry{kind: regular, text: text})
	moreText, moreErr := marshal(more)
	u.put(ethtoolName, entry{kind: regular, text: moreText})
	return errors.Join(err, moreErr)
}

// askWire asks about one physical interface.
func askWire(u *unit, dcb *dcbnl.Client, tool *ethtool.Client, name string) {
	var q fabric.QoS
	now := time.Now()
	u.note(dcbName+" "+name, dcb.Read(name, &q, now))
	u.note(ethtoolName+" "+name, tool.Read(name, &q, now))
	_, err := tool.Statistics(name, func(string) bool { return true }, now)
	if !errors.Is(err, errors.ErrUnsupported) {
		u.note(ethtoolName+" "+name+" statistics", err)
	}
}
