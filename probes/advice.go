// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"encoding/json"
	"slices"
	"time"
)

// Advice says what to do about a probe that may not run.
func (s Skip) Advice() string {
	switch s {
	case SkipProcess, SkipMPS, SkipMemory:
		return "probe when it has ended (ps shows who it is)"
	case SkipSlurm, SkipKubernetes:
		return "wait for the job, or drain the node"
	case SkipScheduler:
		return "name a command that knows whether the node is free: probes.idle_command of the configuration (docs/PROBES.md has examples)"
	case SkipSite:
		return "wait until the site's command (probes.idle_command) says that the node is free, or drain the node"
	case SkipUtilization:
		return "GPUs must have been idle for a minute: try again"
	case SkipMaintenance:
		return "GPUs are released: remove the maintenance file, or send SIGUSR1 to the exporter once more"
	case SkipLocked:
		return "another probe of this node is running: try again when it has ended"
	case SkipDuty:
		return "it runs by itself when its GPUs may spend the time (duty)"
	case SkipNoGPU:
		return "the driver must be loaded (nvidia-smi -L) and have as many GPUs as the kind needs: node, calibrate and nvlink 2, scaling 3"
	case SkipNoDevice:
		return "a rail needs an RDMA port that is active and for training (gpufabric_exporter topology; --device names one)"
	case SkipPersistence:
		return "nvidia-smi -pm 1 (or nvidia-persistenced) keeps the driver's state"
	case SkipComputeMode:
		return "nvidia-smi -c 0 lets several processes use a GPU"
	case SkipMIG:
		return "NCCL measures whole GPUs: nvidia-smi -mig 0"
	case SkipUntrusted:
		return "what runs with privileges must belong to root or the exporter's user, with all folders above it, and nobody else may write there: chown root, chmod go-w"
	case SkipThrottled, SkipLinkErrors:
		return "a probe would measure the trouble that the GPUs are in (gpufabric_exporter check)"
	}
	return "run it as root, in the PID namespace of the host, so that everything can be read"
}

// Lasting tells that a node is skipped until somebody does something about it.
func (s Skip) Lasting() bool {
	return slices.Contains([]Skip{
		SkipCannotProveIdle, SkipScheduler, SkipPersistence, SkipComputeMode, SkipMIG, SkipNoGPU, SkipNoDevice,
		SkipUntrusted,
	}, s)
}

// Advice says where to look when a run failed; empty: its error says it all.
func (f Failure) Advice() string {
	switch f {
	case FailureLibrary:
		return "--library names NCCL; the driver's libcuda.so.1 must be where the loader looks"
	case FailureInit:
		return "NCCL's log tells what it missed; often NCCL_SOCKET_IFNAME names no interface, or /dev/shm is too small"
	case FailureHang:
		return "with large messages over a slow network try smaller --bytes or less --iterations; else see which transport NCCL's log names last"
	case FailureCrash:
		return "NCCL's log and dmesg tell more (Xid, oom-killer)"
	case FailureNCCL, FailureCUDA:
		return "NCCL's log and dmesg tell more (Xid)"
	case FailureWrong:
		return "do not train on these GPUs: compare with --ranks and rail to find which GPU or NIC it is, then dcgmi diag -r 3"
	case FailureVersions:
		return "ranks must load the same library: --library names it"
	case FailureIntruder:
		return "try again when nobody uses the GPUs"
	}
	return ""
}

// MarshalJSON has the advice beside the reason. It is the same in /probes.json and in what the command probe prints.
func (s Skipped) MarshalJSON() ([]byte, error) {
	j := struct {
		Why    Skip       `json:"reason"`
		Detail string     `json:"detail"`
		Advice string     `json:"advice"`
		At     *time.Time `json:"at"`
	}{Why: s.Why, Detail: s.Detail, Advice: s.Why.Advice()}
	if !s.At.IsZero() {
		j.At = new(s.At.UTC().Truncate(time.Millisecond))
	}
	return json.Marshal(j)
}
