// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
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
		fmt.Fprintf(o.Stderr, "%s: not probed (%s): %s\n%s: %s\n", name, s.Why, s.Detail, name, adviceOnSkip(s.Why))
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
	options.Lock, options.IdleMemory, options.IdleCommand = p.config.LockFile, p.config.IdleMemory, p.config.IdleCommand
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
	if p.node, err = look(ctx, wantsOfProbes, 0); err != nil {
		return nil, err
	}
	node := probeNode{config: p.config, probing: o.Probing, reading: new(errand[library])}
	if p.settings, err = node.settings(ctx); errors.Is(err, errSettings) {
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
		p.progress.say("watching whether %s for a minute", plural(len(gpus), "GPU is idle", "GPUs are idle"))
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

// adviceOnSkip says what to do about a probe that may not run.
func adviceOnSkip(s probes.Skip) string {
	switch s {
	case probes.SkipProcess, probes.SkipMPS, probes.SkipMemory:
		return "probe when it has ended (ps shows who it is)"
	case probes.SkipSlurm, probes.SkipKubernetes:
		return "wait for the job, or drain the node"
	case probes.SkipScheduler:
		return "name a command that knows whether the node is free: probes.idle_command of the configuration (docs/PROBES.md has examples)"
	case probes.SkipSite:
		return "wait until the site's command (probes.idle_command) says that the node is free, or drain the node"
	case probes.SkipUtilization:
		return "GPUs must have been idle for a minute: try again"
	case probes.SkipMaintenance:
		return "GPUs are released: remove the maintenance file, or send SIGUSR1 to the exporter once more"
	case probes.SkipLocked:
		return "another probe of this node is running: try again when it has ended"
	case probes.SkipDuty:
		return "it runs by itself when its GPUs may spend the time (duty)"
	case probes.SkipNoGPU:
		return "the driver must be loaded (nvidia-smi -L) and have as many GPUs as the kind needs: node, calibrate and nvlink 2, scaling 3"
	case probes.SkipNoDevice:
		return "a rail needs an RDMA port that is active and for training (gpufabric_exporter topology; --device names one)"
	case probes.SkipPersistence:
		return "nvidia-smi -pm 1 (or nvidia-persistenced) keeps the driver's state"
	case probes.SkipComputeMode:
		return "nvidia-smi -c 0 lets several processes use a GPU"
	case probes.SkipMIG:
		return "NCCL measures whole GPUs: nvidia-smi -mig 0"
	case probes.SkipUntrusted:
		return "what runs with privileges must belong to root or the exporter's user, with all folders above it, and nobody else may write there: chown root, chmod go-w"
	case probes.SkipThrottled, probes.SkipLinkErrors:
		return "a probe would measure the trouble that the GPUs are in (gpufabric_exporter check)"
	}
	return "run it as root, in the PID namespace of the host, so that everything can be read"
}

// overridable tells whether --even-if-busy probes nevertheless: there must be something to probe, and nobody who said no.
func overridable(s probes.Skip) bool {
	return !slices.Contains([]probes.Skip{probes.SkipLocked, probes.SkipMaintenance, probes.SkipNoGPU, probes.SkipNoDevice, probes.SkipUntrusted}, s)
}

// lasting tells that a node is skipped until somebody does something about it.
func lasting(s probes.Skip) bool {
	return slices.Contains([]probes.Skip{
		probes.SkipCannotProveIdle, probes.SkipScheduler, probes.SkipPersistence, probes.SkipComputeMode, probes.SkipMIG, probes.SkipNoGPU, probes.SkipNoDevice,
		probes.SkipUntrusted,
	}, s)
}

// adviceOnFailure says where to look when a run failed; empty: its error says it all.
func adviceOnFailure(f probes.Failure) string {
	switch f {
	case probes.FailureLibrary:
		return "--library names NCCL; the driver's libcuda.so.1 must be where the loader looks"
	case probes.FailureInit:
		return "NCCL's log tells what it missed; often NCCL_SOCKET_IFNAME names no interface, or /dev/shm is too small"
	case probes.FailureHang:
		return "with large messages over a slow network try smaller --bytes or less --iterations; else see which transport NCCL's log names last"
	case probes.FailureCrash:
		return "NCCL's log and dmesg tell more (Xid, oom-killer)"
	case probes.FailureNCCL, probes.FailureCUDA:
		return "NCCL's log and dmesg tell more (Xid)"
	case probes.FailureWrong:
		return "do not train on these GPUs: compare with --ranks and rail to find which GPU or NIC it is, then dcgmi diag -r 3"
	case probes.FailureVersions:
		return "ranks must load the same library: --library names it"
	case probes.FailureIntruder:
		return "try again when nobody uses the GPUs"
	}
	return ""
}
