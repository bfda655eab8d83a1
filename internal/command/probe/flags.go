// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// What probe compares, beside the kinds of probes that it runs.
const (
	probeScaling = "scaling"
	probeNVLink  = "nvlink"
	probeTCP     = "tcp"
)

// options is what the command probe is asked for.
type options struct {
	what       string      // a kind, or a comparison
	kind       probes.Kind // of --kind; empty: not given
	op         probes.Op   // empty: that of the kind
	dtype      probes.DType
	sizes      []uint64 // bytes; empty: those of the kind
	ranks      int      // 0: all GPUs
	iterations int      // 0: those of the kind, or 20 with sizes
	device     string   // HCA; empty: all
	port       int      // of device; 0: any
	nccl       string   // NCCL; empty: that of the configuration
	json       bool
	evenIfBusy bool
	cluster    clusterOptions
}

// comparison is empty for a run of one kind.
func (p *options) comparison() string {
	if slices.Contains([]string{probeScaling, probeNVLink, probeTCP}, p.what) {
		return p.what
	}
	return ""
}

// define adds the flags.
func (p *options) define(f *command.Flags) {
	list := func(names []string) string { return strings.Join(names, ", ") }
	kinds := spelling.Names(probes.Kinds())
	f.Argument("what",
		"A kind: "+list(kinds)+"; or a comparison: scaling (2, 4, 8 GPUs), nvlink (direct paths between GPUs on and off), "+
			"tcp (against sockets); or cluster: pairs of nodes, with a process on each node of an allocation. Default: node.",
		command.Choice(&p.what, append(kinds, probeScaling, probeNVLink, probeTCP, probeCluster)...))
	f.Add("kind",
		"Kind of run to compare with: node (light) or calibrate (all channels); for tcp: rail, node or calibrate.",
		command.Choice(&p.kind, probes.Kinds()...)).PlaceHolder("KIND")
	f.Add("op",
		"Operation: "+list(spelling.Names(probes.Ops()))+". Default: from the configuration; broadcast for rail and socket.",
		command.Choice(&p.op, probes.Ops()...)).PlaceHolder("OP")
	f.Add("bytes", "Message sizes: SIZE, MIN:MAX or MIN:MAX:FACTOR, such as 8:256M:2.",
		command.Into(&p.sizes, parseSizes)).PlaceHolder("SIZES")
	f.Add("dtype", "Element type: "+list(spelling.Names(probes.DTypes()))+". Default: from the configuration.",
		command.Choice(&p.dtype, probes.DTypes()...)).PlaceHolder("TYPE")
	f.Add("ranks", "Number of GPUs to use. Default: all.",
		command.Into(&p.ranks, wholeNumber(2, maxProbeRanks))).PlaceHolder("N")
	f.Add("iterations", "Number of timed iterations. Default: 20 with --bytes, else as many as fit into 100 ms.",
		command.Into(&p.iterations, wholeNumber(1, maxProbeIterations))).PlaceHolder("N")
	f.Add("device", "RDMA device of a rail, mlx5_0 or mlx5_0:1 (port 1). Default: all rails.",
		command.Set(p.setDevice)).PlaceHolder("DEVICE")
	f.Add("library", "Name or path of the NCCL library. Default: from the configuration, else searched for.",
		command.File(&p.nccl)).PlaceHolder("FILE")
	f.Output(&p.json)
	f.Switch("even-if-busy", "Run even if GPUs are in use or their use is unknown. This slows down jobs on them.",
		&p.evenIfBusy)
	p.cluster.define(f)
	f.Check(p.check)
}

// Limits of what may be asked for: those of a rank, and those of sensible values.
const (
	maxProbeRanks      = 128
	maxProbeIterations = 10_000
	maxProbeBytes      = 4 << 30
)

// parseSizes reads one size, or a range as nccl-tests has it with -b, -e and -f.
func parseSizes(s string) ([]uint64, error) {
	const expected = "expected SIZE, MIN:MAX or MIN:MAX:FACTOR such as 64M or 8:256M:2"
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return nil, errors.New(expected)
	}
	var ends []uint64
	for _, part := range parts[:min(len(parts), 2)] {
		v, err := config.ParseSize(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expected, err)
		}
		if v < 1 || v > maxProbeBytes {
			return nil, fmt.Errorf("expected sizes of 1 byte to 4G, not %s", part)
		}
		ends = append(ends, v)
	}
	if len(ends) == 1 {
		return ends, nil
	}
	if ends[1] < ends[0] {
		return nil, fmt.Errorf("expected %s to be the larger size, or the same", parts[1])
	}
	factor := uint64(2)
	if len(parts) == 3 {
		var err error
		if factor, err = strconv.ParseUint(parts[2], 10, 16); err != nil || factor < 2 {
			return nil, fmt.Errorf("expected a FACTOR of 2 to 65535, not %q", parts[2])
		}
	}
	var sizes []uint64
	for v := ends[0]; v <= ends[1]; v *= factor { // at most 2^32 times 2^16: nothing overflows
		sizes = append(sizes, v)
	}
	return sizes, nil // 33 at most
}

// setDevice reads DEVICE or DEVICE:PORT. Whether there is such a device, the node says.
func (p *options) setDevice(s string) error {
	device, port, found := strings.Cut(s, ":")
	if device == "" || len(device) > 64 || strings.ContainsAny(device, "/\x00") {
		return errors.New("expected a device such as mlx5_0 or mlx5_0:1")
	}
	p.device, p.port = device, 0
	if !found {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 8)
	if err != nil || n == 0 {
		return fmt.Errorf("expected a port of 1 to 255 behind the colon, not %q", port)
	}
	p.port = int(n)
	return nil
}

// check refuses what does not fit together, and fills in what follows.
func (p *options) check() error {
	if err := p.checkCluster(); err != nil || p.what == probeCluster {
		return err
	}
	compares := p.comparison() != ""
	switch kind := p.kind; {
	case p.what == "" && kind == "" && p.device != "":
		p.kind = probes.Rail
	case p.what == "" && kind == "":
		p.kind = probes.Node
	case p.what == "" || compares:
	case kind != "" && string(kind) != p.what:
		return fmt.Errorf("%s and --kind=%q: expected at most one of them, or a comparison together with --kind", p.what,
			kind)
	default:
		p.kind = probes.Kind(p.what)
	}
	if compares && p.kind == "" && p.device != "" && p.what == probeTCP {
		p.kind = probes.Rail
	}
	switch kind := p.kind; {
	case compares && kind != "" && kind != probes.Node && kind != probes.Calibrate &&
		(kind != probes.Rail || p.what != probeTCP):
		return fmt.Errorf("--kind=%q: %s compares runs of kind node or calibrate%s", kind, p.what,
			map[bool]string{true: ", or of rail"}[p.what == probeTCP])
	case p.device != "" && kind != probes.Rail:
		return fmt.Errorf("--device=%q: expected it with rail, or with tcp, only", p.device)
	case p.ranks > 0 && (kind == probes.Rail || kind == probes.Socket || kind == probes.Transport):
		return fmt.Errorf("--ranks=%d: %s has a number of ranks of its own", p.ranks, kind)
	case kind == probes.Transport && (p.op != "" || p.dtype != "" || len(p.sizes) > 0 || p.iterations > 0):
		return errors.New("transport measures nothing: do not use it with --op, --bytes, --dtype or --iterations")
	}
	return nil
}

func wholeNumber(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("expected a whole number from %d to %d", low, high)
		}
		return n, nil
	}
}
