// SPDX-License-Identifier: Apache-2.0

// Package plan decides which ranks a probe has: from the node to GPUs, measurements and the environment of each rank.
// It reads nothing but the site's file of variables. Its functions are pure otherwise and safe for concurrent use, and
// a Plan is never changed. What cannot be planned is a probes.Skipped; what a site wrote that cannot be used wraps
// ErrSettings.
//
// transport makes a communicator of one rank and reads the chosen network from NCCL's log; node uses all GPUs; rail
// has two ranks, which NCCL takes for different hosts, meet in one HCA port; socket does the same over TCP; calibrate
// runs by hand only.
//
// Files from which ranks take settings, plugins and libraries (as NCCL and the loader find them) and every path in a
// variable must not be writable by others (package ownership, ncclprobe.Vet). If one is, the probe is skipped instead
// of run without it: without the plugin of the site it would take another path than its jobs, which is a false alarm.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// Defaults of Settings.
const (
	DefaultBytes      = 64 << 20               // of a message
	DefaultCollective = 100 * time.Millisecond // in collectives, for each measurement
	DefaultBudget     = 10 * time.Second       // wall time after which no measurement begins
	DefaultDeadline   = 30 * time.Second       // wall time after which everything is killed
)

// FloorBytes is down to where slow networks get smaller messages.
const FloorBytes = 1 << 20

const (
	latencyIterations = 20 // as nccl-tests does
	calibrateBytes    = 1 << 30
	latencyBytes      = 1 << 10  // small enough to measure latency, large enough for 8 ranks and any operation
	maxBytes          = 64 << 30 // of a message; the rank refuses what its GPU has no memory for
	maxIterations     = 100_000
	maxMeasurements   = 64
	maxCTAs           = 64 // MAXCHANNELS of NCCL 2.25 and later
	maxDeadline       = time.Hour
	// attainable is what part of its line rate one port reaches.
	attainable = 0.9
	// ringShare is what part of its NVLinks a GPU behind NVSwitches reaches in a ring; sums in the switch reach more.
	ringShare = 0.78
)

// Want is a measurement that a plan asks for.
type Want struct {
	Op         probes.Op
	Type       probes.DType
	Bytes      uint64 // of the message as nccl-tests counts it
	Iterations int    // 0: as many as fit, with smaller messages if too few do
	Warmups    int    // iterations before the timed ones: ranks of several nodes do not begin at the same time
	Best       bool   // the best iteration counts, each timed by itself; else their mean
}

// Least is the smallest message in bytes that the operation moves over so many ranks: an element, or one for each rank
// whose data does not overlap. New leaves out what is smaller.
func (w Want) Least(ranks int) uint64 {
	least := uint64(w.Type.Size())
	if w.Op.Divided() {
		least *= uint64(ranks)
	}
	return least
}

// Settings are what does not follow from the kind of a probe. The zero value of a field is its default.
type Settings struct {
	NCCL    string // path or name of libnccl.so.2
	CUDA    string // path or name of libcuda.so.1
	User    int    // see Config
	LogPath string // where a rank finds the pipe for NCCL's log; default DefaultLogPath
	// Environment is what the site wants its probes to have beside the NCCL files of the host, as parseEnvironment
	// returns it. Library paths that the exporter itself was given come first in it.
	Environment []string

	Wants   []Want       // default: what the kind measures, with what follows
	Op      probes.Op    // of Node and Calibrate; default AllReduce
	Type    probes.DType // default Float32
	Bytes   uint64       // message of all kinds but Calibrate; default DefaultBytes
	MaxCTAs int          // channels of all kinds but Calibrate; 0: as NCCL chooses
	Ranks   int          // of Node and Calibrate: so many of the GPUs; default all

	// Calibrate takes ten times as much of the first and the last one.
	Collective time.Duration // default DefaultCollective
	Budget     time.Duration // default DefaultBudget
	Deadline   time.Duration // default DefaultDeadline
}

// Validate names every field that makes no sense.
func (s *Settings) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(s.Wants) <= maxMeasurements, "%d measurements, expected at most %d", len(s.Wants), maxMeasurements)
	for _, w := range s.Wants {
		check(slices.Contains(probes.Ops(), w.Op), "operation %q, expected one of %v", w.Op, probes.Ops())
		check(w.Type.Size() > 0, "type %q, expected one of %v", w.Type, probes.DTypes())
		check(w.Bytes > 0 && w.Bytes <= maxBytes, "a message of %d bytes, expected 1 to %d", w.Bytes, uint64(maxBytes))
		check(w.Iterations >= 0 && w.Iterations <= maxIterations, "%d iterations, expected 0 to %d", w.Iterations,
			maxIterations)
		check(w.Warmups >= 0 && w.Warmups <= maxIterations, "%d iterations before, expected 0 to %d", w.Warmups,
			maxIterations)
	}
	check(s.Op == "" || slices.Contains(probes.Ops(), s.Op), "operation %q, expected one of %v", s.Op, probes.Ops())
	check(s.Type == "" || s.Type.Size() > 0, "type %q, expected one of %v", s.Type, probes.DTypes())
	check(s.Bytes <= maxBytes, "a message of %d bytes, expected at most %d", s.Bytes, uint64(maxBytes))
	check(s.MaxCTAs >= 0 && s.MaxCTAs <= maxCTAs, "%d channels, expected 0 to %d", s.MaxCTAs, maxCTAs)
	check(s.Ranks >= 0, "%d ranks, expected 0 or more", s.Ranks)
	for _, d := range []time.Duration{s.Collective, s.Budget, s.Deadline} {
		check(d >= 0 && d <= maxDeadline, "a time of %s, expected 0s to %s", d, maxDeadline)
	}
	return errors.Join(errs...)
}

func (s Settings) orDefaults() Settings {
	s.NCCL = cmp.Or(s.NCCL, "libnccl.so.2")
	s.CUDA = cmp.Or(s.CUDA, "libcuda.so.1")
	s.LogPath = cmp.Or(s.LogPath, DefaultLogPath)
	s.Bytes = cmp.Or(s.Bytes, DefaultBytes)
	s.Op = cmp.Or(s.Op, probes.AllReduce)
	s.Type = cmp.Or(s.Type, probes.Float32)
	s.Collective = cmp.Or(s.Collective, DefaultCollective)
	s.Budget = cmp.Or(s.Budget, DefaultBudget)
	s.Deadline = cmp.Or(s.Deadline, DefaultDeadline)
	return s
}

// Plan is a run that is ready to start. It is never changed.
type Plan struct {
	Key      probes.Key
	Ranks    []probes.Rank
	Settings Settings // with defaults filled in
	Driver   string   // version of the GPU driver; empty if not known
	// Expected is the bus bandwidth that the hardware allows, in bytes per second; 0 if nothing is expected.
	Expected float64
	// Turn is filled while ranks make a communicator and measure, where several runs share nodes; nil: this one is alone.
	Turn chan struct{} `json:"-"`
}

// GPUs returns the UUIDs of the GPUs that the plan uses, each once.
func (p *Plan) GPUs() []string {
	var ids []string
	for _, r := range p.Ranks {
		if !slices.Contains(ids, r.UUID) {
			ids = append(ids, r.UUID)
		}
	}
	return ids
}

// New makes the plan of a probe on this node, or says why there can be none. Settings must be valid.
func New(key probes.Key, n *fabric.Node, s Settings) (*Plan, *probes.Skipped) {
	s = s.orDefaults()
	if key.Kind == probes.Calibrate {
		s.Collective *= 10
		s.Deadline *= 10
		s.MaxCTAs = 0
	}
	if f := n.NCCL.Untrusted(); f != nil { // without what it says, the probe would be another than the site's jobs
		return nil, probes.Skipf(probes.SkipUntrusted, "NCCL's settings: %s", f.Untrusted)
	}
	p := &Plan{Key: key, Driver: n.GPUDriver.Version.Or("")}
	gpus, skip := usableGPUs(n)
	if skip != nil {
		return nil, skip
	}
	var rail *fabric.Port
	switch key.Kind {
	case probes.Transport:
		if slices.ContainsFunc(n.HCAs, elsewhere) { // what NCCL chooses here is not what it would in a pod that has them
			return nil, probes.Skipf(probes.SkipNoDevice, "other network namespaces have RDMA devices or their interfaces")
		}
		gpus = gpus[:min(1, len(gpus))]
	case probes.Node, probes.Calibrate:
		if s.Ranks > 0 && s.Ranks <= len(gpus) {
			gpus = gpus[:s.Ranks]
		}
		if len(gpus) < max(2, s.Ranks) {
			return nil, probes.Skipf(probes.SkipNoGPU, "%s, expected at least %d", probes.Counted(len(gpus), "GPU"),
				max(2, s.Ranks))
		}
	case probes.Rail:
		if rail, skip = railPort(n, key); skip != nil {
			return nil, skip
		}
		gpus = nearestPair(n, gpus, key.Device)
	case probes.Socket:
		gpus = pair(gpus)
	default:
		return nil, probes.Skipf(probes.SkipNoDevice, "kind %q, expected one of %v", key.Kind, probes.Kinds())
	}
	if len(gpus) == 0 {
		return nil, probes.Skipf(probes.SkipNoGPU, "no GPU that could be used")
	}
	if len(s.Wants) == 0 {
		s.Wants = s.defaultWants(key.Kind)
	}
	s.Wants = slices.DeleteFunc(slices.Clone(s.Wants), func(w Want) bool { return w.Bytes < w.Least(len(gpus)) })
	p.Settings = s
	for i, g := range gpus {
		p.Ranks = append(p.Ranks, probes.Rank{UUID: g.UUID, Address: g.Address, Env: environment(p, n, i)})
	}
	switch key.Kind {
	case probes.Rail:
		p.Expected = expectedOfRail(n, rail, gpus, key.Device)
	case probes.Calibrate:
		p.Expected = expectedOfNVLink(gpus)
	}
	return p, nil
}

// defaultWants is what a kind measures: latency, and bandwidth with the last one. Between two ranks that meet in one
// HCA data goes one way only: an AllReduce would cross the HCA's PCIe link twice in each direction, and measure that.
func (s *Settings) defaultWants(k probes.Kind) []Want {
	op := s.Op
	switch k {
	case probes.Transport:
		return nil // making a communicator says it all
	case probes.Calibrate:
		return []Want{{Op: op, Type: s.Type, Bytes: calibrateBytes}}
	case probes.Rail, probes.Socket:
		op = probes.Broadcast
	}
	return []Want{
		{Op: op, Type: s.Type, Bytes: latencyBytes, Iterations: latencyIterations},
		{Op: op, Type: s.Type, Bytes: s.Bytes},
	}
}

// usableGPUs returns the GPUs of a node. Is there one that cannot be used, there are none: a node that lost a GPU is
// not the node whose history the probe goes on with.
func usableGPUs(n *fabric.Node) ([]*fabric.GPU, *probes.Skipped) {
	d := &n.GPUDriver
	switch loaded, known := d.Loaded.Get(); {
	case !known:
		return nil, probes.Skipf(probes.SkipCannotProveIdle, "the GPU driver: %s", d.Loaded.Meta().Reason)
	case !loaded:
		return nil, probes.Skipf(probes.SkipNoGPU, "no GPU driver is loaded")
	}
	gpus := make([]*fabric.GPU, len(d.GPUs))
	for i := range d.GPUs {
		g := &d.GPUs[i]
		if g.UUID == "" || g.Address == "" || g.Lost.Or(false) {
			return nil, probes.Skipf(probes.SkipNoGPU, "GPU %d cannot be used", g.Index)
		}
		gpus[i] = g
	}
	return gpus, nil
}

// pair returns the first two GPUs, or the only one twice.
func pair(gpus []*fabric.GPU) []*fabric.GPU {
	if len(gpus) == 1 {
		return []*fabric.GPU{gpus[0], gpus[0]}
	}
	return gpus[:min(2, len(gpus))]
}

// nearestPair returns the two GPUs that are nearest to an HCA. Two ranks on one GPU would take turns on it, each in
// slices of a millisecond, while the other waits: that is left to nodes that have no other.
func nearestPair(n *fabric.Node, gpus []*fabric.GPU, device string) []*fabric.GPU {
	gpus = slices.Clone(gpus)
	slices.SortStableFunc(gpus, func(a, b *fabric.GPU) int {
		return cmp.Compare(distance(n, a, device), distance(n, b, device))
	})
	return pair(gpus)
}

// distance is that of a GPU and an HCA, DistanceSYS if it is not known.
func distance(n *fabric.Node, g *fabric.GPU, device string) fabric.Distance {
	gpu, nic := n.PCI.Function(strings.ToLower(g.Address)), n.PCI.NIC(device)
	if gpu == nil || nic == nil {
		return fabric.DistanceSYS
	}
	return n.Distance(gpu, nic).Or(fabric.DistanceSYS)
}

// RailKeys returns the keys of Rail probes of a node: one for each active port for training traffic that NCCL can open
// without a plugin.
func RailKeys(n *fabric.Node) []probes.Key {
	var keys []probes.Key
	for h, p := range n.ActiveCompute {
		key := probes.Key{Kind: probes.Rail, Device: h.Name, Port: p.Number}
		if _, skip := railPort(n, key); skip == nil {
			keys = append(keys, key)
		}
	}
	slices.SortStableFunc(keys, func(a, b probes.Key) int {
		return cmp.Or(fabric.NaturalOrder(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	})
	return keys
}

// railPort returns the port of a Rail probe, if NCCL would use it.
func railPort(n *fabric.Node, key probes.Key) (*fabric.Port, *probes.Skipped) {
	h := n.HCA(key.Device)
	switch {
	case key.Device == "": // of a node where no port is for rails
		return nil, probes.Skipf(probes.SkipNoDevice, "%s", withoutRails(n))
	case h == nil:
		return nil, probes.Skipf(probes.SkipNoDevice, "no RDMA device %q", key.Device)
	}
	i := slices.IndexFunc(h.Ports, func(p fabric.Port) bool { return p.Number == key.Port })
	if i < 0 {
		return nil, probes.Skipf(probes.SkipNoDevice, "%s has no port %d", h.Name, key.Port)
	}
	p := &h.Ports[i]
	layer := p.LinkLayer.Or(fabric.LinkUnspecified)
	switch {
	case h.Restricted.Or(true):
		return nil, probes.Skipf(probes.SkipNoDevice, "%s must not be touched", h.Name)
	case layer != fabric.LinkInfiniBand && layer != fabric.LinkEthernet:
		return nil, probes.Skipf(probes.SkipNoDevice, "link layer of %s port %d: %s, expected %s or %s", h.Name, p.Number,
			layer, fabric.LinkInfiniBand, fabric.LinkEthernet)
	case elsewhere(*h):
		return nil, probes.Skipf(probes.SkipNoDevice, "another network namespace has %s or its interface", h.Name)
	case p.State.Or("unknown") != fabric.PortActive:
		return nil, probes.Skipf(probes.SkipNoDevice, "%s port %d is %s, expected %s", h.Name, p.Number,
			p.State.Or("unknown"), fabric.PortActive)
	}
	return p, nil
}

// withoutRails says why no port of a node is for rails: what is not known of ports is not that they are down.
func withoutRails(n *fabric.Node) string {
	plugin, unknown := 0, 0
	for h, p := range n.Ports {
		switch {
		case !p.MayServe(fabric.RoleCompute):
		case h.Traits().NoVerbs:
			plugin++
		case p.State.State == fabric.Unknown, p.Role.State == fabric.Unknown:
			unknown++
		}
	}
	switch {
	case plugin > 0:
		return fmt.Sprintf("NCCL opens the %s for training through a plugin only, and their state is unknown",
			probes.Counted(plugin, "port"))
	case unknown > 0:
		return fmt.Sprintf("no port is known to be active and for training: the state or role of %s is unknown",
			probes.Counted(unknown, "port"))
	}
	return "no port is active and for training"
}

// elsewhere reports whether a device, or an interface of it, is in another network namespace.
func elsewhere(h fabric.HCA) bool {
	return h.Moved || slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.NetDevMoved() })
}

// expectedOfRail is what a port should carry between two GPUs that are both near to it.
func expectedOfRail(n *fabric.Node, p *fabric.Port, gpus []*fabric.GPU, device string) float64 {
	rate, known := p.Rate.Get()
	if !known || gpus[0] == gpus[1] || distance(n, gpus[1], device) > fabric.DistanceP2C {
		return 0
	}
	return rate.BytesPerSecond * attainable
}

// expectedOfNVLink is what GPUs behind NVSwitches should reach in a ring; 0 for GPUs that are linked in another way.
func expectedOfNVLink(gpus []*fabric.GPU) float64 {
	slowest := 0.0
	for i, g := range gpus {
		links, known := g.NVLinks.Get()
		if !known {
			return 0
		}
		sum := 0.0
		for _, l := range links {
			rate, known := l.Specified()
			if !known || l.RemoteKind.Or("") != fabric.NVLinkToSwitch {
				return 0
			}
			sum += rate
		}
		if i == 0 || sum < slowest {
			slowest = sum
		}
	}
	return slowest * ringShare
}
