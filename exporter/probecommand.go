// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// What probe exits with.
const (
	exitProbed   = 0
	exitUnsound  = 1 // a run failed, or its results were wrong
	exitUnprobed = 2 // nothing could be run, or not to its end: nothing is known; exitUsage where the configuration is why
)

// How long a run by hand may take. Ranks are bound to 10 min of processor time, which spinning threads use up twice as fast.
const (
	probeBudget   = 2 * time.Minute // after which no measurement begins
	probeDeadline = 3 * time.Minute
)

// probeRun is one run of the command.
type probeRun struct {
	label  string // in a comparison: "4 GPUs", "sockets"
	plan   *probes.Plan
	ranks  probes.Ranks
	result *probes.Result // nil: it did not come to it
}

// probeReport is what came of the command.
type probeReport struct {
	what    string
	runs    []probeRun
	skipped *probes.Skipped // nil: the GPUs were there to be used
	err     error           // what else kept it from running
}

// code is what to exit with: what is wrong comes before what is not known.
func (r *probeReport) code() int {
	code := exitProbed
	if r.err != nil || r.skipped != nil {
		code = exitOf(r.err, exitUnprobed)
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

// unusable tells that a run says nothing of the fabric, because it had nothing to run with.
func unusable(r *probes.Result) bool {
	return r.Failure == probes.FailureLibrary || r.Failure == probes.FailureSettings
}

// probe runs probes by hand.
func probe(ctx context.Context, f *flags, o Options) int {
	p := &probeCommand{flags: &f.probe, progress: newProgress(o.Stderr), warn: func(s string) { fmt.Fprintf(o.Stderr, "%s: %s\n", name, s) }}
	if f.probe.output == outputText {
		p.show = func(r probeRun) error { return writeProbeRun(o.Stdout, r) }
	}
	p.report.what = f.probe.what
	if p.report.what == "" {
		p.report.what = string(f.probe.kind)
	}
	p.report.err = f.explain(p.probe(ctx, f, o))
	p.progress.end()
	r := &p.report
	var err error
	switch {
	case f.probe.output == outputJSON:
		err = writeProbeJSON(o.Stdout, r)
	case f.probe.comparison() != "":
		err = writeProbeComparison(o.Stdout, compareProbes(r))
	}
	if r.err == nil && err != nil {
		r.err = err
	}
	if r.err != nil {
		complain(o.Stderr, r.err)
	}
	if s := r.skipped; s != nil {
		fmt.Fprintf(o.Stderr, "%s: not probed (%s): %s\n%s: %s\n", name, s.Why, s.Detail, name, s.Why.Advice())
		if overridable(s.Why) && !f.probe.evenIfBusy {
			fmt.Fprintf(o.Stderr, "%s: --even-if-busy probes nevertheless, and slows down whatever runs there\n", name)
		}
	}
	return r.code()
}

// probeCommand is one call of the command.
type probeCommand struct {
	flags    *probeFlags
	config   probes.Config
	settings probes.Settings
	node     *fabric.Node
	report   probeReport
	progress *progress
	show     func(probeRun) error // each run as it ends; nil: later
	warn     func(string)
}

// probe plans all runs, enters the gate once for all of them, and runs them.
func (p *probeCommand) probe(ctx context.Context, f *flags, o Options) error {
	if o.Probing == nil {
		return errors.New("this program was built without what runs NCCL")
	}
	noLibrary, err := p.prepare(ctx, f, o)
	if err != nil {
		return err
	}
	skipped, err := p.plan()
	p.report.skipped = skipped
	switch {
	case err != nil || skipped != nil: // without GPUs nobody misses NCCL
		return err
	case noLibrary != nil:
		return noLibrary
	}
	for i := range p.report.runs {
		run := &p.report.runs[i]
		if run.ranks, p.report.skipped = o.Probing.Ranks(run.plan, f.logger(o.Stderr)); p.report.skipped != nil {
			return nil
		}
	}
	options := gateOptions(f, (&gpuGate{maintenance: f.gpuMaintenance}).maintained, f.logger(o.Stderr))
	options.Config = p.config
	gate, closeGate, err := o.Probing.Gate(options)
	if err != nil {
		return err
	}
	guard, leave, skipped, err := p.enter(ctx, gate)
	if err == nil && skipped == nil {
		err = p.run(ctx, guard)
		leave()
	}
	p.report.skipped = skipped
	return errors.Join(err, closeGate())
}

// prepare observes the node and reads what the site says of probes. The process that was asked for the GPUs is gone then.
// noLibrary says that there is no NCCL.
func (p *probeCommand) prepare(ctx context.Context, f *flags, o Options) (noLibrary, err error) {
	c, err := f.configFile.Read()
	if err != nil {
		return nil, err
	}
	p.config = c.ByHand
	if f.probe.nccl != "" {
		p.config.NCCL = f.probe.nccl
	}
	p.progress.say("looking at the node")
	look, _, done, err := lookout(f, o)
	if err != nil {
		return nil, err
	}
	defer done()
	if p.node, err = look(ctx, probes.Wants, 0); err != nil {
		return nil, err
	}
	host := probes.Host{Platform: o.Probing, Config: p.config}
	if p.settings, err = host.Settings(ctx); errors.Is(err, probes.ErrSettings) {
		return nil, err
	}
	if err != nil {
		noLibrary = fmt.Errorf("no NCCL: %w (looked for in LD_LIBRARY_PATH of probes.env_file, in the cache of the loader and in packages of Python; "+
			"--library or probes.nccl of the configuration name it)", err)
	}
	p.settings.Budget, p.settings.Deadline = probeBudget, probeDeadline
	return noLibrary, nil
}

// enter asks the gate, or with --even-if-busy what it would have said.
func (p *probeCommand) enter(ctx context.Context, gate *probes.Gate) (probes.Guard, func(), *probes.Skipped, error) {
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
		p.warn(fmt.Sprintf("goes on because of --even-if-busy, although (%s): %s", s.Why, s.Detail))
	}
	lock, err := probes.TakeLock(p.config.LockFile)
	if err != nil {
		return nil, nil, nil, err
	}
	return nil, lock.Release, nil, nil
}

// run runs what is planned, one after the other. What ends one because of somebody else, or for lack of a library, would end
// the others too.
func (p *probeCommand) run(ctx context.Context, guard probes.Guard) error {
	for i := range p.report.runs {
		run := &p.report.runs[i]
		what := string(run.plan.Key.Kind)
		if run.label != "" {
			what += ", " + run.label
		}
		r := probes.Run(ctx, run.plan, p.progress.watch(run.ranks, what), guard)
		p.progress.end()
		r.Label = run.label
		run.result = &r
		if p.show != nil {
			if err := p.show(*run); err != nil {
				return err
			}
		}
		if r.Outcome == probes.Aborted || unusable(&r) {
			break
		}
	}
	return nil
}

// overridable tells whether --even-if-busy probes nevertheless: there must be something to probe, and nobody who said no.
func overridable(s probes.Skip) bool {
	return !slices.Contains([]probes.Skip{probes.SkipLocked, probes.SkipMaintenance, probes.SkipNoGPU, probes.SkipNoDevice, probes.SkipUntrusted}, s)
}
