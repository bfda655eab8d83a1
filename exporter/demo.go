// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/demo"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/spelling"
)

func (c *commandLine) scenarioValue() *flagValue {
	return &flagValue{name: "scenario", set: into(&c.f.demoScenario, findScenario), words: scenarioNames}
}

// findScenario returns the scenario of a flag.
func findScenario(s string) (simulator.Scenario, error) {
	found, err := simulator.Find(s)
	if err != nil {
		err = errors.New("there is no such scenario (demo --list names all)" + spelling.Hint(s, scenarioNames()))
	}
	return found, err
}

func scenarioNames() []string {
	var all []string
	for _, s := range simulator.Scenarios() {
		all = append(all, s.Name)
	}
	return all
}

func listScenarios(w io.Writer) int {
	for _, s := range simulator.Scenarios() {
		fmt.Fprintf(w, "%-24s %s\n", s.Name, s.Summary)
	}
	return exitOK
}

// serveDemo serves a simulated node: the files of its scenario in a temporary folder, and the very pipeline that
// serves a real one on top. Nothing of this host is read.
func serveDemo(ctx context.Context, f *flags, o Options) int {
	log := f.logger(o.Stderr)
	fail := func(err error) int {
		log.Error("cannot serve", "err", f.explain(err))
		return exitFailure
	}
	scenario := f.demoScenario
	dir, err := temporaryFolder()
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	node := scenario.Build()
	if f.demoBreak > 0 {
		node = scenario.Healthy()
	}
	tree, err := node.Materialise(dir)
	if err != nil {
		return fail(err)
	}

	var probed *demo.Rehearsal
	if len(node.GPUs) > 0 {
		if probed, err = demo.NewRehearsal(tree.NCCL, scenario.Healthy()); err != nil {
			return fail(err)
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	var life sync.WaitGroup
	defer life.Wait() // before the folder goes
	defer cancel()
	life.Go(func() {
		if err := tree.Run(ctx, time.Second); err != nil && ctx.Err() == nil {
			log.Warn("the simulated node stands still", "err", err)
		}
	})
	if f.demoBreak > 0 {
		life.Go(func() { play(ctx, tree, probed, f, log) })
	}

	configName := "scenario " + scenario.Name
	note := "This node is made up: " + scenario.Summary + ". " + scenario.Truth
	if probed != nil {
		note += fmt.Sprintf(" Its probes are made up, too, and run every %s instead of every few hours.", demo.Every)
	}
	onListen := o.OnListen
	o.OnListen = func(addrs []net.Addr) {
		introduce(o.Stdout, scenario, f, addrs, probed != nil)
		onListen(addrs)
	}
	return runSite(ctx, f, o, site{
		sysfs: tree.Sysfs(), procfs: tree.Procfs(), rootfs: tree.Rootfs(), ethernet: tree.Ethernet(), gpus: tree.GPUs(),
		config: func() (config.Config, error) {
			c, err := config.Parse(configName, []byte(scenario.Config()))
			if probed != nil && err == nil {
				c.Probes = demo.Config()
			}
			return c, err
		},
		title:     "simulated node: " + scenario.Name,
		note:      note,
		simulated: true,
		rehearsal: probed,
	}, log)
}

// play lets the scenario happen to a healthy node, and takes it back.
func play(ctx context.Context, tree *simulator.Tree, probed *demo.Rehearsal, f *flags, log *slog.Logger) {
	for _, act := range []struct {
		after time.Duration
		node  func() *simulator.Node
		says  string
	}{
		{f.demoBreak, f.demoScenario.Build, "the simulated node breaks"},
		{f.demoMend, f.demoScenario.Healthy, "the simulated node is mended"},
	} {
		if act.after == 0 {
			return
		}
		wait := time.NewTimer(act.after)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		if err := probed.Change(func() error { return tree.Become(act.node()) }); err != nil {
			log.Error("the simulated node stays as it is", "err", err)
			return
		}
		log.Info(act.says, "scenario", f.demoScenario.Name)
	}
}

// introduce says what is simulated, where to look and what to look for.
func introduce(w io.Writer, s simulator.Scenario, f *flags, addrs []net.Addr, probed bool) {
	fmt.Fprintf(w, "Simulated node, scenario %s: %s.\nWhat to look for: %s\n", s.Name, s.Summary, s.Truth)
	if f.demoBreak > 0 {
		fmt.Fprintf(w, "It is healthy for %s", f.demoBreak)
		if f.demoMend > 0 {
			fmt.Fprintf(w, ", and again %s later", f.demoMend)
		}
		fmt.Fprintln(w, ".")
	}
	showAddresses(w, f, addrs, probed)
}

// showAddresses says where to look. Only a simulated node with GPUs is probed.
func showAddresses(w io.Writer, f *flags, addrs []net.Addr, probed bool) {
	for _, a := range addrs {
		base := "http://" + a.String() + f.routePrefix
		fmt.Fprintf(w, "  %s/  the node at a glance\n", base)
		if probed {
			fmt.Fprintf(w, "  %s%s  what probes measured\n", base, probesPath)
		}
		fmt.Fprintf(w, "  %s%s  what Prometheus reads\n", base, f.telemetryPath)
	}
	fmt.Fprintf(w, "Ctrl-C ends it.\n")
}

// checkDemo keeps made-up data away from the network, and refuses what does not fit together.
func (c *commandLine) checkDemo() error {
	if c.f.command != commandDemo {
		return nil
	}
	switch f := c.f; {
	case f.demoCapture != "" && c.scenario:
		return errors.New("--capture and --scenario: expected at most one of them")
	case f.demoCapture != "" && f.demoBreak > 0:
		return errors.New("--capture and --break-after: expected at most one of them")
	case f.demoMend > 0 && f.demoBreak == 0:
		return errors.New("--mend-after: expected --break-after beside it")
	}
	for _, a := range c.f.listen {
		host, _, _ := net.SplitHostPort(a)
		if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
			return fmt.Errorf("--web.listen-address=%q: demo serves made-up data: expected a loopback address such as %s", a, defaultDemoAddress)
		}
	}
	return nil
}
