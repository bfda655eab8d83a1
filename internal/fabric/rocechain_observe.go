// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strconv"
	"time"
)

// Below these nothing is said: a few packets prove nothing.
const (
	roceMinBytes = 1 << 20
	roceMinMarks = 100 // of congestion, and notifications of it
)

// Thresholds of the field. A healthy fabric pauses in bursts, and every all-to-all is marked: neither is a trouble by
// itself, shares of time and of bytes are.
const (
	// roceShare of RDMA bytes should be on the expected priority. The rest is room for notifications (priority 6) and
	// for RDMA that is not NCCL's.
	roceShare = 0.95
	// rocePauseSent is the share of time from which a host is a storm. Slow receivers, with PCIe in the way, reach
	// 0.3; the watchdogs of switches (SONiC PFCWD) wait for 0.8 and more before they drop.
	rocePauseSent = 0.50
	// rocePauseReceived is the share of time that a sender loses before collectives show it. An incast of an
	// all-reduce takes a few percent.
	rocePauseReceived = 0.10
)

// observeRoCE judges what traffic shows of the priority that RoCE should use. A site that expects congestion
// control to be off gets no opinion of it.
func observeRoCE(priority Fact[int], lossless Fact[bool], ecn *bool, traffic Fact[RoCETraffic],
	congestion Fact[RoCECongestion],
) []RoCELink {
	links := make([]RoCELink, 0, 5)
	if t, ok := traffic.Get(); ok {
		links = append(links, observePriority(priority, &t), observeLoss(priority, lossless, &t),
			observePauseSent(priority, lossless, &t), observePauseReceived(priority, lossless, &t))
	} else {
		for _, s := range []RoCEStep{
			RoCEObservedPriority, RoCEObservedLoss, RoCEObservedPauseSent,
			RoCEObservedPauseReceived,
		} {
			links = append(links, unwatched(s, traffic.Meta(), "statistics of the interface"))
		}
	}
	if c, ok := congestion.Get(); ok {
		return append(links, observeCNP(ecn, &c))
	}
	return append(links, unwatched(RoCEObservedCNP, congestion.Meta(), "RDMA counters"))
}

func unwatched(s RoCEStep, m Meta, what string) RoCELink {
	switch {
	case m.Reason == ReasonNotRead:
		return unknownLink(s, m, fmt.Sprintf("it takes two readings of the %s within %s", what, span(roceMaxWindow)))
	case notOffered(m):
		return unknownLink(s, m, "the driver has no "+what)
	}
	return unknownLink(s, m, "the "+what+" could not be read")
}

// observePriority bounds the share of RDMA bytes that left with the priority: other traffic counts in it too, and
// may be all there is.
func observePriority(priority Fact[int], t *RoCETraffic) RoCELink {
	const s = RoCEObservedPriority
	p, known := priority.Get()
	if !known {
		return unknownLink(s, priority.Meta(), "the priority to check is not known")
	}
	rdma, ok := t.SentRDMA.Get()
	if !ok {
		return unknownLink(s, t.SentRDMA.Meta(), "RDMA bytes are not counted")
	}
	var all uint64
	most := 0 // the priority with the most bytes
	for i, f := range t.SentBytes {
		v, ok := f.Get()
		if !ok {
			return unknownLink(s, f.Meta(), "bytes are not counted by priority")
		}
		all += v
		if v > t.SentBytes[most].Value {
			most = i
		}
	}
	if float64(all) < roceShare*float64(rdma) { // as on a virtual function, whose port is another's
		return unknownLink(s, Meta{Source: t.SentRDMA.Source, Reason: ReasonUnsupported},
			fmt.Sprintf("in the last %s RDMA sent %s, all priorities %s: the statistics do not include it", span(t.Window),
				bytes(rdma), bytes(all)))
	}
	if rdma < roceMinBytes {
		return unknownLink(s, Meta{Source: t.SentRDMA.Source, Reason: ReasonNotRead},
			fmt.Sprintf("in the last %s RDMA sent %s, too little to determine its priority", span(t.Window), bytes(rdma)))
	}
	on := t.SentBytes[p].Value
	other := all - min(all, rdma)
	upper := min(1, float64(on)/float64(rdma))
	lower := min(1, float64(on-min(on, other))/float64(rdma))
	in := fmt.Sprintf("in the last %s RDMA sent %s, ", span(t.Window), bytes(rdma))
	l := RoCELink{Step: s, Source: t.SentBytes[p].Source}
	switch {
	case upper < roceShare:
		l.Status = StatusFailed
		share := "none"
		if upper > 0 {
			share = "at most " + percent(upper)
		}
		l.Evidence = in + fmt.Sprintf("%s of it with priority %d; %s of all that was sent had priority %d",
			share, p, percent(float64(t.SentBytes[most].Value)/float64(all)), most)
	case lower >= roceShare:
		l.Status = StatusOK
		l.Evidence = in + fmt.Sprintf("at least %s of it with priority %d", percent(lower), p)
	default:
		l.Status, l.Reason = StatusUnknown, ReasonNotRead
		l.Evidence = in + fmt.Sprintf("%s to %s of it with priority %d: other traffic hides how much", percent(lower),
			percent(upper), p)
	}
	return l
}

// observeCNP: marks without notifications mean that receivers do not report congestion, notifications that are all
// ignored that senders do not heed it. No marks mean nothing.
func observeCNP(ecn *bool, t *RoCECongestion) RoCELink {
	marked, knownMarked := t.Marked.Get()
	sent, knownSent := t.CNPSent.Get()
	handled, knownHandled := t.CNPHandled.Get()
	ignored, knownIgnored := t.CNPIgnored.Get()
	l := RoCELink{Step: RoCEObservedCNP, Source: t.CNPSent.Source, Status: StatusOK}
	l.Evidence = fmt.Sprintf("in the last %s %d packets came with congestion marks, and %d notifications went out",
		span(t.Window), marked, sent)
	if knownHandled && sent > 0 {
		l.Evidence += fmt.Sprintf("; this host slowed down for %d that came", handled)
	}
	switch {
	case ecn != nil && !*ecn:
		return RoCELink{Step: l.Step, Status: StatusNotApplicable, Evidence: "the site expects congestion control to be off"}
	case knownHandled && knownIgnored && handled == 0 && ignored >= roceMinMarks:
		l.Status, l.Source = StatusFailed, t.CNPIgnored.Source
		l.Evidence = fmt.Sprintf("in the last %s this host ignored all %d congestion notifications that came",
			span(t.Window), ignored)
	case !knownMarked:
		return unknownLink(l.Step, t.Marked.Meta(), "congestion marks are not counted")
	case !knownSent:
		return unknownLink(l.Step, t.CNPSent.Meta(), "congestion notifications are not counted")
	case marked < roceMinMarks:
		l.Status, l.Reason = StatusUnknown, ReasonNotRead
		l.Evidence += ": too few for a verdict"
	case sent == 0:
		l.Status = StatusFailed
	}
	return l
}

func observeLoss(priority Fact[int], lossless Fact[bool], t *RoCETraffic) RoCELink {
	p, l, ok := observeLossless(RoCEObservedLoss, priority, lossless)
	if !ok {
		return l
	}
	lost, known := t.Discards[p].Get()
	if !known {
		return unknownLink(l.Step, t.Discards[p].Meta(), "dropped packets are not counted by priority")
	}
	l.Source, l.Status = t.Discards[p].Source, StatusOK
	if lost > 0 {
		l.Status = StatusFailed
	}
	packets := "packets"
	if lost == 1 {
		packets = "packet"
	}
	l.Evidence = fmt.Sprintf("in the last %s this host dropped %d %s of the lossless priority %d", span(t.Window), lost,
		packets, p)
	return l
}

// observePauseSent judges pauses that this host sends to the network.
func observePauseSent(priority Fact[int], lossless Fact[bool], t *RoCETraffic) RoCELink {
	const s = RoCEObservedPauseSent
	if n := t.Storms.Or(0); n > 0 { // whichever priority it was
		return RoCELink{
			Step: s, Status: StatusFailed, Source: t.Storms.Source,
			Evidence: fmt.Sprintf("in the last %s the NIC detected %d PFC storms", span(t.Window), n),
		}
	}
	return observePause(s, priority, lossless, t.Window, &t.PauseSent, rocePauseSent, "this host", "the network")
}

// observePauseReceived judges pauses that the network sends to this host.
func observePauseReceived(priority Fact[int], lossless Fact[bool], t *RoCETraffic) RoCELink {
	return observePause(RoCEObservedPauseReceived, priority, lossless, t.Window, &t.PauseReceived, rocePauseReceived,
		"the network", "this host")
}

func observePause(s RoCEStep, priority Fact[int], lossless Fact[bool], window time.Duration,
	times *[NumPriorities]Fact[time.Duration], limit float64, sender, paused string,
) RoCELink {
	p, l, ok := observeLossless(s, priority, lossless)
	if !ok {
		return l
	}
	d, known := times[p].Get()
	if !known {
		return unknownLink(s, times[p].Meta(), "pause time is not counted by priority")
	}
	share := d.Seconds() / window.Seconds()
	l.Source, l.Status = times[p].Source, StatusOK
	if share > limit {
		l.Status = StatusFailed
	}
	l.Evidence = fmt.Sprintf("in the last %s %s paused priority %d of %s for %s of the time", span(window), sender, p,
		paused, percent(share))
	return l
}

// observeLossless prepares a link that only a lossless priority has; ok is false when there is nothing to judge.
func observeLossless(s RoCEStep, priority Fact[int], lossless Fact[bool]) (p int, l RoCELink, ok bool) {
	p, known := priority.Get()
	on, knownPFC := lossless.Get()
	switch {
	case !known:
		return 0, unknownLink(s, priority.Meta(), "the priority to check is not known"), false
	case !knownPFC:
		return 0, unknownLink(s, lossless.Meta(), "whether the priority is lossless is not known"), false
	case !on:
		return 0, RoCELink{Step: s, Status: StatusNotApplicable, Evidence: "the priority is not lossless"}, false
	}
	return p, RoCELink{Step: s}, true
}

// applyObservedTraffic accepts the chain where only the traffic class of jobs is not known, and traffic on
// the expected priority shows that it is right.
func (b *roceBuilder) applyObservedTraffic() {
	seen := b.Link(RoCEObservedPriority)
	if !b.openToJobs || seen.Status != StatusOK {
		return
	}
	b.Priority = Known(b.Judged.Value, seen.Source, b.in.Traffic.At)
	for i := range b.Links {
		if l := &b.Links[i]; l.Status == StatusUnknown {
			l.Status, l.Reason, l.Source = StatusOK, "", seen.Source
			l.Evidence += "; but " + seen.Evidence
		}
	}
}

// span is a time between readings as people say it.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s"
	}
	return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + " min"
}

// percent rounds a share, but neither to nothing nor to all.
func percent(share float64) string {
	v := 100 * share
	if v == 0 || v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " %"
	}
	return strconv.FormatFloat(max(0.1, min(v, 99.9)), 'f', 1, 64) + " %"
}

// bytes is an amount of data in the unit that fits.
func bytes(n uint64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	v := float64(n)
	for ; v >= 999.5 && len(units) > 1; units = units[1:] {
		v /= 1000
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " " + units[0]
}
