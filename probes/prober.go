// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"log/slog"
)

// Errors of Trigger.
var (
	ErrBusy    = errors.New("another probe was asked for and waits for its turn")
	ErrStopped = errors.New("the prober has ended")
	ErrUnknown = errors.New("there is no such probe on this node")
)

// Target is a probe that could run on the node as it is now.
type Target struct {
	Key  Key
	GPUs []string // UUIDs of those that would get a context; empty: not known
	// Conditions are what else must be equal for results to be compared, "firmware mlx5_0=28.43.1014": firmware of the HCA,
	// how the GPUs are linked. The order does not matter.
	Conditions []string
}

// Machine is what a Prober probes.
type Machine interface {
	// Targets returns what could be probed. A kind that has nothing to run on is listed once, without a device, so that
	// it is seen being skipped. It is asked about once a minute.
	Targets(ctx context.Context) []Target
	// Open says whether a probe may run now, and why not. If it may, Open holds the lock of the node until release,
	// which is called once, after Run.
	Open(ctx context.Context, t Target) (release func(), skipped *Skipped)
	// Run runs a probe to its end, and kills it when ctx is done. The Prober judges the result: of Comparison only
	// Expected is kept.
	Run(ctx context.Context, t Target) Result
}

// Options are what a Prober needs.
type Options struct {
	Config  Config
	Machine Machine
	Host    string // name of the node: nodes with different names probe at different times
	Logger  *slog.Logger
}
