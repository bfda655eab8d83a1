// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// progress shows on a terminal, in a line that it takes away again, what a probe does. A nil *progress shows nothing.
type progress struct {
	w io.Writer

	mu    sync.Mutex
	text  string
	since time.Time
	stop  chan struct{} // ends what refreshes the line; nil: there is no line
}

// newProgress returns nil if w is no terminal.
func newProgress(w io.Writer) *progress {
	if w = command.Terminal(w); w == nil {
		return nil
	}
	return &progress{w: w}
}

const clearLine = "\r\x1b[K"

// say shows another line.
func (p *progress) say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.since = command.OneLine(fmt.Sprintf(format, args...)), time.Now()
	p.draw()
	if p.stop == nil {
		p.stop = make(chan struct{})
		go p.refresh(p.stop)
	}
}

// draw is called with mu held.
func (p *progress) draw() {
	fmt.Fprintf(p.w, clearLine+"%s, %d s", p.text, int(time.Since(p.since).Seconds()))
}

func (p *progress) refresh(stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		if p.stop == stop {
			p.draw()
		}
		p.mu.Unlock()
	}
}

// end takes the line away.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
		fmt.Fprint(p.w, clearLine)
	}
}

// watch returns ranks that say what the run does, by what the first of them is asked for.
func (p *progress) watch(ranks probes.Ranks, what string) probes.Ranks {
	if p == nil {
		return ranks
	}
	p.say("%s: starting", what)
	return &watchedRanks{Ranks: ranks, progress: p, what: what}
}

type watchedRanks struct {
	probes.Ranks
	progress *progress
	what     string
	first    sync.Once
}

func (w *watchedRanks) Start(ctx context.Context, env []string) (probes.RankProcess, error) {
	r, err := w.Ranks.Start(ctx, env)
	if err == nil {
		w.first.Do(func() { r = watchedRank{r, w} })
	}
	return r, err
}

type watchedRank struct {
	probes.RankProcess
	ranks *watchedRanks
}

func (r watchedRank) Call(ctx context.Context, request []byte) ([]byte, error) {
	var q probes.Request
	if err := json.Unmarshal(request, &q); err == nil {
		r.ranks.progress.say("%s: %s", r.ranks.what, stepOf(&q))
	}
	return r.RankProcess.Call(ctx, request)
}

// stepOf says what a rank is asked for.
func stepOf(q *probes.Request) string {
	switch {
	case q.Open != nil:
		return "loading NCCL"
	case q.Connect != nil || q.NewID != nil:
		return "making the communicator"
	case q.Measure != nil:
		return fmt.Sprintf("%s of %s, %s", q.Measure.Op, probes.SizeText(q.Measure.Bytes), spelling.Plural(q.Measure.Iterations, "iteration", "iterations"))
	}
	return "letting go of the GPUs"
}
