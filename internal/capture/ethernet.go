// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"path"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
)

// Limits on what drivers of network interfaces are asked.
const (
	maxPhysical = 256

	statisticBytes = 64 // of one in the archive, without its name
)

// isFunction reports whether a device is named as a PCI function.
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

// hasNetlink reports whether the kernel answers for its interfaces over ethtool netlink.
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
// speeds, of the physical interfaces for the rest, and there for all statistics: which of them mean
// something, later versions of the program may know better. A copy of some sysfs has nothing to do with this
// kernel's interfaces.
func (s *session) drivers(u *unit, physical, found []string) error {
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
			_ = tool.Speed(name, time.Now()) // many have none; the recording shows which
		}
	}
	for _, name := range physical[:min(len(physical), maxPhysical)] {
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
