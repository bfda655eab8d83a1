// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"gpufabric_exporter/probes"
)

// schedule says when probes are due. Time is cut into cycles that do not depend on when the exporter started, and each
// cycle has one moment, which is spread:
//   - over nodes, by their names, so that a fleet that starts at once does not probe at once;
//   - over the probes of a kind, evenly, so that rails take turns;
//   - from cycle to cycle, so that probes do not keep in step with what else happens on the hour.
//
// So a restart neither causes a burst nor delays other probes: what was missed while the exporter was down is not made
// up for.
type schedule struct {
	host string
}

// jitter is how far a moment moves from the middle, as a share of the interval: two in a row are 80 to 120 % of it
// apart.
const jitter = 0.1

// next is the first moment after a time. The probe is the i-th of n of its kind.
func (s schedule) next(key probes.Key, i, n int, every time.Duration, after time.Time) time.Time {
	_, phase := math.Modf(s.fraction("phase", probes.Key{Kind: key.Kind}, 0) + float64(i)/float64(n))
	cycle := after.UnixNano()/int64(every) - 2
	for {
		shift := phase + jitter*(2*s.fraction("cycle", key, cycle)-1)
		at := time.Unix(0, cycle*int64(every)+int64(shift*float64(every)))
		if at.After(after) {
			return at
		}
		cycle++
	}
}

// fraction is a number from 0 to 1 that is always the same for the same arguments, and looks random.
func (s schedule) fraction(what string, key probes.Key, n int64) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %q", s.host, what, fmt.Sprint(key, n)))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}
