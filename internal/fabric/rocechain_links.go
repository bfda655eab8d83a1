// SPDX-License-Identifier: Apache-2.0

package fabric

import "strconv"

// pfc: whether the priority is lossless, and whether it should be. Lossy fabrics are designed so; without a policy
// the only contradiction is PFC for others but not for RoCE.
func (b *roceBuilder) pfc() {
	f := b.q.PFC
	b.Lossless = b.has(pfcMask(b.q))
	lossless, known := b.Lossless.Get()
	want := b.in.Policy.Lossless
	p, on := b.judgedText(), f.Value.Enabled
	switch {
	case f.State != OK:
		b.unknown(RoCEPFC, f.Meta(), "for which priorities PFC is on is not known")
	case on == 0 && want != nil && *want:
		b.broken(RoCEPFC, f.Source, "PFC is off for all priorities%s; the site expects RoCE to be lossless", b.insteadOfPFC())
	case on == 0:
		b.consistent(RoCEPFC, f.Source, "PFC is off for all priorities%s", b.insteadOfPFC())
	case !known:
		b.unknown(RoCEPFC, b.Lossless.Meta(), "PFC is on for %s; which one RoCE uses is not known", on.Text())
	case lossless && want != nil && !*want:
		b.broken(RoCEPFC, f.Source, "PFC is on for priority %s; the site's fabric is lossy by design", p)
	case !lossless && (want == nil || *want):
		b.broken(RoCEPFC, f.Source, "PFC is on for %s, but RoCE uses priority %s", on.Text(), p)
	case lossless:
		b.consistent(RoCEPFC, f.Source, "PFC is on for priority %s", p)
	default:
		b.consistent(RoCEPFC, f.Source, "PFC is off for priority %s, as expected for the site's lossy fabric", p)
	}
}

func (b *roceBuilder) insteadOfPFC() string {
	if p, ok := b.q.Pause.Get(); ok && (p.Receive || p.Transmit) {
		return ", 802.3x flow control is on instead, which pauses all traffic of the link and not only RoCE"
	}
	return ""
}

// globalPause: 802.3x flow control and PFC exclude each other (IEEE 802.1Qbb).
func (b *roceBuilder) globalPause() {
	pause, known := b.q.Pause.Get()
	pfc, knownPFC := b.q.PFC.Get()
	on := pause.Receive || pause.Transmit
	switch {
	case known && !on:
		b.consistent(RoCEGlobalPause, b.q.Pause.Source, "802.3x flow control is off")
	case knownPFC && pfc.Enabled == 0:
		b.skip(RoCEGlobalPause, "PFC is off, so 802.3x flow control does not conflict")
	case !knownPFC:
		b.unknown(RoCEGlobalPause, b.q.PFC.Meta(), "whether 802.3x flow control conflicts with PFC is not known")
	case !known:
		b.unknown(RoCEGlobalPause, b.q.Pause.Meta(), "whether 802.3x flow control is on together with PFC is not known")
	default:
		b.broken(RoCEGlobalPause, b.q.Pause.Source, "802.3x flow control is on together with PFC; they exclude each other")
	}
}

// whenLossless reports whether a step that only a lossless priority has is to be judged, and settles it otherwise.
func (b *roceBuilder) whenLossless(s RoCEStep) bool {
	lossless, known := b.Lossless.Get()
	switch {
	case !known:
		b.unknown(s, b.Lossless.Meta(), "whether the priority is lossless is not known")
	case !lossless:
		b.skip(s, "the priority is not lossless")
	}
	return known && lossless
}

// buffer: what a lossless priority receives while the sender has not stopped yet needs room of its own.
func (b *roceBuilder) buffer() {
	f := b.q.Buffers
	if !b.whenLossless(RoCEBuffer) {
		return
	}
	p, known := b.Judged.Get()
	switch {
	case notOffered(f.Meta()):
		b.skip(RoCEBuffer, "the driver does not show its receive buffers")
		return
	case f.State != OK:
		b.unknown(RoCEBuffer, f.Meta(), "the receive buffers could not be read")
		return
	case !known:
		b.unknown(RoCEBuffer, b.Judged.Meta(), "which priority RoCE uses is not known")
		return
	}
	at := f.Value.OfPriority[p]
	if at < 0 || at >= len(f.Value.Bytes) {
		b.unknown(RoCEBuffer, UnknownFact[Buffers](ReasonMalformed, f.Source, f.At).Meta(),
			"priority %d is said to use buffer %d", p, at)
		return
	}
	size := f.Value.Bytes[at]
	b.LosslessBuffer = Known(size, f.Source, f.At)
	var lossy PriorityMask
	for q, o := range f.Value.OfPriority {
		if o == at && !b.q.PFC.Value.Enabled.Has(q) {
			lossy |= 1 << q
		}
	}
	switch {
	case size == 0:
		b.broken(RoCEBuffer, f.Source, "priority %d is lossless, but its receive buffer %d has 0 bytes", p, at)
	case lossy != 0:
		b.broken(RoCEBuffer, f.Source, "priority %d is lossless, but shares receive buffer %d with lossy %s", p, at,
			lossy.Text())
	default:
		b.consistent(RoCEBuffer, f.Source, "priority %d has receive buffer %d of %d bytes", p, at, size)
	}
}

// ets: a class that shares bandwidth by ETS and has none of it gets what others leave.
func (b *roceBuilder) ets() {
	f := b.q.ETS
	p, known := b.Judged.Get()
	switch {
	case notOffered(f.Meta()):
		b.skip(RoCEETS, "the driver does not show how classes share bandwidth")
		return
	case f.State != OK:
		b.unknown(RoCEETS, f.Meta(), "how classes share bandwidth could not be read")
		return
	case !known:
		b.unknown(RoCEETS, b.Judged.Meta(), "which priority RoCE uses is not known")
		return
	}
	class := f.Value.PriorityClass[p]
	if class < 0 || class >= NumPriorities {
		b.unknown(RoCEETS, UnknownFact[ETS](ReasonMalformed, f.Source, f.At).Meta(),
			"priority %d is said to be in class %d", p, class)
		return
	}
	if f.Value.Algorithm[class] == TSAETS {
		share := f.Value.Bandwidth[class]
		b.judge(RoCEETS, share > 0, f.Source, "priority %d is in class %d, which has %d %% of the bandwidth", p, class, share)
		return
	}
	b.consistent(RoCEETS, f.Source, "priority %d is in class %d, whose bandwidth is not shared by ETS", p, class)
}

// ecn: DCQCN needs both sides, receivers that notify and senders that react. Only MLNX_OFED shows them by
// priority; elsewhere the counters of marks and notifications are all there is.
func (b *roceBuilder) ecn() {
	np := b.has(b.q.NP)
	rp := b.has(b.q.RP)
	b.CongestionControlled = both(np, rp)
	want := b.in.Policy.ECN
	if want == nil && notOffered(b.q.NP.Meta()) && notOffered(b.q.RP.Meta()) {
		for _, s := range []RoCEStep{RoCENotification, RoCEReaction} {
			b.skip(s, "the driver does not show congestion control, and the site does not say whether it should be on")
		}
		return
	}
	wantNP, wantRP := want, want
	if want == nil { // the side that is off contradicts the one that is on
		if n, ok := np.Get(); ok && n {
			wantRP = &n
		}
		if r, ok := rp.Get(); ok && r {
			wantNP = &r
		}
	}
	b.ecnSide(RoCENotification, np, wantNP, "notify senders of congestion")
	b.ecnSide(RoCEReaction, rp, wantRP, "slow down when they are notified of congestion")
}

func (b *roceBuilder) ecnSide(s RoCEStep, side Fact[bool], want *bool, does string) {
	is, known := side.Get()
	if !known {
		b.unknown(s, side.Meta(), "whether queue pairs %s is not known", does)
		return
	}
	text := "queue pairs of priority " + b.judgedText() + " "
	if !is {
		text += "do not "
	}
	text += does
	switch {
	case want == nil || *want == is:
		b.consistent(s, side.Source, "%s", text)
	case b.in.Policy.ECN != nil:
		b.broken(s, side.Source, "%s; the site expects congestion control to be %s", text, onOff(*want))
	default:
		b.broken(s, side.Source, "%s, though the other side of congestion control is on", text)
	}
}

func (b *roceBuilder) judgedText() string {
	if p, known := b.Judged.Get(); known {
		return strconv.Itoa(p)
	}
	return "any"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func both(a, b Fact[bool]) Fact[bool] {
	switch {
	case a.State == OK && !a.Value || a.State != OK && b.State != OK:
		return a
	case b.State != OK || !b.Value:
		return b
	}
	return a
}

// cnp: a notification in the lossless class waits behind the data that is paused, when it is needed most. Vendors
// give it a strict priority without PFC (mlx5: DSCP 48, priority 6).
func (b *roceBuilder) cnp() {
	if !b.whenLossless(RoCECNP) {
		return
	}
	np := b.has(b.q.NP)
	if on, known := np.Get(); known && !on || notOffered(b.q.NP.Meta()) {
		b.skip(RoCECNP, "no notifications are sent, or the driver does not show them")
		return
	}
	p, known := b.Judged.Get()
	cnp := b.cnpPriority()
	switch is, ok := cnp.Get(); {
	case notOffered(cnp.Meta()):
		b.skip(RoCECNP, "the driver does not show the priority of congestion notifications")
	case !ok:
		b.unknown(RoCECNP, cnp.Meta(), "the priority of congestion notifications is not known")
	case !known:
		b.unknown(RoCECNP, b.Judged.Meta(), "which priority RoCE uses is not known")
	default:
		b.judge(RoCECNP, is != p, cnp.Source,
			"congestion notifications use priority %d, RoCE data the lossless priority %d", is, p)
	}
}

func (b *roceBuilder) cnpPriority() Fact[int] {
	switch trust, known := b.Trust.Get(); {
	case !known:
		return unknownLike[int](b.Trust.Meta())
	case trust == TrustPCP:
		return b.q.CNPPriority
	}
	d, known := b.q.CNPDSCP.Get()
	if !known {
		return b.q.CNPDSCP
	}
	return PriorityOfDSCP(b.in.Driver.Or(""), b.q, d)
}
