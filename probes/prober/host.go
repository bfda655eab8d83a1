// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// Platform is what the program provides to probe with: the sources of the gate, the processes of ranks, and where NCCL
// is. There is one for all configurations, so that what hangs is not begun again by a reload.
type Platform struct {
	// Gate returns the gate of a host, and what ends the process that it asks.
	Gate func(*Host) (*gate.Gate, func() error, error)
	// Ranks returns what starts the processes of a run, or why none may be started.
	Ranks func(*plan.Plan, *slog.Logger) (probes.StartRank, *probes.Skipped)
	// FindNCCL returns the library that a rank is to load. The error says where it was looked for.
	FindNCCL func(given, libraryPath string) (string, error)

	reading errand.Errand[plan.Settings]    // the site's files may be where nothing answers
	vetting errand.Errand[probes.StartRank] // and so may be what they name
}

// patience is how long a file of the site's may take to be read.
const patience = 5 * time.Second

// Host is the Machine of this host. The Prober and the command probe ask for one thing at a time.
type Host struct {
	Platform *Platform
	Config   probes.Config
	Gate     *gate.Gate // what Platform.Gate returns
	Observe  func(ctx context.Context) (*fabric.Node, error)
	Log      *slog.Logger

	// Where the gate looks.
	Sysfs, Procfs, Rootfs string
	Library               string                         // NVML
	Maintenance           func() (why string, err error) // as gate.Options has it
	Quiet                 time.Duration                  // 0: the gate's own
	Allocation            *gate.Allocation               // that this process runs in; nil: none
}

var _ Machine = (*Host)(nil)

// Targets lists the probes of all kinds.
func (h *Host) Targets(ctx context.Context) []probes.Target {
	n, err := h.Observe(ctx)
	if err != nil {
		return nil
	}
	s, _ := h.Settings(ctx) // what is wrong with them, a run says
	return plan.Targets(n, s)
}

// Probe plans the probe, asks the gate and runs it.
func (h *Host) Probe(ctx context.Context, t probes.Target, begin func()) (probes.Result, *probes.Skipped) {
	n, err := h.Observe(ctx)
	if err != nil {
		return probes.Result{}, probes.Skipf(probes.SkipCannotProveIdle, "%v", err)
	}
	s, err := h.Settings(ctx)
	plan, skipped := plan.New(t.Key, n, s)
	if skipped != nil {
		return probes.Result{}, skipped
	}
	if err != nil { // what would fail need not wait for the gate
		begin()
		return misconfigured(t, err), nil
	}
	start, skipped := h.vet(ctx, plan)
	if skipped != nil {
		return probes.Result{}, skipped
	}
	pass, skipped := h.Gate.Enter(ctx, plan.GPUs())
	if skipped != nil {
		return probes.Result{}, skipped
	}
	defer pass.Leave()
	begin()
	return run.Run(ctx, plan, start, pass), nil
}

// misconfigured is the result of a run that fails because of what the site configured.
func misconfigured(t probes.Target, err error) probes.Result {
	why := probes.FailureLibrary
	if errors.Is(err, plan.ErrSettings) {
		why = probes.FailureSettings
	}
	return probes.Result{
		Key: t.Key, At: time.Now(), GPUs: t.GPUs, Outcome: probes.Failed, Failure: why,
		Error: err.Error(),
	}
}

// vet looks at the files of a plan.
func (h *Host) vet(ctx context.Context, plan *plan.Plan) (probes.StartRank, *probes.Skipped) {
	start, err := h.Platform.vetting.Run(ctx, patience, func() (probes.StartRank, error) {
		start, skipped := h.Platform.Ranks(plan, h.Log)
		if skipped != nil {
			return nil, skipped
		}
		return start, nil
	})
	if skipped, ok := errors.AsType[*probes.Skipped](err); ok {
		return nil, skipped
	}
	if err != nil {
		return nil, probes.Skipf(probes.SkipUntrusted, "the files of NCCL cannot be looked at: %v", err)
	}
	return start, nil
}

// Settings are what runs have by the configuration, with the site's variables and NCCL, which are looked for each
// time: a site need not restart anything. With an error they lack these.
func (h *Host) Settings(ctx context.Context) (plan.Settings, error) {
	c := h.Config
	s := plan.Settings{
		CUDA: c.CUDA, User: c.User, Op: c.Op, Type: c.Type, Bytes: c.Bytes, MaxCTAs: c.MaxCTAs,
		Collective: c.Collective, Budget: c.Wall, Deadline: 3 * c.Wall,
	}
	found, err := h.Platform.reading.Run(ctx, patience, func() (found plan.Settings, err error) {
		found = s
		if c.EnvFile != "" {
			if found.Environment, err = plan.ReadEnvironment(c.EnvFile); err != nil {
				return found, err
			}
		}
		found.NCCL, err = h.Platform.FindNCCL(c.NCCL, plan.LibraryPath(found.Environment))
		return found, err
	})
	if errors.Is(err, errand.ErrBusy) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return s, fmt.Errorf("%w: %w", plan.ErrSettings, err)
	}
	return found, err
}
