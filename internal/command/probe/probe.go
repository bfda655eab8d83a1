// SPDX-License-Identifier: Apache-2.0

// Package probe is the command probe: it runs NCCL collectives on the GPUs of this host by hand, if they are
// idle, and prints what they measured.
package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/probes/run"
	"gpufabric_exporter/probes/state"
)

// What probe exits with.
const (
	exitProbed  = command.OK
	exitUnsound = 1 // a run failed, or its results were wrong
	// nothing could be run, or not to its end: nothing is known; command.Usage where the configuration is why
	exitUnprobed = 2
)

// How long a run by hand may take. Ranks are bound to 10 min of processor time, which spinning threads use up
// twice as fast.
const (
	probeBudget   = 2 * time.Minute // after which no measurement begins
	probeDeadline = 3 * time.Minute
)

// oneRun is one run of the command.
type oneRun struct {
	label  string // in a comparison: "4 GPUs", "sockets"
	plan   *plan.Plan
	start  probes.StartRank
	result *probes.Result // nil: it did not come to it
}

// report is what came of the command.
type report struct {
	what    string
	runs    []oneRun
	skipped *probes.Skipped // nil: the GPUs were there to be used
	err     error           // what else kept it from running
}

// code is what to exit with: what is wrong comes before what is not known.
func (r *report) code() int {
	code := exitProbed
	if r.err != nil || r.skipped != nil {
		code = command.ExitOf(r.err, exitUnprobed)
	}
	for _, run := range r.runs {
		switch {
		case run.result == nil || run.result.Outcome == probes.Aborted || unusable(run.result):
			code = max(code, exitUnprobed)
		case run.result.Outcome != probes.OK:
			return exitUnsound
		}
	}
	return code
}

// unusable reports whether a run says nothing of the fabric, because it had nothing to run with.
func unusable(r *probes.Result) bool {
	return r.Failure == probes.FailureLibrary || r.Failure == probes.FailureSettings
}

// New returns the command probe.
func New(s *site.Site, log *logging.Flags, platform *prober.Platform) *command.Command {
	p := &probing{site: s, log: log, platform: platform}
	return &command.Command{
		Name: "probe", Help: "Run NCCL collectives on the GPUs of this host, if they are idle. " +
			"Exit code 0: all runs succeeded; 1: a run failed or its results were wrong; 2: it could not run; 3: the command line or the configuration is wrong.",
		Define: p.flags.define,
		Takes:  []command.Group{&s.Config, log, &s.Devices, &s.Paths, &s.GPUs},
		Run:    p.run,
	}
}

func (p *probing) run(ctx context.Context, c *command.Call) int {
	p.progress = newProgress(c.Stderr)
	p.warn = func(s string) { fmt.Fprintf(c.Stderr, "%s: %s\n", command.Name, s) }
	if p.flags.what == probeCluster {
		return p.runCluster(ctx, c)
	}
	if !p.flags.json {
		p.show = func(r oneRun) error { return writeRun(c.Stdout, r) }
	}
	p.report.what = p.flags.what
	if p.report.what == "" {
		p.report.what = string(p.flags.kind)
	}
	p.report.err = c.Explain(p.probe(ctx, p.log.Logger(c.Stderr)))
	p.progress.end()
	r := &p.report
	var err error
	switch {
	case p.flags.json:
		err = writeJSON(c.Stdout, r)
	case p.flags.comparison() != "":
		err = writeComparison(c.Stdout, compare(r))
	}
	if r.err == nil && err != nil {
		r.err = err
	}
	if r.err != nil {
		c.Complain(r.err)
	}
	if s := r.skipped; s != nil {
		p.warn(fmt.Sprintf("not probed (%s): %s", s.Why, s.Detail))
		p.warn(s.Why.Advice())
		if overridable(s.Why) && !p.flags.evenIfBusy {
			p.warn("--even-if-busy probes anyway, and slows down jobs on these GPUs")
		}
	}
	return r.code()
}

// probing is one call of the command.
type probing struct {
	site     *site.Site
	log      *logging.Flags
	platform *prober.Platform
	flags    options
	config   probes.Config
	settings plan.Settings
	node     *fabric.Node
	report   report
	progress *progress
	show     func(oneRun) error // each run as it ends; nil: later
	warn     func(string)
}

// probe plans all runs, enters the gate once for all of them, and runs them.
func (p *probing) probe(ctx context.Context, log *slog.Logger) error {
	if p.platform == nil {
		return errors.New("this program was built without support for NCCL probes")
	}
	noLibrary, err := p.prepare(ctx, log)
	if err != nil {
		return err
	}
	skipped, err := p.plan()
	p.report.skipped = skipped
	switch {
	case err != nil || skipped != nil: // without GPUs, a missing NCCL does not matter
		return err
	case noLibrary != nil:
		return noLibrary
	}
	for i := range p.report.runs {
		run := &p.report.runs[i]
		if run.start, p.report.skipped = p.platform.Ranks(run.plan, log); p.report.skipped != nil {
			return nil
		}
	}
	gate, closeGate, err := p.platform.Gate(&prober.Host{
		Sysfs: p.site.Paths.Sysfs, Procfs: p.site.Paths.Procfs, Rootfs: p.site.Paths.Rootfs, Library: p.site.GPUs.Library,
		Maintenance: func() (string, error) { return p.site.GPUs.UnderMaintenance(), nil }, Log: log, Config: p.config,
	})
	if err != nil {
		return err
	}
	guard, leave, skipped, err := p.enter(ctx, gate)
	if err == nil && skipped == nil {
		err = p.runAll(ctx, guard)
		leave()
	}
	p.report.skipped = skipped
	return errors.Join(err, closeGate())
}

// prepare observes the node and reads the settings of the site for probes. The process that was asked for the
// GPUs is gone then. noLibrary says that there is no NCCL.
func (p *probing) prepare(ctx context.Context, log *slog.Logger) (noLibrary, err error) {
	c, err := p.site.Config.Read()
	if err != nil {
		return nil, err
	}
	p.config = c.ByHand
	if p.flags.nccl != "" {
		p.config.NCCL = p.flags.nccl
	}
	p.progress.say("looking at the node")
	look, _, done, err := p.site.Open(ctx, nil, log)
	if err != nil {
		return nil, err
	}
	defer done()
	if p.node, err = look(ctx, plan.Wants|p.flags.wants(), 0); err != nil {
		return nil, err
	}
	host := prober.Host{Platform: p.platform, Config: p.config}
	if p.settings, err = host.Settings(ctx); errors.Is(err, plan.ErrSettings) {
		return nil, err
	}
	if err != nil {
		noLibrary = fmt.Errorf("NCCL not found: %w (searched LD_LIBRARY_PATH of probes.env_file, the cache of the loader and Python packages; "+
			"set --library, or probes.nccl in the configuration)", err)
	}
	p.settings.Budget, p.settings.Deadline = probeBudget, probeDeadline
	return noLibrary, nil
}

// enter asks the gate, or with --even-if-busy what it would have said.
func (p *probing) enter(ctx context.Context, gate *gate.Gate) (run.Guard, func(), *probes.Skipped, error) {
	var gpus []string
	for _, run := range p.report.runs {
		gpus = append(gpus, run.plan.GPUs()...)
	}
	slices.Sort(gpus)
	gpus = slices.Compact(gpus)
	if !p.flags.evenIfBusy {
		p.progress.say("watching whether %s for a minute", spelling.Plural(len(gpus), "GPU is idle", "GPUs are idle"))
		pass, skipped := gate.Enter(ctx, gpus)
		if skipped != nil {
			return nil, nil, skipped, nil
		}
		return pass, pass.Leave, nil, nil
	}
	if s := gate.Check(ctx, gpus); s != nil {
		if !overridable(s.Why) {
			return nil, nil, s, nil
		}
		p.progress.end()
		p.warn(fmt.Sprintf("continues because of --even-if-busy, although (%s): %s", s.Why, s.Detail))
	}
	lock, err := state.TakeLock(p.config.LockFile)
	if err != nil {
		return nil, nil, nil, err
	}
	return nil, lock.Release, nil, nil
}

// runAll runs what is planned, one after the other. What ends one because of another process, or for lack of
// a library, would end the others too.
func (p *probing) runAll(ctx context.Context, guard run.Guard) error {
	for i := range p.report.runs {
		one := &p.report.runs[i]
		what := string(one.plan.Key.Kind)
		if one.label != "" {
			what += ", " + one.label
		}
		r := run.Run(ctx, one.plan, p.progress.watch(one.start, what), guard)
		p.progress.end()
		r.Label = one.label
		one.result = &r
		if p.show != nil {
			if err := p.show(*one); err != nil {
				return err
			}
		}
		if r.Outcome == probes.Aborted || unusable(&r) {
			break
		}
	}
	return nil
}

// overridable reports whether --even-if-busy probes nevertheless: there must be something to probe, and no
// refusal by the site.
func overridable(s probes.Skip) bool {
	return !slices.Contains([]probes.Skip{
		probes.SkipLocked, probes.SkipMaintenance, probes.SkipNoGPU,
		probes.SkipNoDevice, probes.SkipMemlock, probes.SkipUntrusted,
	}, s)
}
