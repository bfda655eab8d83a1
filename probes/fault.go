// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"gpufabric_exporter/internal/nccl/log"
)

// Fault is what is wrong with a probe, or with what it measured. A probe can have several at once.
type Fault string

// The faults. Aborted runs make and end none of those of results: they say nothing about the fabric.
const (
	FaultSocket    Fault = "socket"    // NCCL chose TCP, in a probe that is not about TCP
	FaultGPUDirect Fault = "gpudirect" // a network that can use GPUDirect RDMA went without
	FaultWrong     Fault = "wrong"     // the last run failed with a wrong result
	FaultFailing   Fault = "failing"   // the last run failed, for whatever reason
	FaultSlow      Fault = "slow"      // collapsedLeast results in a row were collapsed
	FaultRegressed Fault = "regressed" // Comparison.Regressed
	FaultDrifted   Fault = "drifted"   // Comparison.Drifted
	FaultStale     Fault = "stale"     // no success in three intervals, although the GPUs are idle and no run failed
	FaultNeverRun  Fault = "never_run" // switched on, and has not run once, although the GPUs are idle
)

const (
	collapsedLeast = 3
	staleIntervals = 3
)

// Faults returns all faults.
func Faults() []Fault {
	return []Fault{
		FaultSocket, FaultGPUDirect, FaultWrong, FaultFailing, FaultSlow, FaultRegressed, FaultDrifted,
		FaultStale, FaultNeverRun,
	}
}

// OfBandwidth reports whether the fault is one of bandwidth against its baseline.
func (f Fault) OfBandwidth() bool { return f == FaultSlow || f == FaultRegressed || f == FaultDrifted }

// FellBack reports whether NCCL chose TCP by itself, in a probe that is not about TCP. FastSocket is TCP that the
// site installed.
func (r *Result) FellBack() bool {
	return r.Path.Or("") == PathSocket && r.Network != log.FastSocket && r.Kind != Socket
}

// Faults returns what is wrong with a result.
func (r *Result) Faults() []Fault {
	var found []Fault
	if r.FellBack() {
		found = append(found, FaultSocket)
	}
	if used, ok := r.GPUDirect.Get(); ok && !used {
		found = append(found, FaultGPUDirect)
	}
	if r.Outcome != OK {
		found = append(found, FaultFailing)
		if r.Failure == FailureWrong {
			found = append(found, FaultWrong)
		}
		return found
	}
	c := &r.Comparison
	if _, ok := c.Ratio.Get(); !ok {
		return found
	}
	if c.Collapsed >= collapsedLeast && r.Kind != Socket {
		found = append(found, FaultSlow)
	}
	if c.Regressed {
		found = append(found, FaultRegressed)
	}
	if _, known := c.Best.Get(); known && c.Drifted {
		found = append(found, FaultDrifted)
	}
	return found
}
