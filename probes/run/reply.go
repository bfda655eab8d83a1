// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"slices"
	"time"

	"gpufabric_exporter/probes"
)

// Bounds of what a rank may reply. Beyond them it is no measurement of hardware.
const (
	maxReply     = 64 << 10 // bytes
	maxVersion   = 1_000_000
	maxBandwidth = 1e14 // bytes per second
)

// readReply reads the reply to a request that took so long, and rejects impossible values.
func readReply(data []byte, q *probes.Request, took time.Duration) (probes.Reply, *trouble) {
	var r probes.Reply
	if len(data) > maxReply {
		return r, troubled(probes.FailureProtocol, -1, "a reply of %d bytes, expected at most %d", len(data), maxReply)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, troubled(probes.FailureProtocol, -1, "reply %q: %v", data[:min(len(data), 64)], err)
	}
	if r.Failure != "" {
		if !slices.Contains(probes.Failures(), r.Failure) || r.Failure == probes.FailureIntruder ||
			r.Failure == probes.FailureStopped {
			return r, troubled(probes.FailureProtocol, -1, "failure %q, expected one of %v: %s",
				probes.Printable(string(r.Failure), 64), probes.Failures(), r.Error)
		}
		return r, troubled(r.Failure, -1, "%s", r.Error)
	}
	took += took/10 + 10*time.Millisecond // for clocks
	ok := true
	switch {
	case q.Open != nil:
		ok = r.Open != nil && r.Open.NCCL > 0 && r.Open.NCCL < maxVersion && r.Open.CUDA >= 0 && r.Open.CUDA < maxVersion
	case q.NewID != nil:
		ok = len(r.ID) == probes.IDSize
	case q.Connect != nil:
		ok = r.Connect != nil && r.Connect.Took >= 0 && r.Connect.Took <= took
	case q.Measure != nil:
		ok = r.Measure != nil && credible(r.Measure, q.Measure, took)
	}
	if !ok {
		return r, troubled(probes.FailureProtocol, -1, "reply %s cannot be",
			probes.Printable(string(data), probes.MaxText/2))
	}
	return r, nil
}

// credible reports whether a rank can have measured that.
func credible(m *probes.MeasureReply, q *probes.MeasureRequest, took time.Duration) bool {
	return m.Bytes > 0 && m.Bytes <= q.Bytes && m.Wrong <= m.Bytes/uint64(q.Type.Size()) &&
		m.Time > 0 && m.Time <= took && m.DeviceTime >= 0 && m.DeviceTime <= took &&
		float64(m.Bytes)*float64(q.Iterations) <= m.Time.Seconds()*maxBandwidth &&
		len(m.Each) <= q.Iterations && !slices.ContainsFunc(m.Each, func(d time.Duration) bool {
		return d > took || float64(m.Bytes) > d.Seconds()*maxBandwidth
	})
}
