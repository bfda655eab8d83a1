// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"

	"gpufabric_exporter/internal/spelling"
)

// Text says in a sentence why a transport is unknown.
func (r Reason) Text() string {
	return map[Reason]string{
		FirstReading:   "it was read once; a second reading is needed",
		Idle:           "its GPUs are idle",
		NoTraffic:      "its GPUs are busy, and neither RDMA nor sockets carry data",
		LittleTraffic:  "too little data is moved to decide",
		Privilege:      "the exporter lacks the privilege to look into the processes (root, or the host's PID namespace with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)",
		Unreadable:     "a reading that decides failed",
		Moved:          "its RDMA devices are in another network namespace, where their counters are not seen",
		NoCommunicator: "it holds GPUs and shows no NCCL communicator",
	}[r]
}

// Text says in a sentence why NCCL uses TCP.
func (c Cause) Text() string {
	return map[Cause]string{
		CauseNoDevices:      "its container has no /dev/infiniband/uverbs*",
		CauseDisabled:       "NCCL_IB_DISABLE is set",
		CauseSocketSelected: "NCCL_NET=Socket is set",
		CauseNoLibrary:      "libibverbs is not loaded: it may be missing in the image",
		CausePlugin:         "a plugin for RDMA is loaded, and NCCL uses sockets nevertheless",
		CauseNotNamed:       "NCCL_IB_HCA names no RDMA device of the node",
		CauseNoPort:         "no RDMA device of the node could be read",
		CauseNoSharedMemory: "NCCL_SHM_DISABLE is set, and its ranks are on one node",
	}[c]
}

// State is the verdict in a few words: "tcp, confirmed". TCPX and FasTrak use TCP by design.
func (v *Verdict) State() string {
	switch {
	case v.Transport == Unknown:
		return string(Unknown)
	case v.Transport == TCP && v.Way.byDesign():
		return "tcp, by design"
	case v.Confirmed:
		return string(v.Transport) + ", confirmed"
	}
	return string(v.Transport) + ", suspected"
}

// State is the verdict in a few words. One that is kept says so.
func (j *Job) State() string {
	if j.Verdict.Transport == Unknown || j.Seen.IsZero() {
		return j.Verdict.State()
	}
	return j.Verdict.State() + ", not seen now"
}

// NotSeen says since when the job is not seen, and why; empty: it is seen, or never was.
func (j *Job) NotSeen() string {
	if j.Seen.IsZero() {
		return ""
	}
	return "last seen " + j.Seen.UTC().Format("2006-01-02 15:04:05 UTC") + ": " + j.Unseen.Text() +
		"; what was seen then is kept for an hour"
}

// Fallback reports whether NCCL uses its sockets, or uses them too, where RDMA was to be expected.
func (v *Verdict) Fallback() bool { return v.fellBack() || v.Transport == Mixed }

// Ranks are those that a finding is about, in words.
func (f *Finding) Ranks() string {
	text := spelling.Plural(len(f.PIDs), "rank", "ranks")
	if len(f.PIDs) > 0 {
		text += fmt.Sprintf(", first PID %d", f.PIDs[0])
	}
	return text
}
