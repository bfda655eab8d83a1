// SPDX-License-Identifier: Apache-2.0

// Package exporter is the process shell: command line, configuration, logging, HTTP. It turns the node that
// the observer sees into what Prometheus scrapes and what a human reads, and holds no knowledge of the
// fabric itself beyond putting its troubles into words.
//
// Run may be called any number of times at once in one process: there are no globals, no default mux and no
// default registry. Inside, one goroutine per listener serves, one makes the first observation, and one
// reloads on SIGHUP; the observer is what they share.
//
// Errors of the command line and of configuration files end in exit code 3 and a message that names the flag or the line,
// the value and what was expected; all other failures to start end in exit code 1. Once the process serves, nothing but its
// context or a listener that fails ends it.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/demo"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/probes"
)

// name is the program in usage texts, and the prefix of its build information.
const name = "gpufabric_exporter"

// The exit codes of Run.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 3 // the command line or a configuration file is wrong
)

// Options is what the process around Run provides. The zero value is ready to use.
type Options struct {
	Stdout, Stderr io.Writer // nil: those of the process
	// OnListen is called once with the bound addresses, before the first request is served.
	OnListen func([]net.Addr)
	// GPUs returns who asks NVIDIA's driver, without starting anything yet; nil: nobody does.
	GPUs func(GPUOptions) GPUWorker
	// ServeGPUs is what the process of a GPUWorker does, as the sub-command gpu-worker, until it is no longer wanted.
	ServeGPUs func(ctx context.Context, library string) error
	// Probing is how NCCL is run; nil: it is not.
	Probing *probes.Platform
	// ServeRank is what the process of a rank does, as the sub-command probe-rank, until it is no longer wanted.
	ServeRank func(ctx context.Context) error

	newObserver   func(observer.Options) (nodeObserver, error) // for tests, as the next one is
	defaultConfig string                                       // empty: defaultConfig
	inventory     string                                       // file; empty: none, or that of this host where it is observed
}

// nodeObserver is what this package needs of an observer.Observer.
type nodeObserver interface {
	Observe(ctx context.Context, want fabric.Want) *fabric.Node
	SetPolicy(p *fabric.Policy, files observer.NCCLFiles)
	Close()
}

var _ nodeObserver = (*observer.Observer)(nil)

// Run runs the program with the given arguments until it is done or ctx ends, and returns its exit code. It
// returns within two seconds of the end of ctx, whatever hangs.
func Run(ctx context.Context, args []string, o Options) int {
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	o.Stdout, o.Stderr = legible{o.Stdout}, legible{o.Stderr}
	if o.OnListen == nil {
		o.OnListen = func([]net.Addr) {}
	}
	f, code := parseFlags(args, o.Stdout, o.Stderr)
	if o.newObserver == nil {
		o.newObserver = func(o observer.Options) (nodeObserver, error) { return observer.New(o) }
		if f != nil && o.inventory == "" && f.thisHost() {
			o.inventory = inventory.DefaultFile
		}
	}
	if f != nil && f.configFile.Optional && o.defaultConfig != "" {
		f.configFile.Path = o.defaultConfig
	}
	switch {
	case f == nil:
		return usage(code, args, o)
	case f.command == commandGPUWorker:
		return serveGPUs(ctx, f, o)
	case f.command == commandProbeRank:
		return serveRank(ctx, o)
	case f.configCheck:
		return checkFiles(f, o)
	case f.demoList:
		return listScenarios(o.Stdout)
	case f.command == commandCapture:
		return takeCapture(ctx, f, o)
	case f.command == commandTopology:
		return topology(ctx, f, o)
	case f.command == commandCheck:
		return check(ctx, f, o)
	case f.command == commandRules:
		return rules(f, o)
	case f.command == commandProbe:
		return probe(ctx, f, o)
	case f.demoCapture != "":
		return replay(ctx, f, o)
	case f.command == commandDemo:
		return serveDemo(ctx, f, o)
	default:
		return serve(ctx, f, o)
	}
}

// checkFiles is --config.check.
func checkFiles(f *flags, o Options) int {
	if err := checkedFiles(f, o.Stdout); err != nil {
		for _, e := range config.Errors(f.explain(err)) { // each, and not the first few
			complain(o.Stderr, e)
		}
		return exitUsage
	}
	return exitOK
}

func checkedFiles(f *flags, w io.Writer) error {
	if f.configFile.Missing() {
		return fmt.Errorf("--config.check: %s does not exist: expected it, or --config.file beside it (try --help)", f.configFile.Path)
	}
	c, err := f.configFile.Read()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: ok\n", c.File)
	if env := c.ByHand.EnvFile; env != "" {
		if _, err := probes.ReadEnvironment(env); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: ok\n", env)
	}
	if f.webConfigFile != "" {
		if err := web.Validate(f.webConfigFile); err != nil {
			return fmt.Errorf("%s: %w", f.webConfigFile, err)
		}
		fmt.Fprintf(w, "%s: ok\n", f.webConfigFile)
	}
	return nil
}

// serveGPUs is the process of a GPUWorker.
func serveGPUs(ctx context.Context, f *flags, o Options) int {
	err := errors.New(commandGPUWorker + ": this program was built without it")
	if o.ServeGPUs != nil {
		err = o.ServeGPUs(ctx, f.workerLibrary)
	}
	if err != nil {
		complain(o.Stderr, err)
		return exitFailure
	}
	return exitOK
}

// site is the node that is looked at and what is expected of it: this host, or a simulated one.
type site struct {
	sysfs, procfs, rootfs string
	netlink               string                 // folder of recorded answers; empty: this kernel's, if sysfs is
	ethernet              observer.Ethernet      // nil: those in netlink, or this kernel's
	gpus                  observer.GPUs          // nil: nobody asks a GPU driver
	maintenance           func() (string, error) // why GPUs are not to be touched; nil: they are not this host's
	stopGPUs              func()                 // ends a read of gpus that hangs, before the observer is closed; nil: none does
	config                func() (config.Config, error)
	title                 string // how the node is called on the landing page
	note                  string // a sentence about it, for simulated nodes
	simulated             bool
	rehearsal             *demo.Rehearsal // what makes up the probes of a simulated node; nil: those of this host, if any
}

// siteProber is what a site is probed with.
type siteProber interface {
	Apply(*probes.Config) error // begins with it, or goes on so
	Status() probes.Status      // not Enabled while nothing is configured
	Close()
}

func serve(ctx context.Context, f *flags, o Options) int {
	s := site{
		sysfs: f.sysfs, procfs: f.procfs, rootfs: f.rootfs, netlink: f.netlink,
		config: func() (config.Config, error) {
			c, err := f.configFile.Read()
			if err != nil {
				err = &config.Error{Err: f.explain(err)}
			}
			return c, err
		},
	}
	s.title, _ = os.Hostname() // an empty title is no reason not to serve
	log := f.logger(o.Stderr)
	if os.Geteuid() == 0 {
		log.Info("running as root is not needed")
	}
	user := make(chan os.Signal, 1) // SIGUSR1 kills a process that does not expect it
	signal.Notify(user, syscall.SIGUSR1)
	defer signal.Stop(user)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f.netlink != "" {
		recorded, err := replayedGPUs(f.netlink)
		if err != nil {
			complain(o.Stderr, err)
			return exitFailure
		}
		s.gpus = recorded
	}
	gpus := openGPUs(f, o, log)
	if gpus != nil {
		s.gpus = gpus // a nil *gpuGate would be no nil interface
		s.maintenance = gpus.maintained
		s.stopGPUs = func() {
			if err := gpus.Close(); err != nil {
				log.Warn("the process that asks the GPUs is not gone", "err", err)
			}
		}
		go gpus.watch(ctx)
	}
	go gpus.onSignal(ctx, user)
	return runSite(ctx, f, o, s, log)
}

// runSite observes and serves one node until ctx ends. It is all there is to serve and to demo.
func runSite(ctx context.Context, f *flags, o Options, s site, log *slog.Logger) int {
	log.Info("starting", "program", name, "version", version.Version, "revision", version.GetRevision(), "go", version.GoVersion)
	served := make(chan error, 1)
	go func() { served <- serveSite(ctx, f, o, s, log) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		select {
		case err = <-served:
		case <-time.After(leaving):
			log.Warn("stopped, though something still hangs")
			return exitOK
		}
	}
	if err != nil {
		for _, e := range config.Errors(f.explain(err)) {
			log.Error("cannot serve", "err", e)
		}
		return exitOf(err, exitFailure)
	}
	log.Info("stopped")
	return exitOK
}

// leaving is how long the process takes to end at most, whatever hangs. The kernel ends its workers with it.
const leaving = 1800 * time.Millisecond

func serveSite(ctx context.Context, f *flags, o Options, s site, log *slog.Logger) error {
	hangup := make(chan os.Signal, 1) // first of all: SIGHUP kills a process that does not expect it
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	var reading errand.Errand[config.Config]
	initial, err := reading.Run(ctx, patience, s.config)
	if err != nil {
		return err
	}
	log.Info("configuration", "file", initial.Origin())
	if err := web.Validate(f.webConfigFile); err != nil {
		return &config.Error{Err: fmt.Errorf("--web.config.file=%q: %w", f.webConfigFile, err)}
	}
	set, err := collector.NewSet(f.collectors)
	if err != nil {
		return err
	}
	ob, err := o.newObserver(observer.Options{
		Sysfs: s.sysfs, Procfs: s.procfs, Rootfs: s.rootfs, Netlink: s.netlink, Devices: f.devices,
		Policy: initial.Policy, NCCL: initial.NCCL,
		Ethernet: s.ethernet, Statistics: f.statistics, GPUs: s.gpus, Descriptors: ownDescriptors().files,
		FastInterval: f.fastInterval, MediumInterval: f.mediumInterval, SlowInterval: f.slowInterval, Log: log,
	})
	if err != nil {
		return err
	}
	if !s.simulated {
		ob = remember(ob, o.inventory, log)
	}
	defer ob.Close()
	if s.stopGPUs != nil {
		defer s.stopGPUs()
	}
	listeners, err := listen(f.listen, f.systemdSocket)
	if err != nil {
		return err
	}
	defer closeAll(listeners)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var prober siteProber = newProber(ctx, f, s, o.Probing, ob, log)
	if s.rehearsal != nil {
		s.rehearsal.Begin(ctx, ob)
		prober = s.rehearsal
	}
	defer prober.Close()
	if err := prober.Apply(initial.Probes); err != nil {
		return err
	}
	set = set.WithProbes(prober.Status)
	reload := newReloader(s, initial, ob, prober, log)
	go reload.onSignal(ctx, hangup)
	h := newHandler(f, s, set, ob, reload, log)
	go h.observeFirst(ctx)

	addrs := make([]net.Addr, len(listeners))
	for i, l := range listeners {
		addrs[i] = l.Addr()
		log.Info("listening", "address", l.Addr().String())
	}
	o.OnListen(addrs)
	return serveListeners(ctx, listeners, h, f.webConfigFile, log)
}

// firstObservation bounds how long the process may be not ready because of a device that hangs.
const firstObservation = 10 * time.Second

// observeFirst makes the first observation, says what was found and lets the process be ready.
func (h *handler) observeFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstObservation)
	defer cancel()
	n := h.observer.Observe(ctx, h.set.Want())
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	list := diagnose.Run(n, nil)
	h.seen.See(list, true, n.At)
	h.ready.Store(true)
	if short := ownDescriptors().shortage(n.Uncached); short != "" {
		h.log.Warn(short)
	}
	if text, none := noDevice(n, h.site); none {
		h.log.Info(text)
		return
	}
	var ports int
	for i := range n.HCAs {
		ports += len(n.HCAs[i].Ports)
	}
	h.log.Info("node observed", "devices", len(n.HCAs), "ports", ports, "troubles", len(diagnose.Together(diagnose.Failures(list))))
}

// noDevice tells that the kernel conclusively shows no RDMA device, in words.
func noDevice(n *fabric.Node, s site) (text string, none bool) {
	if n.ClassPresent.State != fabric.OK || len(n.HCAs) > 0 {
		return "", false
	}
	const only = "serving node facts only"
	where := s.sysfs + "/class/infiniband"
	switch {
	case len(n.Excluded) > 0:
		return fmt.Sprintf("all %d RDMA devices under %s are excluded by flags; %s", len(n.Excluded), where, only), true
	case s.simulated:
		return fmt.Sprintf("no RDMA device found under %s; %s", where, only), true
	default:
		return fmt.Sprintf("no RDMA device found under %s; %s (try: make demo)", where, only), true
	}
}
