// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"strings"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
)

// plan fills in the runs, or says why there can be none.
func (p *probing) plan() (*probes.Skipped, error) {
	kind := p.flags.kind
	switch p.flags.comparison() {
	case probeScaling:
		return p.planScaling(orKind(kind, probes.Calibrate))
	case probeNVLink:
		key := probes.Key{Kind: orKind(kind, probes.Calibrate)}
		return p.planAll(
			planned{"P2P off", key, p.flags.ranks, []string{"NCCL_P2P_DISABLE=1", "NCCL_NVLS_ENABLE=0"}},
			planned{"P2P on", key, p.flags.ranks, nil},
		)
	case probeTCP:
		return p.planTCP(kind)
	}
	if kind != probes.Rail {
		return p.planAll(planned{key: probes.Key{Kind: kind}, ranks: p.flags.ranks})
	}
	keys, skipped := p.rails()
	if skipped != nil {
		return skipped, nil
	}
	var list []planned
	for _, key := range keys {
		list = append(list, planned{key: key})
	}
	return p.planAll(list...)
}

func orKind(k, otherwise probes.Kind) probes.Kind {
	if k == "" {
		return otherwise
	}
	return k
}

// planned is what a run is to be like.
type planned struct {
	label string
	key   probes.Key
	ranks int // 0: all
	env   []string
}

func (p *probing) planAll(list ...planned) (*probes.Skipped, error) {
	for _, w := range list {
		s := p.settings
		s.Ranks = w.ranks
		s.Environment = append(append([]string(nil), s.Environment...), w.env...) // what comes last wins
		s.Wants = p.wants(w.key.Kind)
		if err := s.Validate(); err != nil {
			return nil, err
		}
		plan, skipped := plan.New(w.key, p.node, s)
		if skipped != nil {
			return skipped, nil
		}
		if len(w.env) > 0 {
			plan.Expected = 0 // it is that of the ways which are switched off
		}
		if n := len(s.Wants); n > 0 && len(plan.Settings.Wants) == 0 { // those of a range that are too small are left out
			ranks, last := len(plan.Ranks), s.Wants[n-1]
			return nil, fmt.Errorf("--bytes: %d bytes are too few: %s of %s over %d ranks moves at least %d", last.Bytes,
				last.Op, last.Type, ranks, last.Least(ranks))
		}
		p.report.runs = append(p.report.runs, oneRun{label: w.label, plan: plan})
	}
	return nil, nil
}

// wants are the measurements of a run.
func (p *probing) wants(kind probes.Kind) []plan.Want {
	op, dtype := p.config.Op, p.config.Type
	if kind == probes.Rail || kind == probes.Socket {
		op = probes.Broadcast // one way, or the HCA's PCIe link would be what is measured
	}
	if p.flags.op != "" {
		op = p.flags.op
	}
	if p.flags.dtype != "" {
		dtype = p.flags.dtype
	}
	const latencyBytes, latencyIterations = 1 << 10, 20
	const asMany = 0
	want := func(bytes uint64, iterations int) plan.Want {
		if p.flags.iterations > 0 {
			iterations = p.flags.iterations
		}
		return plan.Want{Op: op, Type: dtype, Bytes: bytes, Iterations: iterations}
	}
	switch {
	case kind == probes.Transport:
		return nil
	case len(p.flags.sizes) > 0:
		var all []plan.Want
		for _, size := range p.flags.sizes {
			all = append(all, want(size, 20)) // as nccl-tests
		}
		return all
	case kind == probes.Calibrate:
		return []plan.Want{want(1<<30, asMany)}
	}
	return []plan.Want{want(latencyBytes, latencyIterations), want(p.config.Bytes, asMany)}
}

// rails are the keys of the device that was named, or of all.
func (p *probing) rails() ([]probes.Key, *probes.Skipped) {
	var keys []probes.Key
	var names []string
	for _, key := range plan.RailKeys(p.node) {
		names = append(names, fmt.Sprintf("%s:%d", key.Device, key.Port))
		if p.flags.device == "" || key.Device == p.flags.device && (p.flags.port == 0 || key.Port == p.flags.port) {
			keys = append(keys, key)
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case p.flags.device != "" && len(names) > 0:
		return nil, &probes.Skipped{
			Why:    probes.SkipNoDevice,
			Detail: fmt.Sprintf("%s is none of %s", p.flags.device, strings.Join(names, ", ")), At: time.Now(),
		}
	}
	// its plan says what is wrong
	return []probes.Key{{Kind: probes.Rail, Device: p.flags.device, Port: max(p.flags.port, 1)}}, nil
}

// planScaling plans runs of 2, 4, 8 and so on GPUs, and of all of them.
func (p *probing) planScaling(kind probes.Kind) (*probes.Skipped, error) {
	key := probes.Key{Kind: kind}
	all, skipped := plan.New(key, p.node, p.settings)
	if skipped != nil {
		return skipped, nil
	}
	most := len(all.Ranks)
	if p.flags.ranks > 0 {
		most = p.flags.ranks // too many are refused below
	}
	var list []planned
	for n := 2; n < most; n *= 2 {
		list = append(list, planned{label: fmt.Sprintf("%d GPUs", n), key: key, ranks: n})
	}
	if len(list) == 0 {
		return &probes.Skipped{
			Why: probes.SkipNoGPU, Detail: fmt.Sprintf("scaling over %d GPUs: expected 3 or more", most),
			At: time.Now(),
		}, nil
	}
	return p.planAll(append(list, planned{label: fmt.Sprintf("%d GPUs", most), key: key, ranks: most})...)
}

// planTCP plans the same over sockets and over what NCCL chooses. Rails come first: they are what other nodes
// are reached by.
func (p *probing) planTCP(kind probes.Kind) (*probes.Skipped, error) {
	if kind == "" || kind == probes.Rail {
		keys, skipped := p.rails()
		switch {
		case skipped == nil && p.flags.ranks == 0:
			key := keys[0] // one says it all
			return p.planAll(
				planned{label: "sockets", key: probes.Key{Kind: probes.Socket}},
				planned{label: "RDMA", key: key},
			)
		case kind == probes.Rail:
			return skipped, nil
		}
		kind = probes.Node
	}
	key := probes.Key{Kind: kind}
	sockets := []string{
		"NCCL_NET=Socket", "NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NET_DISABLE_INTRA=0",
		"NCCL_NVLS_ENABLE=0", "NCCL_COLLNET_ENABLE=0",
	}
	return p.planAll(
		planned{"sockets", key, p.flags.ranks, sockets},
		planned{"as NCCL chooses", key, p.flags.ranks, nil},
	)
}
