// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Times of asking.
const (
	Interval = 30 * time.Second // between two answers
	Polls    = 3                // answers that a verdict needs
)

const mostFailures = 3 // in a row

// Pace is the pace at which one process is asked. The zero Pace is ready.
type Pace struct {
	failures int
	over     bool
}

// After takes the outcome of asking, and says how long to wait and whether to ask again at all: not if the
// process ended the connection, which may have been a crash, and not after three failures in a row. The wait
// doubles with each failure.
func (p *Pace) After(err error) (wait time.Duration, again bool) {
	switch {
	case err == nil:
		p.failures = 0
	case errors.Is(err, fabric.ErrRASEnded):
		p.over = true
	default:
		p.failures++
	}
	if p.over = p.over || p.failures == mostFailures; p.over {
		return 0, false
	}
	return Interval << p.failures, true
}
