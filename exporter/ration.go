// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// ration passes what the servers log about connections: some lines at once, then one in a while, which says
// how many were left out. A client without a certificate costs a line for each connection, 120 of them per
// second.
type ration struct {
	slog.Handler
	shared *rationed
}

type rationed struct {
	allowed *rate.Limiter
	leftOut atomic.Uint64
}

const (
	rationEvery = 10 * time.Second
	rationBurst = 20
)

func newRation(h slog.Handler) ration {
	return ration{h, &rationed{allowed: rate.NewLimiter(rate.Every(rationEvery), rationBurst)}}
}

func (r ration) Handle(ctx context.Context, record slog.Record) error {
	if !r.shared.allowed.Allow() {
		r.shared.leftOut.Add(1)
		return nil
	}
	if n := r.shared.leftOut.Swap(0); n > 0 {
		record.AddAttrs(slog.Uint64("left_out_before", n))
	}
	return r.Handler.Handle(ctx, record)
}

func (r ration) WithAttrs(attrs []slog.Attr) slog.Handler {
	return ration{r.Handler.WithAttrs(attrs), r.shared}
}

func (r ration) WithGroup(name string) slog.Handler {
	return ration{r.Handler.WithGroup(name), r.shared}
}
