// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"encoding/json"
	"slices"
	"time"
)

// Bounds of what a rank may reply. Beyond them it is no measurement of hardware.
const (
	maxReply     = 64 << 10 // bytes
	maxVersion   = 1_000_000
	maxBandwidth = 1e14 // bytes per second
)

// name is the step that a request is for, for people.
func (q *Request) name() string {
	switch {
	case q.Open != nil:
		return "open"
	case q.NewID != nil:
		return "new id"
	case q.Connect != nil:
		return "connect"
	case q.Measure != nil:
		return "measure " + string(q.Measure.Op)
	}
	return "close"
}

// readReply reads the reply to a request that took so long, and rejects impossible values.
func readReply(data []byte, q *Request, took time.Duration) (Reply, *trouble) {
	var r Reply
	if len(data) > maxReply {
		return r, troubled(FailureProtocol, -1, "a reply of %d bytes, expected at most %d", len(data), maxReply)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, troubled(FailureProtocol, -1, "reply %q: %v", data[:min(len(data), 64)], err)
	}
	if r.Failure != "" {
		if !slices.Contains(Failures(), r.Failure) || r.Failure == FailureIntruder || r.Failure == FailureStopped {
			return r, troubled(FailureProtocol, -1, "failure %q, expected one of %v: %s", printable(string(r.Failure), 64), Failures(), r.Error)
		}
		return r, troubled(r.Failure, -1, "%s", r.Error)
	}
	took += took/10 + 10*time.Millisecond // for clocks
	ok := true
	switch {
	case q.Open != nil:
		ok = r.Open != nil && r.Open.NCCL > 0 && r.Open.NCCL < maxVersion && r.Open.CUDA >= 0 && r.Open.CUDA < maxVersion
	case q.NewID != nil:
		ok = len(r.ID) == IDSize
	case q.Connect != nil:
		ok = r.Connect != nil && r.Connect.Took >= 0 && r.Connect.Took <= took
	case q.Measure != nil:
		ok = r.Measure != nil && r.Measure.credible(q.Measure, took)
	}
	if !ok {
		return r, troubled(FailureProtocol, -1, "reply %s cannot be", printable(string(data), maxText/2))
	}
	return r, nil
}

// credible reports whether a rank can have measured that.
func (m *MeasureReply) credible(q *MeasureRequest, took time.Duration) bool {
	return m.Bytes > 0 && m.Bytes <= q.Bytes && m.Wrong <= m.Bytes/uint64(q.Type.Size()) &&
		m.Time > 0 && m.Time <= took && m.DeviceTime >= 0 && m.DeviceTime <= took &&
		float64(m.Bytes)*float64(q.Iterations) <= m.Time.Seconds()*maxBandwidth
}
