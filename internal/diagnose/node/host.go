// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// ModeMemlock is found by several checks.
var ModeMemlock = verdict.Mode{ID: "memlock", Text: "Jobs cannot lock the memory that RDMA needs."}

func hostChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: "memlock", Title: "Jobs cannot lock the memory that RDMA needs", Severity: verdict.Warning, Topic: "node",
			Scope: verdict.ScopeNode,
			Reads: "hard limit of locked memory of slurmd or pbs_mom, in /proc/<pid>/limits",
			Guard: "if slurmd or pbs_mom runs as root; not containerd, crio and dockerd, because containers that use RDMA have CAP_IPC_LOCK, " +
				"to which the limit does not apply",
			Modes: []verdict.Mode{ModeMemlock}, Judge: judgeMemlock,
		},
	}
}

// handsOn reports whether jobs get the hard limit of the daemon, and cannot raise it. Their soft limit is
// that of the user who submits.
func handsOn(d fabric.Daemon) bool { return d.Name == "slurmd" || d.Name == "pbs_mom" }

func judgeMemlock(n *fabric.Node, v *verdict.Verdicts) {
	daemons, known := n.Host.Daemons.Get()
	if !known {
		v.Hidden(verdict.Subject{}, n.Host.Daemons.Meta(), "The memory lock limit of daemons that start jobs")
		return
	}
	defer v.KeepWorst(len(v.List))
	for _, d := range daemons {
		limit, known := d.Memlock.Get()
		switch {
		case !handsOn(d):
		case !known:
			v.Unknown(verdict.Subject{}, d.Memlock.Meta().Reason,
				fmt.Sprintf("The memory lock limit of %s is unknown: %s.", d.Name, verdict.ReasonText(d.Memlock.Meta().Reason)))
		case limit.Hard < fabric.EnoughMemlock:
			v.Failed(verdict.Subject{}, verdict.Verdict{
				Evidence: fmt.Sprintf("%s (process %d) may lock %s and can raise this limit to at most %s.", d.Name, d.PID,
					verdict.Bytes(limit.Soft), verdict.Bytes(limit.Hard)),
				Consequence: "Its jobs inherit the limit: ibv_create_cq and ibv_reg_mr fail with ENOMEM, and NCCL fails.",
				Remedy: fmt.Sprintf("systemctl edit %[1]s: LimitMEMLOCK=infinity below [Service], then systemctl restart %[1]s. "+
					"With Slurm, do not propagate the limits of submit hosts: PropagateResourceLimitsExcept=MEMLOCK in slurm.conf.",
					unitOf(d.Name)),
			})
		default:
			v.OK(verdict.Subject{})
		}
	}
}

// unitOf is the unit of systemd that starts a daemon.
func unitOf(daemon string) string {
	if daemon == "pbs_mom" {
		return "pbs"
	}
	return daemon
}
