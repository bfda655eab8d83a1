// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// needGPU are variables, or with _ what names begin with, of which no release shows anything without a GPU: they are
// about its kernels, its memory, NVLink, GPUDirect or what kernels send by themselves.
var needGPU = []string{
	"NCCL_CUMEM_HOST_ENABLE", "NCCL_DEV_API_JIT", "NCCL_ELASTIC_BUFFER_REGISTER", "NCCL_GDAKI_", "NCCL_GDRCOPY_FIFO_ENABLE", "NCCL_GDRCOPY_FLUSH_ENABLE",
	"NCCL_GDRCOPY_SYNC_ENABLE", "NCCL_GIN_ERROR_QUERY_SEC", "NCCL_GIN_GDAKI_", "NCCL_GIN_NCONNECTIONS", "NCCL_GIN_PROXY_QUEUE_SIZE", "NCCL_GRAPH_HELPER_DISABLE",
	"NCCL_GRAPH_REGISTER", "NCCL_GRAPH_STREAM_ORDERING", "NCCL_LEGACY_CUDA_REGISTER", "NCCL_LL128_C2C", "NCCL_LSA_TEAM_SIZE", "NCCL_MLOPART_",
	"NCCL_MNNVL_CROSS_CLIQUE", "NCCL_MNNVL_SCATTER_NETS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE",
	"NCCL_MULTI_SEGMENT_REGISTER", "NCCL_NET_GDR_MLOPART", "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_READ_ENABLE",
	"NCCL_RMA_DISABLE", "NCCL_RMA_PROXY_", "NCCL_SHADOW_MEMPOOL_MAX_SIZE", "NCCL_SYM_", "NCCL_TOPO_SPLIT_MLOPART", "NCCL_WIN_STRIDE",
}

func needsGPU(name string) bool {
	return slices.ContainsFunc(needGPU, func(n string) bool { return name == n || strings.HasSuffix(n, "_") && strings.HasPrefix(name, n) })
}

// share says how many rows there are that need a GPU, and how many that need none, and of these how many are verified.
func share() (gpu, others, verified int) {
	for _, v := range Variables() {
		switch {
		case v.Status != StatusCurrent:
		case needsGPU(v.Name):
			gpu++
		default:
			others++
			if len(v.Verified) > 0 {
				verified++
			}
		}
	}
	return gpu, others, verified
}

func shareText() string {
	gpu, others, verified := share()
	var names []string
	for _, n := range needGPU {
		if strings.HasSuffix(n, "_") {
			n += "*"
		}
		names = append(names, code(n))
	}
	return fmt.Sprintf("%d of these rows need a GPU: %s. Of the other %d rows %d are verified (%d %%); the rest is of later releases, or was not reached.",
		gpu, strings.Join(names, ", "), others, verified, 100*verified/others)
}

// TestShare holds how much of the table is verified, and that what is verified does not need a GPU.
func TestShare(t *testing.T) {
	for _, n := range needGPU {
		if !slices.ContainsFunc(Variables(), func(v Variable) bool {
			return v.Status == StatusCurrent && (v.Name == n || strings.HasSuffix(n, "_") && strings.HasPrefix(v.Name, n))
		}) {
			t.Errorf("%s needs a GPU, and is not in the table", n)
		}
	}
	for _, v := range Variables() {
		if len(v.Verified) > 0 && needsGPU(v.Name) {
			t.Errorf("%s needs a GPU, and was verified without with %q", v.Name, v.Verified)
		}
	}
	const least = 75 // percent
	if _, others, verified := share(); 100*verified < least*others {
		t.Errorf("%d of %d rows that need no GPU are verified, expected %d %%", verified, others, least)
	}
}
