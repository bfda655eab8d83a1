// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/ownership"
)

// Platform is what the program provides to probe with: the sources of the gate, the processes of ranks, and where NCCL is.
// There is one for all configurations, so that what hangs is not begun again by a reload.
type Platform struct {
	// Gate returns the gate of a host, and what ends the process that it asks.
	Gate func(*Host) (*Gate, func() error, error)
	// Ranks returns what starts the processes of a run, or why none may be started.
	Ranks func(*Plan, *slog.Logger) (StartRank, *Skipped)
	// FindNCCL returns the library that a rank is to load. The error says where it was looked for.
	FindNCCL func(given, libraryPath string) (string, error)

	reading errand.Errand[Settings]  // the site's files may be where nothing answers
	vetting errand.Errand[StartRank] // and so may be what they name
}

// patience is how long a file of the site's may take to be read.
const patience = 5 * time.Second

// Host is the Machine of this host. The Prober and the command probe ask for one thing at a time.
type Host struct {
	Platform *Platform
	Config   Config
	Gate     *Gate // what Platform.Gate returns
	Observe  func(ctx context.Context) (*fabric.Node, error)
	Log      *slog.Logger

	// Where the gate looks.
	Sysfs, Procfs, Rootfs string
	Library               string                         // NVML
	Maintenance           func() (why string, err error) // as GateOptions has it
	Quiet                 time.Duration                  // 0: the gate's own
}

var _ Machine = (*Host)(nil)

// Targets lists the probes of all kinds.
func (h *Host) Targets(ctx context.Context) []Target {
	n, err := h.Observe(ctx)
	if err != nil {
		return nil
	}
	s, _ := h.Settings(ctx) // what is wrong with them, a run says
	return Targets(n, s)
}

// Probe plans the probe, asks the gate and runs it.
func (h *Host) Probe(ctx context.Context, t Target, begin func()) (Result, *Skipped) {
	n, err := h.Observe(ctx)
	if err != nil {
		return Result{}, &Skipped{Why: SkipCannotProveIdle, Detail: err.Error(), At: time.Now()}
	}
	s, err := h.Settings(ctx)
	plan, skipped := NewPlan(t.Key, n, s)
	if skipped != nil {
		return Result{}, skipped
	}
	if err != nil { // what would fail need not wait for the gate
		begin()
		return misconfigured(t, err), nil
	}
	start, skipped := h.vet(ctx, plan)
	if skipped != nil {
		return Result{}, skipped
	}
	pass, skipped := h.Gate.Enter(ctx, plan.GPUs())
	if skipped != nil {
		return Result{}, skipped
	}
	defer pass.Leave()
	begin()
	return Run(ctx, plan, start, pass), nil
}

// misconfigured is the result of a run that fails because of what the site configured.
func misconfigured(t Target, err error) Result {
	why := FailureLibrary
	if errors.Is(err, ErrSettings) {
		why = FailureSettings
	}
	return Result{Key: t.Key, At: time.Now(), GPUs: t.GPUs, Outcome: Failed, Failure: why, Error: err.Error()}
}

// vet looks at the files of a plan.
func (h *Host) vet(ctx context.Context, plan *Plan) (StartRank, *Skipped) {
	start, err := h.Platform.vetting.Run(ctx, patience, func() (StartRank, error) {
		start, skipped := h.Platform.Ranks(plan, h.Log)
		if skipped != nil {
			return nil, skipped
		}
		return start, nil
	})
	if skipped, ok := errors.AsType[*Skipped](err); ok {
		return nil, skipped
	}
	if err != nil {
		return nil, &Skipped{Why: SkipUntrusted, Detail: "the files of NCCL cannot be looked at: " + err.Error(), At: time.Now()}
	}
	return start, nil
}

// ErrSettings returns what a site said from what it lacks.
var ErrSettings = errors.New("settings of probes")

// Settings are what runs have by the configuration, with the site's variables and NCCL, which are looked for each time: a
// site need not restart anything. With an error they lack these.
func (h *Host) Settings(ctx context.Context) (Settings, error) {
	c := h.Config
	s := Settings{CUDA: c.CUDA, User: c.User, Op: c.Op, Type: c.Type, Bytes: c.Bytes, MaxCTAs: c.MaxCTAs, Collective: c.Collective, Budget: c.Wall, Deadline: 3 * c.Wall}
	found, err := h.Platform.reading.Run(ctx, patience, func() (found Settings, err error) {
		found = s
		if c.EnvFile != "" {
			if found.Environment, err = ReadEnvironment(c.EnvFile); err != nil {
				return found, err
			}
		}
		found.NCCL, err = h.Platform.FindNCCL(c.NCCL, libraryPath(found.Environment))
		return found, err
	})
	if errors.Is(err, errand.ErrBusy) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return s, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return found, err
}

// ReadEnvironment reads the file of variables. They decide what ranks load, so only root and the user of this process may
// be able to write it. The error wraps ErrSettings.
func ReadEnvironment(file string) ([]string, error) {
	data, err := readTrusted(file, maxEnvironment)
	var env []string
	if err == nil {
		env, err = ParseEnvironment(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSettings, file, err)
	}
	return env, nil
}

// libraryPath is what the loader of a rank will look in beside the system's folders.
func libraryPath(env []string) string {
	const name = "LD_LIBRARY_PATH="
	for _, v := range slices.Backward(env) {
		if path, ok := strings.CutPrefix(v, name); ok {
			return path
		}
	}
	return ""
}

func readTrusted(file string, limit int64) ([]byte, error) {
	found, err := ownership.Open("/", file)
	if err != nil {
		return nil, err
	}
	defer found.File.Close()
	if found.Others != nil {
		return nil, fmt.Errorf("%w (chown root, chmod go-w)", found.Others)
	}
	data, err := io.ReadAll(io.LimitReader(found.File, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return data, err
}
