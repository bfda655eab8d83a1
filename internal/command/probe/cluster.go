// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster"
	"gpufabric_exporter/probes/cluster/rendezvous"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/probes/run"
)

// probeCluster is the word for probes between nodes.
const probeCluster = "cluster"

// clusterOptions are the flags of probes between nodes.
type clusterOptions struct {
	given      func(flag string) bool
	dryRun     bool
	drainList  bool
	partial    bool
	allNodes   bool
	html       string
	textfile   string
	push       string
	history    string
	secretFile string
	leader     string
	leaf       string
	port       int
	seed       int
	wait       time.Duration
}

// clusterFlags are the names of those flags.
var clusterFlags = []string{
	"dry-run", "drain-list", "partial", "all-nodes", "html", "textfile", "push", "history", "secret-file",
	"leader", "leaf", "port", "seed", "wait",
}

func (o *clusterOptions) define(f *command.Flags) {
	o.given = f.Given
	o.wait = cluster.DefaultWait
	f.Switch("dry-run", "Of cluster: print what would be measured, its traffic and its time, and measure nothing.", &o.dryRun)
	f.Switch("drain-list", "Of cluster: print only the nodes that are bad or failed, one a line.", &o.drainList)
	f.Switch("partial", "Of cluster: measure the nodes that came when others did not.", &o.partial)
	f.Switch("all-nodes", "Of cluster: after the pairs, all healthy nodes together, with the sizes and columns of nccl-tests.", &o.allNodes)
	f.Add("html", "Of cluster: file for the result as a page.", command.File(&o.html)).PlaceHolder("FILE")
	f.Add("textfile", "Of cluster: file for the result as metrics, *.prom.", command.File(&o.textfile)).PlaceHolder("FILE")
	f.Add("push", "Of cluster: Pushgateway for the result as metrics.",
		command.Into(&o.push, pushAddress)).PlaceHolder("URL")
	f.Add("history", "Of cluster: file of what nodes reached before, which is read and replaced.",
		command.File(&o.history)).PlaceHolder("FILE")
	f.Add("secret-file", "Of cluster: file with a secret of 16 bytes or more, the same on all nodes. Not needed with PMI.",
		command.Input(&o.secretFile)).PlaceHolder("FILE")
	f.Add("leader", "Of cluster: where the first process listens, HOST:PORT. Default: what the scheduler says.",
		command.Into(&o.leader, func(s string) (string, error) { return s, nil })).PlaceHolder("HOST:PORT")
	f.Add("port", "Of cluster: the port of the leader.", command.Into(&o.port, wholeNumber(1, 65535))).PlaceHolder("PORT")
	f.Add("leaf", "Of cluster: the switch that this node is below. Default: by the topology of Slurm.",
		command.Into(&o.leaf, func(s string) (string, error) { return s, nil })).PlaceHolder("NAME")
	f.Add("seed", "Of cluster: number that decides the pairs. Default: another one each time.",
		command.Into(&o.seed, wholeNumber(1, 1<<30))).PlaceHolder("N")
	f.Add("wait", "Of cluster: how long nodes may take to come.", command.Into(&o.wait, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < time.Second || d > time.Hour {
			return 0, errors.New("expected a time of 1s to 1h")
		}
		return d, nil
	})).PlaceHolder("TIME")
}

// pushAddress is an address without a password, which all users of the node could read in the list of processes.
func pushAddress(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("expected http://HOST:PORT, without a password")
	}
	return s, nil
}

// check refuses flags of the one kind of probe with the other.
func (p *options) checkCluster() error {
	if p.what == probeCluster {
		if p.kind != "" || p.op != "" || p.dtype != "" || p.ranks > 0 || p.iterations > 0 || p.device != "" || len(p.sizes) > 1 {
			return errors.New("cluster decides what is measured: of the flags for it, expected at most one size in --bytes")
		}
		return nil
	}
	for _, name := range clusterFlags {
		if p.cluster.given != nil && p.cluster.given(name) {
			return fmt.Errorf("--%s: expected it with cluster only", name)
		}
	}
	return nil
}

// environment is where the scheduler left its word.
func (o *clusterOptions) environment() *rendezvous.Environment {
	host, _ := os.Hostname()
	e := &rendezvous.Environment{
		Variable: os.Getenv, Hostname: host, Leader: o.leader, Port: o.port,
		Descriptor: func(fd int) (net.Conn, error) {
			f := os.NewFile(uintptr(fd), "PMI")
			if f == nil {
				return nil, errors.New("no descriptor")
			}
			defer f.Close()
			return net.FileConn(f)
		},
	}
	if o.secretFile != "" {
		e.Secret = func() ([]byte, error) { return files.Read(o.secretFile, 8<<10) }
	}
	return e
}

// exposed says that others can read the secret; empty: no. A Secret of Kubernetes is for its containers alone.
func (o *clusterOptions) exposed() string {
	info, err := os.Stat(o.secretFile)
	if err != nil || info.Mode()&0o004 == 0 || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return ""
	}
	return fmt.Sprintf("--secret-file=%s: each user can read it, and take part: chmod o-r", o.secretFile)
}

// settings are what a run is like.
func (p *options) clusterSettings() cluster.Options {
	o := cluster.Options{
		Seed: uint64(p.cluster.seed), RailBytes: cluster.DefaultRailBytes, AllBytes: cluster.DefaultAllBytes,
		Wait: p.cluster.wait, Partial: p.cluster.partial, AllNodes: p.cluster.allNodes, Bound: cluster.DefaultBound,
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano()) % (1 << 30)
	}
	if len(p.sizes) == 1 {
		o.RailBytes, o.AllBytes = p.sizes[0], p.sizes[0]
	}
	return o
}

// wants is what is asked of the node beyond what plans are made of.
func (p *options) wants() fabric.Want {
	if p.what == probeCluster {
		return fabric.WantGID
	}
	return 0
}

// runCluster is one process of a probe between nodes.
func (p *probing) runCluster(ctx context.Context, c *command.Call) int {
	o := p.flags.clusterSettings()
	log := p.log.Logger(c.Stderr)
	if p.flags.cluster.dryRun {
		return p.dryRun(ctx, c, o, log)
	}
	if p.platform == nil {
		return c.Fail(errors.New("this program was built without support for NCCL probes"))
	}
	place, err := p.flags.cluster.environment().Join(ctx)
	if err != nil {
		c.Complain(c.Explain(err))
		return exitUnprobed
	}
	if place.Rank > 0 {
		return p.follow(ctx, c, place, log)
	}
	p.warn(bounds(o, place.Size))
	if why := p.flags.cluster.exposed(); why != "" {
		p.warn(why)
	}
	l := &cluster.Leader{
		Listener: place.Listener, Secret: place.Secret, Size: place.Size, Names: place.Names, Options: o,
		Progress: func(format string, args ...any) { p.warn(fmt.Sprintf(format, args...)) },
	}
	if l.History, err = readHistory(p.flags.cluster.history); err != nil {
		place.Listener.Close()
		c.Complain(c.Explain(err))
		return command.Usage
	}
	own := make(chan int, 1)
	go func() { own <- p.follow(ctx, c, place, log) }()
	report, err := l.Run(ctx)
	<-own
	report.By = place.By
	if err != nil {
		report.Error = err.Error()
	}
	code := clusterCode(report)
	if err := p.tell(ctx, c, report); err != nil {
		c.Complain(err)
		if code == exitProbed {
			code = exitUnprobed
		}
	}
	if l.History != nil && report.Error == "" {
		if err := writeHistory(p.flags.cluster.history, l.History, report); err != nil {
			c.Complain(command.Unwritable("history", p.flags.cluster.history, err))
		}
	}
	return code
}

// clusterCode is what to exit with: as check does.
func clusterCode(r *cluster.Report) int {
	code := exitProbed
	for _, v := range r.Verdicts {
		switch v.Level {
		case search.Unknown:
			code = max(code, exitUnprobed)
		case search.Slow, search.Bad, search.Failed:
			return exitUnsound
		}
	}
	if r.Error != "" || r.Coverage() < 1 {
		return exitUnprobed
	}
	return code
}

// follow takes part as one node.
func (p *probing) follow(ctx context.Context, c *command.Call, place *rendezvous.Place, log *slog.Logger) int {
	a, leave := p.member(ctx, log)
	defer leave()
	a.Hello.Rank, a.Hello.Size = place.Rank, place.Size
	dial, cancel := context.WithTimeout(ctx, p.flags.cluster.wait)
	defer cancel()
	conn, err := cluster.Meet(dial, place.Addresses, place.Secret, a.Hello)
	if err != nil {
		c.Complain(err)
		return exitUnprobed
	}
	defer conn.Close()
	said, err := a.Run(ctx, conn)
	if err != nil {
		c.Complain(err)
		return exitUnprobed
	}
	if said != "" && place.Rank > 0 {
		p.warn(said)
	}
	return exitProbed
}

// member is this node as it takes part: what it has, and why it may have to stand aside.
func (p *probing) member(ctx context.Context, log *slog.Logger) (a *cluster.Agent, leave func()) {
	leave = func() {}
	host, _ := os.Hostname()
	a = &cluster.Agent{Member: &plan.Member{}, Hello: wire.Hello{
		Program: version.Version, Leaf: fabric.Clip(p.flags.cluster.leafName(), 128),
		Node: fabric.Printable(cmp.Or(os.Getenv("SLURMD_NODENAME"), os.Getenv("NODE_NAME"), host), 255),
	}}
	skip := func(err error) (*cluster.Agent, func()) {
		a.Hello.Skipped = probes.Printable(err.Error(), probes.MaxText)
		p.warn(a.Hello.Skipped)
		return a, leave
	}
	noLibrary, err := p.prepare(ctx, log)
	if err == nil {
		err = noLibrary
	}
	if err != nil {
		return skip(err)
	}
	m, skipped := plan.NewMember(p.node, p.settings)
	if skipped != nil {
		return skip(skipped)
	}
	a.Member = m
	describe(&a.Hello, p.node, m)
	if given := allocatedGPUs(os.Getenv); given > 0 && given < len(m.ByGPU) {
		return skip(fmt.Errorf("the allocation has %d of %d GPUs, expected all (--exclusive)", given, len(m.ByGPU)))
	}
	if a.Start, skipped = p.platform.Ranks(m.Vetted(), log); skipped != nil {
		return skip(skipped)
	}
	entrance, closeGate, err := p.platform.Gate(&prober.Host{
		Sysfs: p.site.Paths.Sysfs, Procfs: p.site.Paths.Procfs, Rootfs: p.site.Paths.Rootfs, Library: p.site.GPUs.Library,
		Maintenance: func() (string, error) { return p.site.GPUs.UnderMaintenance(), nil }, Log: log, Config: p.config,
		Quiet: allocationQuiet, Allocation: &gate.Allocation{SlurmJob: os.Getenv("SLURM_JOB_ID")},
	})
	if err != nil {
		return skip(err)
	}
	p.report.runs = []oneRun{{plan: &plan.Plan{Ranks: m.ByGPU}}} // whose GPUs are entered
	var guard run.Guard
	var out func()
	guard, out, skipped, err = p.enter(ctx, entrance)
	leave = func() {
		if out != nil {
			out()
		}
		_ = closeGate()
	}
	switch {
	case err != nil:
		return skip(err)
	case skipped != nil:
		return skip(skipped)
	}
	a.Guard = guard
	return a, leave
}

// allocationQuiet is how long the GPUs of an allocation are watched before anything starts.
const allocationQuiet = 3 * time.Second

// allocatedGPUs is how many the scheduler gave; 0: it does not say.
func allocatedGPUs(variable func(string) string) int {
	list := cmp.Or(variable("SLURM_STEP_GPUS"), variable("SLURM_JOB_GPUS"))
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		high := low
		if isRange {
			if high, err = strconv.Atoi(last); err != nil {
				return 0
			}
		}
		n += high - low + 1
	}
	return n
}

// leafName is the switch that this node is below: of Slurm's "core.leaf1.node1", the one before the node.
func (o *clusterOptions) leafName() string {
	parts := strings.Split(os.Getenv("SLURM_TOPOLOGY_ADDR"), ".")
	if o.leaf == "" && len(parts) > 1 && strings.HasPrefix(os.Getenv("SLURM_TOPOLOGY_ADDR_PATTERN"), "switch") {
		return parts[len(parts)-2]
	}
	return o.leaf
}

// describe says what the node has.
func describe(h *wire.Hello, n *fabric.Node, m *plan.Member) {
	h.NCCL = fabric.Clip(n.NCCL.ProbeLibrary.Or(n.NCCL.Library.Or(fabric.Library{})).Version, 128)
	h.Driver = fabric.Clip(n.GPUDriver.Version.Or(""), 128)
	for _, r := range m.ByGPU {
		h.GPUs = append(h.GPUs, wire.GPU{UUID: r.UUID, Address: r.Address})
	}
	for i, key := range m.Rails {
		gpu := wire.GPU{UUID: m.ByRail[i].UUID, Address: m.ByRail[i].Address}
		rail := wire.Rail{Device: key.Device, Port: key.Port, GPU: gpu}
		if hca := n.HCA(key.Device); hca != nil {
			if at := slices.IndexFunc(hca.Ports, func(p fabric.Port) bool { return p.Number == key.Port }); at >= 0 {
				port := &hca.Ports[at]
				rail.Rate, rail.Link = port.Rate.Or(fabric.Rate{}).BytesPerSecond, string(port.LinkLayer.Or(""))
				if g := port.GIDChoice.Or(fabric.GIDChoice{}).GID; g != nil {
					rail.GID = string(g.Type)
				}
				if netdev := n.NetDev(port.NetDev.Or("")); netdev != nil {
					rail.MTU = netdev.MTU.Or(0)
				}
			}
		}
		h.Rails = append(h.Rails, rail)
	}
}
