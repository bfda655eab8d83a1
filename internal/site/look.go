// SPDX-License-Identifier: Apache-2.0

package site

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// Look observes a node that is this much further than when it was opened; only a simulated one needs the call.
type Look func(ctx context.Context, want fabric.Want, further time.Duration) (*fabric.Node, error)

// Open opens this host, or a simulated node where there is a scenario, for commands that look and are done.
// The observer logs what could not be read. The configuration is what the node is judged by. The function is
// called in the end.
func (s *Site) Open(ctx context.Context, scenario *simulator.Scenario, log *slog.Logger) (Look, config.Config, func(),
	error,
) {
	at := observer.Options{
		Sysfs: s.Paths.Sysfs, Procfs: s.Paths.Procfs, Rootfs: s.Paths.Rootfs, Netlink: s.Recorded.Netlink,
		LibraryPath: s.LibraryPath, Devices: s.Devices.Filter, Log: log,
		FastInterval: time.Millisecond, MediumInterval: time.Millisecond, // no reading is shared
		RanksPatience: FirstObservation / 2, // no scraper waits
	}
	read := s.Config.Read
	var neverMet func(*fabric.Node) *fabric.Node // of a simulated node, which has no record
	step := func(int) error { return nil }
	var undo []func()
	done := func() {
		for _, u := range undo {
			u()
		}
	}
	if scenario != nil {
		dir, err := command.TemporaryFolder()
		if err != nil {
			return nil, config.Config{}, nil, err
		}
		undo = append(undo, func() { _ = os.RemoveAll(dir) })
		tree, err := scenario.Build().MaterialiseContext(ctx, dir)
		if err != nil {
			done()
			return nil, config.Config{}, nil, err
		}
		at.Sysfs, at.Procfs, at.Rootfs, at.Ethernet, at.GPUs, at.Ranks = tree.Sysfs(), tree.Procfs(), tree.Rootfs(),
			tree.Ethernet(), tree.GPUs(), tree.Ranks()
		own := func() (config.Config, error) {
			return config.Parse("scenario "+scenario.Name, []byte(scenario.ConfigOf(tree)))
		}
		if s.Config.Optional { // else what this site expects is held against the simulated node
			read = own
		} else if its, err := own(); err == nil {
			neverMet = func(n *fabric.Node) *fabric.Node { return unlike(n, its.Policy) }
		}
		step = tree.Step
	}
	conf, err := read()
	if err != nil {
		done()
		return nil, conf, nil, err
	}
	for _, problem := range conf.Problems {
		log.Warn("a profile is left out", "err", problem)
	}
	at.Policy, at.NCCL = conf.Policy, conf.NCCL
	at.NCCL.Home = cmp.Or(at.NCCL.Home, s.Home)
	if scenario == nil {
		if at.GPUs, err = s.HostGPUs(at.Log); err != nil {
			return nil, conf, nil, err
		}
	}
	ob, err := s.remember(at, scenario != nil)
	if err != nil {
		done()
		return nil, conf, nil, err
	}
	undo = append([]func(){ob.Close}, undo...)
	return func(ctx context.Context, want fabric.Want, further time.Duration) (*fabric.Node, error) {
		if err := step(int(further.Seconds())); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, FirstObservation)
		defer cancel()
		n := ob.Observe(ctx, want)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
		if neverMet != nil {
			n = neverMet(n)
		}
		return n, nil
	}, conf, done, nil
}

// unlike returns a simulated node that met what its own policy expects, and nothing else.
func unlike(n *fabric.Node, its *fabric.Policy) *fabric.Node {
	with := *n
	with.RememberedIn = "a simulated node meets what its scenario expects"
	with.NeverMet = slices.DeleteFunc(n.Policy.Expectations(),
		func(e fabric.Expectation) bool { return slices.Contains(its.Expectations(), e) })
	return &with
}

// ObserveOnce observes this host, or a simulated node where there is a scenario; a second time after the
// interval, if there is one, so that rates show.
func (s *Site) ObserveOnce(ctx context.Context, scenario *simulator.Scenario, want fabric.Want,
	interval time.Duration, log *slog.Logger,
) (*fabric.Node, config.Config, error) {
	look, conf, done, err := s.Open(ctx, scenario, log)
	if err != nil {
		return nil, conf, err
	}
	defer done()
	n, err := look(ctx, want, 0)
	if err != nil || interval == 0 {
		return n, conf, err
	}
	wait := time.NewTimer(interval)
	defer wait.Stop()
	select {
	case <-wait.C:
		n, err = look(ctx, want, interval)
		return n, conf, err
	case <-ctx.Done():
		return nil, conf, ctx.Err()
	}
}
