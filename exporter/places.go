// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// slowClient is how long a client may take to read an answer before it loses its connection.
	slowClient = time.Minute
	// overdue is how much later than its deadline an answer may be made before the exporter counts as stuck: a
	// loaded machine is late, too.
	overdue = 30 * time.Second
	// atOnce is how many answers are made at the same time of what was observed. More would take more memory,
	// and no less time: it is work for a processor, of which the exporter uses one.
	atOnce = 2
)

// places are where answers are made of what the node is. All that it wraps share them. A place is held while
// an answer is made: it is free again at the first write, so that clients which do not read their answers do
// not keep others from getting one. The wrapped handlers write an answer when it is complete. The last eighth
// of them is for clients that have none, so that one alone does not keep all others out.
type places struct {
	most   int // 0: no limit
	making chan struct{}

	mu     sync.Mutex
	taken  map[*place]bool
	closed bool
	inside sync.WaitGroup // what observes the node
}

func newPlaces(most int) *places {
	return &places{most: most, making: make(chan struct{}, atOnce), taken: map[*place]bool{}}
}

// place is that of a request.
type place struct {
	http.ResponseWriter
	from netip.Prefix
	of   *places
	due  time.Time // by when the answer should be made; zero: it has no deadline

	making bool // belongs to the goroutine of the request
	leave  func()
}

const stopping = "the exporter is stopping"

// placeKey is under which the context of a request has its place.
type placeKey struct{}

// wrap has h answer within the patience with a request, for which its context ends; nil: without a deadline.
// The client may read the answer until shortly after.
func (p *places) wrap(h http.Handler, patience func(*http.Request) time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := &place{ResponseWriter: w, from: originOf(r), of: p}
		ctx := context.WithValue(r.Context(), placeKey{}, at)
		if patience != nil {
			at.due = time.Now().Add(patience(r))
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, at.due)
			defer cancel()
			_ = http.NewResponseController(w).SetWriteDeadline(at.due.Add(slowClient)) // recorders in tests have none
		}
		if refused := p.enter(at); refused != "" {
			http.Error(w, refused, http.StatusServiceUnavailable)
			return
		}
		defer at.leave()
		h.ServeHTTP(at, r.WithContext(ctx))
	})
}

// enter takes a place, or says why there is none.
func (p *places) enter(at *place) (refused string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return stopping
	case p.most > 0 && (len(p.taken) >= p.most || len(p.taken) >= p.most-p.most/8 && p.has(at.from)):
		return "too many requests at once (--web.max-requests), try again later"
	}
	p.taken[at] = true
	p.inside.Add(1)
	at.leave = sync.OnceFunc(func() {
		if at.making {
			at.making = false
			<-p.making
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.taken, at)
		p.inside.Done()
	})
	return ""
}

// has reports whether a client has a place.
func (p *places) has(client netip.Prefix) bool {
	for at := range p.taken {
		if at.from == client {
			return true
		}
	}
	return false
}

// make waits for the turn of the request whose context that is to make its answer, which it has until the
// first write. After its deadline nothing waits: few can be that late.
func (p *places) make(ctx context.Context) {
	at, ok := ctx.Value(placeKey{}).(*place)
	if !ok || at.making {
		return
	}
	select {
	case p.making <- struct{}{}:
		at.making = true
	case <-ctx.Done():
	}
}

// run runs what observes the node and needs no place, unless the places are closed.
func (p *places) run(observe func()) (ran bool) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false
	}
	p.inside.Add(1)
	p.mu.Unlock()
	defer p.inside.Done()
	observe()
	return true
}

// open has h answer without a place until the places are closed.
func (p *places) open(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.run(func() { h.ServeHTTP(w, r) }) {
			http.Error(w, stopping, http.StatusServiceUnavailable)
		}
	})
}

// close has all later requests refused, and waits until nothing observes the node any more: what it is read
// from may be closed then. What hangs is waited for without end.
func (p *places) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.inside.Wait()
}

// late returns when the answer was due that should have been made long ago.
func (p *places) late(now time.Time) (due time.Time, late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.taken {
		if !at.due.IsZero() && now.Sub(at.due) > overdue && (!late || at.due.Before(due)) {
			due, late = at.due, true
		}
	}
	return due, late
}

// Write leaves the place.
func (at *place) Write(b []byte) (int, error) {
	if s, ok := at.ResponseWriter.(*sending); ok && at.making {
		s.room()
	}
	at.leave()
	return at.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (at *place) Unwrap() http.ResponseWriter { return at.ResponseWriter }
