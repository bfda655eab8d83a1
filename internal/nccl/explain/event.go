// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/failure"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// part reads one line, or a part of it that one wrote over.
func (r *reading) part(line []byte) {
	r.Lines++
	if len(line) > log.MaxLine {
		line = line[:log.MaxLine]
		r.Long++
	}
	line = bytes.TrimLeft(line, "\x00")
	if unprintable(line) {
		r.Unprintable++
	}
	if len(line) < len("NCCL ") { // it says nothing
		r.lines.Answer(string(line))
		r.lines.Lines++
		return
	}
	text := string(line)
	if text == "Killed" || strings.HasSuffix(text, "]Killed") { // as shells print it, behind a bar
		text = "sh: Killed"
	}
	r.lines.Answer(text)
	r.hidden.collect(text)
	if c := text[0]; c == '[' || c >= '0' && c <= '9' {
		r.stamp = cmp.Or(log.Stamp(text), r.stamp)
	}
	e, f, failed := r.lines.Add(text)
	switch e.Level {
	case log.Info, log.Warn, log.Version:
		r.NCCLLines++
		r.last = e.Message
		if e.Level != log.Warn {
			r.said.informed = r.Lines
		}
		r.process(e.Entry)
		r.informed(e)
	case log.Plain:
		r.progress(text)
		if strings.HasPrefix(text, "  ") {
			r.reported(text)
		}
		if !failed {
			r.says(text, e)
		}
	case log.LastError:
	}
	if failed {
		if f.Time == "" {
			f.Time = cmp.Or(log.Strip(text).Time, r.stamp)
		}
		if f.Place == "" && e.Level == log.Plain {
			f.Place = r.said.at.of(r.Lines, text)
		}
		r.found(&f)
	}
	if e.Level != log.Plain || r.said.progress == r.Lines {
		r.span.add(r.stamp)
	}
}

// process counts the process that an entry is of.
func (r *reading) process(e log.Entry) {
	from := process{e.Host, e.PID}
	if e.Host == "" {
		return
	}
	if _, known := r.processes[from]; known {
		return
	}
	if len(r.processes) == maxProcesses {
		r.Full = true
		return
	}
	r.processes[from] = member{rank: log.Unknown}
	if _, known := r.hosts[e.Host]; !known {
		if len(r.hosts) == maxHosts {
			r.Full = true
			return
		}
		r.hosts[e.Host] = struct{}{}
	}
}

// informed takes what is no failure.
func (r *reading) informed(e log.Event) {
	m := e.Message
	if at := strings.Index(m, "Using "); at >= 0 && (strings.Contains(m[at:], "[0]lo:127.") ||
		strings.Contains(m[at:], "Using lo:127.") || strings.Contains(m[at:], "interface lo:127.")) {
		r.loopback = true
	}
	r.address(e)
	r.states(m)
	r.said.closed = r.said.closed || strings.HasSuffix(m, "Destroy COMPLETE")
	if _, provider, is := strings.Cut(strings.ToLower(m), "selected provider is "); is {
		name, _, _ := strings.Cut(provider, " ")
		r.provider = log.Text(strings.TrimSuffix(name, ","))
	}
	rest, printed := strings.CutPrefix(m, "NCCL version ")
	switch {
	case printed || e.Level == log.Version:
		if v, _, ok := log.ParseVersion(rest); ok {
			r.release(v)
		}
	case e.Level != log.Info:
	case strings.HasPrefix(m, "Using network "):
		r.network(e.Entry, log.Text(m[len("Using network "):]))
	case strings.HasPrefix(m, "Channel "):
		r.channel(e)
	case strings.HasPrefix(m, "NET/IB : Using ["):
		if _, known := r.hosts[e.Host]; known {
			devices, _, _ := strings.Cut(m[len("NET/IB : Using "):], ";")
			r.nics[e.Host] = log.Text(strings.TrimSuffix(devices, " [RO]"))
		}
	default:
		if i, ok := log.ParseInit(m); ok {
			r.setup(i, e.Entry)
			return
		}
		r.returned(e)
		r.through(e)
	}
}

// through notes which source files of NCCL unwind after a warning of the same process, the last of all failures.
func (r *reading) through(e log.Event) {
	u, is := log.ParseUnwinding(e.Message)
	if !is || len(r.Findings) == 0 {
		return
	}
	const most = 256 // bytes
	f := &r.Findings[len(r.Findings)-1]
	if f.process == (process{e.Host, e.PID}) && len(f.through) < most {
		f.through += u.File + " "
	}
}

// returned keeps the first call that failed, unless its process ends a set-up after it.
func (r *reading) returned(e log.Event) {
	if r.failedCall != nil {
		return
	}
	u, is := log.ParseUnwinding(e.Message)
	if !is || u.Fallback() {
		return
	}
	place, _, _ := strings.Cut(e.Message, " ")
	e.Place = log.Text(place)
	f := r.finding(&failure.Failure{Code: signature.NoCode, Event: e, Text: e.Message, Line: r.Lines})
	f.Signature = signature.Area(e.File(), "")
	r.failedCall = &f
}

func (r *reading) network(e log.Entry, name string) {
	if _, known := r.hosts[e.Host]; known {
		r.networks[e.Host] = name
	}
	from := process{e.Host, e.PID}
	if _, known := r.processes[from]; known && name == "Socket" {
		r.sockets[from] = r.Lines
	}
}

func (r *reading) release(v string) {
	if !slices.Contains(r.Versions, v) && len(r.Versions) < maxVersions {
		r.Versions = append(r.Versions, v)
	}
}

// channel compares the devices at both ends of a connection, "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/3".
func (r *reading) channel(e log.Event) {
	r.neighbours(e.Message)
	what, via, found := strings.Cut(e.Message, "] via NET/")
	name, sent := strings.CutSuffix(what, " [send")
	if !sent {
		name, _ = strings.CutSuffix(what, " [receive")
	}
	network, device, numbered := strings.Cut(via, "/")
	if !found || !numbered || log.CarrierOf(network) != log.Verbs {
		return
	}
	r.connects(e.Host, device)
	device = device[:len(device)-len(strings.TrimLeft(device, "0123456789"))]
	n, err := strconv.Atoi(device)
	if err != nil {
		return
	}
	key := name
	other := key + " received"
	if !sent {
		key, other = other, key
	}
	if at, known := r.channels[other]; known {
		r.crossed = r.crossed || at != n
		delete(r.channels, other)
	} else if len(r.channels) < maxChannels {
		r.channels[key] = n
	}
}

// setup notes that a set-up of a process began or ended.
func (r *reading) setup(i log.Init, e log.Entry) {
	from := process{e.Host, e.PID}
	if p, is := r.processes[from]; is {
		if i.Ranks > p.of { // the largest communicator is the job's
			p.rank, p.of = i.Rank, i.Ranks
		}
		if i.Complete {
			if f := r.failedCall; f != nil && f.process == from { // it went on
				r.failedCall = nil
			}
			p.ended++
		} else {
			p.began++
		}
		r.processes[from] = p
	}
	if _, rest, found := strings.Cut(e.Message, " cudaDev "); found {
		device, _, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(device); err == nil && n < maxRanks {
			r.devices = max(r.devices, n)
		}
	}
	r.communicator(i, e.Host)
}

// communicator notes the set-up of a rank.
func (r *reading) communicator(i log.Init, host string) {
	at, known := r.groups[group{i.ID, i.Ranks}]
	if !known {
		if len(r.Communicators) == maxCommunicators {
			r.Full = true
			return
		}
		at = len(r.Communicators)
		r.groups[group{i.ID, i.Ranks}] = at
		r.Communicators = append(r.Communicators, Communicator{
			ID: i.ID, Ranks: i.Ranks, started: map[int]int32{},
			complete: map[int]int32{},
		})
	}
	c := &r.Communicators[at]
	if c.host == "" {
		c.host = host
	}
	// without an ID, ranks of other communicators may be among them
	c.Spread = c.Spread || host != "" && host != c.host && i.ID != ""
	if _, known := c.started[i.Rank]; !known {
		if r.tracked == maxRanks {
			r.Full = true
			return
		}
		r.tracked++
	}
	if i.Complete {
		c.complete[i.Rank]++
		c.started[i.Rank] = max(c.started[i.Rank], c.complete[i.Rank]) // releases before 2.16 log no begin
	} else {
		c.started[i.Rank]++
	}
}

// found takes a failure, or a warning of which it is not known whether it is one.
func (r *reading) found(f *failure.Failure) {
	one := r.finding(f)
	r.join(f, &one)
	if f.Signature == nil {
		r.unknown(one)
		return
	}
	if w := slices.IndexFunc(r.Warnings, func(w Warning) bool { return w.finding.order == one.order }); w >= 0 {
		r.Warnings = slices.Delete(r.Warnings, w, w+1) // its thread unwound
		delete(r.warnings, one.raw)
	}
	if f.Level == log.Warn && signature.IsArea(f.Signature) && one.order < r.Lines {
		r.Unknown--
	}
	if f.Signature.Source == signature.PyTorch {
		r.waits(f.Message)
	}
	r.unnamed = r.unnamed || unnamed(f.Message)
	if _, release, is := strings.Cut(f.Text, ", NCCL version "); is {
		if v, _, ok := log.ParseVersion(release); ok {
			r.release(v)
		}
	}
	switch f.Signature.ID {
	case "process_crashed", "heap_corrupted":
		r.crash.at(r.Lines, one.raw)
	case "xid_application":
		r.xids.add(&one)
	case "members_announced":
		r.said.announced(one.raw)
	}
	if class(f.Signature) >= 0 {
		r.said.steps = 0
	}
	one.tell(f.Host)
	r.find(one)
}

// finding is what a failure shows. Its texts are fit to be printed once find keeps it: most are counted only.
func (r *reading) finding(f *failure.Failure) Finding {
	const most = 1024 // bytes: the GIDs of a connection come last
	from := process{f.Host, f.PID}
	rank := f.Rank
	if rank == log.Unknown {
		rank = rankNamed(f.Message)
	}
	if p, known := r.processes[from]; known && p.rank != log.Unknown {
		rank = p.rank
	}
	host := cmp.Or(f.Host, nodeOfRay(f.Message))
	if host == "" && f.Signature != nil && f.Signature.ID == "process_crashed" {
		host = hostOfSignal(f.Text)
	}
	if host == "" && rank == log.Unknown && r.report.told(r.Lines, f.Text) {
		host, rank = r.report.host, r.report.rank
	}
	text := f.Message // of PyTorch, which names the rank at its begin
	if f.Signature == nil || f.Signature.Source != signature.PyTorch {
		text = ends(f.Text, f.Signature)
	}
	return Finding{
		Signature: f.Signature, Count: 1, File: r.name, Line: f.Line - r.before,
		Host: host, Rank: rank, Code: f.Code,
		Peer: signature.Peer(f.Message), Place: f.Place, Writer: signature.Writer(f.File(), f.Message),
		Text: text, process: from, time: f.Time, raw: f.Text[:min(len(f.Text), most)], order: f.Line,
	}
}

// unknown keeps a warning without a signature.
func (r *reading) unknown(f Finding) {
	r.Unknown++
	if _, known := r.warnings[f.raw]; known || len(r.Warnings) == maxWarnings {
		return
	}
	r.warnings[f.raw] = struct{}{}
	r.Warnings = append(r.Warnings, Warning{f.Line, shown(f.Text), f})
}

// find notes a signature.
func (r *reading) find(one Finding) {
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == one.Signature.ID })
	if at < 0 {
		if len(r.Findings) == maxFindings {
			r.Full = true
			return
		}
		at = len(r.Findings)
		one.Count, one.Text, one.Peer, one.Place = 0, shown(one.Text), shown(one.Peer), shown(one.Place)
		r.Findings = append(r.Findings, one)
	}
	f := &r.Findings[at]
	f.Count++
	f.last = max(f.last, one.order)
	f.own = f.own || one.own
	const pairs, peers, lines = 8, 4, 64
	if f.Count > 1 && len(f.told) < lines {
		f.told = append(f.told, one.told...)
	}
	if one.Peer != "" && len(f.Peers) < peers && !slices.Contains(f.Peers, shown(one.Peer)) {
		f.Peers = append(f.Peers, shown(one.Peer))
	}
	if p := one.pair(); p != "" && len(f.Pairs) < pairs && !slices.Contains(f.Pairs, p) {
		f.Pairs = append(f.Pairs, p)
	}
	if one.Host != "" && len(f.Hosts) < maxFindingHosts && !slices.Contains(f.Hosts, one.Host) {
		f.Hosts = append(f.Hosts, one.Host)
	}
}

// shown is text of a log that may be printed: bounded, without control characters and credentials.
func shown(s string) string { return fabric.MaskCredentials(log.Text(s)) }
