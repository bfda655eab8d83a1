// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Skip is why a probe that was due did not run.
type Skip string

// Skips. Each source of the gate that cannot be read is CannotProveIdle.
const (
	SkipCannotProveIdle Skip = "cannot_prove_idle"
	SkipProcess         Skip = "process"      // a compute or graphics process has a context
	SkipMemory          Skip = "memory"       // more memory is used than the driver itself needs
	SkipUtilization     Skip = "utilization"  // a kernel ran in the last minute
	SkipComputeMode     Skip = "compute_mode" // not DEFAULT
	SkipMIG             Skip = "mig"
	SkipMPS             Skip = "mps"
	SkipPersistence     Skip = "persistence" // off: a probe would load and unload the driver's state
	SkipSlurm           Skip = "slurm"       // a job has a cgroup
	SkipKubernetes      Skip = "kubernetes"  // a pod has a GPU
	SkipScheduler       Skip = "scheduler"   // one runs whose jobs cannot be seen, and the site has no command that knows
	SkipSite            Skip = "site"        // the site's command says that the node is not free
	SkipMaintenance     Skip = "maintenance" // a file or a signal says so
	SkipThrottled       Skip = "throttled"
	SkipLinkErrors      Skip = "link_errors" // of NVLink or PCIe, a short while ago
	SkipLocked          Skip = "locked"      // another prober of this node
	SkipDuty            Skip = "duty"        // the budget of GPU time is spent
	SkipNoGPU           Skip = "no_gpu"      // none, or fewer than the kind needs
	SkipNoDevice        Skip = "no_device"   // no usable HCA for a Rail probe
	SkipMemlock         Skip = "memlock"     // ranks could not lock the memory that a Rail probe registers with RDMA
	// others could have written a file that a rank would load or take settings from
	SkipUntrusted Skip = "untrusted"
)

// What to do about a probe that may not run.
const (
	adviceEnded = "run the probe when it has ended (ps shows the process)"
	adviceJob   = "wait for the job, or drain the node"
	adviceGPUs  = "the GPUs have a problem that would distort the measurement (gpufabric_exporter check)"
)

// skips are all skips, what to do about each, and whether a node is skipped until an operator changes it.
var skips = []struct {
	skip    Skip
	lasting bool
	advice  string
}{
	{
		SkipCannotProveIdle, true,
		"all processes of the host must be readable: run it in the PID namespace of the host, with a /proc without hidepid (as the systemd unit does), or as root",
	},
	{SkipProcess, false, adviceEnded},
	{SkipMemory, false, adviceEnded},
	{SkipUtilization, false, "GPUs must have been idle for a minute: try again"},
	{SkipComputeMode, true, "nvidia-smi -c 0 lets several processes use a GPU"},
	{SkipMIG, true, "NCCL measures whole GPUs: nvidia-smi -mig 0"},
	{SkipMPS, false, adviceEnded},
	{SkipPersistence, true, "nvidia-smi -pm 1 (or nvidia-persistenced) keeps the driver's state"},
	{SkipSlurm, false, adviceJob},
	{SkipKubernetes, false, adviceJob},
	{
		SkipScheduler, true,
		"set a command that reports whether the node is idle: probes.idle_command in the configuration (docs/PROBES.md has examples)",
	},
	{
		SkipSite, false,
		"wait until the site's command (probes.idle_command) reports that the node is idle, or drain the node",
	},
	{SkipMaintenance, false, "GPUs are released: remove the maintenance file, or send SIGUSR1 to the exporter once more"},
	{SkipThrottled, false, adviceGPUs},
	{SkipLinkErrors, false, adviceGPUs},
	{SkipLocked, false, "another probe of this node is running: try again when it has ended"},
	{SkipDuty, false, "it runs when the GPU time budget allows it (duty)"},
	{
		SkipNoGPU, true,
		"the driver must be loaded (nvidia-smi -L) and have as many GPUs as the kind needs: node, calibrate and nvlink 2, scaling 3",
	},
	{
		SkipNoDevice, true,
		"a rail needs an RDMA port that is active and for training (gpufabric_exporter topology; --device names one)",
	},
	{
		SkipMemlock, true,
		"raise the limit of locked memory: the tier probes of the systemd unit (LimitMEMLOCK=infinity), CAP_IPC_LOCK in a container, ulimit -l unlimited in a shell",
	},
	{
		SkipUntrusted, true,
		"programs that run with privileges must belong to root or the exporter's user, with all directories above it, and no other user may write there: chown root, chmod go-w",
	},
}

// Skips returns all skips.
func Skips() []Skip {
	var all []Skip
	for _, s := range skips {
		all = append(all, s.skip)
	}
	return all
}

// Advice says what to do about a probe that may not run.
func (s Skip) Advice() string { return skips[max(slices.Index(Skips(), s), 0)].advice }

// Lasting reports whether a node is skipped until an operator changes it.
func (s Skip) Lasting() bool {
	i := slices.Index(Skips(), s)
	return i >= 0 && skips[i].lasting
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
