// SPDX-License-Identifier: Apache-2.0

// Package program is the list of the commands, and of the flags that they share.
package program

import (
	"context"
	"errors"
	"strconv"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/advise"
	"gpufabric_exporter/internal/command/capture"
	"gpufabric_exporter/internal/command/check"
	"gpufabric_exporter/internal/command/demo"
	"gpufabric_exporter/internal/command/explain"
	"gpufabric_exporter/internal/command/healthcheck"
	"gpufabric_exporter/internal/command/installto"
	"gpufabric_exporter/internal/command/jobs"
	"gpufabric_exporter/internal/command/lint"
	"gpufabric_exporter/internal/command/ping"
	"gpufabric_exporter/internal/command/probe"
	"gpufabric_exporter/internal/command/profiles"
	"gpufabric_exporter/internal/command/report"
	"gpufabric_exporter/internal/command/rules"
	"gpufabric_exporter/internal/command/topology"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/rdmaping/pinger"
)

// Options is what the process around the commands provides. The zero value is ready to use.
type Options struct {
	Site     site.Site         // but for its flags
	Exporter exporter.Exporter // but for its flags and what is named here
	// ServeGPUs is what the process of a site.GPUWorker does, as the command gpu-worker, until it is no longer wanted.
	ServeGPUs func(ctx context.Context, library string) error
	// ServeRank is what the process of a rank of a probe does, as the command probe-rank, until it is no longer wanted.
	ServeRank func(context.Context) error
	// Pinger starts the process that sends RDMA messages, and ServePinger is what it does, as the command ping-worker.
	Pinger      pinger.Start
	ServePinger func(context.Context) error
}

// New returns the command line, which fills in the flags of o. It is for one call.
func New(o *Options) command.Line {
	s, e, log := &o.Site, &o.Exporter, new(logging.Flags)
	e.Site, e.Log = s, log
	return command.Line{
		Help: "Exports the state of this node's training fabric to Prometheus: RDMA devices, RoCE, GPUs and the NCCL configuration.",
		Groups: []command.Group{
			&e.Web, log, &e.Collectors, &s.Devices, &s.Paths, &s.Recorded, &s.Config, &e.ConfigCheck, &e.Intervals, &s.GPUs,
		},
		Commands: []*command.Command{
			e.Command(),
			demo.New(e),
			capture.New(s, log),
			topology.New(s, log),
			profiles.New(s, log),
			check.New(s, log),
			check.NewPreflight(s, log),
			jobs.New(s, log),
			lint.New(s, log),
			advise.New(s, log),
			explain.New(s, log),
			probe.New(s, log, e.Probing),
			ping.New(s, log, o.Pinger),
			report.New(s, log),
			rules.New(s),
			healthcheck.New(),
			installto.New(),
			gpuWorker(o.ServeGPUs),
			worker("probe-rank", "Runs NCCL for another process of this program, which starts it.", o.ServeRank),
			worker("ping-worker", "Sends RDMA messages for another process of this program, which starts it.", o.ServePinger),
		},
		Sections: sections(),
	}
}

// sections is what the manual page says beyond the commands and their flags.
func sections() []command.Section {
	state := probes.DefaultConfig()
	return []command.Section{
		{Title: "Exit status", Entries: [][2]string{
			{strconv.Itoa(command.OK), "Success."},
			{strconv.Itoa(command.Failure), "Failure; of check, lint, jobs, explain and ping: something is wrong."},
			{"2", "Of check, lint, jobs, explain, probe and ping: not everything could be determined."},
			{strconv.Itoa(command.Usage), "The command line or the configuration is wrong."},
		}},
		{Title: "Files", Entries: [][2]string{
			{config.DefaultFile, "Configuration. It may be missing."},
			{state.StateFile, "State of probes that the exporter runs by itself."},
			{state.LockFile, "Locked while a probe of the node runs."},
		}},
		{Title: "Signals", Entries: [][2]string{
			{"SIGHUP", "Reload the configuration."},
			{"SIGUSR1", "Release the GPUs, until the next SIGUSR1."},
		}},
	}
}

// gpuWorker returns the command that is the process of a site.GPUWorker.
func gpuWorker(serve func(ctx context.Context, library string) error) *command.Command {
	const name = "gpu-worker"
	var library string
	return &command.Command{
		Name: name, Help: "Asks NVIDIA's driver for another process of this program, which starts it.", Hidden: true,
		Define: func(f *command.Flags) {
			f.Add("library", "The NVML library.", command.File(&library)).Required()
		},
		Run: func(ctx context.Context, c *command.Call) int {
			err := errors.New(name + ": this program was built without it")
			if serve != nil {
				err = serve(ctx, library)
			}
			return ended(c, err)
		},
	}
}

// worker returns a command that is a process of its own, for another one that starts it.
func worker(name, help string, serve func(context.Context) error) *command.Command {
	return &command.Command{
		Name: name, Help: help, Hidden: true,
		Run: func(ctx context.Context, c *command.Call) int {
			err := errors.New(name + ": this program was built without it")
			if serve != nil {
				err = serve(ctx)
			}
			return ended(c, err)
		},
	}
}

func ended(c *command.Call, err error) int {
	if err != nil {
		return c.Fail(err)
	}
	return command.OK
}
