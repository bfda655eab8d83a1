// SPDX-License-Identifier: Apache-2.0

package fabric

// Symptom is what a probe of NCCL shows that may follow from a fault which is seen elsewhere on the node. The
// zero value is a probe that shows nothing.
type Symptom struct {
	GPUs   []string // UUIDs of those that took part
	Device string   // RDMA device and port of a rail; empty: it is not about one
	Port   int
	Within bool // it stays between the GPUs of the node

	TCP         bool // NCCL chose TCP
	NoDevice    bool // NCCL logged that it found no RDMA device
	NoGPUDirect bool
	NotReady    bool // CUDA does not start, because the NVLink fabric is not ready
	Slow        bool
	Ratio       float64 // of its baseline; of slow ones only
	Baseline    float64 // in bytes per second; of slow ones only, 0: not known
	Other       bool    // something else is wrong, too
}

// Any reports whether the probe shows something.
func (s *Symptom) Any() bool { return s.TCP || s.NoGPUDirect || s.NotReady || s.Slow || s.Other }
