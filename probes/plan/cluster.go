// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// Member is what one node brings to probes between nodes.
type Member struct {
	Settings Settings // with defaults filled in
	Rails    []probes.Key
	ByRail   []probes.Rank // of each of Rails: the GPU that it is assigned to, which reaches others through it only
	ByGPU    []probes.Rank // of all GPUs
}

// NewMember plans the ranks of this node, or says why it has none. A node without rails has ranks of its GPUs only.
func NewMember(n *fabric.Node, s Settings) (*Member, *probes.Skipped) {
	if f := n.NCCL.Untrusted(); f != nil {
		return nil, probes.Skipf(probes.SkipUntrusted, "NCCL's settings: %s", f.Untrusted)
	}
	gpus, skip := usableGPUs(n)
	if skip != nil {
		return nil, skip
	}
	if len(gpus) == 0 {
		return nil, probes.Skipf(probes.SkipNoGPU, "no GPU that could be used")
	}
	s.MaxCTAs = 0 // as NCCL chooses
	m := &Member{Settings: s.orDefaults(), Rails: RailKeys(n)}
	rank := func(g *fabric.GPU, key probes.Key) probes.Rank {
		p := &Plan{Key: probes.Key{Kind: probes.Calibrate}, Settings: m.Settings} // with all buffers
		env := variables(environment(p, n, 0))
		env.set("NCCL_NVLS_ENABLE=0", "NCCL_COLLNET_ENABLE=0", "NCCL_MNNVL_ENABLE=0", "NCCL_ALGO=Ring")
		if key.Device != "" {
			through(&env, key)
		}
		return probes.Rank{UUID: g.UUID, Address: g.Address, Env: slices.Clip(env)}
	}
	users := map[string]int{}
	for _, key := range m.Rails {
		near := slices.Clone(gpus)
		slices.SortStableFunc(near, func(a, b *fabric.GPU) int {
			if d := users[a.UUID] - users[b.UUID]; d != 0 {
				return d
			}
			return int(distance(n, a, key.Device)) - int(distance(n, b, key.Device))
		})
		users[near[0].UUID]++
		m.ByRail = append(m.ByRail, rank(near[0], key))
	}
	for _, g := range gpus {
		m.ByGPU = append(m.ByGPU, rank(g, probes.Key{}))
	}
	return m, nil
}

// Vetted are the ranks as a plan, for what looks at the files that they load.
func (m *Member) Vetted() *Plan {
	p := &Plan{Key: probes.Key{Kind: probes.Calibrate}, Settings: m.Settings, Ranks: slices.Concat(m.ByRail, m.ByGPU)}
	if len(m.Rails) > 0 {
		p.Key = m.Rails[0] // ranks that register memory for RDMA
	}
	return p
}
