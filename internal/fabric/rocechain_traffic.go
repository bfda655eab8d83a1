// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"slices"
	"time"

	"gpufabric_exporter/internal/counters"
)

// RoCETraffic is what an interface did between two readings of its statistics.
type RoCETraffic struct {
	Window time.Duration
	// Bytes of the link, whatever sent them, by priority, and those of RDMA. They include about the same headers.
	SentBytes [NumPriorities]Fact[uint64]
	SentRDMA  Fact[uint64]
	// PauseSent is how long the interface paused the network, PauseReceived how long the network paused it.
	PauseSent, PauseReceived [NumPriorities]Fact[time.Duration]
	Storms                   Fact[uint64] // PFC storms that the NIC itself noticed
	Discards                 [NumPriorities]Fact[uint64]
}

// RoCECongestion is what a port did between two readings of its RDMA counters, which come more often than those of
// statistics: packets that came with congestion marks, notifications that were sent for them, and those that came
// and made senders slow down or were ignored.
type RoCECongestion struct {
	Window                                  time.Duration
	Marked, CNPSent, CNPHandled, CNPIgnored Fact[uint64]
}

// roceMaxWindow is how far apart two readings may be, and how old, to say what is going on now. Prometheus takes
// nothing for current that is older.
const roceMaxWindow = 5 * time.Minute

// roceWindow is the time between two readings; unknown if the readings are too old to describe the present.
func roceWindow(before, after Fact[[]Counter], now time.Time) Fact[time.Duration] {
	w := after.At.Sub(before.At)
	switch {
	case after.State != OK:
		return unknownLike[time.Duration](after.Meta())
	case before.State != OK || w <= 0 || w > roceMaxWindow || now.Sub(after.At) > roceMaxWindow:
		return UnknownFact[time.Duration](ReasonNotRead, after.Source, after.At)
	}
	return Known(w, after.Source, after.At)
}

func roceWindowOf(t Fact[RoCETraffic]) Fact[time.Duration] {
	return Fact[time.Duration]{Value: t.Value.Window, State: t.State, Reason: t.Reason, Source: t.Source, At: t.At}
}

// growth iterates over what grew between two readings of a list, by name. One that cannot be read now is
// unknown for the same reason. A counter that one of them lacks, or that went back, is left out.
func growth(before, after []Counter) iter.Seq2[string, Fact[uint64]] {
	return func(yield func(string, Fact[uint64]) bool) {
		for i, c := range after {
			k := i // readings of one driver have one order
			if k >= len(before) || before[k].Name != c.Name {
				k = slices.IndexFunc(before, func(b Counter) bool { return b.Name == c.Name })
			}
			now, known := c.Value.Get()
			if k < 0 {
				continue
			}
			if !known {
				if !yield(c.Name, unknownLike[uint64](c.Value.Meta())) {
					return
				}
				continue
			}
			then, knew := before[k].Value.Get()
			if knew && now >= then && !yield(c.Name, Known(now-then, c.Value.Source, c.Value.At)) {
				return
			}
		}
	}
}

// roceTraffic is what an interface did between the last two readings of its statistics. What its driver does not
// count is unknown.
func roceTraffic(driver string, q *QoS, now time.Time) Fact[RoCETraffic] {
	w := roceWindow(q.Before, q.Counters, now)
	if w.State != OK {
		return unknownLike[RoCETraffic](w.Meta())
	}
	t := RoCETraffic{Window: w.Value}
	for name, delta := range growth(q.Before.Value, q.Counters.Value) {
		spec, mapped := counters.StatSpecOf(driver, name)
		if !mapped || spec.Parts > 1 || spec.OfClass && !q.OwnClass(spec.Priority) {
			continue
		}
		pause := unknownLike[time.Duration](delta.Meta())
		if v, known := delta.Get(); known {
			pause = Known(time.Duration(spec.InUnit(v)*float64(time.Second)), delta.Source, delta.At)
		}
		p := spec.Priority
		switch spec.Meaning {
		case counters.StatPriorityTransmittedBytes:
			t.SentBytes[p] = delta
		case counters.StatTransmittedRDMABytes:
			t.SentRDMA = delta
		case counters.StatTransmittedPauseSeconds:
			t.PauseSent[p] = pause
		case counters.StatReceivedPauseSeconds:
			t.PauseReceived[p] = pause
		case counters.StatPriorityDiscards:
			t.Discards[p] = delta
		case counters.StatPauseStormErrors:
			t.Storms = delta
		}
	}
	return Known(t, w.Source, w.At)
}

// roceCongestion is what a port did between the last two readings of its RDMA counters.
func roceCongestion(driver string, c *PortCounters, now time.Time) Fact[RoCECongestion] {
	w := roceWindow(c.BeforeHW, c.HW, now)
	if w.State != OK {
		return unknownLike[RoCECongestion](w.Meta())
	}
	t := RoCECongestion{Window: w.Value}
	for name, delta := range growth(c.BeforeHW.Value, c.HW.Value) {
		spec, mapped := counters.PortSpec(driver, name)
		if !mapped || spec.Parts > 1 {
			continue
		}
		switch spec.Meaning {
		case counters.ECNMarked:
			t.Marked = delta
		case counters.CNPSent:
			t.CNPSent = delta
		case counters.CNPHandled:
			t.CNPHandled = delta
		case counters.CNPIgnored:
			t.CNPIgnored = delta
		}
	}
	return Known(t, w.Source, w.At)
}
