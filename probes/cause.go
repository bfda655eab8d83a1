// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Cause is what explains a fault of a probe, as far as NCCL's log and the comparison with earlier runs show. The words
// are stable: they are label values.
type Cause string

// Causes of FaultSocket, from NCCL's log.
const (
	CauseDisabled       Cause = "rdma_disabled"   // NCCL_IB_DISABLE
	CauseSocketSelected Cause = "socket_selected" // NCCL_NET=Socket
	// NCCL found no RDMA device that it can open and that NCCL_IB_HCA selects
	CauseNoDevice  Cause = "no_rdma_device"
	CauseNotLogged Cause = "not_logged" // the log does not show it
)

// Causes of faults of bandwidth: what differs from the last run at full bandwidth.
const (
	CauseVersions     Cause = "versions"      // NCCL, CUDA or GPU driver
	CauseGPUs         Cause = "gpus"          // other GPUs
	CauseTransport    Cause = "transport"     // another path or network
	CauseGPUDirect    Cause = "gpudirect"     // GPUDirect RDMA
	CauseSwitchSums   Cause = "switch_sums"   // NVLS or SHARP
	CauseChannels     Cause = "channels"      // number of channels
	CauseSettings     Cause = "settings"      // variables of NCCL
	CauseNoDifference Cause = "no_difference" // nothing that NCCL reports
)

// Causes returns all causes.
func Causes() []Cause {
	return []Cause{
		CauseDisabled, CauseSocketSelected, CauseNoDevice, CauseNotLogged,
		CauseVersions, CauseGPUs, CauseTransport, CauseGPUDirect, CauseSwitchSums, CauseChannels, CauseSettings,
		CauseNoDifference,
	}
}

// Causes returns what explains a fault of this probe. It is empty for faults without a known kind of cause, and for
// those of bandwidth without an earlier run to compare with.
func (p *ProbeStatus) Causes(f Fault) []Cause {
	switch {
	case f == FaultSocket:
		if r := p.Verdict(); r != nil {
			return []Cause{r.socketCause()}
		}
	case f.OfBandwidth() && p.Before != nil && p.LastGood != nil:
		return differing(Differences(*p.Before, *p.LastGood))
	}
	return nil
}

// socketCause is why NCCL chose TCP.
func (r *Result) socketCause() Cause {
	set := func(name string) string {
		for _, s := range r.Settings {
			if value, ok := strings.CutPrefix(s, name+"="); ok {
				return value
			}
		}
		return ""
	}
	switch off := set("NCCL_IB_DISABLE"); {
	case off != "" && off != "0":
		return CauseDisabled
	case strings.EqualFold(set("NCCL_NET"), "Socket"):
		return CauseSocketSelected
	case r.NoDevices:
		return CauseNoDevice
	}
	return CauseNotLogged
}

// differing are the causes that these differences stand for, in the order of Causes.
func differing(changes []Change) []Cause {
	if len(changes) == 0 {
		return []Cause{CauseNoDifference}
	}
	of := map[string]Cause{
		"NCCL": CauseVersions, "GPU driver": CauseVersions, "CUDA": CauseVersions,
		"GPUs": CauseGPUs, "path": CauseTransport, "network": CauseTransport,
		"GPUDirect": CauseGPUDirect, "NVLS": CauseSwitchSums, "SHARP": CauseSwitchSums, "channels": CauseChannels,
	}
	found := map[Cause]bool{}
	for _, c := range changes {
		cause, known := of[c.What]
		if !known {
			cause = CauseSettings
		}
		found[cause] = true
	}
	return slices.DeleteFunc(Causes(), func(c Cause) bool { return !found[c] })
}

// Symptom is what the result shows, for checks of the node to explain. Wrong sums, hangs and baselines that drifted
// are explained by none.
func (r *Result) Symptom() fabric.Symptom {
	s := fabric.Symptom{GPUs: r.GPUs, Device: r.Device, Port: r.Port, Within: r.Kind == Node}
	for _, f := range r.Faults() {
		switch f {
		case FaultSocket:
			s.TCP, s.NoDevice = true, r.socketCause() == CauseNoDevice
		case FaultGPUDirect:
			s.NoGPUDirect = true
		case FaultSlow, FaultRegressed:
			s.Slow, s.Ratio, s.Baseline = true, r.Comparison.Ratio.Or(0), r.Comparison.Median.Or(0)
		case FaultFailing:
			s.NotReady = r.Failure == FailureCUDA && strings.Contains(r.Error, fabricNotReady)
			s.Other = s.Other || !s.NotReady
		default:
			s.Other = true
		}
	}
	return s
}

// fabricNotReady is cudaErrorSystemNotReady in messages.
const fabricNotReady = "(802)"
