// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"testing"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
)

// guardFunc is a Guard.
type guardFunc func(ctx context.Context, own []int) (string, error)

func (f guardFunc) Intruder(ctx context.Context, own []int) (string, error) { return f(ctx, own) }

func (f guardFunc) Freed(context.Context, []int) error { return nil }

// noIntruder is a guard that finds no other process.
var noIntruder = guardFunc(func(context.Context, []int) (string, error) { return "", nil })

// planFor is a plan on a node with 8 GPUs.
func planFor(t *testing.T, key probes.Key, s plan.Settings) *plan.Plan {
	t.Helper()
	p, skip := plan.New(key, probestest.Node(8), s)
	if skip != nil {
		t.Fatalf("%v: %+v, expected a plan", key, skip)
	}
	return p
}
