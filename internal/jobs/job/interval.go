// SPDX-License-Identifier: Apache-2.0

package job

import (
	"net/netip"
	"slices"
	"time"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

const (
	dataRate  = 10e6 // bytes per second that are collectives of a job that trains
	quietRate = 1e6  // bytes per second that are none
	busyFrom  = 0.3  // utilization of a GPU at work

	leastInterval = time.Second // between two readings that are compared: rates over less say little
	mostInterval  = 10 * time.Minute
)

// flow is data between a process and another host, in bytes per second.
type flow struct {
	sent, received float64
	quiet          bool // there is a connection that carries nothing, as those of the bootstrap
}

// connection is one end of a connection.
type connection struct {
	netNS         uint64 // where addresses are unique
	local, remote netip.AddrPort
}

func (c connection) otherEnd() connection { return connection{c.netNS, c.remote, c.local} }

// interval is what a process did between two readings.
type interval struct {
	compared bool // there were two readings; else nothing below is known

	busy    answer // its GPUs were busy at both readings
	peers   map[netip.Addr]*flow
	within  map[connection]flow // to a process with the same address
	sockets fabric.Meta         // of peers and within
	// netSent and netReceived went through the interfaces of its network namespace, if it has one of its own.
	netSent, netReceived float64
	ownNet               bool
}

// between compares two readings of a process. elapsed is in seconds.
func between(last, now *fabric.RankCandidate, elapsed float64, hostNet uint64, busy answer) interval {
	v := interval{
		compared: true, busy: busy, peers: map[netip.Addr]*flow{}, within: map[connection]flow{},
		sockets: now.Sockets.Meta(),
	}
	if v.sockets.State == fabric.OK {
		if last.Sockets.State != fabric.OK {
			return interval{} // the first of two readings again
		}
		v.addSockets(last.Sockets.Value, now, elapsed)
	}
	own, known := now.NetNS.Get()
	if known && hostNet != 0 && own != hostNet {
		v.addInterfaces(last.NetDevs, now.NetDevs, elapsed)
	}
	return v
}

func (v *interval) addSockets(last []fabric.Socket, of *fabric.RankCandidate, elapsed float64) {
	first := firstPort(of)
	before := make(map[uint64]fabric.Socket, len(last))
	for _, s := range last {
		before[s.Inode] = s
	}
	for _, s := range of.Sockets.Value {
		inside := withinHost(s)
		if !inside && !betweenHosts(s, first) {
			continue
		}
		if !s.Counted { // Linux before 4.2
			v.sockets = fabric.Meta{Reason: fabric.ReasonMissing}
			return
		}
		was, known := before[s.Inode]
		if !known || was.Local != s.Local || was.Remote != s.Remote || was.Sent > s.Sent || was.Received > s.Received {
			was = fabric.Socket{} // it is a new one: all that it carried was since
		}
		sent, received := float64(s.Sent-was.Sent)/elapsed, float64(s.Received-was.Received)/elapsed
		if inside {
			v.within[connection{of.NetNS.Or(0), s.Local, s.Remote}] = flow{sent: sent, received: received}
			continue
		}
		f := v.peers[hostOf(s)]
		if f == nil {
			f = new(flow)
			v.peers[hostOf(s)] = f
		}
		f.sent += sent
		f.received += received
		f.quiet = f.quiet || sent+received < quietRate/10
	}
}

func (v *interval) addInterfaces(last, now fabric.Fact[[]fabric.InterfaceUse], elapsed float64) {
	if last.State != fabric.OK || now.State != fabric.OK {
		return
	}
	v.ownNet = true
	for _, d := range now.Value {
		i := slices.IndexFunc(last.Value, func(o fabric.InterfaceUse) bool { return o.Name == d.Name })
		if d.Name == "lo" || i < 0 || d.Sent < last.Value[i].Sent || d.Received < last.Value[i].Received {
			continue
		}
		v.netSent += float64(d.Sent-last.Value[i].Sent) / elapsed
		v.netReceived += float64(d.Received-last.Value[i].Received) / elapsed
	}
}

// comparable reports whether about as much was sent as received, and enough of both for collectives.
func comparable(sent, received float64) bool {
	return min(sent, received) >= dataRate && max(sent, received) <= 2*min(sent, received)
}

// traffic is what RDMA devices have carried at a reading, in bytes since their counters began.
type traffic map[string]float64

// trafficOf adds up both directions of each device whose counters are known.
func trafficOf(n *fabric.Node) traffic {
	t := traffic{}
	for i := range n.HCAs {
		if v, ok := carried(&n.HCAs[i]); ok {
			t[n.HCAs[i].Name] = v
		}
	}
	return t
}

// carried is what a device sent and received, from the first place that counts it.
func carried(h *fabric.HCA) (float64, bool) {
	driver := h.Driver.Or("")
	for _, place := range []struct {
		list func(*fabric.Port) fabric.Fact[[]fabric.Counter]
		spec func(driver, name string) (counters.Spec, bool)
	}{
		{func(p *fabric.Port) fabric.Fact[[]fabric.Counter] { return p.Counters.PMA }, counters.PMASpec},
		{func(p *fabric.Port) fabric.Fact[[]fabric.Counter] { return p.Counters.HW }, counters.PortSpec},
	} {
		sum, found := 0.0, false
		for k := range h.Ports {
			v, ok := dataOf(place.list(&h.Ports[k]).Or(nil), driver, place.spec)
			sum, found = sum+v, found || ok
		}
		if found {
			return sum, true
		}
	}
	if v, ok := dataOf(h.HWCounters.Or(nil), driver, counters.DeviceSpec); ok {
		return v, true
	}
	return packetsOf(h), countsPackets(h)
}

// packet is the payload of a packet of a device that counts packets and no bytes: the path MTU that
// interfaces of 1,500 bytes have.
const packet = 1024

// countsPackets reports whether the device counts packets and no bytes, as only Soft-RoCE does. What it
// carried is an estimate.
func countsPackets(h *fabric.HCA) bool {
	return len(h.Ports) > 0 && slices.ContainsFunc(h.Ports[0].Counters.HW.Or(nil),
		func(c fabric.Counter) bool { return c.Name == "sent_pkts" })
}

func packetsOf(h *fabric.HCA) (sum float64) {
	for k := range h.Ports {
		for _, c := range h.Ports[k].Counters.HW.Or(nil) {
			if c.Name == "sent_pkts" || c.Name == "rcvd_pkts" {
				sum += packet * float64(c.Value.Or(0))
			}
		}
	}
	return sum
}

func dataOf(list []fabric.Counter, driver string, spec func(driver, name string) (counters.Spec, bool)) (sum float64,
	found bool,
) {
	for _, c := range list {
		s, known := spec(driver, c.Name)
		if !known || s.Meaning != counters.TransmittedBytes && s.Meaning != counters.ReceivedBytes {
			continue
		}
		v, read := c.Value.Get()
		if !read {
			return 0, false
		}
		scale := s.Scale
		if scale == 0 {
			scale = 1
		}
		sum, found = sum+float64(v)*scale, true
	}
	return sum, found
}

// rates compares two readings of the devices: bytes per second of those whose counters are known and did not fall.
func (t traffic) rates(last traffic, elapsed float64) traffic {
	r := traffic{}
	for name, v := range t {
		if was, ok := last[name]; ok && v >= was && elapsed > 0 {
			r[name] = (v - was) / elapsed
		}
	}
	return r
}
