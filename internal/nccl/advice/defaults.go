// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/nccl/settings"
)

const timeoutVariable = "NCCL_IB_TIMEOUT"

// untouched are variables that guides have people set, and why NCCL's default is better.
var untouched = []struct {
	names   string   // the source is that of the first one
	fabrics []Fabric // empty: all, and jobs of one node
	reason  string
}{
	{"NCCL_ALGO, NCCL_PROTO", nil, "NCCL chooses algorithm and protocol for each message size and topology. A fixed choice makes one size faster and others slower. These variables are for debugging."},
	{"NCCL_NET_GDR_LEVEL", []Fabric{RoCE, InfiniBand, EFA}, "The default allows GPUDirect RDMA wherever GPU and NIC share a PCIe switch. A lower level disables it for some of these pairs, a higher level also allows it across processors."},
	{"NCCL_P2P_LEVEL, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE", nil, "NCCL detects which GPUs can reach each other."},
	{"NCCL_NVLS_ENABLE", nil, "By default NCCL uses NVLink SHARP where GPUs and switches have it."},
	{"NCCL_BUFFSIZE, NCCL_NTHREADS, NCCL_MIN_CTAS, NCCL_MAX_CTAS", nil, "Larger values take GPU memory and multiprocessors from training. Measure with the job before you set one of them."},
	{"NCCL_IB_QPS_PER_CONNECTION", []Fabric{RoCE}, "More than one queue pair helps where switches spread flows by hash (ECMP) and collisions are measured; each one costs memory of the NIC."},
	{"NCCL_IB_SL", []Fabric{InfiniBand}, "The subnet manager maps service levels to virtual lanes; level 0 works without further configuration."},
	{timeoutVariable + ", NCCL_IB_RETRY_CNT", []Fabric{RoCE, InfiniBand}, "A longer timeout only delays the end of the job."},
	{"NCCL_CROSS_NIC", []Fabric{RoCE, InfiniBand}, "By default NCCL uses different rails on two nodes only where this is faster."},
	{"NCCL_IB_PCI_RELAXED_ORDERING", []Fabric{RoCE, InfiniBand}, "By default NCCL uses relaxed ordering where libibverbs offers it."},
}

// defaults adds what is to be left to NCCL, but for what the advice sets or keeps.
func (k *adviser) defaults() {
	for _, d := range untouched {
		if len(d.fabrics) > 0 && (k.Workload.Nodes == 1 || !slices.Contains(d.fabrics, k.Workload.Fabric)) {
			continue
		}
		all := strings.Split(d.names, ", ")
		if list := slices.DeleteFunc(slices.Clone(all), k.isSet); len(list) > 0 {
			reason := d.reason
			if all[0] == timeoutVariable {
				reason = deadLink(k.version) + reason
			}
			k.leave(strings.Join(list, ", "), reason, all[0])
		}
	}
}

// deadLink says after which time a dead link ends a job with the defaults of a release: a queue pair waits
// 4.096 µs × 2^timeout before each of its retries.
func deadLink(version lint.Version) string {
	const retries = 7 // the default of NCCL_IB_RETRY_CNT in all releases
	for timeout := 1; timeout < 32; timeout++ {
		for _, a := range settings.AdviceOn(timeoutVariable, strconv.Itoa(timeout)) {
			if a.Verdict == string(lint.Default) && version.In(a.Releases) {
				return fmt.Sprintf("With the defaults of %s (%d and %d), a dead link ends the job after about %s. ", version,
					timeout, retries, Duration(math.Ldexp(4.096e-6, timeout)*retries))
			}
		}
	}
	return ""
}
