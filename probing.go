// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/host/cgroup"
	"gpufabric_exporter/internal/host/nvml"
	"gpufabric_exporter/internal/host/podresources"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/ownership"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/worker"
	"gpufabric_exporter/ncclprobe"
	"gpufabric_exporter/probes"
)

// What binds the process of a rank. NCCL's threads poll: what they may burn is a last bound, far above what a probe needs.
var rankLimits = worker.Limits{Niceness: 10, OpenFiles: 4096, CPU: 10 * time.Minute}

// probing is how this program probes.
func probing() *exporter.Probing {
	return &exporter.Probing{
		Gate: openGate, Ranks: vetRanks,
		FindNCCL: func(given, libraryPath string) (string, error) { return ncclprobe.Find("/", given, libraryPath) },
	}
}

// openGate has everything read of this host that says whether its GPUs are idle.
func openGate(o exporter.GateOptions) (*probes.Gate, func() error, error) {
	procfs, err := proc.Open(o.Procfs)
	if err != nil {
		return nil, nil, err
	}
	session := nvml.NewSession(func() nvml.Caller { return askGPUs(site.GPUOptions{Library: o.Library, Log: o.Log}).(gpus).Process })
	gate := probes.NewGate(probes.GateOptions{
		Site: siteCommand(o.IdleCommand),
		GPUs: session, Processes: procfs, Cgroups: cgroup.New(filepath.Join(o.Sysfs, "fs/cgroup")),
		Pods:        podresources.New(filepath.Join(o.Rootfs, podresources.DefaultSocket)),
		Maintenance: o.Maintenance, Lock: o.Lock, Quiet: o.Quiet, IdleMemory: o.IdleMemory,
	})
	return gate, func() error {
		session.Release()
		return procfs.Close()
	}, nil
}

// siteCommandLimit is how long a site's command may take.
const siteCommandLimit = 5 * time.Second

// siteCommand runs the site's command that says whether the node is free; nil: there is none.
func siteCommand(args []string) func(context.Context) (string, error) {
	if len(args) == 0 {
		return nil
	}
	c := &worker.Command{Args: args, Timeout: siteCommandLimit, Trusted: trusted}
	return func(ctx context.Context) (why string, err error) {
		ended, err := c.Run(ctx)
		if err != nil || ended.Status == 0 {
			return "", err
		}
		why = fmt.Sprintf("%s: exit status %d", args[0], ended.Status)
		if ended.Said != "" {
			why += ": " + ended.Said
		}
		return why, nil
	}
}

// vetRanks returns what starts the ranks of a plan, unless others could have written what they would load or obey.
func vetRanks(p *probes.Plan, log *slog.Logger) (probes.Ranks, *probes.Skipped) {
	public := true
	for _, r := range p.Ranks {
		ok, err := ncclprobe.Vet("/", ncclprobe.Errand{NCCL: p.Settings.NCCL, CUDA: p.Settings.CUDA, Env: r.Env, UIDs: []int{os.Geteuid(), p.Settings.User}})
		if err != nil {
			return nil, &probes.Skipped{Why: probes.SkipUntrusted, Detail: err.Error(), At: time.Now()}
		}
		public = public && ok
	}
	if skip := noUVM("/"); skip != nil {
		skip.At = time.Now()
		return nil, skip
	}
	user, err := another("/", p.Settings.User, public)
	if err != nil {
		log.Debug("ranks run as root", "reason", err)
	}
	return ranks{user, new(worker.Room)}, nil
}

// trusted says why others than root and the user of this process may have written a file.
func trusted(path string) error {
	found, err := ownership.Check("/", path)
	if err != nil {
		return err
	}
	return found.Others
}

// ranks starts a process for each rank of a probe.
type ranks struct {
	user *worker.User // nil: that of this process
	room *worker.Room // of the run; nil: none
}

func (r ranks) Start(ctx context.Context, env []string) (probes.RankProcess, error) {
	t, err := worker.Start(ctx, worker.Options{
		Name: "rank", Path: "/proc/self/exe", Args: []string{os.Args[0], "probe-rank"}, Env: append([]string{"GOMAXPROCS=2"}, env...),
		User: func() *worker.User { return r.user }, Room: r.room, PinsMemory: true,
		// A rank keeps the deadlines that it is given. This one is for what hangs in spite of them.
		Timeout: 5 * time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return rank{t}, nil
}

// rank is a worker.Task as a probe sees it.
type rank struct{ *worker.Task }

func (r rank) Call(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := r.Task.Call(ctx, request)
	switch {
	case errors.Is(err, worker.ErrHung):
		err = fmt.Errorf("%w: %w", probes.ErrRankHung, err)
	case errors.Is(err, worker.ErrRefused):
		err = fmt.Errorf("%w: %w", probes.ErrRankRefused, err)
	}
	return answer, err
}

func (r rank) Kill() { r.Task.Kill("the probe ends") }

func (r rank) Log() (head, tail []byte, dropped int64) {
	e := r.Task.Log()
	return e.Head, e.Tail, int64(e.Bytes) - int64(len(e.Head)) - int64(len(e.Tail))
}

// serveRank is the process of a rank.
func serveRank(ctx context.Context) error {
	return worker.TaskChild(ctx, "gpufabric_rank", rankLimits, ncclprobe.NewServer().Handle)
}
