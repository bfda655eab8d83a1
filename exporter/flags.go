// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/rdmaping/exchange"
)

// The default addresses to listen on.
const (
	defaultAddress = ":10791"
	// DemoAddress is the default for simulated nodes.
	DemoAddress = "127.0.0.1:10791"
)

// Web is how the exporter is reached.
type Web struct {
	Listen                 []string // HOST:PORT; empty: the default of the command
	SystemdSocket          bool
	ConfigFile             string // of exporter-toolkit; empty: none
	TelemetryPath          string
	RoutePrefix            string // without a trailing slash: "" or "/fabric"
	DisableExporterMetrics bool
	MaxRequests            int
	EnablePprof            bool
	TimeoutOffset          time.Duration
}

// Define adds the flags.
func (w *Web) Define(f *command.Flags) {
	const listen = "web.listen-address"
	var prefix *string // nil: not given
	var external string
	f.Add(listen, "Address to listen on, HOST:PORT. Repeatable. Default "+defaultAddress+", for demo "+DemoAddress+".",
		command.Append(&w.Listen, command.ParseAddress)).PlaceHolder(defaultAddress)
	f.Switch("web.systemd-socket", "Take the listening sockets from systemd instead.", &w.SystemdSocket)
	f.Add("web.config.file",
		"File that enables TLS, client certificates or basic authentication (exporter-toolkit format).",
		command.Input(&w.ConfigFile)).
		PlaceHolder("FILE")
	f.Add("web.telemetry-path", "Path of the metrics.",
		command.Into(&w.TelemetryPath, command.ParsePath)).Default("/metrics")
	f.Add("web.route-prefix", "Prefix of all paths. Default: the path of --web.external-url.",
		command.Set(func(s string) error {
			p, err := command.ParsePath(s)
			prefix = &p
			return err
		})).PlaceHolder("/")
	f.Add("web.external-url", "URL under which this exporter is reachable through a reverse proxy.",
		command.Into(&external, command.ParseURLPath)).PlaceHolder("URL")
	f.Switch("web.disable-exporter-metrics",
		"Exclude metrics about the exporter's process (go_*, process_*, promhttp_*); gpufabric_exporter_build_info stays.",
		&w.DisableExporterMetrics)
	f.Add("web.max-requests", "Maximum number of parallel requests; others get 503. 0: no limit.",
		command.Into(&w.MaxRequests, command.ParseCount)).Default("40")
	f.Switch("web.enable-pprof", "Serve profiles of the exporter under /debug/pprof/.", &w.EnablePprof)
	f.Add("timeout-offset", "Seconds to end a scrape before Prometheus' scrape timeout.",
		command.Into(&w.TimeoutOffset, command.ParseSeconds)).Default("0.5")
	f.Check(func() error {
		w.RoutePrefix = external
		if prefix != nil {
			w.RoutePrefix = *prefix
		}
		w.RoutePrefix = strings.TrimSuffix(w.RoutePrefix, "/")
		switch {
		case reserved(w.TelemetryPath):
			return fmt.Errorf("--web.telemetry-path=%q: expected a path outside of /-/, /debug/, "+ProbesPath+", "+JobsPath+", "+exchange.Path+" and "+StatusPath, w.TelemetryPath)
		case w.SystemdSocket && f.Given(listen):
			return errors.New("--web.systemd-socket and --web.listen-address: expected at most one of them")
		}
		return nil
	})
}

// reserved reports whether a path is in use and cannot be the path of metrics.
func reserved(p string) bool {
	return p == "/-" || p == "/debug" || p == ProbesPath || p == ProbesPath+".json" || p == JobsPath ||
		p == StatusPath || p == exchange.Path || strings.HasPrefix(p, "/-/") || strings.HasPrefix(p, "/debug/")
}

// Collectors are what of the node becomes metrics.
type Collectors struct {
	Enabled    []string
	Statistics *regexp.Regexp // of network interfaces, beside those with a meaning; nil: none
}

// Define adds the flags.
func (c *Collectors) Define(f *command.Flags) {
	on := map[string]*bool{}
	disableDefaults := false
	for _, i := range collector.Collectors() {
		state := "disabled"
		if i.Default {
			state = "enabled"
		}
		enabled := i.Default
		on[i.Name] = &enabled
		f.Switch("collector."+i.Name, fmt.Sprintf("Collector %s: %s (default: %s).", i.Name, i.Help, state), &enabled)
	}
	f.Switch("collector.disable-defaults", "Run only the collectors that are enabled by flags.", &disableDefaults)
	f.Add("collector.netdev.stats-include",
		"Also export statistics of network interfaces (ethtool -S) whose full name matches this regular expression, besides those that have their own metric.",
		command.Into(&c.Statistics, config.ParsePattern)).PlaceHolder("REGEXP")
	f.Check(func() error {
		for _, i := range collector.Collectors() {
			if *on[i.Name] && (f.Given("collector."+i.Name) || !disableDefaults) {
				c.Enabled = append(c.Enabled, i.Name)
			}
		}
		if len(c.Enabled) == 0 {
			return errors.New("all collectors are disabled: expected at least one --collector.NAME")
		}
		return nil
	})
}

// Intervals are how long scrapes share readings.
type Intervals struct{ Fast, Medium, Slow time.Duration }

// Define adds the flags.
func (i *Intervals) Define(f *command.Flags) {
	const medium = "observer.medium-interval"
	interval := func(to *time.Duration) command.Value { return command.Into(to, command.ParseInterval) }
	f.Add("observer.fast-interval", "How long scrapes share one reading of the hardware.",
		interval(&i.Fast)).Default(observer.DefaultFastInterval.String())
	f.Add(medium,
		"How long scrapes share one reading of the statistics of network interfaces, which is expensive for the driver.",
		interval(&i.Medium)).
		Default(observer.DefaultMediumInterval.String())
	f.Add("observer.slow-interval", "How long to cache facts that rarely change.",
		interval(&i.Slow)).Default(observer.DefaultSlowInterval.String())
	f.Check(func() error {
		if !f.Given(medium) {
			i.Medium = max(i.Medium, i.Fast)
		}
		switch {
		case i.Slow < i.Fast:
			return fmt.Errorf("--observer.slow-interval=%q: expected at least --observer.fast-interval (%s)", i.Slow, i.Fast)
		case i.Medium < i.Fast:
			return fmt.Errorf("--observer.medium-interval=%q: expected at least --observer.fast-interval (%s)", i.Medium, i.Fast)
		}
		return nil
	})
}
