// SPDX-License-Identifier: Apache-2.0

package inquiry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
)

const (
	every     = 15 * time.Second // looks at the node
	leastWait = 10 * time.Minute // between two inquiries into a job; it doubles
	mostWait  = time.Hour
	// mostTime is for how long one inquiry goes on with questions: three answers take a minute and a half. A job
	// that answers slowly or not at all keeps others from being asked no longer.
	mostTime = 2 * time.Minute
)

// Options are what a Watch works with.
type Options struct {
	Look  Look
	Asker progress.Asker
	Ask   Ask
	Log   *slog.Logger
	// Quiet is for how long a job must not have made a communicator: progress.Quiet, and 0 on a simulated node.
	Quiet time.Duration
}

// Watch asks about jobs that are suspected to hang. It is off until Apply switches it on. A nil Watch stays off.
type Watch struct {
	ctx      context.Context
	o        Options
	suspects progress.Suspects
	past     map[string]*past
	turns    map[fabric.Owner]time.Time // by owner of jobs: when one of his was asked last
	resets   resets

	change sync.Mutex // held while it is switched
	stop   func()     // nil: off

	mu     sync.Mutex
	status progress.Status
}

// past is what became of a job that was suspected.
type past struct {
	account progress.Account
	asked   time.Time            // when the last inquiry ended; zero: it was not asked
	wait    time.Duration        // until the next one
	about   []progress.Suspicion // each that the job was asked for
}

// next is when it may be asked again. A suspicion for which the job was not asked yet waits for the least
// time only: the job may hang now, which it did not do then.
func (p *past) next() time.Time {
	other := func(why progress.Suspicion) bool { return !slices.Contains(p.about, why) }
	if slices.ContainsFunc(p.account.Suspicions, other) {
		return p.asked.Add(min(p.wait, leastWait))
	}
	return p.asked.Add(p.wait)
}

// NewWatch returns a Watch that is off, and that ends with ctx.
func NewWatch(ctx context.Context, o Options) *Watch {
	return &Watch{
		ctx: ctx, o: o, past: map[string]*past{}, turns: map[fabric.Owner]time.Time{},
		status: progress.Status{Asked: map[progress.Outcome]uint64{}},
	}
}

// Apply switches it on or off. Switched off, it forgets what RAS said, and asks nothing from the return of
// Apply on. Which processes ended a connection is not forgotten.
func (w *Watch) Apply(on bool) {
	if w == nil {
		return
	}
	w.change.Lock()
	defer w.change.Unlock()
	switch {
	case on == (w.stop != nil):
		return
	case !on:
		w.stop()
		w.stop = nil
		w.suspects, w.past = progress.Suspects{}, map[string]*past{}
		w.publish(false, nil)
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var done sync.WaitGroup
	done.Go(func() { w.run(ctx) })
	w.stop = func() {
		cancel()
		done.Wait()
	}
	w.publish(true, nil)
}

// Close switches it off.
func (w *Watch) Close() { w.Apply(false) }

// Status returns what is known of suspected jobs.
func (w *Watch) Status() progress.Status {
	if w == nil {
		return progress.Status{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.status
	s.Asked = maps.Clone(s.Asked)
	return s
}

func (w *Watch) publish(on bool, list []progress.Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Enabled, w.status.Jobs = on, list
}

func (w *Watch) run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if n, jobs, err := w.look(ctx); err == nil && ctx.Err() == nil {
			w.pass(ctx, n, jobs)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look looks at the node for suspicions, too.
func (w *Watch) look(ctx context.Context) (*fabric.Node, job.Jobs, error) {
	n, jobs, err := w.o.Look(ctx)
	if err == nil {
		w.suspects.Update(n, &jobs)
		w.resets.look(n, time.Now())
	}
	return n, jobs, err
}

// pass asks about a suspected job that may be asked.
func (w *Watch) pass(ctx context.Context, n *fabric.Node, jobs job.Jobs) {
	ask := w.review(n, jobs)
	if ask == "" {
		return
	}
	i := slices.IndexFunc(jobs.List, func(j job.Job) bool { return j.Name == ask })
	one := reset{job: processesOf(n, &jobs.List[i]), owner: ownerOf(n, &jobs.List[i])}
	q := Inquiry{Look: w.look, Asker: w.o.Asker, Begin: w.begin, most: mostTime, vet: w.vet}
	q.Ask = func(ctx context.Context, target progress.Target) (fabric.RASAnswer, error) {
		return w.ask(ctx, target, one)
	}
	a := q.About(ctx, ask)
	w.turns[one.owner] = time.Now()
	if ctx.Err() != nil {
		return
	}
	p := w.past[ask]
	p.wait = min(max(2*p.wait, leastWait), mostWait)
	p.asked = time.Now()
	for _, why := range p.account.Suspicions {
		if !slices.Contains(p.about, why) {
			p.about = append(p.about, why)
		}
	}
	a.Suspicions = p.account.Suspicions
	if p.account.Stands(&a) { // what an earlier inquiry said stays, and its age shows
		p.account.Failure = a.Failure
		a = p.account
	}
	p.account = a
	w.report(&a)
	if n, jobs, err := w.look(ctx); err == nil && jobs.Known {
		w.review(n, jobs)
	}
}

// review notes which jobs are suspected, and returns the one that is asked next; empty: none. That is one of
// the owner whose turn was longest ago, since one owner may have many jobs, and name them so that they are
// first.
func (w *Watch) review(n *fabric.Node, jobs job.Jobs) (ask string) {
	var list []progress.Account
	var turn time.Time // of the owner of ask
	maps.DeleteFunc(w.turns, func(_ fabric.Owner, at time.Time) bool { return time.Since(at) > mostWait })
	next := map[string]*past{}
	for i := range jobs.List {
		j := &jobs.List[i]
		why, _ := w.suspects.Of(j.Name)
		p := w.past[j.Name]
		switch {
		case len(why) == 0 && p == nil:
			continue
		case len(why) == 0: // it recovered: what RAS said of it is over
			p.account = progress.Account{Job: j.Name}
			next[j.Name] = p
			continue
		case p == nil:
			p = &past{account: progress.Account{Job: j.Name}}
		}
		next[j.Name] = p
		p.account.Suspicions = why
		target, err := w.o.Asker.Choose(n, j)
		if err == nil {
			err = w.vet(n, j, target)
		}
		if next := p.next(); err == nil && time.Now().Before(next) {
			err = &progress.Refusal{Why: progress.Waiting, Text: "it was asked not long ago, and is not asked again before " +
				next.UTC().Format("15:04:05 UTC")}
		}
		if p.account.Refused = err; err == nil {
			if last := w.turns[ownerOf(n, j)]; ask == "" || last.Before(turn) {
				ask, turn = j.Name, last
			}
		}
		list = append(list, p.account)
	}
	w.past = next
	w.publish(true, list)
	return ask
}

// vet refuses what Asker cannot know.
func (w *Watch) vet(n *fabric.Node, j *job.Job, target progress.Target) error {
	if err := w.resets.refuse(processesOf(n, j), ownerOf(n, j), target.Version); err != nil {
		return err
	}
	if _, made := w.suspects.Of(j.Name); time.Since(made) < w.o.Quiet {
		return &progress.Refusal{Why: progress.YoungCommunicator, Text: "it may have made a communicator within the last " +
			w.o.Quiet.String() + ": asking then has crashed jobs"}
	}
	return nil
}

// ask asks a process of a job, and notes it as this one if it ends the connection.
func (w *Watch) ask(ctx context.Context, target progress.Target, one reset) (fabric.RASAnswer, error) {
	answer, err := w.o.Ask(ctx, target)
	outcome := progress.Answered
	switch {
	case ctx.Err() != nil: // it is switched off
		return answer, err
	case errors.Is(err, fabric.ErrRASEnded):
		outcome = progress.Ended
		one.asked, one.release, one.at = process{target.PID, target.Start}, target.Version, time.Now()
		w.resets.add(one)
	case err != nil:
		outcome = progress.Failing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Asked[outcome]++
	w.status.Stopped = w.resets.full()
	return answer, err
}

func (w *Watch) begin(name string, target progress.Target) {
	w.o.Log.Info("asking NCCL RAS", "training_job", name, "pid", target.PID, "nccl", target.Version.String(),
		"suspicions", w.past[name].account.Suspicions)
}

// report logs what RAS said.
func (w *Watch) report(a *progress.Account) {
	log := w.o.Log.With("training_job", a.Job)
	if a.Failure != nil {
		log.Warn("NCCL RAS did not answer", "err", a.Failure, "no_job_is_asked_again", w.resets.full())
	}
	if !a.Known() {
		return
	}
	log = log.With("state", a.Report.Verdict(), "answers", a.Answers)
	if !a.Report.State.Bad() {
		log.Info("NCCL RAS answered")
		return
	}
	for _, c := range a.Report.Bad[:min(1, len(a.Report.Bad))] {
		log = log.With("communicator", c.ID, "communicator_state", c.State, "ranks_count", c.Count, "collectives_apart",
			c.Gap)
		if len(c.Ranks) > 0 {
			r := c.Ranks[0]
			log = log.With("first_rank", r.Rank, "host", r.Host, "pid", r.PID)
		}
	}
	log.Warn("NCCL RAS answered")
}
