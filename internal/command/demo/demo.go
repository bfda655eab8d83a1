// SPDX-License-Identifier: Apache-2.0

// Package demo is the command demo: it serves a simulated node, or the node of a capture, on loopback only.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/demo"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
)

// serving is one call of the command.
type serving struct {
	exporter *exporter.Exporter

	list      bool
	scenario  *simulator.Scenario
	capture   string        // file; empty: the scenario
	breakTime time.Duration // until the scenario happens to the node; 0: it has from the start
	mendTime  time.Duration // from then until the node is healthy again; 0: it stays so
}

// New returns the command, which serves with the exporter.
func New(e *exporter.Exporter) *command.Command {
	d := &serving{exporter: e}
	return &command.Command{
		Name: "demo", Help: "Serve the metrics of a simulated node, on loopback only.",
		Define: d.define,
		Takes:  []command.Group{&e.Web, e.Log, &e.Collectors, &e.Site.Devices, &e.Intervals},
		Except: []string{"web.systemd-socket", "web.config.file"},
		Run: func(ctx context.Context, c *command.Call) int {
			switch {
			case d.list:
				return listScenarios(c.Stdout)
			case d.capture != "":
				return d.replay(ctx, c)
			}
			return d.run(ctx, c)
		},
	}
}

func (d *serving) define(f *command.Flags) {
	const scenario = "scenario"
	f.Switch("list", "List the scenarios and exit.", &d.list)
	f.Add(scenario, "Scenario of the simulated node; see --list.", site.Scenario(&d.scenario)).Default("healthy")
	f.Add("capture", "Serve the node of a capture instead of a simulated one.",
		command.Input(&d.capture)).PlaceHolder("FILE")
	f.Add("break-after", "How long the node is healthy before the scenario starts, to watch alerts fire.",
		command.Into(&d.breakTime, command.ParseInterval)).PlaceHolder("DURATION")
	f.Add("mend-after", "How long after that the node recovers, to watch alerts resolve.",
		command.Into(&d.mendTime, command.ParseInterval)).PlaceHolder("DURATION")
	f.Check(func() error { return d.check(f.Given(scenario)) })
}

// check keeps made-up data away from the network, and refuses what does not fit together.
func (d *serving) check(scenario bool) error {
	switch {
	case d.capture != "" && scenario:
		return errors.New("--capture and --scenario: expected at most one of them")
	case d.capture != "" && d.breakTime > 0:
		return errors.New("--capture and --break-after: expected at most one of them")
	case d.mendTime > 0 && d.breakTime == 0:
		return errors.New("--mend-after: it needs --break-after")
	}
	web := &d.exporter.Web
	if len(web.Listen) == 0 {
		web.Listen = []string{exporter.DemoAddress}
	}
	for _, a := range web.Listen {
		host, _, _ := net.SplitHostPort(a)
		if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
			return fmt.Errorf("--web.listen-address=%q: demo serves made-up data: expected a loopback address such as %s", a,
				exporter.DemoAddress)
		}
	}
	return nil
}

func listScenarios(w io.Writer) int {
	for _, s := range simulator.Scenarios() {
		fmt.Fprintf(w, "%-24s %s\n", s.Name, s.Summary)
	}
	return command.OK
}

// run serves a simulated node: the files of its scenario in a temporary folder, and the very pipeline that
// serves a real one on top. Nothing of this host is read.
func (d *serving) run(ctx context.Context, c *command.Call) int {
	log, lines := d.exporter.Log.Queued(c.Stderr)
	defer lines.Close()
	fail := func(err error) int {
		log.Error("cannot serve", "err", c.Explain(err))
		return command.Failure
	}
	dir, err := command.TemporaryFolder()
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	node, err := demo.NewNode(ctx, demo.Options{
		Scenario: *d.scenario, Folder: dir, Break: d.breakTime, Mend: d.mendTime,
		Log: log,
	})
	switch {
	case ctx.Err() != nil: // stopped before it serves, as it may be later
		return command.OK
	case err != nil:
		return fail(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var life sync.WaitGroup
	defer life.Wait() // before the folder goes
	defer cancel()
	life.Go(func() { node.Run(ctx) })

	onListen := d.exporter.OnListen
	d.exporter.OnListen = func(addrs []net.Addr) {
		d.introduce(c.Stdout, addrs, node.Probes != nil)
		if onListen != nil {
			onListen(addrs)
		}
	}
	served := exporter.Node{
		Sysfs: node.Sysfs(), Procfs: node.Procfs(), Rootfs: node.Rootfs(), Ethernet: node.Ethernet(), GPUs: node.GPUs(),
		Ranks:  node.Ranks(),
		Config: node.Config, Title: node.Title(), Note: node.Note(), Simulated: true,
		LogDropped: lines.Dropped,
	}
	served.RAS = &inquiry.Options{
		Asker: progress.Asker{
			NetNS:   simulator.HostNetNS,
			Version: func(c *fabric.RankCandidate) string { return c.Maps.Or(fabric.MappedFiles{}).Version },
		},
		Ask: func(_ context.Context, target progress.Target) (fabric.RASAnswer, error) {
			return node.AskRAS(target.PID)
		},
	}
	if node.Probes != nil {
		served.Prober = func(ctx context.Context, ob site.Observer) exporter.Prober {
			node.Probes.Begin(ctx, ob)
			return node.Probes
		}
	}
	return d.exporter.Serve(ctx, c, served, log)
}

// introduce says what is simulated, where to look and what to look for.
func (d *serving) introduce(w io.Writer, addrs []net.Addr, probed bool) {
	s := d.scenario
	fmt.Fprintf(w, "Simulated node, scenario %s: %s.\nExpected effect: %s\n", s.Name, s.Summary, s.Truth)
	if d.breakTime > 0 {
		fmt.Fprintf(w, "It is healthy for %s", d.breakTime)
		if d.mendTime > 0 {
			fmt.Fprintf(w, ", and again %s later", d.mendTime)
		}
		fmt.Fprintln(w, ".")
	}
	d.showAddresses(w, addrs, probed)
}

// showAddresses says where to look. Only a simulated node with GPUs is probed.
func (d *serving) showAddresses(w io.Writer, addrs []net.Addr, probed bool) {
	for _, a := range addrs {
		base := "http://" + a.String() + d.exporter.Web.RoutePrefix
		fmt.Fprintf(w, "  %s/  overview of the node\n", base)
		if probed {
			fmt.Fprintf(w, "  %s%s  results of probes\n", base, exporter.ProbesPath)
		}
		fmt.Fprintf(w, "  %s%s  metrics for Prometheus\n", base, d.exporter.Web.TelemetryPath)
	}
	fmt.Fprintf(w, "Press Ctrl-C to stop.\n")
}

// replay serves a capture. Nothing of this host is read.
func (d *serving) replay(ctx context.Context, c *command.Call) int {
	log, lines := d.exporter.Log.Queued(c.Stderr)
	defer lines.Close()
	fail := func(err error) int {
		log.Error("cannot serve", "err", c.Explain(err))
		return command.Failure
	}
	of, m, done, err := d.exporter.Site.Replay(d.capture)
	if err != nil {
		return fail(err)
	}
	defer done()
	gpus, err := site.ReplayedGPUs(of.Recorded.Netlink)
	if err != nil {
		return fail(err)
	}
	what := fmt.Sprintf("Node as captured at %s by version %q", m.Time.Format(time.RFC3339), m.Version)
	onListen := d.exporter.OnListen
	d.exporter.OnListen = func(addrs []net.Addr) {
		fmt.Fprintf(c.Stdout, "%s: %d RDMA devices. The values are static.\n", what, len(m.Devices))
		d.showAddresses(c.Stdout, addrs, false)
		if onListen != nil {
			onListen(addrs)
		}
	}
	return d.exporter.Serve(ctx, c, exporter.Node{
		Sysfs: of.Paths.Sysfs, Procfs: of.Paths.Procfs, Rootfs: of.Paths.Rootfs, Netlink: of.Recorded.Netlink, GPUs: gpus,
		Config:    func() (config.Config, error) { return config.Parse("", nil) },
		Title:     "captured node",
		Note:      what + ". " + capture.Note,
		Simulated: true, LogDropped: lines.Dropped,
	}, log)
}
