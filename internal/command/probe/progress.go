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

// watch returns what starts ranks and says what the run does, by what the first of them is asked for.
func (p *progress) watch(start probes.StartRank, what string) probes.StartRank {
	if p == nil {
		return start
	}
	p.say("%s: starting", what)
	var first sync.Once
	return func(ctx context.Context, rank probes.Rank) (probes.RankProcess, error) {
		r, err := start(ctx, rank)
		if err == nil {
			first.Do(func() { r = watchedRank{r, p, what} })
		}
		return r, err
	}
}

type watchedRank struct {
	probes.RankProcess
	progress *progress
	what     string
}

func (r watchedRank) Call(ctx context.Context, request []byte) ([]byte, error) {
	var q probes.Request
	if err := json.Unmarshal(request, &q); err == nil {
		r.progress.say("%s: %s", r.what, stepOf(&q))
	}
	return r.RankProcess.Call(ctx, request)
}

// stepOf says what a rank is asked for.
func stepOf(q *probes.Request) string {
	switch {
	case q.Open != nil:
		return "loading NCCL"
	case q.Connect != nil || q.NewID != nil:
		return "creating the communicator"
	case q.Measure != nil:
		return fmt.Sprintf("%s of %s, %s", q.Measure.Op, probes.SizeText(q.Measure.Bytes),
			spelling.Plural(q.Measure.Iterations, "iteration", "iterations"))
	}
	return "releasing the GPUs"
}
