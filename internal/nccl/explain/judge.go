// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// result ends the reading.
func (r *reading) result() *Result {
	r.Log = r.lines.Log
	for i := range r.Log.Settings {
		s := &r.Log.Settings[i]
		s.Value = fabric.MaskValue(s.Name, s.Value)
	}
	r.Hosts = slices.Sorted(maps.Keys(r.hosts))
	r.Processes = len(r.processes)
	const shownRanks = 16
	for i := range r.Communicators {
		c := &r.Communicators[i]
		c.Started = len(c.started)
		for _, rank := range slices.Sorted(maps.Keys(c.started)) {
			switch {
			case c.complete[rank] >= c.started[rank]:
				c.Complete++
			case len(c.Missing) < shownRanks:
				c.Missing = append(c.Missing, rank)
			}
		}
		c.started, c.complete = nil, nil
	}
	r.untie()
	r.promote()
	r.judge()
	r.goOn()
	r.fallBack()
	r.leaveOpen()
	r.hidden.compile(&r.Result)
	for i := range r.Findings {
		r.Findings[i].Reasons = r.reasons(&r.Findings[i])
	}
	r.first = r.findFirst()
	return &r.Result
}

// Has reports whether a signature was found.
func (r *Result) Has(s *signature.Signature) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Signature == s && !f.Open })
}

// undecided says why what was read of the log does not show that all is well; empty: it does.
func (r *Result) undecided() string {
	switch {
	case r.Cut:
		return fmt.Sprintf("the log is longer than %d GiB, and the rest was not read: give the lines of NCCL (grep -a NCCL FILE | gpufabric_exporter explain -)", maxBytes>>30)
	case r.said.passes() && r.First() == nil, r.said.done:
		return ""
	case r.said.lived:
		return "the program goes on after it, and no other line reports a failure"
	case r.said.loose:
		return "the kernel reports a failure, and nothing shows whether it is of the job: compare its host, process and time (dmesg -T)"
	case r.lonely():
		return "each test has one rank, so that nothing went between GPUs: the bandwidth of 0 says nothing on the network"
	case r.NCCLLines == 0 && r.said.engine > 0 && r.Open() != nil && r.Open().Signature == &signature.SetupStalls:
		return "no line is of NCCL, and the log ends where the engine sets it up: run with NCCL_DEBUG=INFO"
	case r.NCCLLines == 0 && r.Open() != nil && r.Open().Signature == &signature.MembersMissing:
		return "no line is of NCCL, and processes wait for others that did not announce themselves: it hangs, or the log is cut"
	case r.NCCLLines == 0 && r.Open() != nil && unsure(r.Open().Signature):
		return "no line is of NCCL, and whether the program went on as if it had not happened is not in the log"
	case r.NCCLLines == 0 && r.Open() != nil:
		return "no line is of NCCL, and whether the connection came later is not in the log"
	case r.NCCLLines == 0 && r.lively(), r.quiet(), r.worked():
		return ""
	case r.NCCLLines == 0 && r.said.steps >= enough && len(r.Findings) == 0:
		return "no failure so far, and the program shows progress; not seen: its end, and what NCCL did (run with NCCL_DEBUG=INFO)"
	case r.NCCLLines == 0 && len(r.Findings) == 0 && r.said.first[severe] == nil && r.said.first[unclear] == nil:
		return "no line is of NCCL, and none reports a failure: what NCCL did is not seen (run the job with NCCL_DEBUG=INFO)"
	case r.NCCLLines == 0:
		return "no line is of NCCL: run the job with NCCL_DEBUG=INFO"
	case r.stalled():
		return "a test of NCCL began, and no result is in the log: it hangs, or the log is cut"
	case r.Log.Failed != "" && !r.wentOn():
		return "a call of NCCL failed, and no line says why: " + r.hidden.text(r.Log.Failed)
	case r.Unknown > 0:
		return "NCCL warned of something that is not known here"
	case r.Full:
		return "the log has more hosts, ranks or failures than are counted"
	case len(r.Communicators) == 0 && (r.Harmless() || r.said.steps >= enough && r.lively()):
		return ""
	case len(r.Communicators) == 0 && r.Tested(): // NCCL 2.4 logs no end of a set-up
		return ""
	case len(r.Communicators) == 0 && r.Open() != nil && r.Open().Signature == &signature.SetupStalls:
		return "NCCL began, and no set-up of a communicator is in the log: it hangs before, or the log is cut"
	case len(r.Communicators) == 0 && len(r.Log.Links) > 0 && r.Open() == nil:
		return "no failure so far, and the connections that it shows are " + r.Transports().String() + "; not seen: begin and end of the set-up, and what the job did then (give the whole log)"
	case len(r.Communicators) == 0 && r.endsOpen() != "":
		return r.endsOpen()
	case len(r.Communicators) == 0 && r.cutShort():
		return "no failure so far: NCCL began over " + r.hidden.text(r.chosenInterface()) + r.withNetwork() + "; not seen: the set-up of a communicator, and what the job did then (the log is cut there)"
	case len(r.Communicators) == 0:
		return "no communicator is set up in it: run the job with NCCL_DEBUG=INFO, and give the log from its beginning"
	}
	for i := range r.Communicators {
		if c := &r.Communicators[i]; c.Complete < c.Started {
			return "the set-up of a communicator did not end on all ranks" + r.leftOut()
		}
	}
	switch f := r.Open(); {
	case f == nil || f.Signature != &signature.Stalled:
	case r.stopped():
		return "the set-up is complete, and someone stopped the program by hand, as one that hangs"
	case r.said.bar != "":
		return "the set-up is complete, and the program shows no progress after it: it hangs, or the log is cut"
	default:
		return "no failure is in it, and nothing comes after the set-up: the program logs no work, the job hangs, or the log is cut"
	}
	return r.unclear()
}

// wentOn reports whether the calls that failed are of what NCCL goes on without, as it says itself: SHARP.
func (r *Result) wentOn() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Signature.ID == "sharp_unavailable" ||
			f.Signature.ID == "setting_limited" && strings.Contains(f.Text, "CollNet")
	}) && len(r.Communicators) > 0
}

// leftOut says that Ray left out lines.
func (r *Result) leftOut() string {
	if r.Log.Repeated {
		return ", or Ray left out the lines that say so: run the job with RAY_DEDUP_LOGS=0"
	}
	return ""
}

// unclear says why the network would be slow, where the log does not show whether ranks use it; empty: it
// would not, or they do not.
func (r *Result) unclear() string {
	switch f := r.Open(); {
	case r.between() == log.No:
		return ""
	case f != nil && r.said.far != "" && f.Signature == &signature.NoGPUDirect:
		return ""
	case f != nil && f.Signature == &signature.NoGPUDirect:
		return "RDMA goes without GPUDirect RDMA, as it should with one GB10 or GeForce GPU for each host, and only there"
	}
	const hidden = ", and the log does not show which connections there are between hosts: give the logs of all ranks, with NCCL_DEBUG=INFO and without NCCL_DEBUG_SUBSYS"
	if r.Log.Fallback && !r.Has(&signature.TCP) {
		return "NCCL chose the network Socket, which is TCP" + hidden
	}
	if names := r.WithoutGPUDirect(); len(names) > 0 && !r.Has(&signature.NoGPUDirect) {
		return "GPUDirect RDMA is disabled for " + spelling.Few(names, 8) + hidden
	}
	return ""
}

// between reports whether connections go from host to host. NVLink between hosts (MNNVL) may carry all of them.
func (r *Result) between() log.Tristate {
	t := r.Transports()
	nvlink := r.Log.MNNVL || slices.ContainsFunc(r.Log.Links,
		func(l log.Link) bool { return l.Via == log.P2P && l.Name == "MNNVL" })
	spread := func(c Communicator) bool { return c.Spread }
	switch {
	case t.RDMA+t.TCP+t.Plugin+t.SHARP > 0:
		return log.Yes
	case nvlink && r.allRanks():
		return log.No
	case nvlink:
		return log.NotSaid
	case r.Log.Nodes > 1 || slices.ContainsFunc(r.Communicators, spread):
		return log.Yes
	case r.allRanks(), r.Log.Nodes == 1, r.allNear(), r.tests.worlds.several && !r.tests.worlds.spread && len(r.Hosts) < 2:
		return log.No
	}
	return log.NotSaid
}

// allRanks reports whether the log has all ranks of each communicator.
func (r *Result) allRanks() bool {
	return len(r.Communicators) > 0 && !slices.ContainsFunc(r.Communicators,
		func(c Communicator) bool { return c.Started < c.Ranks || c.ID == "" && len(r.Hosts) > 1 })
}

// WithoutGPUDirect names HCAs of NCCL's verbs network that ranks may use, and for which GPUDirect RDMA is
// disabled. Whether other networks need it is not known.
func (r *Result) WithoutGPUDirect() (names []string) {
	shown := r.Transports().RDMA > 0 && r.allRanks() || r.between() == log.No
	for _, h := range r.Log.HCAs {
		of := func(l log.Link) bool { return l.Via == log.Net && l.Name == h.Network && l.Device == h.Index }
		without := func(l log.Link) bool { return of(l) && !l.GPUDirect }
		used := slices.ContainsFunc(r.Log.Links, without) || !shown && !slices.ContainsFunc(r.Log.Links, of)
		if used && !h.GPUDirect && log.CarrierOf(h.Network) == log.Verbs && !slices.Contains(names, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// judge adds what follows from the connections. It is no failure of a line, so it comes behind those that are.
func (r *reading) judge() {
	unended := func(c Communicator) bool { return c.Complete < c.Started }
	if slices.ContainsFunc(r.Communicators, unended) && r.findFirst() < 0 {
		r.failPort()
	}
	if len(r.chosen()) > 1 && slices.ContainsFunc(r.Communicators, unended) {
		r.follow(&signature.NetworksApart, "networks: "+strings.Join(r.chosen(), ", "))
	}
	if len(r.Versions) > 1 && len(r.Hosts) > 1 && slices.ContainsFunc(r.Communicators, unended) {
		r.follow(&signature.ReleasesApart, "releases: "+strings.Join(r.Versions, ", ")).Open = true
	}
	if r.findFirst() < 0 && slices.ContainsFunc(r.Communicators, unended) && !r.Cut {
		r.follow(&signature.SetupStalls, r.stall()).Open = true
	}
	if r.serialised() {
		r.follow(&signature.Stalled, "CUDA_LAUNCH_BLOCKING=1 is set, ranks are on several hosts, and nothing comes after the set-up").Open = true
	}
	t := r.Transports()
	between := r.between() == log.Yes
	names := r.WithoutGPUDirect()
	switch {
	case t.TCP > 0 && r.Log.Nodes == 1:
		r.follow(&signature.TCP,
			fmt.Sprintf("%d connections within one host, which has shared memory (NCCL_SHM_DISABLE) and P2P (NCCL_P2P_DISABLE)", t.TCP))
	case t.TCP > 0:
		r.follow(&signature.TCP, fmt.Sprintf("%d of %d connections between hosts", t.TCP, t.TCP+t.RDMA+t.Plugin))
	case between && r.Log.Fallback && t.RDMA+t.Plugin == 0:
		r.follow(&signature.TCP, "the network is Socket, and ranks are on more than one host")
	case r.Log.Fallback && r.withoutSetups():
		r.follow(&signature.TCP, "the network is Socket, on "+spelling.Few(r.Hosts, 4))
	case r.loopback && len(r.Hosts) == 1: // its only host
	case r.Log.Fallback && r.between() == log.NotSaid:
		r.follow(&signature.TCP, "the network is Socket").Open = r.Log.Unloadable == "" // which is for another network
	}
	r.judgeGPUDirect(t, between, names)
	r.judgeNotes()
	if r.Log.NoMNNVL && r.Log.Clique && !r.Log.MNNVL {
		r.follow(&signature.NoMNNVL, "MNNVL 0, although GPUs are registered in an NVLink domain")
	}
	alone := r.findFirst() < 0
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Signature.ID == "launcher_unreachable" && r.NCCLLines == 0 && r.said.progress < f.order && alone && ofShell(f.raw) {
			f.Signature = &signature.LauncherFailed
		}
		f.Open = f.Open || alone && f.Signature.ID == "port_error" || r.recovered(f) || r.missed(f)
		f.Open = f.Open || f.Signature.ID == "launcher_refused" && (r.NCCLLines > 0 || r.said.progress > f.order)
		f.Open = f.Open || f.Signature.ID == "rendezvous_retried" && r.NCCLLines == 0 && r.loop == ""
	}
	r.judgeTests()
	if len(r.nics) > 1 && r.devicesDiffer() {
		r.follow(&signature.DevicesApart, r.nicsOfHosts())
	}
	if r.crossed && between {
		r.follow(&signature.CrossedRails, "connections leave by one device and arrive at another")
	}
}

// recovered reports whether a NIC failed and is in use again, as far as the log says.
func (r *reading) recovered(f *Finding) bool {
	has := func(id string) bool {
		return slices.ContainsFunc(r.Findings,
			func(other Finding) bool { return other.Signature.ID == id && other.order > f.order })
	}
	return f.Signature.ID == "nic_failing" && has("nic_recovered") && !has("nic_failed")
}

// stall says which ranks did not end a set-up, and how far NCCL came.
func (r *reading) stall() string {
	for i := range r.Communicators {
		if c := &r.Communicators[i]; c.Complete < c.Started {
			missing := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Missing), " ", ", "), "[]")
			return fmt.Sprintf("of %d ranks %d began in this log, and %d ended: not rank %s; the last line of NCCL: %s",
				c.Ranks, c.Started, c.Complete, missing, log.Text(r.last))
		}
	}
	return ""
}

func (r *reading) follow(s *signature.Signature, text string) *Finding {
	r.Findings = append(r.Findings, Finding{
		Signature: s, Count: 1, Rank: log.Unknown, Code: signature.NoCode, Text: text, raw: text, order: r.Lines + 1,
	})
	return &r.Findings[len(r.Findings)-1]
}

// Network names the network that NCCL chose, and the ports that it uses; empty: the log does not show it.
func (r *Result) Network() string {
	var ports []string
	for _, d := range r.Log.Devices {
		if name := fmt.Sprintf("%s:%d (%s)", d.Name, d.Port, d.LinkLayer); !slices.Contains(ports, name) {
			ports = append(ports, name)
		}
	}
	if len(ports) == 0 || r.Log.Network == "" {
		return r.Log.Network
	}
	return r.Log.Network + ": " + spelling.Few(ports, 8)
}

// Devices says that NCCL found no RDMA device, or for which GPUDirect RDMA is possible; empty: the log does
// not show it.
func (r *Result) Devices() string {
	var parts []string
	if r.Log.NoDevices {
		parts = append(parts, "NCCL found no RDMA device")
	}
	if r.Log.Unloadable != "" {
		parts = append(parts, "a network plugin needs "+r.Log.Unloadable+", which is missing or does not fit")
	}
	for _, state := range []struct {
		name      string
		gpuDirect bool
	}{{"disabled", false}, {"enabled", true}} {
		var names []string
		for _, h := range r.Log.HCAs {
			if h.GPUDirect == state.gpuDirect && !slices.Contains(names, h.Name) {
				names = append(names, h.Name)
			}
		}
		if len(names) > 0 {
			parts = append(parts, "GPUDirect RDMA "+state.name+" for "+spelling.Few(names, 8))
		}
	}
	return strings.Join(parts, "; ")
}

// Transports are numbers of connections, one per channel and direction, as both sides log them.
type Transports struct {
	RDMA, RDMAGPUDirect int // of NCCL's verbs network, and those of them that use GPUDirect RDMA
	TCP                 int // TCP, except where the site installed it as a network of its own (FastSocket)
	Plugin              int // of other networks
	P2P, SHM, SHARP     int
}

// Transports counts the connections.
func (r *Result) Transports() Transports {
	var t Transports
	for _, l := range r.Log.Links {
		switch l.Via {
		case log.P2P:
			t.P2P += l.Count
		case log.SHM:
			t.SHM += l.Count
		case log.CollNet:
			t.SHARP += l.Count
		case log.Net:
			t.network(l)
		}
	}
	return t
}

// String lists the connections.
func (t Transports) String() string {
	var parts []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d ", n)+fmt.Sprintf(format, args...))
		}
	}
	add(t.RDMA, "RDMA (%d with GPUDirect RDMA)", t.RDMAGPUDirect)
	add(t.TCP, "TCP")
	add(t.Plugin, "of a network plugin")
	add(t.P2P, "P2P")
	add(t.SHM, "shared memory")
	add(t.SHARP, "SHARP")
	if len(parts) == 0 {
		return "the log shows none (they are at the level INFO of the subsystems INIT and NET)"
	}
	return strings.Join(parts, ", ")
}

func (t *Transports) network(l log.Link) {
	switch carrier := log.CarrierOf(l.Name); {
	case carrier == log.Verbs:
		t.RDMA += l.Count
		if l.GPUDirect {
			t.RDMAGPUDirect += l.Count
		}
	case carrier == log.Sockets && l.Name != log.FastSocket:
		t.TCP += l.Count
	default:
		t.Plugin += l.Count
	}
}

// RingsGPUDirect reports whether all ring connections between hosts use GPUDirect RDMA, and whether the log
// says so (NCCL 2.24 and later). Without such connections NCCL says that they do.
func (r *Result) RingsGPUDirect() (all, known bool) {
	t := r.Transports()
	return r.Log.RingsGPUDirect == log.Yes, r.Log.RingsGPUDirect != log.NotSaid && t.RDMA+t.Plugin > 0
}
