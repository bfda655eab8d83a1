// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/site"
)

func TestFlagErrors(t *testing.T) {
	tests := []struct {
		args string
		want []string // flag, value, what was expected
	}{
		{"--nosuch", []string{"--nosuch: unknown flag"}},
		{"nosuch", []string{`"nosuch": unknown command: expected help, serve, demo, capture, topology, profiles, check, preflight, jobs, lint, advise, explain, probe, ping, report, rules, healthcheck or install-to`}},
		{"chek", []string{`"chek": unknown command`, "did you mean check?"}},
		{"check --severty=critical", []string{"--severty: unknown flag; did you mean --severity?"}},
		{"check --severity=criticl", []string{`--severity="criticl": expected critical, warning or info; did you mean critical?`}},
		{"check --only pcie-lnk", []string{`--only="pcie-lnk": there is no such check; did you mean pcie_link?`}},
		{"demo --scenario=pfc-strom", []string{`--scenario="pfc-strom": unknown scenario`, "did you mean pfc-storm?"}},
		{"--collector.hac", []string{"--collector.hac: unknown flag; did you mean --collector.hca?"}},
		{"--no-colector.gid", []string{"--no-colector.gid: unknown flag; did you mean --no-collector.gid?"}},
		{"--web.lisen-address=:1", []string{"--web.lisen-address: unknown flag; did you mean --web.listen-address?"}},
		{"topology --web.lissten-address=:1", []string{"--web.lissten-address: unknown flag (try"}}, // what topology does not take is no help
		{"topology -x", []string{"-x: unknown flag"}},
		{"--scenario=pfc-off", []string{"--scenario: expected the command before it: demo, topology, profiles, check, jobs, lint, advise, explain or report"}},
		{"probe --scenario=pfc-off", []string{"--scenario: probe does not take this flag, but demo, topology, profiles, check, jobs, lint, advise, explain or report"}},
		{"preflight --scenario=healthy", []string{"--scenario: preflight does not take this flag, but demo, topology"}}, // it is of this place
		{"check --" + strings.Repeat("x", 100000), []string{"xxx: unknown flag"}},
		{strings.Repeat("y", 100000), []string{"unknown command"}},
		{"check --only=" + strings.Repeat("z", 100000), []string{"there is no such check"}},
		{"check --output=jsn", []string{`--output="jsn": expected text or json; did you mean json?`}},
		{"probe nvlnk", []string{`"nvlnk": expected transport, node`, "did you mean nvlink?"}},
		{"probe --json", []string{"--json: unknown flag"}},
		{"probe --web.listen-address=:1", []string{"--web.listen-address: probe does not take this flag"}},
		{"capture --web.max-requests=3", []string{"--web.max-requests: capture does not take this flag"}},
		{"topology --web.max-requests=3", []string{"--web.max-requests: topology does not take this flag"}},
		{"rules --directory=x --web.max-requests=3", []string{"--web.max-requests: rules does not take this flag"}},
		{"capture --output=x", []string{"--output: capture does not take this flag"}},
		{"check --scenario=healthy --path.sysfs=/sys", []string{"--path.sysfs: check --scenario does not take this flag"}},
		{"@/etc/hostname", []string{`"@/etc/hostname"`, "expected a command or a flag"}},
		{"--config.file @/etc/hostname", []string{`"@/etc/hostname"`}},
		{"serve extra", []string{"extra"}},
		{"--web.listen-address", []string{"--web.listen-address", "expected"}},
		{"--web.listen-address=10791", []string{`--web.listen-address="10791"`, "expected HOST:PORT"}},
		{"--web.listen-address=:http", []string{`--web.listen-address=":http"`, "expected HOST:PORT"}},
		{"--web.listen-address=:65536", []string{`":65536"`, "expected HOST:PORT"}},
		{"--web.systemd-socket --web.listen-address=:1", []string{"--web.systemd-socket", "--web.listen-address", "at most one"}},
		{"--web.telemetry-path=metrics", []string{`--web.telemetry-path="metrics"`, "expected a path"}},
		{"--web.telemetry-path=/{metrics}", []string{`"/{metrics}"`, "expected a path"}},
		{"--web.telemetry-path=/a//b", []string{`"/a//b"`, "expected a path"}},
		{"--web.telemetry-path=/-/ready", []string{`"/-/ready"`, "outside of"}},
		{"--web.telemetry-path=/debug/pprof", []string{`"/debug/pprof"`, "outside of"}},
		{"--web.route-prefix=a", []string{`--web.route-prefix="a"`, "expected a path"}},
		{"--web.external-url=proxy", []string{`--web.external-url="proxy"`, "expected a URL"}},
		{"--web.external-url=http://p/a%20b", []string{"--web.external-url", "the path of the URL", "expected"}},
		{"--web.max-requests=-1", []string{`--web.max-requests="-1"`, "expected a whole number"}},
		{"--web.max-requests=x", []string{`--web.max-requests="x"`, "expected a whole number"}},
		{"--web.max-requests=1 --web.max-requests=2", []string{"web.max-requests", "cannot be repeated"}},
		{"--web.enable-pprof=yes", []string{`--web.enable-pprof="yes"`, "expected no value"}},
		{"--no-collector.hca=1", []string{`--collector.hca="1"`, "expected no value: --collector.hca or --no-collector.hca"}},
		{"--web.config.file=", []string{"--web.config.file", "expected a path"}},
		{"--log.level=loud", []string{`--log.level="loud"`, "expected debug, info, warn or error"}},
		{"--log.format=xml", []string{`--log.format="xml"`, "expected logfmt or json"}},
		{"--timeout-offset=-1", []string{`--timeout-offset="-1"`, "expected a number of seconds"}},
		{"--timeout-offset=NaN", []string{`--timeout-offset="NaN"`, "expected a number of seconds"}},
		{"--timeout-offset=1s", []string{`--timeout-offset="1s"`, "expected a number of seconds"}},
		{"--observer.fast-interval=5", []string{`--observer.fast-interval="5"`, "expected a duration"}},
		{"--observer.slow-interval=0s", []string{`--observer.slow-interval="0s"`, "expected a duration above 0"}},
		{"--observer.slow-interval=1s", []string{`--observer.slow-interval="1s"`, "at least --observer.fast-interval (5s)"}},
		{"--observer.medium-interval=1s", []string{`--observer.medium-interval="1s"`, "at least --observer.fast-interval (5s)"}},
		{"--collector.netdev.stats-include=(", []string{`--collector.netdev.stats-include="("`, "expected a regular expression"}},
		{"--collector.nosuch", []string{"--collector.nosuch"}},
		{"--collector.disable-defaults", []string{"collectors are disabled", "expected at least one --collector.NAME"}},
		{"--collector.device-include=( --collector.device-exclude=x", []string{`--collector.device-include="("`, "expected a regular expression", "missing closing )"}},
		{"--collector.device-exclude=a)(b", []string{`--collector.device-exclude="a)(b"`, "expected a regular expression"}},
		{"--collector.device-include=", []string{"--collector.device-include", "expected a regular expression"}},
		{"--collector.device-include=a --collector.device-exclude=b", []string{"--collector.device-include", "--collector.device-exclude", "at most one"}},
		{"demo --scenario=nosuch", []string{`--scenario="nosuch"`, "demo --list shows all"}},
		{"demo --break-after=0s", []string{`--break-after="0s"`, "above 0"}},
		{"demo --mend-after=1m", []string{"--mend-after", "--break-after"}},
		{"demo --capture=x --break-after=1m", []string{"--capture", "--break-after"}},
		{"demo --path.sysfs=/sys", []string{"--path.sysfs", "demo"}},
		{"demo --config.file=/x", []string{"--config.file", "demo"}},
		{"demo --web.listen-address=0.0.0.0:0", []string{`--web.listen-address="0.0.0.0:0"`, "expected a loopback address"}},
		{"demo --web.listen-address=:0", []string{`--web.listen-address=":0"`, "expected a loopback address"}},
		{"demo --web.listen-address=[::]:0", []string{`"[::]:0"`, "expected a loopback address"}},
		{"demo --web.listen-address=example.com:0", []string{"example.com", "expected a loopback address"}},
	}
	for _, test := range tests {
		t.Run(test.args[:min(len(test.args), 80)], func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // what is not refused ends at once
			var stdout, stderr commandtest.Output
			if code := New(new(Options)).Run(ctx, strings.Fields(test.args), &stdout, &stderr); code != command.Usage {
				t.Errorf("exit code %d", code)
			}
			commandtest.Contains(t, stderr.String(), append(test.want, "gpufabric_exporter: error: ", "(try --help)")...)
			if n := strings.Count(stderr.String(), "\n"); n != 1 || stdout.String() != "" || len(stderr.String()) > 1600 {
				t.Errorf("expected one line, got %q and %q", stderr.String(), stdout.String())
			}
		})
	}
}

func TestFlags(t *testing.T) {
	parse := func(args ...string) (*Options, string) {
		t.Helper()
		var stderr commandtest.Output
		o := new(Options)
		c, _, _ := New(o).Parse(args, io.Discard, &stderr)
		if c == nil {
			t.Fatalf("%v: %s", args, stderr.String())
		}
		return o, c.Name
	}
	o, command := parse()
	web, intervals := o.Exporter.Web, exporter.Intervals{Fast: 5 * time.Second, Medium: 10 * time.Second, Slow: time.Minute}
	if command != "serve" || len(web.Listen) > 0 || web.TelemetryPath != "/metrics" || web.RoutePrefix != "" || web.MaxRequests != 40 ||
		web.TimeoutOffset != 500*time.Millisecond || web.EnablePprof || o.Exporter.Intervals != intervals ||
		o.Site.Paths != (site.Paths{Sysfs: "/sys", Procfs: "/proc", Rootfs: "/"}) {
		t.Errorf("defaults: %s, %+v", command, o)
	}
	var all []string
	for _, a := range collector.Collectors() {
		if a.Default {
			all = append(all, a.Name)
		}
	}
	if !slices.Equal(o.Exporter.Collectors.Enabled, all) {
		t.Errorf("collectors: %v", o.Exporter.Collectors.Enabled)
	}
	if o, command := parse("demo"); command != "demo" || !slices.Equal(o.Exporter.Web.Listen, []string{"127.0.0.1:10791"}) {
		t.Errorf("%s: %+v", command, o)
	}
	if f, _ := parse("--collector.disable-defaults", "--collector.gid"); !slices.Equal(f.Exporter.Collectors.Enabled, []string{"gid"}) {
		t.Errorf("disable-defaults: %v", f.Exporter.Collectors.Enabled)
	}
	if f, _ := parse("--no-collector.gid"); slices.Contains(f.Exporter.Collectors.Enabled, "gid") || len(f.Exporter.Collectors.Enabled) != len(all)-1 {
		t.Errorf("no-collector.gid: %v", f.Exporter.Collectors.Enabled)
	}
	o, _ = parse("--collector.device-exclude=mlx5_1|mlx5_2")
	if o.Site.Devices.Allows("mlx5_1") || o.Site.Devices.Allows("mlx5_2") || !o.Site.Devices.Allows("mlx5_10") || !o.Site.Devices.Allows("xmlx5_2") {
		t.Error("patterns are not matched against whole names")
	}
	if f, _ := parse("--web.external-url=https://proxy.example.com/fabric/"); f.Exporter.Web.RoutePrefix != "/fabric" {
		t.Errorf("route prefix %q", f.Exporter.Web.RoutePrefix)
	}
	if f, _ := parse("--web.external-url=https://proxy.example.com/fabric", "--web.route-prefix=/"); f.Exporter.Web.RoutePrefix != "" {
		t.Errorf("route prefix %q", f.Exporter.Web.RoutePrefix)
	}
	if f, _ := parse("--web.listen-address=:1", "--web.listen-address=[::1]:2"); len(f.Exporter.Web.Listen) != 2 {
		t.Errorf("addresses %v", f.Exporter.Web.Listen)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string][]string{
		"--help":      {"usage: gpufabric_exporter", "--web.listen-address", "--[no-]collector.hca", "--path.sysfs", "demo"},
		"-h":          {"usage: gpufabric_exporter"},
		"demo --help": {"--scenario", "--[no-]list", "--break-after", "--mend-after"},
		"help demo":   {"--scenario"},
		"--version":   {"gpufabric_exporter, version"},
	} {
		var stdout, stderr commandtest.Output
		if code := run(t, Options{}, &stdout, &stderr, strings.Fields(args)...); code != command.OK {
			t.Errorf("%s: exit code %d", args, code)
		}
		commandtest.Contains(t, stdout.String(), want...)
		if stderr.String() != "" {
			t.Errorf("%s: %s", args, stderr.String())
		}
	}
}

// The help of a command has its own flags first, and none that it refuses.
func TestHelpOfCommand(t *testing.T) {
	for name, own := range map[string]string{"advise": "--nodes=N", "report": "--output=", "jobs": "--output="} {
		var stdout, stderr commandtest.Output
		if code := run(t, Options{}, &stdout, &stderr, name, "--help"); code != command.OK {
			t.Fatalf("%s: exit code %d: %s", name, code, stderr.String())
		}
		help := stdout.String()
		first, shared := strings.Index(help, own), strings.Index(help, "--config.file=")
		if first < 0 || shared < first {
			t.Errorf("%s: %s is at %d, the shared flags are at %d:\n%s", name, own, first, shared, help)
		}
		for _, refused := range []string{"--web.listen-address", "--[no-]collector.hca"} {
			if strings.Contains(help, refused) {
				t.Errorf("%s: the help has %s, which the command refuses", name, refused)
			}
		}
	}
}
