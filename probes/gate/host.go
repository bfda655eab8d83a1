// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// Commands as procfs shows them: 15 bytes at most. Both daemons of MPS are nvidia-cuda-mps-*.
const (
	commandMPS   = "nvidia-cuda-mps"
	commandStepd = "slurmstepd"
	commandSlurm = "slurmd"
)

// kubelets are the programs that are a kubelet or have one inside.
var kubelets = []string{
	"kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent", "k3s server", "k3s agent", "rke2",
	"k0s",
}

func (g *Gate) maintenance() *refusal {
	if g.o.Maintenance == nil {
		return unproven("no source of the maintenance state")
	}
	why, err := g.o.Maintenance()
	switch {
	case err != nil:
		return unproven("maintenance: %v", err)
	case why != "":
		return refuse(probes.SkipMaintenance, "%s", why)
	}
	return nil
}

// untilMaintenance returns a context that ends when maintenance begins: a driver that does not answer is released
// then, and not when it is given up. The other result ends the watch, and returns a refusal if it began.
func (g *Gate) untilMaintenance(ctx context.Context) (context.Context, func() *refusal) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	var began *refusal
	watch.Go(func() {
		tick := time.NewTicker(maintenanceInterval)
		defer tick.Stop()
		for began == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if r := g.maintenance(); r != nil && r.why == probes.SkipMaintenance {
				began = r
				cancel()
			}
		}
	})
	return ctx, func() *refusal {
		cancel()
		watch.Wait()
		return began
	}
}

// lookAtHost asks what only the host knows.
func (g *Gate) lookAtHost(ctx context.Context) *refusal {
	if g.o.Allocation != nil {
		return g.shared()
	}
	if g.o.Processes == nil || g.o.Cgroups == nil || g.o.Pods == nil {
		return unproven("no reader of procfs, cgroups or the kubelet")
	}
	var r *refusal
	if err := g.o.Processes.Initial(); err != nil {
		r = unproven("processes of the node: %v", err)
	}
	running, err := g.o.Processes.Find(ctx, func(command string) bool {
		return command == commandMPS || command == commandStepd || command == commandSlurm ||
			slices.Contains(kubelets, command) || schedulerOf(command) != ""
	})
	if err != nil {
		r = worse(r, unproven("processes of the node: %v", err))
	}
	groups, err := g.o.Cgroups.Cgroups()
	if err != nil {
		r = worse(r, unproven("control groups: %v", err))
	}
	r = worse(r, mps(running))
	r = worse(r, g.slurm(running, groups))
	r = worse(r, g.kubernetes(ctx, running, groups))
	return worse(r, g.unasked(running))
}

// shared refuses a node of the allocation that another job is on.
func (g *Gate) shared() *refusal {
	if g.o.Allocation.SlurmJob == "" {
		return nil
	}
	if g.o.Cgroups == nil {
		return unproven("no reader of control groups")
	}
	groups, err := g.o.Cgroups.Cgroups()
	if err != nil {
		return unproven("control groups: %v", err)
	}
	if job := g.strangeJob(groups); job != "" {
		return refuse(probes.SkipSlurm, "job %s is on this node, too", job)
	}
	return nil
}

// strangeJob is a job of Slurm on this node that is not that of the allocation; empty: there is none.
func (g *Gate) strangeJob(groups fabric.Cgroups) string {
	for _, job := range groups.SlurmJobs {
		if a := g.o.Allocation; a == nil || a.SlurmJob != job {
			return job
		}
	}
	return ""
}

func mps(running []fabric.Process) *refusal {
	for _, p := range running {
		if p.Command == commandMPS {
			return refuse(probes.SkipMPS, "process %d is a daemon of MPS", p.PID)
		}
	}
	return nil
}

// slurm finds jobs by their groups and by the slurmstepd of each step. Where slurmd runs and has no group, jobs have
// none either, or one that is not found: then only the site knows. An allocation in which nothing runs does not show
// on the node.
func (g *Gate) slurm(running []fabric.Process, groups fabric.Cgroups) *refusal {
	if n := len(groups.SlurmJobs); n > 0 {
		return refuse(probes.SkipSlurm, "%s, %s is one", probes.Counted(n, "job"), groups.SlurmJobs[0])
	}
	var r *refusal
	for _, p := range running {
		switch {
		case p.Command == commandStepd && !slices.Contains(p.Args, "infinity"): // which keeps the scope, and is no step
			return refuse(probes.SkipSlurm, "process %d runs a step of a job", p.PID)
		case p.Command == commandSlurm && !groups.Slurm && g.o.Site == nil:
			r = worse(r,
				unproven("slurmd runs as process %d, and has no control group that is known: let it use cgroups, or set probes.idle_command", p.PID))
		}
	}
	return r
}

func (g *Gate) kubernetes(ctx context.Context, running []fabric.Process, groups fabric.Cgroups) *refusal {
	containers, socket, err := g.o.Pods.GPUs(ctx)
	switch {
	case err != nil:
		return unproven("kubelet: %v", err)
	case len(containers) > 0:
		return refuse(probes.SkipKubernetes, "%s with GPUs, %s is one", probes.Counted(len(containers), "container"),
			containers[0])
	case socket:
		return nil
	case groups.Pods:
		return unproven("kubelet has control groups and no socket here")
	}
	for _, p := range running {
		if slices.Contains(kubelets, p.Command) {
			return unproven("process %d is a kubelet (%s) and has no socket here", p.PID, p.Command)
		}
	}
	return nil
}

// Intruder looks once for another process on the GPUs, and names it; empty: there is none. own are the PIDs of the
// ranks, which must be there before a rank opens a GPU. A process that is not known to be one of them is a stranger.
// An error says that it could not be found out, or is ErrMaintenance, and then nothing was touched.
func (p *Pass) Intruder(ctx context.Context, own []int) (string, error) {
	g := p.gate
	if p.left.Load() {
		return "", errors.New("the gate was left")
	}
	maintenance := g.maintenance()
	if maintenance != nil && maintenance.why == probes.SkipMaintenance {
		return "", fmt.Errorf("%w: %s", probes.ErrMaintenance, probes.Printable(maintenance.detail, maxDetail))
	}
	gpus, err := g.o.GPUs.Processes(ctx)
	if err != nil {
		return "", fmt.Errorf("processes on GPUs: %w", err)
	}
	missing := slices.Clone(p.gpus)
	var unknown error
	for i := range gpus {
		gpu := &gpus[i]
		list, r := need(gpu.Processes, "processes", gpu, time.Now())
		if r != nil {
			unknown = errors.New(r.detail)
		}
		ours := slices.Contains(p.gpus, gpu.UUID)
		for _, process := range list {
			if (ours || process.Kind != fabric.GPUGraphics) && !g.own(process, own) {
				return probes.Printable(fmt.Sprintf("%s process %d%s on %s", process.Kind, process.PID, g.command(process.PID),
					nameOf(gpu)), maxDetail), nil
			}
		}
		missing = slices.DeleteFunc(missing, func(uuid string) bool { return uuid == gpu.UUID })
	}
	if len(missing) > 0 {
		unknown = fmt.Errorf("the driver no longer lists %s", strings.Join(missing, ", "))
	}
	if maintenance != nil {
		unknown = errors.New(maintenance.detail)
	}
	if a := g.o.Allocation; a != nil && a.SlurmJob == "" { // in a container, whose groups say nothing of other jobs
		return "", unknown
	}
	groups, err := g.o.Cgroups.Cgroups()
	if err != nil {
		unknown = fmt.Errorf("control groups: %w", err)
	}
	if job := g.strangeJob(groups); job != "" {
		return probes.Printable("Slurm job "+job, maxDetail), nil
	}
	return "", unknown
}

// own reports whether a process is one of ours: it has a PID of ours, is a child of this process, so that no other
// process got that PID, and is in the namespace of procfs, in which the driver counts.
func (g *Gate) own(process fabric.GPUProcess, own []int) bool {
	if process.Kind == fabric.GPUMPS || !slices.Contains(own, process.PID) {
		return false
	}
	p, err := g.o.Processes.Process(process.PID)
	return err == nil && p.PID == process.PID && p.Parent == g.self && slices.Equal(p.NSPIDs, []int{process.PID})
}

// command is for people.
func (g *Gate) command(pid int) string {
	if p, err := g.o.Processes.Process(pid); err == nil {
		return " (" + p.Command + ")"
	}
	return ""
}
