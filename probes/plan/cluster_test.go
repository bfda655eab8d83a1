// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

// A member has a rank for each rail, which reaches others through that port only, and one for each GPU.
func TestMember(t *testing.T) {
	m, skipped := NewMember(probestest.Node(8), Settings{MaxCTAs: 4, NCCL: "libnccl.so.2"})
	if skipped != nil {
		t.Fatal(skipped)
	}
	if len(m.Rails) != 4 || len(m.ByRail) != 4 || len(m.ByGPU) != 8 || m.Settings.MaxCTAs != 0 {
		t.Fatalf("%d rails, %d and %d ranks, %d channels", len(m.Rails), len(m.ByRail), len(m.ByGPU), m.Settings.MaxCTAs)
	}
	for i, r := range m.ByRail {
		if want := m.ByGPU[2*i].UUID; r.UUID != want {
			t.Errorf("rail %d has %s, expected %s, which is near", i, r.UUID, want)
		}
	}
	expectEnv(t, m.ByRail[1].Env, map[string]string{"NCCL_NET": "IB", "NCCL_IB_HCA": "=mlx5_1:1", "NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Ring"})
	expectEnv(t, m.ByGPU[1].Env, map[string]string{"NCCL_ALGO": "Ring", "NCCL_COLLNET_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"})
	if v, ok := value(t, m.ByGPU[1].Env, "NCCL_IB_HCA"); ok {
		t.Errorf("NCCL_IB_HCA=%s", v)
	}
	if v, ok := value(t, m.ByRail[0].Env, "NCCL_HOSTID"); ok {
		t.Errorf("NCCL_HOSTID=%s: ranks of different nodes are on different hosts", v)
	}
	if p := m.Vetted(); len(p.Ranks) != 12 || p.Key.Kind != probes.Rail {
		t.Errorf("%d ranks of %s are vetted", len(p.Ranks), p.Key.Kind)
	}
	n := probestest.Node(2)
	n.GPUDriver.GPUs = nil
	if _, skipped := NewMember(n, Settings{}); skipped == nil || skipped.Why != probes.SkipNoGPU {
		t.Errorf("without GPUs: %+v", skipped)
	}
}
