// SPDX-License-Identifier: Apache-2.0

// Package exporter is the process: it observes one node, serves it to Prometheus and to people over HTTP, and
// reloads its configuration. It contains no logic about the fabric itself.
//
// An Exporter serves once. Any number of them may serve at once in one process: there are no globals, no
// default mux and no default registry. Inside, one goroutine per listener serves, one makes the first
// observation, one reloads on SIGHUP, and one notifies systemd; they share the observer.
//
// A configuration that is wrong ends in exit code command.Usage, all other failures to start in
// command.Failure. Once it serves, nothing but its context or a listener that fails ends it.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/rdmaping/pinger"
)

// Exporter is the process. Its flags are filled in by the command line that takes them, before anything is served.
type Exporter struct {
	Site *site.Site
	Log  *logging.Flags

	Web         Web
	Collectors  Collectors
	Intervals   Intervals
	ConfigCheck ConfigCheck

	// OnListen is called once with the bound addresses, before the first request is served; nil: it is not called.
	OnListen func([]net.Addr)
	// Excess says which privileges the process has although nothing needs them, and why; nil: none, or that it has none.
	Excess func() error
	// Probing is how NCCL is run; nil: it is not.
	Probing *prober.Platform
	// Pinging starts the process that has libibverbs; nil: rails are not pinged.
	Pinging pinger.Start
}

// Command returns the command serve.
func (e *Exporter) Command() *command.Command {
	s := e.Site
	return &command.Command{
		Name: "serve", Help: "Serve the metrics of this host (default).",
		Takes: []command.Group{
			&e.Web, e.Log, &e.Collectors, &s.Devices, &s.Paths, &s.Recorded, &s.Config, &e.ConfigCheck, &e.Intervals, &s.GPUs,
		},
		Run: func(ctx context.Context, c *command.Call) int {
			if e.ConfigCheck.On {
				return e.checkFiles(c)
			}
			return e.serve(ctx, c)
		},
	}
}

// Node is what is served: this host, or a simulated node.
type Node struct {
	Sysfs, Procfs, Rootfs string
	Netlink               string                 // folder of recorded answers; empty: this kernel's, if Sysfs is
	Ethernet              observer.Ethernet      // nil: those in Netlink, or this kernel's
	GPUs                  observer.GPUs          // nil: no GPU driver is queried
	Ranks                 observer.Ranks         // nil: processes that hold GPUs are not read
	Maintenance           func() (string, error) // why GPUs must not be accessed; nil: they are not GPUs of this host
	// ends a read of GPUs that hangs, before the observer is closed; nil: none does
	StopGPUs   func()
	LogDropped func() uint64 // lines of the log that were dropped so far; nil: none is
	Config     func() (config.Config, error)
	Title      string // the name of the node on the landing page
	Note       string // a sentence about it, for simulated nodes
	Simulated  bool
	// RAS answers queries about the jobs of a simulated node; nil: the node is this host, whose processes are queried.
	RAS *inquiry.Options
	// Prober returns what makes up the probes of a simulated node; nil: they are those of this host, if any.
	Prober func(context.Context, site.Observer) Prober
}

// Prober is what a node is probed with.
type Prober interface {
	Apply(*probes.Config) error // starts with the configuration, or continues with it
	Status() probes.Status      // not Enabled while nothing is configured
	Close()
}

func (e *Exporter) serve(ctx context.Context, c *command.Call) int {
	paths, recorded := e.Site.Paths, e.Site.Recorded.Netlink
	n := Node{
		Sysfs: paths.Sysfs, Procfs: paths.Procfs, Rootfs: paths.Rootfs, Netlink: recorded,
		Config: func() (config.Config, error) {
			read, err := e.Site.Config.Read()
			if err != nil {
				err = &config.Error{Err: c.Explain(err)}
			}
			return read, err
		},
	}
	n.Title, _ = os.Hostname() // an empty title is no reason not to serve
	log, lines := e.Log.Queued(c.Stderr)
	defer lines.Close()
	n.LogDropped = lines.Dropped
	if os.Geteuid() == 0 {
		log.Info("running as root is not needed")
	}
	if e.Excess != nil {
		if err := e.Excess(); err != nil {
			log.Warn("privileges that are not needed were not dropped", "err", err)
		}
	}
	user := make(chan os.Signal, 1) // SIGUSR1 kills a process that does not expect it
	signal.Notify(user, syscall.SIGUSR1)
	defer signal.Stop(user)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if recorded != "" {
		gpus, err := site.ReplayedGPUs(recorded)
		if err != nil {
			c.Complain(err)
			return command.Failure
		}
		n.GPUs = gpus
	}
	gpus := e.Site.GPUAccess(log)
	if gpus != nil {
		n.GPUs = gpus // a nil *site.GPUAccess would be no nil interface
		n.Maintenance = gpus.Maintained
		n.StopGPUs = func() {
			if err := gpus.Close(); err != nil {
				log.Warn("the process that reads the GPUs did not exit", "err", err)
			}
		}
		go gpus.Watch(ctx)
	}
	go gpus.OnSignal(ctx, user)
	return e.Serve(ctx, c, n, log)
}

// Serve observes and serves one node until ctx ends, and returns the exit code. It returns within two seconds after ctx
// ends, whatever hangs.
func (e *Exporter) Serve(ctx context.Context, c *command.Call, n Node, log *slog.Logger) int {
	// SIGPIPE ends a process whose log has lost its reader, journald for one, unless it is caught. It is until
	// the end, which is logged.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log.Info("starting", "program", command.Name, "version", version.Version, "revision", version.GetRevision(), "go",
		version.GoVersion)
	served := make(chan error, 1)
	go func() { served <- e.serveNode(ctx, n, log) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		select {
		case err = <-served:
		case <-time.After(leaving):
			log.Warn("stopped, although a read still hangs")
			return command.OK
		}
	}
	if err != nil && ctx.Err() == nil { // what fails because it is to end is no failure
		for _, e := range config.Errors(c.Explain(err)) {
			log.Error("cannot serve", "err", e)
		}
		return command.ExitOf(err, command.Failure)
	}
	log.Info("stopped")
	return command.OK
}

// leaving is the longest time that the process takes to end, whatever hangs, but for what the log needs
// (logging.Queue). The kernel ends its workers together with it.
const leaving = 1600 * time.Millisecond

func (e *Exporter) serveNode(ctx context.Context, n Node, log *slog.Logger) error {
	hangup := make(chan os.Signal, 1) // first of all: SIGHUP kills a process that does not expect it
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	var reading errand.Errand[config.Config]
	initial, err := reading.Run(ctx, patience, n.Config)
	if err != nil {
		return err
	}
	log.Info("configuration", "file", initial.Origin())
	leftOut(initial, log)
	if err := validWeb(e.Web.ConfigFile); err != nil {
		return &config.Error{Err: fmt.Errorf("--web.config.file=%q: %w", e.Web.ConfigFile, err)}
	}
	set, err := collector.NewSet(e.Collectors.Enabled)
	if err != nil {
		return err
	}
	ob, err := e.Site.Observe(observer.Options{
		Sysfs: n.Sysfs, Procfs: n.Procfs, Rootfs: n.Rootfs, Netlink: n.Netlink, Devices: e.Site.Devices.Filter,
		Policy: initial.Policy, NCCL: initial.NCCL,
		Ethernet: n.Ethernet, Statistics: e.Collectors.Statistics, GPUs: n.GPUs, Ranks: n.Ranks,
		Descriptors:  ownDescriptors().files,
		FastInterval: e.Intervals.Fast, MediumInterval: e.Intervals.Medium, SlowInterval: e.Intervals.Slow, Log: log,
	}, n.Simulated)
	if err != nil {
		return err
	}
	defer ob.Close()
	if n.StopGPUs != nil {
		defer n.StopGPUs()
	}
	listeners, err := e.listen()
	if err != nil {
		return err
	}
	defer closeAll(listeners)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var probing Prober = e.prober(ctx, n, ob, log)
	if n.Prober != nil {
		probing = n.Prober(ctx, ob)
	}
	defer probing.Close()
	if err := probing.Apply(initial.Probes); err != nil {
		return err
	}
	pings := e.pinger(ctx, n, ob, log)
	defer pings.Close()
	unpinged := pings.Apply(initial.RDMAPing)
	if unpinged != nil { // all else of the node is still to be watched
		unpinged = fmt.Errorf("rails are not pinged until this is corrected and the configuration reloaded: %w", unpinged)
		log.Error("configuration", "err", unpinged)
	}
	watch := e.watch(ctx, n, set, ob, log)
	defer watch.Close()
	askIf(initial.AskRAS, watch, log)
	set = set.WithProbes(probing.Status).WithRAS(watch.Status).WithPing(pings.Status)
	reload := newReloader(n, initial, ob, probing, pings, watch, log)
	reload.status.Err = unpinged
	go reload.onSignal(ctx, hangup)
	h := newHandler(e, n, set, ob, reload, log)
	defer h.places.close()
	go h.places.run(func() { h.observeFirst(ctx) })

	addrs := make([]net.Addr, len(listeners))
	for i, l := range listeners {
		addrs[i] = l.Addr()
		log.Info("listening", "address", l.Addr().String())
	}
	if e.OnListen != nil {
		e.OnListen(addrs)
	}
	dog := newWatchdog(listeners, e.Web.RoutePrefix, log)
	go dog.run(ctx)
	return serveListeners(ctx, listeners, h, e.Web.ConfigFile, log, dog.serverLog(log.Handler()))
}

// observeFirst makes the first observation, logs what was found and then marks the process as ready.
func (h *handler) observeFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, site.FirstObservation)
	defer cancel()
	n := h.observer.Observe(ctx, h.set.Want())
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	list := diagnose.Run(n, nil)
	h.seen.See(list, true, n.At)
	defer h.ready.Store(true)
	if short := ownDescriptors().shortage(n.Uncached); short != "" {
		h.log.Warn(short)
	}
	if text, missing := noGPUDriver(n); missing {
		h.log.Info(text)
	}
	if text, none := noDevice(n, h.node); none {
		h.log.Info(text)
		return
	}
	if h.set.Want()&fabric.WantHCA == 0 { // no collector has RDMA devices read
		return
	}
	if n.ClassPresent.State == fabric.Unknown {
		h.log.Warn(unreadable(n, h.node))
		return
	}
	var ports int
	for i := range n.HCAs {
		ports += len(n.HCAs[i].Ports)
	}
	h.log.Info("node observed", "devices", len(n.HCAs), "ports", ports, "troubles",
		len(verdict.Together(verdict.Failures(list))))
}

// unreadable says that the RDMA devices of a node are not known, and what to do.
func unreadable(n *fabric.Node, of Node) string {
	text := fmt.Sprintf("the RDMA devices of the node are unknown: %s/class/infiniband could not be read (%s)", of.Sysfs,
		n.ClassPresent.Reason)
	if n.ClassPresent.Reason == fabric.ReasonPrivilege {
		text += ": allow user " + strconv.Itoa(os.Geteuid()) +
			" to read it; the audit log shows what SELinux or AppArmor denied"
	}
	return text
}

// noGPUDriver says that there is no GPU driver to ask, and what to do where the kernel has one.
func noGPUDriver(n *fabric.Node) (text string, missing bool) {
	d := &n.GPUDriver
	if why, unreached := d.Unreached(); unreached {
		return "the GPUs of the node are unknown: NVIDIA's driver is loaded, but " + why +
			". With systemd, enable the tier gpu; in a container, use NVIDIA's runtime with NVIDIA_DRIVER_CAPABILITIES=utility", true
	}
	return "no GPU driver is loaded (" + d.Loaded.Source + "); serving no facts of GPUs", d.Released == "" &&
		!d.Loaded.Or(true)
}

// noDevice returns the message that the kernel certainly shows no RDMA device.
func noDevice(n *fabric.Node, of Node) (text string, none bool) {
	if n.ClassPresent.State != fabric.OK || len(n.HCAs) > 0 {
		return "", false
	}
	const only = "serving node facts only"
	where := of.Sysfs + "/class/infiniband"
	switch {
	case len(n.Excluded) > 0:
		return fmt.Sprintf("all %d RDMA devices under %s are excluded by flags; %s", len(n.Excluded), where, only), true
	case of.Simulated:
		return fmt.Sprintf("no RDMA device found under %s; %s", where, only), true
	default:
		return fmt.Sprintf("no RDMA device found under %s; %s (try: gpufabric_exporter demo)", where, only), true
	}
}
