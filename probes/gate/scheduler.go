// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// scheduler is one whose jobs the gate cannot see before they come to the GPUs: only the site can say whether the node
// is free. Slurm and Kubernetes are not among them, see slurm and Gate.kubernetes.
type scheduler struct {
	name string
	// daemons are the commands, as procfs shows them, of what starts jobs on a node or stays with one. What runs only
	// where jobs are queued is not among them.
	daemons []string
}

// schedulers are those that are known, with where the names of their daemons come from.
var schedulers = []scheduler{
	// OpenPBS and PBS Professional, pbs_mom(8B); TORQUE has the same name
	{"PBS", []string{"pbs_mom"}},
	// IBM Spectrum LSF 10.1, "LSF daemons and processes": those of each server host
	{"LSF", []string{"sbatchd", "res"}},
	{"HTCondor", []string{"condor_startd", "condor_starter"}}, // HTCondor manual, "The HTCondor Daemons"
	{"Grid Engine", []string{"sge_execd", "sge_shepherd"}},    // sge_execd(8), sge_shepherd(8)
	{"Flux", []string{fluxBroker}},
	{"Nomad", []string{"nomad"}}, // nomad agent, and the executor that it starts for each task
	{"Ray", []string{"raylet"}},  // of each node, src/ray/raylet/main.cc; no job by itself: tasks come at any time
}

// fluxBroker begins the name of a broker, which has its rank behind it: "flux-broker-17" (flux-core, set_proctitle of
// src/broker/broker.c).
const fluxBroker = "flux-broker"

// schedulerOf names the scheduler that a command is a daemon of; empty: none that is known.
func schedulerOf(command string) string {
	if strings.HasPrefix(command, fluxBroker) {
		command = fluxBroker
	}
	for _, s := range schedulers {
		if slices.Contains(s.daemons, command) {
			return s.name
		}
	}
	return ""
}

// unasked finds a scheduler that no source of the gate asks. Names of processes prove nothing, and need not: one that
// a user chose keeps the gate shut, and nothing else.
func (g *Gate) unasked(running []fabric.Process) *refusal {
	if g.o.Site != nil {
		return nil
	}
	for _, p := range running {
		name := schedulerOf(p.Command)
		if name == "" {
			continue
		}
		of := ""
		if p.User != 0 {
			of = fmt.Sprintf(" of user %d, who may have chosen its name", p.User)
		}
		return refuse(probes.SkipScheduler,
			"process %d (%s)%s is a daemon of %s, whose jobs are not known here: set probes.idle_command", p.PID, p.Command,
			of, name)
	}
	return nil
}

// siteLimit is how long the site may take to say whether the node is free. After that it is killed.
const siteLimit = 7 * time.Second

// askSite has the site say whether the node is free, if it has something that says so, and goes on looking at the GPUs
// with each tick: they are to be watched without a gap.
func (g *Gate) askSite(ctx context.Context, gpus []string, tick <-chan time.Time) *refusal {
	if g.o.Site == nil || g.o.Allocation != nil { // which would say that this very job is there
		return nil
	}
	if r := g.maintenance(); r != nil {
		return r // and start nothing
	}
	ctx, end := g.untilMaintenance(ctx)
	answer := make(chan *refusal, 1)
	go func() { answer <- g.site(ctx) }()
	for {
		select {
		case r := <-answer:
			if began := end(); began != nil {
				return began
			}
			return r
		case <-tick:
			if r := g.look(ctx, gpus, false); r != nil && !r.wait && ctx.Err() == nil {
				end()
				return r
			}
		}
	}
}

func (g *Gate) site(ctx context.Context) *refusal {
	why, err := errand.Within(ctx, siteLimit, g.o.Site)
	switch {
	case err != nil:
		return unproven("probes.idle_command: %v", err)
	case why != "":
		return refuse(probes.SkipSite, "%s", why)
	}
	return nil
}
