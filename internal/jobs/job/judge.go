// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// evidence is what one reading, and its comparison with the one before, shows about a job on the node.
type evidence struct {
	ranks []*observed
	// sent and received went between ephemeral ports to hosts with quiet connections, added up over the ranks.
	sent, received float64
	bootstrap      map[netip.Addr]bool // hosts with quiet connections
	within         flow                // between ranks of the job that have one address, added up likewise
	size           int                 // ranks on all nodes, as stated
	devices        devices
}

// observed is a rank at one reading.
type observed struct {
	*process
	interval
	gpus     []string
	domain   bool   // its GPUs are in an NVLink domain of several nodes
	unlisted Reason // why the last look does not have it; empty: it has
}

// devices is what RDMA devices of the node carried between two readings.
type devices struct {
	rates    traffic                             // bytes per second
	users    func(device string) map[string]bool // names of the jobs that have contexts on it
	efa      func(device string) bool
	packets  func(device string) bool // its rate is an estimate: it counts no bytes
	byName   func(device string) bool // the node has it
	lacks    func(filter string) bool // NCCL_IB_HCA names none of the node
	moved    bool                     // another network namespace has some
	compared bool
}

// gather adds up what the ranks of a job did.
func (e *evidence) gather() {
	e.bootstrap = map[netip.Addr]bool{}
	for _, r := range e.ranks {
		for host, f := range r.peers {
			e.bootstrap[host] = e.bootstrap[host] || f.quiet
		}
	}
	for _, r := range e.ranks {
		sent, received := e.exchanged(r)
		e.sent, e.received = e.sent+sent, e.received+received
	}
	e.gatherWithin()
}

// exchanged is what a rank sent to and received from hosts of the job.
func (e *evidence) exchanged(r *observed) (sent, received float64) {
	for host, f := range r.peers {
		if e.bootstrap[host] {
			sent, received = sent+f.sent, received+f.received
		}
	}
	return sent, received
}

// spans reports whether the job has ranks on other nodes.
func (e *evidence) spans() bool { return len(e.bootstrap) > 0 || e.size > len(e.ranks) }

// verdictOf judges a rank.
func (e *evidence) verdictOf(r *observed) Verdict {
	switch {
	case r.unlisted != "":
		return Verdict{
			Transport: Unknown, Reason: r.unlisted,
			Evidence: []string{"the last look at the processes of the node did not get to it"},
		}
	case r.sign == signNone:
		return Verdict{
			Transport: Unknown, Reason: NoCommunicator,
			Evidence: []string{"no RAS listener, no /dev/shm/nccl-* segment and no verbs context"},
		}
	case !r.compared:
		return Verdict{Transport: Unknown, Reason: FirstReading}
	}
	rdma := e.rdmaOf(r)
	sent, received := e.exchanged(r)
	overTCP := comparable(e.sent, e.received) && max(sent, received) >= dataRate
	if !overTCP && r.sockets.State != fabric.OK && r.ownNet {
		overTCP = comparable(r.netSent, r.netReceived)
	}
	var v Verdict
	switch {
	case overTCP && rdma.carried && rdma.queuePairs > 0:
		v = Verdict{Transport: Mixed, Way: wayOf(r, e.devices), Evidence: slices.Concat(e.tcpEvidence(r), rdma.evidence)}
	case overTCP:
		v = e.tcpVerdict(r, rdma)
	case rdma.carried && rdma.queuePairs != 0:
		v = e.rdmaVerdict(r, rdma)
	default:
		v = e.quietVerdict(r, rdma)
	}
	v.partly = r.partly()
	return e.withLog(r, v)
}

// partly reports whether not all was read that a confirmed verdict needs.
func (r *observed) partly() bool {
	return r.Files.State != fabric.OK || !r.Files.Value.Complete || r.Verbs.State == fabric.Unknown ||
		r.sockets.State != fabric.OK || r.SocketsByCgroup ||
		r.Maps.State != fabric.OK || r.Settings.State != fabric.OK || r.busy == unclear
}

// rdmaUse is what a rank has of RDMA.
type rdmaUse struct {
	has        answer
	devices    []string // those that carried data
	carried    bool
	known      bool // counters of all of its devices
	moved      bool
	shared     bool // another job has contexts on them
	estimated  bool // one counts packets only
	queuePairs int  // -1: not known
	evidence   []string
}

func (e *evidence) rdmaOf(r *observed) rdmaUse {
	u := rdmaUse{has: hasVerbs(r.RankCandidate), queuePairs: -1, known: e.devices.compared}
	verbs, read := r.Verbs.Get()
	if u.has != yes {
		return u
	}
	if !read || verbs.Contexts == 0 { // it has descriptors, and the kernel does not show whose contexts they are
		u.known, u.moved = false, read || e.devices.moved
		u.evidence = append(u.evidence, fmt.Sprintf("%d uverbs descriptors whose devices are not seen",
			len(r.Files.Value.Uverbs)))
		return u
	}
	u.queuePairs = verbs.QueuePairs
	rate := 0.0
	for _, device := range verbs.Devices {
		v, counted := e.devices.rates[device]
		u.known = u.known && counted
		u.moved = u.moved || !e.devices.byName(device)
		u.shared = u.shared || len(e.devices.users(device)) > 1
		u.estimated = u.estimated || e.devices.packets(device)
		rate += v
		if v >= quietRate {
			u.devices = append(u.devices, device)
		}
	}
	u.carried = rate >= dataRate
	u.evidence = append(u.evidence, fmt.Sprintf("%d verbs contexts, %d queue pairs", verbs.Contexts, verbs.QueuePairs))
	if e.devices.compared {
		u.evidence = append(u.evidence, fmt.Sprintf("%s carried %s", deviceNames(verbs.Devices), rateText(rate)))
	}
	return u
}

// tcpVerdict is that of a rank whose sockets carry its data.
func (e *evidence) tcpVerdict(r *observed, rdma rdmaUse) Verdict {
	v := Verdict{Transport: TCP, Way: WaySocket, Evidence: append(e.tcpEvidence(r), rdma.evidence...)}
	way := wayOf(r, e.devices)
	if way.byDesign() {
		v.Way = way
		v.Evidence = append(v.Evidence, string(way)+" is loaded: TCP is how it works")
		return v
	}
	v.Cause = causeOf(r, way, e.devices)
	v.Confirmed = r.busy == yes && rdma.has == no && r.sign == signStrong && r.sockets.State == fabric.OK &&
		r.Maps.State == fabric.OK && r.Settings.State == fabric.OK && comparable(e.sent, e.received)
	switch {
	case rdma.has == no:
		v.Evidence = append(v.Evidence, "no uverbs descriptor and no verbs context")
	case r.Files.State != fabric.OK:
		v.Evidence = append(v.Evidence, "its descriptors could not be read: "+string(r.Files.Meta().Reason))
	case !r.Files.Value.Complete:
		v.Evidence = append(v.Evidence, "not all of its descriptors could be read")
	}
	if r.sign != signStrong {
		v.Evidence = append(v.Evidence, "it may be Gloo: no sign is certain of a communicator")
	}
	return v
}

func (e *evidence) tcpEvidence(r *observed) []string {
	if r.sockets.State != fabric.OK {
		return []string{fmt.Sprintf("interfaces of its network namespace sent %s and received %s", rateText(r.netSent),
			rateText(r.netReceived))}
	}
	hosts := 0
	for host := range r.peers {
		if e.bootstrap[host] {
			hosts++
		}
	}
	sent, received := e.exchanged(r)
	whose := "its sockets"
	if r.SocketsByCgroup {
		whose = "sockets of its control group"
	}
	return []string{fmt.Sprintf(whose+" sent %s and received %s, those of its job on this node %s and %s, to other nodes of the job: %d",
		rateText(sent), rateText(received), rateText(e.sent), rateText(e.received), hosts)}
}

// rdmaVerdict is that of a rank whose devices carry data and whose sockets do not.
func (e *evidence) rdmaVerdict(r *observed, rdma rdmaUse) Verdict {
	sent, received := e.exchanged(r)
	quiet := r.sockets.State == fabric.OK && !r.SocketsByCgroup && !comparable(sent, received)
	v := Verdict{Transport: RDMA, Way: wayOf(r, e.devices), Evidence: rdma.evidence}
	v.Confirmed = rdma.queuePairs > 0 && !rdma.shared && !rdma.estimated && quiet
	switch {
	case rdma.estimated:
		v.Evidence = append(v.Evidence, "its devices count packets and no bytes: what they carried is an estimate")
	case rdma.shared:
		v.Evidence = append(v.Evidence, "another job has contexts on its devices: it is unknown whose data they carried")
	case r.sockets.State != fabric.OK:
		v.Evidence = append(v.Evidence, "its sockets are not seen: "+string(r.sockets.Reason))
	case r.SocketsByCgroup:
		v.Evidence = append(v.Evidence, "its descriptors could not be read: not all of its sockets may be seen")
	}
	return v
}

// quietVerdict is that of a rank that was not seen to move data to other nodes.
func (e *evidence) quietVerdict(r *observed, rdma rdmaUse) Verdict {
	unknown := func(why Reason) Verdict { return Verdict{Transport: Unknown, Reason: why, Evidence: rdma.evidence} }
	because := func(m fabric.Meta) Verdict {
		if m.Reason == fabric.ReasonPrivilege {
			return unknown(Privilege)
		}
		return unknown(Unreadable)
	}
	switch {
	case r.busy == no:
		return unknown(Idle)
	case r.Files.State != fabric.OK && rdma.has != yes:
		return because(r.Files.Meta())
	case rdma.has == yes && rdma.moved:
		return unknown(Moved)
	case rdma.has == yes && !rdma.known:
		return unknown(Unreadable)
	case r.sockets.State != fabric.OK && !r.ownNet:
		return because(r.sockets)
	case r.SocketsByCgroup: // what it shows counts, and not what it does not show
		return because(r.Files.Meta())
	case r.sockets.State == fabric.OK && !e.spans() && comparable(e.within.sent, e.within.received):
		return e.withinVerdict(r, rdma)
	case r.sockets.State == fabric.OK && !e.spans() && r.busy == yes:
		return Verdict{
			Transport: Local, Confirmed: r.sign == signStrong && e.size > 0,
			Evidence: append(rdma.evidence, "no connections of the bootstrap to other hosts"),
		}
	case r.busy == unclear:
		return unknown(Unreadable)
	}
	if sent, received := e.exchanged(r); max(sent, received) >= quietRate || len(rdma.devices) > 0 {
		return unknown(LittleTraffic)
	}
	if usesCXI(r) {
		v := unknown(Unreadable)
		v.Evidence = append(v.Evidence, "libcxi is loaded: what Slingshot carries is not read")
		return v
	}
	if r.domain {
		return Verdict{Transport: Local, Evidence: append(rdma.evidence,
			"its GPUs are in an NVLink domain of several nodes, and nothing else carried data")}
	}
	return unknown(NoTraffic)
}

// usesCXI reports whether a rank has loaded the library of HPE Slingshot, whose devices are no RDMA devices
// of the kernel (/dev/cxi*).
func usesCXI(r *observed) bool { return slices.Contains(r.Maps.Or(fabric.MappedFiles{}).Hints, "cxi") }

// wayOf returns which part of NCCL, or plugin, a rank uses for RDMA, from the plugins that it has mapped and
// from its settings.
func wayOf(r *observed, d devices) Way {
	maps, verbs := r.Maps.Or(fabric.MappedFiles{}), r.Verbs.Or(fabric.VerbsUse{})
	for _, v := range r.Variables() {
		switch {
		case strings.HasPrefix(v.Name, "NCCL_FASTRAK_"):
			return WayFasTrak
		case strings.HasPrefix(v.Name, "NCCL_GPUDIRECTTCPX_"):
			return WayTCPX
		case v.Name == "NCCL_NET" && strings.EqualFold(v.Value, "gIB"):
			return WayGIB
		case v.Name == "NCCL_NET" && strings.EqualFold(v.Value, "FasTrak"):
			return WayFasTrak
		case v.Name == "NCCL_NET" && strings.EqualFold(v.Value, "GPUDirectTCPX"):
			return WayTCPX
		}
	}
	for _, hint := range []struct {
		library string
		way     Way
	}{{"fastrak", WayFasTrak}, {"tcpx", WayTCPX}, {"gib", WayGIB}} {
		if slices.Contains(maps.Hints, hint.library) {
			return hint.way
		}
	}
	way := WayVerbs
	for _, p := range maps.Plugins {
		switch of := wayOfPlugin(p); {
		case of == WayEFA && usesCXI(r): // the plugin of AWS works with each provider of libfabric
			way = WayPlugin
		case of.byDesign(), of == WayGIB:
			return of
		case of != WayPlugin || way == WayVerbs:
			way = of
		}
	}
	if slices.ContainsFunc(verbs.Devices, d.efa) {
		return WayEFA
	}
	return way
}

// wayOfPlugin returns which plugin a file is, by the words of its path: most have the same base name.
func wayOfPlugin(path string) Way {
	words := strings.FieldsFunc(strings.ToLower(path), func(r rune) bool { return strings.ContainsRune("/.-_", r) })
	for _, w := range []struct {
		word string
		way  Way
	}{
		{"fastrak", WayFasTrak},
		{"tcpxo", WayFasTrak},
		{"tcpx", WayTCPX},
		{"gib", WayGIB},
		{"ofi", WayEFA},
		{"efa", WayEFA},
		{"ucx", WayUCX},
		{"hpcx", WayIBext},
		{"sharp", WayIBext},
		{"ibext", WayIBext},
		{"spcx", WayIBext},
	} {
		if slices.Contains(words, w.word) {
			return w.way
		}
	}
	return WayPlugin
}

func rateText(v float64) string {
	for _, u := range []struct {
		from float64
		unit string
	}{{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}} {
		if v >= u.from {
			return fmt.Sprintf("%.1f %s", v/u.from, u.unit)
		}
	}
	return fmt.Sprintf("%.0f B/s", v)
}

// deviceNames names a few devices.
func deviceNames(list []string) string {
	const most = 8
	if len(list) > most {
		return fmt.Sprintf("%s and %d more devices", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}
