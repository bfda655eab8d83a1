// SPDX-License-Identifier: Apache-2.0

package site

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// GPUWorker asks NVIDIA's driver in a process of its own.
type GPUWorker interface {
	observer.GPUs
	// Release ends the process within 5 s, so that it holds no GPU open, and starts no other before Resume. An error
	// means that the kernel does not end it.
	Release(reason string) error
	Resume()
	// Running reports whether there is a process. There is none before the first Read.
	Running() bool
}

// GPUOptions says how NVIDIA's driver is asked.
type GPUOptions struct {
	Library string // name or path of the NVML library
	Log     *slog.Logger
}

// absentRetry is how long a driver that the kernel has and NVML does not reach is not asked again: containers without
// NVIDIA's runtime are so for ever, and each try is a process.
const absentRetry = time.Minute

// watchInterval is how often it is looked whether the GPUs must be released while a process holds them.
const watchInterval = time.Second

// GPUs is how the GPUs of this host are asked.
type GPUs struct {
	Library     string // NVML, by name or path
	Maintenance string // file; empty: none
}

// Define adds the flags.
func (g *GPUs) Define(f *command.Flags) {
	f.Add("gpu.nvml-library", "Name or path of NVIDIA's management library (NVML). A separate process loads it.",
		command.File(&g.Library)).
		Default(fabric.NVMLLibrary)
	f.Add("gpu.maintenance-file",
		"While this file exists, the exporter releases the GPUs. SIGUSR1 does the same until the next SIGUSR1.",
		command.File(&g.Maintenance)).
		PlaceHolder("FILE")
}

// UnderMaintenance says why the GPUs are to be released, if they are. A file that cannot be looked for counts as there:
// it is safer not to touch.
func (g GPUs) UnderMaintenance() string {
	if g.Maintenance == "" {
		return ""
	}
	switch _, err := os.Stat(g.Maintenance); {
	case err == nil:
		return "maintenance file " + g.Maintenance
	case errors.Is(err, fs.ErrNotExist):
		return ""
	default:
		return "maintenance file: " + err.Error()
	}
}

// GPUAccess asks a GPUWorker, unless the GPUs are to be released; then it has it release them: while a maintenance
// file exists, from one SIGUSR1 to the next, and without a driver. NVML must not be opened without one: it
// would load it.
//
// Read and Close are for the observer. Watch and OnSignal may be called at the same time from other goroutines.
type GPUAccess struct {
	worker  GPUWorker
	flags   GPUs
	version string // file that the driver shows while it is loaded
	module  string // folder of its kernel module
	log     *slog.Logger

	look sync.Mutex // held while files are looked at and what they say is done

	mu       sync.Mutex
	signal   bool   // SIGUSR1 wants the GPUs released
	released string // why they are; empty: they are not
	failed   bool   // the worker did not release them, which is logged once

	absent      fabric.GPUDriver // the last answer without a driver, although the kernel has one; belongs to Read
	absentUntil time.Time        // when NVML is asked again
}

var _ observer.GPUs = (*GPUAccess)(nil)

// GPUAccess returns the process that asks the driver of this host's GPUs; nil if the driver is not asked, or
// another host is read.
func (s *Site) GPUAccess(log *slog.Logger) *GPUAccess {
	if s.Worker == nil || !s.ThisHost() {
		return nil
	}
	return s.gpuAccess(s.Worker(GPUOptions{Library: s.GPUs.Library, Log: log}), log)
}

func (s *Site) gpuAccess(w GPUWorker, log *slog.Logger) *GPUAccess {
	return &GPUAccess{
		worker: w, log: log, flags: s.GPUs,
		version: filepath.Join(s.Paths.Procfs, "driver/nvidia/version"),
		module:  filepath.Join(s.Paths.Sysfs, "module/nvidia"),
	}
}

// Read asks the driver, unless it must not be touched or is not there.
func (g *GPUAccess) Read(last fabric.GPUDriver, slow bool, now time.Time) (fabric.GPUDriver, error) {
	loaded := g.applyMaintenance()
	if d, ok := g.held(loaded, now); ok {
		return d, nil
	}
	if !loaded {
		g.absentUntil = time.Time{}
		return fabric.GPUDriver{Loaded: fabric.Known(false, g.version, now)}, nil
	}
	if now.Before(g.absentUntil) {
		return g.absent, nil
	}
	d, err := g.worker.Read(last, slow, now)
	if d, ok := g.held(loaded, now); ok { // meanwhile, which is why the worker failed
		return d, nil
	}
	if err != nil || d.Loaded.Or(false) {
		return d, err
	}
	// The kernel has the driver, whatever NVML says: its library is not here, or the device nodes are not.
	d.Loaded = fabric.UnknownFact[bool](fabric.ReasonMissing, d.Loaded.Source, now)
	g.absent, g.absentUntil = d, now.Add(absentRetry)
	g.release("NVML reaches no driver")
	return d, nil
}

// held is the answer while the GPUs are released for a reason that is not the driver's.
func (g *GPUAccess) held(loaded bool, now time.Time) (fabric.GPUDriver, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.released == "" {
		return fabric.GPUDriver{}, false
	}
	return fabric.GPUDriver{Loaded: fabric.Known(loaded, g.version, now), Released: g.released}, true
}

// applyMaintenance releases the GPUs where the site asks for that, and reports whether the kernel has their driver.
func (g *GPUAccess) applyMaintenance() (loaded bool) {
	g.look.Lock()
	defer g.look.Unlock()
	reason := g.flags.UnderMaintenance()
	loaded = exists(g.version) || exists(g.module)

	before, reason := g.decide(reason, loaded)
	switch {
	case reason != "":
		g.release(reason)
	case !loaded:
		g.release("the driver is not loaded")
	}
	switch {
	case reason != "" && before == "":
		g.log.Info("GPUs released", "reason", reason)
	case reason == "" && before != "":
		g.log.Info("GPUs are no longer released", "reason", before)
	}
	return loaded
}

// decide notes why the GPUs are released, and why they were. A process may start again only if nothing is
// against it, also no signal that arrives now.
func (g *GPUAccess) decide(reason string, loaded bool) (before, now string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.signal {
		reason = "SIGUSR1"
	}
	before, g.released = g.released, reason
	if reason == "" && loaded {
		g.worker.Resume()
	}
	return before, reason
}

// Maintained returns why the GPUs must not be touched; empty: they may be.
func (g *GPUAccess) Maintained() (string, error) {
	g.mu.Lock()
	signal := g.signal
	g.mu.Unlock()
	if signal {
		return "SIGUSR1", nil
	}
	return g.flags.UnderMaintenance(), nil
}

// exists counts what cannot be looked at as there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// release waits for the end of the process, and so is called without mu.
func (g *GPUAccess) release(reason string) {
	err := g.worker.Release(reason)
	g.mu.Lock()
	known := g.failed
	g.failed = err != nil
	g.mu.Unlock()
	if err != nil && !known {
		g.log.Error("GPUs not released", "reason", reason, "err", err)
	}
}

// toggle is SIGUSR1. Letting go waits for no file.
func (g *GPUAccess) toggle() {
	g.mu.Lock()
	g.signal = !g.signal
	if g.signal {
		g.released = "SIGUSR1"
		g.mu.Unlock()
		g.release("SIGUSR1")
		g.log.Info("GPUs released", "reason", "SIGUSR1")
		return
	}
	g.mu.Unlock()
	g.applyMaintenance()
}

// Watch releases the GPUs when maintenance begins, also while no facts are requested, until ctx ends.
func (g *GPUAccess) Watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if g.worker.Running() {
				g.applyMaintenance()
			}
		}
	}
}

// OnSignal toggles whenever a signal arrives, until ctx ends. Without access to GPUs, signals have no effect:
// they would end the process.
func (g *GPUAccess) OnSignal(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			if g != nil {
				g.toggle()
			}
		}
	}
}

// Close ends the process.
func (g *GPUAccess) Close() error { return g.worker.Close() }
