// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Advice says what to do about a probe that may not run.
func (s Skip) Advice() string {
	switch s {
	case SkipProcess, SkipMPS, SkipMemory:
		return "run the probe when it has ended (ps shows the process)"
	case SkipSlurm, SkipKubernetes:
		return "wait for the job, or drain the node"
	case SkipScheduler:
		return "set a command that reports whether the node is idle: probes.idle_command in the configuration (docs/PROBES.md has examples)"
	case SkipSite:
		return "wait until the site's command (probes.idle_command) reports that the node is idle, or drain the node"
	case SkipUtilization:
		return "GPUs must have been idle for a minute: try again"
	case SkipMaintenance:
		return "GPUs are released: remove the maintenance file, or send SIGUSR1 to the exporter once more"
	case SkipLocked:
		return "another probe of this node is running: try again when it has ended"
	case SkipDuty:
		return "it runs when the GPU time budget allows it (duty)"
	case SkipNoGPU:
		return "the driver must be loaded (nvidia-smi -L) and have as many GPUs as the kind needs: node, calibrate and nvlink 2, scaling 3"
	case SkipNoDevice:
		return "a rail needs an RDMA port that is active and for training (gpufabric_exporter topology; --device names one)"
	case SkipMemlock:
		return "raise the limit of locked memory: the tier probes of the systemd unit (LimitMEMLOCK=infinity), CAP_IPC_LOCK in a container, ulimit -l unlimited in a shell"
	case SkipPersistence:
		return "nvidia-smi -pm 1 (or nvidia-persistenced) keeps the driver's state"
	case SkipComputeMode:
		return "nvidia-smi -c 0 lets several processes use a GPU"
	case SkipMIG:
		return "NCCL measures whole GPUs: nvidia-smi -mig 0"
	case SkipUntrusted:
		return "programs that run with privileges must belong to root or the exporter's user, with all directories above it, and no other user may write there: chown root, chmod go-w"
	case SkipThrottled, SkipLinkErrors:
		return "the GPUs have a problem that would distort the measurement (gpufabric_exporter check)"
	}
	return "all processes of the host must be readable: run it in the PID namespace of the host, with a /proc without hidepid (as the systemd unit does), or as root"
}

// Lasting reports whether a node is skipped until an operator changes it.
func (s Skip) Lasting() bool {
	return slices.Contains([]Skip{
		SkipCannotProveIdle, SkipScheduler, SkipPersistence, SkipComputeMode, SkipMIG, SkipNoGPU, SkipNoDevice,
		SkipMemlock, SkipUntrusted,
	}, s)
}

// Advice says where to look when a run failed; empty: its error says it all.
func (f Failure) Advice() string {
	switch f {
	case FailureLibrary:
		return "--library names NCCL; the driver's libcuda.so.1 must be where the loader looks"
	case FailureInit:
		return "NCCL's log shows the cause; often NCCL_SOCKET_IFNAME matches no interface, or /dev/shm is too small"
	case FailureHang:
		return "with large messages over a slow network try smaller --bytes or fewer --iterations; else check which transport NCCL's log names last"
	case FailureCrash:
		return "see NCCL's log and dmesg (Xid, oom-killer)"
	case FailureNCCL, FailureCUDA:
		return "see NCCL's log and dmesg (Xid)"
	case FailureWrong:
		return "do not train on these GPUs: compare with --ranks and rail to find which GPU or NIC it is, then dcgmi diag -r 3"
	case FailureVersions:
		return "ranks must load the same library: --library names it"
	case FailureIntruder:
		return "try again when the GPUs are idle"
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

// Skipped is a probe that was due and did not run.
type Skipped struct {
	Why    Skip
	Detail string // which GPU, which process; bounded
	At     time.Time
}

func (s *Skipped) Error() string { return string(s.Why) + ": " + s.Detail }

// Skipf returns why a probe does not run now, printable and bounded.
func Skipf(why Skip, format string, args ...any) *Skipped {
	return &Skipped{Why: why, Detail: Printable(fmt.Sprintf(format, args...), MaxText), At: time.Now()}
}

// ErrMaintenance means that an operator wants to change the GPUs or their driver.
var ErrMaintenance = errors.New("maintenance")
