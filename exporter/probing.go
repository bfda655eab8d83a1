// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/ownership"
	"gpufabric_exporter/probes"
)

// Probing is how the program around Run probes: what runs NCCL in processes of its own, and what tells whether it may.
type Probing struct {
	// Gate returns the gate, and what ends the process that it asks.
	Gate func(GateOptions) (*probes.Gate, func() error, error)
	// Ranks returns what starts the processes of a run, or why none may be started.
	Ranks func(*probes.Plan, *slog.Logger) (probes.Ranks, *probes.Skipped)
	// FindNCCL returns the library that a rank is to load. The error says where it was looked for.
	FindNCCL func(given, libraryPath string) (string, error)
}

// GateOptions says what a gate looks at.
type GateOptions struct {
	Sysfs, Procfs, Rootfs string
	Lock                  string // file
	IdleMemory            uint64 // see probes.Config
	IdleCommand           []string
	Library               string // NVML
	Maintenance           func() (why string, err error)
	Quiet                 time.Duration // 0: the gate's own
	Log                   *slog.Logger
}

// errSettings tells what a site said from what it lacks.
var errSettings = errors.New("settings of probes")

const maxEnvironment = 64 << 10 // bytes of probes.env

// probeNode is this node as a Prober sees it. The Prober and the command probe ask for one thing at a time.
type probeNode struct {
	observe func(ctx context.Context) (*fabric.Node, error)
	config  probes.Config
	probing *Probing
	gate    *probes.Gate
	reading *errand[library] // the site's files may be where nothing answers
	vetting *errand[vetted]  // and so may be what they name
	log     *slog.Logger
}

var _ probes.Machine = (*probeNode)(nil)

// settings says what a run is like. The file of variables is read each time: a site need not restart anything.
func (m *probeNode) settings(ctx context.Context) (probes.Settings, error) {
	c := m.config
	s := probes.Settings{CUDA: c.CUDA, User: c.User, Op: c.Op, Type: c.Type, Bytes: c.Bytes, MaxCTAs: c.MaxCTAs, Collective: c.Collective, Budget: c.Wall, Deadline: 3 * c.Wall}
	found, err := m.reading.run(ctx, patience, m.findLibrary)
	if errors.Is(err, errBusy) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", errSettings, err)
	}
	s.Environment, s.NCCL = found.environment, found.path
	return s, err
}

// library is what a rank loads, and the variables of the site that it does so with.
type library struct {
	path        string
	environment []string
}

func (m *probeNode) findLibrary() (found library, err error) {
	if m.config.EnvFile != "" {
		if found.environment, err = readEnvironment(m.config.EnvFile); err != nil {
			return found, err
		}
	}
	found.path, err = m.probing.FindNCCL(m.config.NCCL, libraryPath(found.environment))
	return found, err
}

// readEnvironment reads the file of variables. They decide what ranks load, so nobody else may be able to write it.
func readEnvironment(file string) ([]string, error) {
	data, err := readTrusted(file, maxEnvironment)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errSettings, file, err)
	}
	env, err := probes.ParseEnvironment(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errSettings, file, err)
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

// Targets lists the probes of all kinds.
func (m *probeNode) Targets(ctx context.Context) []probes.Target {
	n, err := m.observe(ctx)
	if err != nil {
		return nil
	}
	s, _ := m.settings(ctx) // what is wrong with them, a run tells
	return probes.Targets(n, s)
}

// Enter plans the probe and asks the gate.
func (m *probeNode) Enter(ctx context.Context, t probes.Target) (probes.Visit, *probes.Skipped) {
	n, err := m.observe(ctx)
	if err != nil {
		return nil, &probes.Skipped{Why: probes.SkipCannotProveIdle, Detail: err.Error(), At: time.Now()}
	}
	s, err := m.settings(ctx)
	plan, skip := probes.NewPlan(t.Key, n, s)
	if skip != nil {
		return nil, skip
	}
	if err != nil { // what would fail need not wait for the gate
		return unready{t, err}, nil
	}
	ranks, skip := m.vet(ctx, plan)
	if skip != nil {
		return nil, skip
	}
	pass, skip := m.gate.Enter(ctx, plan.GPUs())
	if skip != nil {
		return nil, skip
	}
	return visit{plan, ranks, pass}, nil
}

// vetted is what starts the ranks of a plan, or why nothing may.
type vetted struct {
	ranks probes.Ranks
	skip  *probes.Skipped
}

// vet looks at the files of a plan, which may be where nothing answers.
func (m *probeNode) vet(ctx context.Context, plan *probes.Plan) (probes.Ranks, *probes.Skipped) {
	v, err := m.vetting.run(ctx, patience, func() (v vetted, err error) {
		v.ranks, v.skip = m.probing.Ranks(plan, m.log)
		return v, nil
	})
	if err != nil {
		return nil, &probes.Skipped{Why: probes.SkipUntrusted, Detail: "the files of NCCL cannot be looked at: " + err.Error(), At: time.Now()}
	}
	return v.ranks, v.skip
}

// visit is a run behind the gate.
type visit struct {
	plan  *probes.Plan
	ranks probes.Ranks
	pass  *probes.Pass
}

func (v visit) Run(ctx context.Context) probes.Result {
	return probes.Run(ctx, v.plan, v.ranks, v.pass)
}

func (v visit) Leave() { v.pass.Leave() }

// unready is a run that fails because of what the site configured.
type unready struct {
	target probes.Target
	err    error
}

func (v unready) Run(context.Context) probes.Result {
	why := probes.FailureLibrary
	if errors.Is(v.err, errSettings) {
		why = probes.FailureSettings
	}
	return probes.Result{Key: v.target.Key, At: time.Now(), GPUs: v.target.GPUs, Outcome: probes.Failed, Failure: why, Error: v.err.Error()}
}

func (unready) Leave() {}
