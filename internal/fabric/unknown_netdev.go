// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// UnknownNetDev returns an interface of which nothing is known but its name, for the given reason.
func UnknownNetDev(name string, r Reason, at time.Time) NetDev {
	const src = ""
	d := NetDev{
		Name: name, Speed: NotKnown[float64](r, src, at), MTU: NotKnown[int](r, src, at),
		Upper: NotKnown[string](r, src, at), Bond: NotKnown[bool](r, src, at), DefaultRoute: NotKnown[bool](r, src, at),
		Lower: NotKnown[[]string](r, src, at), Driver: NotKnown[string](r, src, at),
	}
	d.QoS.ForgetAnswers(r, at)
	d.QoS.Trust, d.QoS.DSCPPriority = NotKnown[Trust](r, src, at), NotKnown[[NumDSCP]int](r, src, at)
	d.QoS.NP, d.QoS.RP = NotKnown[PriorityMask](r, src, at), NotKnown[PriorityMask](r, src, at)
	d.QoS.CNPDSCP, d.QoS.CNPPriority = NotKnown[int](r, src, at), NotKnown[int](r, src, at)
	d.QoS.Parameters = NotKnown[[]CongestionParameter](r, src, at)
	d.QoS.Counters, d.QoS.Before = NotKnown[[]Counter](r, src, at), NotKnown[[]Counter](r, src, at)
	return d
}

// ForgetAnswers makes unknown, for the given reason, what the driver of the interface is asked for: all but what
// comes from files, and the counters.
func (q *QoS) ForgetAnswers(r Reason, at time.Time) {
	const src = ""
	q.PFC, q.ETS, q.Apps = NotKnown[PFC](r, src, at), NotKnown[ETS](r, src, at), NotKnown[[]App](r, src, at)
	q.Buffers, q.DCBX = NotKnown[Buffers](r, src, at), NotKnown[DCBX](r, src, at)
	q.Pause, q.FEC = NotKnown[Pause](r, src, at), NotKnown[FEC](r, src, at)
}
