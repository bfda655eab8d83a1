// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
)

// rehearsed is a simulated node that is probed. What NCCL would find follows from what was observed, but for nccl.
type rehearsed struct {
	node *fabric.Node
	nccl simulator.NCCL
	// whole says that links are as fast as the best of their kind on the node: so the node was before it broke.
	whole bool
	plans map[probes.Key]planned // made so far: they are the same at all times
}

// planned is a probe as package plan plans it, or why there is none.
type planned struct {
	plan *plan.Plan
	skip *probes.Skipped
}

const (
	ncclVersion      = "2.27.7"
	source           = "simulated"
	overTCP          = 3.1e9 // bytes per second between two ranks
	nvlinkOfChannels = 0.25  // of the NVLinks of a GPU that four channels fill
	busOverPCIe      = 19e9  // bytes per second, where GPUs have no NVLink to all others
	railShare        = 0.88  // of the line rate
	pcieShare        = 0.8   // of what lanes carry, behind headers and flow control
	bounceShare      = 0.42  // of a rail that is left without GPUDirect RDMA
	detourShare      = 0.45  // of a rail that is left where ACS or the IOMMU sends it through the root complex
)

// run is a probe at a time, or why there is none.
func (s rehearsed) run(key probes.Key, at time.Time) (probes.Result, *probes.Skipped) {
	planned, known := s.plans[key]
	if !known {
		planned.plan, planned.skip = plan.New(key, s.node, plan.Settings{MaxCTAs: Config().MaxCTAs})
		s.plans[key] = planned
	}
	plan := planned.plan
	if planned.skip != nil {
		skip := *planned.skip
		skip.At = at
		return probes.Result{}, &skip
	}
	for i := range s.node.GPUDriver.GPUs {
		if g := &s.node.GPUDriver.GPUs[i]; g.MIG.Or(false) {
			return probes.Result{}, &probes.Skipped{Why: probes.SkipMIG, Detail: g.UUID + " is divided", At: at}
		}
	}
	network, readable := s.fabric()
	if !readable {
		return probes.Result{}, &probes.Skipped{
			Why: probes.SkipCannotProveIdle, Detail: "the ports could not be read",
			At: at,
		}
	}
	noise := func(what string, share float64) float64 { return 1 + share*(2*s.fraction(what, key, at)-1) }
	r := probes.Result{
		Key: key, At: at, GPUs: plan.GPUs(), Outcome: probes.OK, NCCL: ncclVersion, Driver: plan.Driver,
		CUDA:    s.node.GPUDriver.CUDA.Or(""),
		Init:    probes.Seconds(1.1 * noise("init", 0.1)),
		Connect: probes.Seconds(0.14 * noise("connect", 0.2)),
		NVLS:    probes.Known(false, source, at), SHARP: probes.Known(false, source, at),
		Channels: probes.Known(plan.Settings.MaxCTAs, source, at),
		Settings: slices.Sorted(slices.Values(plan.Ranks[0].Env)),
	}
	r.Expected = probes.AbsentFact[float64](source, at)
	busBW, latency := s.network(&r, key, network)
	s.log(&r)
	r.Wall = r.Init + r.Connect + probes.Seconds(1.3*noise("wall", 0.1))
	s.measure(&r, plan, busBW*noise("bandwidth", 0.002), latency*probes.Seconds(noise("latency", 0.08)))
	s.spoil(&r)
	r.GPUTime = r.Wall * probes.Seconds(len(r.GPUs))
	return r, nil
}

// fabric is the network that NCCL finds; not known while ports cannot be read.
func (s rehearsed) fabric() (path probes.Path, known bool) {
	path, known = probes.PathSocket, s.node.ClassPresent.State != fabric.Unknown
	for _, p := range s.node.Ports {
		switch {
		case p.Role.State == fabric.Unknown || p.LinkLayer.State == fabric.Unknown:
			known = false
		case s.nccl.TCP || p.Serves(fabric.RoleUnused): // NCCL does not ask what else a port is for
		case p.LinkLayer.Or("") == fabric.LinkUnspecified: // EFA, whose state is a constant of the driver
			path = probes.PathPlugin
		case p.Carries():
			path = probes.PathIB
		case !p.Down():
			known = false
		}
	}
	return path, known || path != probes.PathSocket || s.nccl.TCP
}

// network fills in what the ranks talk over, and returns its bus bandwidth in bytes per second and how long a
// small message takes.
func (s rehearsed) network(r *probes.Result, key probes.Key, path probes.Path) (busBW float64, latency probes.Seconds) {
	r.Network = map[probes.Path]string{
		probes.PathSocket: "Socket", probes.PathPlugin: "AWS Libfabric",
		probes.PathIB: "IB",
	}[path]
	r.GPUDirect = probes.Known(!s.nccl.NoGPUDirect, source, r.At)
	if key.Kind == probes.Socket {
		path, r.Network = probes.PathSocket, "Socket"
	}
	if path == probes.PathSocket {
		r.NoDevices = key.Kind != probes.Socket && s.switchedOff() == ""
		r.GPUDirect = probes.AbsentFact[bool](source, r.At)
	}
	r.Path = probes.Known(path, source, r.At)
	switch {
	case key.Kind == probes.Node:
		r.Path = probes.Known(probes.PathP2P, source, r.At)
		bytes, toSwitch := s.nvlink()
		r.NVLS = probes.Known(toSwitch && s.node.GPUDriver.GPUs[0].ComputeCap.Or(0) >= 90, source, r.At)
		if !toSwitch {
			return busOverPCIe, 31e-6
		}
		return bytes * nvlinkOfChannels, 24e-6
	case path == probes.PathSocket:
		return overTCP, 52e-6
	case s.nccl.NoGPUDirect:
		return s.rail(key) * bounceShare, 19e-6
	case s.nccl.Detour:
		return s.rail(key) * detourShare, 15e-6
	}
	return s.rail(key), 13e-6
}

// switchedOff is the value of NCCL_IB_DISABLE of the host that disables RDMA; empty: none does.
func (s rehearsed) switchedOff() string {
	if set, found := s.node.NCCL.Lookup("NCCL_IB_DISABLE"); found && set.IsNumber && set.Number != 0 {
		return set.Value
	}
	return ""
}

// rail is what two GPUs get through a port, in bytes per second.
func (s rehearsed) rail(key probes.Key) float64 {
	var line float64
	for h, p := range s.node.Ports {
		if here := h.Name == key.Device && p.Number == key.Port; here || s.whole && p.Serves(fabric.RoleCompute) {
			line = max(line, p.Rate.Or(fabric.Rate{}).BytesPerSecond)
		}
	}
	bytes := line * railShare
	if f := s.node.PCI.NIC(key.Device); f != nil {
		speed, width := f.Link.Speed, f.Link.Width
		if s.whole {
			speed, width = f.Link.MaxSpeed, f.Link.MaxWidth
		}
		if pcie := speed.Or(0) / 8 * float64(width.Or(0)) * pcieShare; pcie > 0 {
			bytes = min(bytes, pcie)
		}
	}
	for _, slow := range s.nccl.Slow {
		if slow.Device == key.Device {
			bytes *= slow.Share
		}
	}
	return bytes
}

// nvlink is what the GPU with the fewest NVLinks has, in bytes per second, and whether NVSwitches link all GPUs.
func (s rehearsed) nvlink() (bytes float64, toSwitch bool) {
	var most float64
	least := math.Inf(1)
	for i := range s.node.GPUDriver.GPUs {
		links, _ := s.node.GPUDriver.GPUs[i].NVLinks.Get()
		sum := 0.0
		for _, l := range links {
			if l.Active.Or(false) && l.RemoteKind.Or("") == fabric.NVLinkToSwitch {
				sum += l.Speed.Or(0)
			}
		}
		most, least = max(most, sum), min(least, sum)
	}
	if s.whole {
		least = most
	}
	return least, least > 0 && !math.IsInf(least, 1)
}

// measure fills in what the plan wants measured.
func (s rehearsed) measure(r *probes.Result, plan *plan.Plan, busBW float64, latency probes.Seconds) {
	wants := plan.Settings.Wants
	for i, w := range wants {
		m := probes.Measurement{
			Op: w.Op, Type: w.Type, Bytes: w.Bytes, Ranks: len(plan.Ranks), Iterations: w.Iterations,
			Time: latency,
		}
		m.Count = m.Op.Count(m.Type, m.Bytes, m.Ranks)
		factor := w.Op.BusFactor(m.Ranks)
		if i == len(wants)-1 {
			m.Time = probes.Seconds(float64(w.Bytes) * factor / busBW)
			m.Iterations = int(min(max(probes.SecondsOf(plan.Settings.Collective)/m.Time, 1), 100))
		}
		m.DeviceTime = probes.Known(m.Time-m.Time/50, source, r.At)
		m.AlgBW = float64(w.Bytes) / float64(m.Time)
		m.BusBW = m.AlgBW * factor
		r.Measurements = append(r.Measurements, m)
		if i == len(wants)-1 && plan.Expected > 0 {
			r.Expected = probes.Known(m.BusBW/plan.Expected, source, r.At)
		}
	}
}

// spoil has a run of all GPUs fail where it would.
func (s rehearsed) spoil(r *probes.Result) {
	fail := func(why probes.Failure, format string, args ...any) {
		r.Outcome, r.Failure, r.Error = probes.Failed, why, fmt.Sprintf(format, args...)
	}
	fabricDown := slices.ContainsFunc(s.node.GPUDriver.GPUs, func(g fabric.GPU) bool {
		state, known := g.Fabric.Get()
		return known && state.State != fabric.GPUFabricCompleted
	})
	switch last := len(r.Measurements) - 1; {
	case fabricDown:
		r.Measurements = nil
		r.Path, r.GPUDirect = probes.UnknownFact[probes.Path](fabric.ReasonNotRead, source, r.At),
			probes.UnknownFact[bool](fabric.ReasonNotRead, source, r.At)
		fail(probes.FailureCUDA, "rank 0: open: cuInit: system not yet initialized (802)")
	case r.Kind != probes.Node:
	case s.nccl.HangingGPU > 0:
		r.Wall, r.Measurements = probes.SecondsOf(plan.DefaultDeadline), nil
		fail(probes.FailureHang, "rank %d: connect: no answer within 21s", s.nccl.HangingGPU-1)
	case s.nccl.WrongGPU > 0:
		m := &r.Measurements[last]
		m.Wrong = 64 + uint64(64*s.fraction("wrong", r.Key, r.At))
		fail(probes.FailureWrong, "rank %d: %s of %d bytes: %d elements are wrong", s.nccl.WrongGPU-1, m.Op, m.Bytes, m.Wrong)
	}
}

// log makes up what NCCL would report about its network.
func (s rehearsed) log(r *probes.Result) {
	var devices []string
	for i := range s.node.HCAs {
		if h := &s.node.HCAs[i]; h.Serves(fabric.RoleCompute) && (r.Device == "" || r.Device == h.Name) {
			devices = append(devices, fmt.Sprintf("[%d]%s:1", len(devices), h.Name))
		}
	}
	lines := []string{"NCCL version " + ncclVersion}
	switch off := s.switchedOff(); {
	case r.Network == "Socket" && r.Kind != probes.Socket && off != "":
		r.Settings = append(r.Settings, "NCCL_IB_DISABLE="+off)
		lines = append(lines, "NCCL INFO NCCL_IB_DISABLE set by environment to "+off+".",
			"NCCL INFO NET/Socket : Using [0]bond0")
	case r.Network == "Socket" && r.Kind != probes.Socket:
		lines = append(lines, "NCCL INFO NET/IB : No device found.", "NCCL INFO NET/Socket : Using [0]bond0")
	case r.Network == "IB":
		lines = append(lines, "NCCL INFO NET/IB : Using "+strings.Join(devices, " "))
		word := "Enabled"
		if s.nccl.NoGPUDirect {
			word = "Disabled"
		}
		for _, d := range devices {
			lines = append(lines, fmt.Sprintf("NCCL INFO NET/IB : GPU Direct RDMA %s for HCA %s", word, d))
		}
	}
	lines = append(lines, "NCCL INFO Using network "+r.Network)
	for _, l := range lines {
		r.Log += fmt.Sprintf("node:4711:4711 [0] %s\n", l)
	}
}

// fraction is a number from 0 to 1 that is always the same for the same probe and time, and looks random.
func (s rehearsed) fraction(what string, key probes.Key, at time.Time) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, what, key, at.Unix())
	const bits = 20
	return float64(h.Sum64()*0x9e3779b97f4a7c15>>(64-bits)) / (1 << bits)
}
