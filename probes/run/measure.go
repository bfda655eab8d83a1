// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
)

// Iterations that are timed together, where a Want leaves it to the probe. nccl-tests has 20.
const (
	leastIterations = 3
	mostIterations  = 20
)

// slowestCheck is how many bytes a rank verifies in a second at least.
const slowestCheck = 64 << 20

// measure makes a measurement. The first iteration connects what was not yet, and the second one shows how long one
// takes, and so how many fit into the time there is; these two count. With too few the message is halved.
func (e *run) measure(r *probes.Result, w plan.Want) *trouble {
	one := w
	one.Warmups = 0
	connecting, why := e.collective(r, one, w.Bytes, 1, 0)
	if why != nil {
		return why
	}
	if len(r.Measurements) == 0 {
		r.Connect = connecting.Time
	}
	first := connecting.Time.Duration()
	size, n := w.Bytes, w.Iterations
	for n == 0 {
		second, why := e.collective(r, one, size, 1, first)
		if why != nil {
			return why
		}
		fits := func(size uint64) int {
			t := float64(second.Time.Duration()) * float64(size) / float64(second.Bytes)
			return int(float64(e.plan.Settings.Collective)/t) - 2
		}
		if fits(size) >= leastIterations || size/2 < plan.FloorBytes {
			n = min(max(fits(size), leastIterations), mostIterations)
			break
		}
		for fits(size) < leastIterations && size/2 >= plan.FloorBytes {
			size /= 2
		}
	}
	m, why := e.collective(r, w, size, n, time.Duration(w.Warmups+n)*first)
	if why == nil {
		r.Measurements = append(r.Measurements, m)
	}
	return why
}

// collective runs an operation some times, which is to take less than that. Wrong results end the run, and are kept.
func (e *run) collective(r *probes.Result, w plan.Want, size uint64, iterations int,
	expected time.Duration,
) (probes.Measurement, *trouble) {
	ranks := len(e.members)
	limit := measureLimit + e.crowd() + 2*expected + time.Duration(size/slowestCheck)*time.Second
	replies, why := e.step(e.members, limit, func(_ int, limit time.Duration) probes.Request {
		return probes.Request{Measure: &probes.MeasureRequest{
			Op: w.Op, Type: w.Type, Bytes: size, Iterations: iterations,
			Warmups: w.Warmups, Each: w.Best, Timeout: limit,
		}}
	})
	if why != nil {
		return probes.Measurement{}, why
	}
	m := probes.Measurement{Op: w.Op, Type: w.Type, Bytes: replies[0].Measure.Bytes, Ranks: ranks, Iterations: iterations}
	m.Count = m.Op.Count(m.Type, m.Bytes, m.Ranks)
	var took, onDevice time.Duration
	device, each := true, make([]time.Duration, iterations) // the slowest rank in each iteration
	for i, reply := range replies {
		one := reply.Measure
		if one.Bytes != m.Bytes {
			return m, troubled(probes.FailureProtocol, i, "measured a message of %d bytes, expected %d as rank 0", one.Bytes,
				m.Bytes)
		}
		took, onDevice = max(took, one.Time), max(onDevice, one.DeviceTime)
		device = device && one.DeviceTime > 0
		if len(one.Each) != len(each) {
			each = nil
		}
		for i := range each {
			each[i] = max(each[i], one.Each[i])
		}
		if m.Wrong += one.Wrong; one.Wrong > 0 && why == nil {
			why = troubled(probes.FailureWrong, i, "%s of %d bytes: %d elements are wrong", w.Op, m.Bytes, one.Wrong)
		}
	}
	if len(each) > 0 {
		took, onDevice, iterations = slices.Min(each), slices.Min(each), 1
	}
	m.Time = probes.SecondsOf(max(took/time.Duration(iterations), 1))
	if device {
		m.DeviceTime = probes.Known(probes.SecondsOf(onDevice/time.Duration(iterations)), "cuEventElapsedTime", time.Now())
	}
	if ranks > 1 {
		m.AlgBW = float64(m.Bytes) / float64(m.Time)
		m.BusBW = m.AlgBW * w.Op.BusFactor(ranks)
	}
	if why != nil {
		r.Measurements = append(r.Measurements, m)
	}
	return m, why
}
