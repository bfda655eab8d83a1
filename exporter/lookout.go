// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"os"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// look observes a node that is this much further than when it was opened; only a simulated one has to be told.
type look func(ctx context.Context, want fabric.Want, further time.Duration) (*fabric.Node, error)

// lookout opens this host, or the simulated node that the flags name, for commands that look and are done. The observer
// logs what could not be read. The configuration is what the node is judged by.
func lookout(f *flags, o Options) (look, config.Config, func(), error) {
	at := observer.Options{
		Sysfs: f.sysfs, Procfs: f.procfs, Rootfs: f.rootfs, Netlink: f.netlink, Devices: f.devices, Log: f.logger(o.Stderr),
		FastInterval: time.Millisecond, MediumInterval: time.Millisecond, // nobody shares a reading
	}
	read := f.configFile.Read
	step := func(int) error { return nil }
	var undo []func()
	done := func() {
		for _, u := range undo {
			u()
		}
	}
	if f.simulated {
		dir, err := temporaryFolder()
		if err != nil {
			return nil, config.Config{}, nil, err
		}
		undo = append(undo, func() { _ = os.RemoveAll(dir) })
		tree, err := f.demoScenario.Build().Materialise(dir)
		if err != nil {
			done()
			return nil, config.Config{}, nil, err
		}
		at.Sysfs, at.Procfs, at.Rootfs, at.Ethernet, at.GPUs = tree.Sysfs(), tree.Procfs(), tree.Rootfs(), tree.Ethernet(), tree.GPUs()
		if f.configFile.Optional { // else what this site expects is held against the simulated node
			read = func() (config.Config, error) {
				return config.Parse("scenario "+f.demoScenario.Name, []byte(f.demoScenario.Config()))
			}
		}
		step = tree.Step
	}
	conf, err := read()
	if err != nil {
		done()
		return nil, conf, nil, err
	}
	at.Policy, at.NCCL = conf.Policy, conf.NCCL
	if !f.simulated {
		if at.GPUs, err = hostGPUs(f, o, at.Log); err != nil {
			return nil, conf, nil, err
		}
	}
	ob, err := o.newObserver(at)
	if err != nil {
		done()
		return nil, conf, nil, err
	}
	if !f.simulated {
		ob = remember(ob, o.inventory, at.Log)
	}
	undo = append([]func(){ob.Close}, undo...)
	return func(ctx context.Context, want fabric.Want, further time.Duration) (*fabric.Node, error) {
		if err := step(int(further.Seconds())); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, firstObservation)
		defer cancel()
		n := ob.Observe(ctx, want)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
		return n, nil
	}, conf, done, nil
}
