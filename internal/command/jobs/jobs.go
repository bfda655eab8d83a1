// SPDX-License-Identifier: Apache-2.0

// Package jobs is the command jobs: it shows for each training job on this host, or on a simulated node,
// whether NCCL moves its data over RDMA or over TCP.
package jobs

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// What jobs exits with, as check.
const (
	exitGood      = command.OK // each job uses RDMA or needs no network, and nothing is wrong with its settings
	exitFailed    = 1          // a job uses TCP, or is misconfigured
	exitUndecided = 2          // of a job it is unknown
)

// looking is one call of the command.
type looking struct {
	site *site.Site
	log  *logging.Flags

	json     bool
	watch    bool
	interval time.Duration
	scenario *simulator.Scenario // nil: this host
	askRAS   bool
	answers  []progress.Account // by RAS
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	k := &looking{site: s, log: log}
	return &command.Command{
		Name: "jobs",
		Help: "Show the jobs that use the GPUs of this node, and whether NCCL moves their data over RDMA or TCP. Exit code 0: RDMA, or no need of it; 1: a job uses TCP or is misconfigured; 2: the transport of a job is unknown; 3: the command line or the configuration is wrong.",
		Define: func(f *command.Flags) {
			f.Output(&k.json)
			f.Add("interval", "Time between the two readings that are compared, 2s to 1m.",
				command.Into(&k.interval, parseInterval)).Default("5s")
			f.Switch("watch",
				"Print the jobs after each interval until interrupted: a terminal is redrawn; elsewhere, the tables follow each other. With --output=json, one line for each.", &k.watch)
			site.AddScenario(f, &k.scenario)
			f.Switch("ask-ras",
				"Also ask the RAS subsystem of NCCL in the process of rank 0, three times within a minute, which ranks are lost, failed or behind. Releases of NCCL that crashed when they were asked are not asked; see docs/JOBS.md.", &k.askRAS)
			f.Check(k.checkAsking)
		},
		Takes:  []command.Group{&s.Config, log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    k.run,
	}
}

// checkAsking refuses flags that do not go with --ask-ras.
func (k *looking) checkAsking() error {
	switch {
	case k.askRAS && k.watch:
		return errors.New("--ask-ras: asks three times and ends: leave out --watch")
	case k.askRAS && (k.scenario != nil || k.site.Recorded.Netlink != ""):
		return errors.New("--ask-ras: expected this host, not a simulated or recorded node: demo shows what RAS says of a simulated one")
	}
	return nil
}

func parseInterval(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 2*time.Second || d > time.Minute {
		return 0, errors.New("expected a duration from 2s to 1m such as 5s")
	}
	return d, nil
}

func (k *looking) run(ctx context.Context, c *command.Call) int {
	jobs, err := k.follow(ctx, c)
	if err != nil {
		return c.Fail(err)
	}
	return exitOfAnswers(exitOf(jobs), k.answers)
}

// follow opens the node and prints its jobs.
func (k *looking) follow(ctx context.Context, c *command.Call) (job.Jobs, error) {
	look, _, done, err := k.site.Open(ctx, k.scenario, k.log.Logger(c.Stderr))
	if err != nil {
		return job.Jobs{}, err
	}
	defer done()
	p := printer{json: k.json, watch: k.watch}
	if k.watch && !k.json && os.Getenv("TERM") != "dumb" {
		p.screen = command.Terminal(c.Stdout)
	}
	return k.print(ctx, look, func(jobs job.Jobs, look inquiry.Look) error {
		if k.askRAS {
			return k.askAll(ctx, c, p, jobs, look)
		}
		return p.write(c.Stdout, jobs)
	})
}

// mostReadings is after how many the jobs are printed as they are: on a busy node, one may be late.
const mostReadings = 5

// print prints the jobs once two readings of each could be compared, or after each reading until ctx ends.
func (k *looking) print(ctx context.Context, look site.Look, write func(job.Jobs, inquiry.Look) error) (last job.Jobs,
	err error,
) {
	var tracker job.Tracker
	tick := time.NewTicker(k.interval)
	defer tick.Stop()
	for i := 0; ; i++ {
		n, err := look(ctx, job.Wants, time.Duration(i)*k.interval)
		if err != nil {
			return last, k.unlessWatched(err)
		}
		jobs := tracker.Update(n)
		if i > 0 && (k.watch || i+1 >= mostReadings || jobs.Compared() && !late(n)) {
			last = jobs
			once := func(ctx context.Context) (*fabric.Node, job.Jobs, error) {
				n, err := look(ctx, job.Wants, time.Duration(i)*k.interval)
				if err != nil {
					return nil, job.Jobs{}, err
				}
				return n, tracker.Update(n), nil
			}
			if err := write(jobs, once); err != nil || !k.watch {
				return last, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, k.unlessWatched(ctx.Err())
		}
	}
}

// late reports whether processes or GPUs were not read in time. What one owner holds up is not waited for.
func late(n *fabric.Node) bool {
	return slices.ContainsFunc(n.Sources, func(s fabric.Source) bool {
		_, partial := errors.AsType[*fabric.PartialError](s.Err)
		return !partial && (s.Name == fabric.SourceRanks || s.Name == fabric.SourceGPU) &&
			(s.Reason == fabric.ReasonTimeout || s.Reason == fabric.ReasonStuck)
	})
}

// askAll prints the jobs, and the answer of RAS about each of them.
func (k *looking) askAll(ctx context.Context, c *command.Call, p printer, jobs job.Jobs, look inquiry.Look) error {
	if !p.json {
		if err := p.write(c.Stdout, jobs); err != nil {
			return err
		}
	}
	q := k.inquire(c, look)
	for i := range jobs.List {
		k.answers = append(k.answers, q.About(ctx, jobs.List[i].Name))
	}
	return p.writeAnswers(c.Stdout, jobs, k.answers)
}

// unlessWatched returns the error, unless it is that the user ended --watch.
func (k *looking) unlessWatched(err error) error {
	if k.watch && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// exitOf is the exit code for these jobs. Findings of severity info do not count.
func exitOf(jobs job.Jobs) int {
	failed := func(j job.Job) bool {
		return j.Verdict.Fallback() || slices.ContainsFunc(j.Findings,
			func(f job.Finding) bool { return f.Severity.AtLeast(verdict.Warning) })
	}
	switch {
	case slices.ContainsFunc(jobs.List, failed):
		return exitFailed
	case !jobs.Known, jobs.Dropped > 0, slices.ContainsFunc(jobs.List,
		func(j job.Job) bool { return j.Verdict.Transport == job.Unknown || !j.Seen.IsZero() }):
		return exitUndecided
	}
	return exitGood
}
