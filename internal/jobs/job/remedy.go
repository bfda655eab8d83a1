// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"

	"gpufabric_exporter/internal/verdict"
)

const (
	startAgain       = " Then start the job again: a running job keeps its transport."
	giveDevices      = "Give the container the RDMA devices: --device=/dev/infiniband, or the RDMA resource in the pod." + startAgain
	correctVariables = "Correct the variables where the job gets them: its script, image, pod, or /etc/nccl.conf. Then start the job again."
)

// Remedies are what to do about a job, the first step first; none: nothing is wrong with it.
func (j *Job) Remedies() []string {
	var list []string
	add := func(remedy string) {
		if remedy != "" && !slices.Contains(list, remedy) {
			list = append(list, remedy)
		}
	}
	if j.Verdict.Fallback() {
		add(j.Verdict.Cause.Remedy())
	}
	for _, f := range j.Problems() {
		add(f.Rule.Remedy())
	}
	return list
}

// Problems are the findings of severity warning and worse that are faults beside the transport: not the cause
// of TCP, which the verdict names.
func (j *Job) Problems() []Finding {
	return slices.DeleteFunc(slices.Clone(j.Findings),
		func(f Finding) bool { return !f.Severity.AtLeast(verdict.Warning) || j.Verdict.Names(&f) })
}

// Names reports whether a finding is about the cause of TCP, and nothing else.
func (v *Verdict) Names(f *Finding) bool {
	switch {
	case !v.Fallback():
		return false
	case v.Cause == CauseNoDevices:
		return f.Rule == RuleNoDevices
	case v.Cause == CauseDisabled:
		return f.Rule.OfSetting() && slices.Equal(f.Variables, []string{"NCCL_IB_DISABLE"})
	case v.Cause == CauseSocketSelected:
		return f.Rule.OfSetting() && slices.Equal(f.Variables, []string{"NCCL_NET"})
	case v.Cause == CauseNotNamed:
		return f.Rule.OfSetting() && slices.Equal(f.Variables, []string{"NCCL_IB_HCA"})
	}
	return false
}

// Remedy says what to do about a cause of TCP. Where the cause is not seen, it says how to find it.
func (c Cause) Remedy() string {
	switch c {
	case CauseNoDevices:
		return giveDevices
	case CauseDisabled:
		return "Remove NCCL_IB_DISABLE where the job gets it: its script, image, pod, or /etc/nccl.conf." + startAgain
	case CauseSocketSelected:
		return "Remove NCCL_NET where the job gets it: its script, image, pod, or /etc/nccl.conf." + startAgain
	case CauseNoSharedMemory:
		return "Remove NCCL_SHM_DISABLE where the job gets it: its script, image, pod, or /etc/nccl.conf." + startAgain
	case CauseNoLibrary:
		return "Install libibverbs in the image of the job (Debian and Ubuntu: libibverbs1 and ibverbs-providers)." +
			startAgain
	case CauseNotNamed:
		return "Correct or remove NCCL_IB_HCA where the job gets it: its script, image, pod, or /etc/nccl.conf." + startAgain
	case CauseNoPort:
		return "Repair the ports: gpufabric_exporter check shows what is wrong with them." + startAgain
	}
	return "Start the job with NCCL_DEBUG=INFO, and read its log: gpufabric_exporter explain FILE shows why NCCL uses no RDMA device."
}

// Remedy says what to do about a job that breaks a rule; empty: nothing.
func (r Rule) Remedy() string {
	if r.OfSetting() {
		return correctVariables
	}
	return map[Rule]string{
		RuleNoDevices: giveDevices,
		RuleMemlock:   "Raise the limit of locked memory: --ulimit memlock=-1 for the container, or LimitMEMLOCK=infinity in the unit that starts it." + startAgain,
		RuleAlignment: "Give each rank the NICs that are nearest to its GPU (gpufabric_exporter topology shows them), and correct NCCL_IB_HCA if it is set. Then start the job again.",
		RuleFewerNICs: "Repair the port (gpufabric_exporter check names it). If it is in order, NCCL does not return to it: start the job again.",
		RuleVersions:  "Start all ranks from the same image.",
		RuleSettings:  "Start all ranks with the same NCCL variables.",
		RuleGrowing:   "Have the job destroy communicators that it no longer uses, before it creates others.",
		RuleBAR1:      "End what else uses the GPU (nvidia-smi shows it), or start the job again.",
	}[r]
}
