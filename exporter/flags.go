// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// The commands.
const (
	commandServe    = "serve"
	commandDemo     = "demo"
	commandCapture  = "capture"
	commandTopology = "topology"
	commandCheck    = "check"
	commandProbe    = "probe"
	commandRules    = "rules"

	commandGPUWorker = "gpu-worker" // these are not for users
	commandProbeRank = "probe-rank"
)

// Where the commands that serve listen unless told otherwise.
const (
	defaultAddress     = ":10791"
	defaultDemoAddress = "127.0.0.1:10791"
)

// flags is the command line, checked.
type flags struct {
	command string

	listen                 []string
	systemdSocket          bool
	webConfigFile          string
	telemetryPath          string
	routePrefix            string // without a trailing slash: "" or "/fabric"
	disableExporterMetrics bool
	maxRequests            int
	enablePprof            bool
	timeoutOffset          time.Duration

	logLevel  slog.Level
	logFormat string

	collectors []string // enabled ones
	devices    fabric.Filter
	statistics *regexp.Regexp // of network interfaces, beside those with a meaning; nil: none

	sysfs, procfs, rootfs string
	netlink               string
	configFile            config.File
	configCheck           bool

	fastInterval, mediumInterval, slowInterval time.Duration

	gpuLibrary     string
	gpuMaintenance string // file; empty: none
	workerLibrary  string // gpuLibrary, as the worker gets it

	demoList     bool
	demoScenario simulator.Scenario
	demoCapture  string
	demoBreak    time.Duration // until the scenario happens to the node; 0: it has from the start
	demoMend     time.Duration // from then until the node is healthy again; 0: it stays so
	simulated    bool          // topology and check look at demoScenario, not at this host

	captureFile    string
	rulesDirectory string

	topologyOutput string

	checkOutput   string
	checkOnly     []string // IDs; empty: all
	checkManifest string   // to compare with; empty: none
	writeManifest string   // to write instead of judging; empty: judge
	checkSeverity diagnose.Severity
	checkInterval time.Duration
	checkExplain  *diagnose.Check
	checkVerbose  bool
	checkTextfile string // file; empty: none

	probe probeFlags
}

// logger returns the logger the flags ask for. Its level can change at run time.
func (f *flags) logger(w io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	level.Set(f.logLevel)
	return newLogger(w, f.logFormat, level)
}

// commandLine is a command line being defined: kingpin's application and what it fills in.
type commandLine struct {
	app *kingpin.Application
	f   *flags
	set map[string]*bool // which flags the user gave

	scenario bool // the user gave --scenario

	prefix      *string // nil: not given
	externalURL string  // path of --web.external-url

	collectors      map[string]*bool
	disableDefaults bool
}

// parseFlags returns the flags, or nil and the exit code when there is nothing left to do.
func parseFlags(args []string, stdout, stderr io.Writer) (*flags, int) {
	c := newCommandLine()
	done, code := false, exitOK
	c.app.UsageWriter(stdout).ErrorWriter(stderr).Version(version.Print(name))
	c.app.Terminate(func(status int) { // after --help and its like
		if !done && status != 0 {
			code = exitUsage
		}
		done = true
		c.app.Writer(io.Discard) // kingpin goes on when this does not end the process
	})
	if len(args) > 0 && c.complete(args[0], args[1:], stdout) {
		return nil, exitOK
	}
	err := c.parse(args)
	if done {
		return nil, code
	}
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		complain(stderr, fmt.Errorf("%w (try --help)", err))
		return nil, exitUsage
	}
	return c.f, exitOK
}

// parse fills in the flags. The default command is put in here: with a default of its own, kingpin drops a
// flag that lacks its value without a word.
func (c *commandLine) parse(args []string) error {
	if err := c.checkWords(args); err != nil {
		return err
	}
	given, err := c.app.ParseContext(args)
	if _, unknown := c.read(args); unknown != nil {
		return unknown
	}
	if err != nil {
		return err
	}
	asks := func(e *kingpin.ParseElement) bool { return e.Clause == c.app.HelpFlag || e.Clause == c.app.VersionFlag }
	if given.SelectedCommand == nil && !slices.ContainsFunc(given.Elements, asks) {
		args = append([]string{commandServe}, args...)
	}
	c.f.command, err = c.app.Parse(args)
	return err
}

func newCommandLine() *commandLine {
	app := kingpin.New(name, "Tells Prometheus what the training fabric of this node is: RDMA devices, ports, GIDs and the NCCL configuration.")
	app.HelpFlag.Short('h')
	c := &commandLine{app: app, f: new(flags), set: map[string]*bool{}, collectors: map[string]*bool{}}
	app.Command(commandServe, "Serve the metrics of this host. It is the default.")
	d := app.Command(commandDemo, "Serve the metrics of a simulated node, on loopback only.")
	d.Flag("list", "List the scenarios and exit.").BoolVar(&c.f.demoList)
	d.Flag("scenario", "What the simulated node is like; see --list.").Default("healthy").
		IsSetByUser(&c.scenario).SetValue(c.scenarioValue())
	d.Flag("capture", "Serve the node of a capture instead of a simulated one.").PlaceHolder("FILE").
		SetValue(&flagValue{name: "capture", set: into(&c.f.demoCapture, parseFile)})
	d.Flag("break-after", "How long the node is healthy before the scenario happens to it, to watch alerts come.").PlaceHolder("DURATION").
		SetValue(&flagValue{name: "break-after", set: into(&c.f.demoBreak, parseInterval)})
	d.Flag("mend-after", "How long after that it is healthy again, to watch them go.").PlaceHolder("DURATION").
		SetValue(&flagValue{name: "mend-after", set: into(&c.f.demoMend, parseInterval)})
	t := app.Command(commandCapture, "Write an archive of what is read of this host, with all identifiers replaced, for a report of a problem.")
	t.Flag("file", "The file to write, a tar.gz; - is the standard output.").Default(defaultCapture).
		SetValue(&flagValue{name: "file", set: into(&c.f.captureFile, parseFile)})
	p := app.Command(commandTopology, "Print how far GPUs and RDMA NICs are from each other on the PCI bus, and which NIC is nearest to which GPU.")
	c.output(p, &c.f.topologyOutput)
	c.simulated(p)
	c.defineCheck()
	c.defineProbe()
	c.defineRules()
	w := app.Command(commandGPUWorker, "Asks NVIDIA's driver for another process of this program, which starts it.").Hidden()
	w.Flag("library", "The NVML library.").Required().SetValue(&flagValue{name: "library", set: into(&c.f.workerLibrary, parseFile)})
	app.Command(commandProbeRank, "Runs NCCL for another process of this program, which starts it.").Hidden()
	c.defineWeb()
	c.defineLog()
	c.defineCollectors()
	c.defineNode()
	c.defineGPU()
	return c
}

// simulated lets a command look at a simulated node.
func (c *commandLine) simulated(command *kingpin.CmdClause) {
	command.Flag("scenario", "Of a simulated node instead of this host; see demo --list.").PlaceHolder("NAME").
		IsSetByUser(&c.f.simulated).SetValue(c.scenarioValue())
}

func (c *commandLine) defineWeb() {
	f := c.f
	define(c, "web.listen-address", "Address to listen on, HOST:PORT. Repeatable. Default "+defaultAddress+", for demo "+defaultDemoAddress+".", "",
		appendTo(&f.listen, parseAddress)).PlaceHolder(defaultAddress)
	c.bool("web.systemd-socket", "Take the listening sockets from systemd instead.", &f.systemdSocket)
	define(c, "web.config.file", "File that enables TLS, client certificates or basic authentication (exporter-toolkit's format).", "",
		into(&f.webConfigFile, parseFile)).PlaceHolder("FILE")
	define(c, "web.telemetry-path", "Path of the metrics.", "/metrics", into(&f.telemetryPath, parsePath))
	define(c, "web.route-prefix", "Prefix of all paths. Default: the path of --web.external-url.", "", func(s string) error {
		p, err := parsePath(s)
		c.prefix = &p
		return err
	}).PlaceHolder("/")
	define(c, "web.external-url", "URL under which a reverse proxy offers this exporter.", "",
		into(&c.externalURL, parseURLPath)).PlaceHolder("URL")
	c.bool("web.disable-exporter-metrics", "Leave out metrics about the exporter's process (go_*, process_*, promhttp_*); gpufabric_exporter_build_info stays.", &f.disableExporterMetrics)
	define(c, "web.max-requests", "Requests served at a time, the others get 503; 0: any number.", "40", into(&f.maxRequests, parseCount))
	c.bool("web.enable-pprof", "Serve profiles of the exporter under /debug/pprof/.", &f.enablePprof)
	define(c, "timeout-offset", "Seconds by which a scrape ends before Prometheus gives it up.", "0.5", into(&f.timeoutOffset, parseSeconds))
}

func (c *commandLine) defineLog() {
	define(c, "log.level", "Least level that is logged: debug, info, warn, error.", "info", into(&c.f.logLevel, parseLevel), levels()...)
	define(c, "log.format", "Format of the log: logfmt, json.", formatLogfmt, into(&c.f.logFormat, oneOf(formatLogfmt, formatJSON)),
		formatLogfmt, formatJSON)
}

func (c *commandLine) defineCollectors() {
	for _, i := range collector.Collectors() {
		state := "disabled"
		if i.Default {
			state = "enabled"
		}
		on := i.Default
		c.collectors[i.Name] = &on
		c.bool("collector."+i.Name, fmt.Sprintf("Collector %s: %s (default: %s).", i.Name, i.Help, state), &on)
	}
	c.bool("collector.disable-defaults", "Run only the collectors that are named.", &c.disableDefaults)
	define(c, "collector.device-include", "Touch only RDMA devices whose whole name matches.", "",
		into(&c.f.devices.Include, config.ParsePattern)).PlaceHolder("REGEXP")
	define(c, "collector.device-exclude", "Do not touch RDMA devices whose whole name matches.", "",
		into(&c.f.devices.Exclude, config.ParsePattern)).PlaceHolder("REGEXP")
	define(c, "collector.netdev.stats-include", "Read statistics of network interfaces whose whole name (ethtool -S) matches, beside those that have a metric of their own.", "",
		into(&c.f.statistics, config.ParsePattern)).PlaceHolder("REGEXP")
}

func (c *commandLine) defineNode() {
	f := c.f
	define(c, "path.sysfs", "Where sysfs is mounted.", "/sys", into(&f.sysfs, parseFile))
	define(c, "path.procfs", "Where procfs is mounted.", "/proc", into(&f.procfs, parseFile))
	define(c, "path.rootfs", "Where the file system of the host is mounted.", "/", into(&f.rootfs, parseFile))
	define(c, "path.netlink", "Folder of recorded answers of the kernel that belong to --path.sysfs: netlink of a capture.", "",
		into(&f.netlink, parseFile)).PlaceHolder("DIR")
	define(c, "config.file", "What the site expects of its nodes (YAML). Read again on SIGHUP and on POST /-/reload. The default file may be missing; "+config.NoFile+": read no file.", config.DefaultFile,
		into(&f.configFile.Path, parseFile))
	c.bool("config.check", "Check the configuration files and exit.", &f.configCheck)
	define(c, "observer.fast-interval", "How long scrapes share one reading of the hardware.", observer.DefaultFastInterval.String(),
		into(&f.fastInterval, parseInterval))
	define(c, "observer.medium-interval", "How long scrapes share one reading of the statistics of network interfaces, which cost the driver much.", observer.DefaultMediumInterval.String(),
		into(&f.mediumInterval, parseInterval))
	define(c, "observer.slow-interval", "How long facts that hardly change are not read again.", observer.DefaultSlowInterval.String(),
		into(&f.slowInterval, parseInterval))
}

func (c *commandLine) defineGPU() {
	define(c, "gpu.nvml-library", "NVIDIA's management library (NVML), by name or path. A process of its own loads it.", "libnvidia-ml.so.1",
		into(&c.f.gpuLibrary, parseFile))
	define(c, "gpu.maintenance-file", "While this file exists, no GPU is held open. SIGUSR1 does the same until the next SIGUSR1.", "",
		into(&c.f.gpuMaintenance, parseFile)).PlaceHolder("FILE")
}

// define adds a flag whose value goes to set, and is one of the words where there are some.
func define(c *commandLine, name, help, def string, set func(string) error, words ...string) *kingpin.FlagClause {
	f := c.app.Flag(name, help)
	if def != "" {
		f.Default(def)
	}
	c.set[name] = new(bool)
	f.IsSetByUser(c.set[name]).SetValue(&flagValue{
		name: name, set: set, words: func() []string { return words }, repeatable: name == "web.listen-address",
	})
	return f
}

// bool adds a switch: --name and --no-name. What *to is before is the default.
func (c *commandLine) bool(name, help string, to *bool) {
	c.set[name] = new(bool)
	c.app.Flag(name, help).Default(strconv.FormatBool(*to)).IsSetByUser(c.set[name]).BoolVar(to)
}

// checkWords refuses what kingpin takes for something else: --switch=value for a switch and a stray argument,
// and @file for arguments to be read from a file.
func (c *commandLine) checkWords(args []string) error {
	for _, a := range args {
		if strings.HasPrefix(a, "@") {
			return fmt.Errorf("%q: expected a command or a flag", a)
		}
		flag, value, found := strings.Cut(a, "=")
		if !found || !strings.HasPrefix(flag, "--") {
			continue
		}
		n := strings.TrimPrefix(flag, "--")
		if f := c.app.GetFlag(strings.TrimPrefix(n, "no-")); f != nil && f.Model().IsBoolFlag() {
			n = strings.TrimPrefix(n, "no-")
			return fmt.Errorf("--%s=%q: expected no value: --%s or --no-%s", n, value, n, n)
		}
	}
	return nil
}

// finish checks what single flags cannot know, and fills in what follows from several.
func (c *commandLine) finish() error {
	f := c.f
	for _, i := range collector.Collectors() {
		given := *c.set["collector."+i.Name]
		if *c.collectors[i.Name] && (given || !c.disableDefaults) {
			f.collectors = append(f.collectors, i.Name)
		}
	}
	f.routePrefix = c.externalURL
	if c.prefix != nil {
		f.routePrefix = *c.prefix
	}
	f.routePrefix = strings.TrimSuffix(f.routePrefix, "/")
	f.configFile.Optional = !*c.set["config.file"]
	if f.configFile.Path == config.NoFile {
		f.configFile.Path = ""
	}
	if len(f.listen) == 0 {
		f.listen = []string{defaultAddress}
		if f.command == commandDemo {
			f.listen = []string{defaultDemoAddress}
		}
	}
	if !*c.set["observer.medium-interval"] {
		f.mediumInterval = max(f.mediumInterval, f.fastInterval)
	}
	return cmp.Or(c.checkTaken(), c.checkCombinations(), c.checkDemo(), c.checkCheck(), c.checkProbe())
}

func (c *commandLine) checkCombinations() error {
	f := c.f
	reserved := func(p string) bool {
		return p == "/-" || p == "/debug" || p == probesPath || p == probesPath+".json" || strings.HasPrefix(p, "/-/") || strings.HasPrefix(p, "/debug/")
	}
	switch {
	case f.devices.Include != nil && f.devices.Exclude != nil:
		return errors.New("--collector.device-include and --collector.device-exclude: expected at most one of them")
	case len(f.collectors) == 0:
		return errors.New("all collectors are disabled: expected at least one --collector.NAME")
	case reserved(f.telemetryPath):
		return fmt.Errorf("--web.telemetry-path=%q: expected a path outside of /-/, /debug/ and "+probesPath, f.telemetryPath)
	case f.slowInterval < f.fastInterval:
		return fmt.Errorf("--observer.slow-interval=%q: expected at least --observer.fast-interval (%s)", f.slowInterval, f.fastInterval)
	case f.mediumInterval < f.fastInterval:
		return fmt.Errorf("--observer.medium-interval=%q: expected at least --observer.fast-interval (%s)", f.mediumInterval, f.fastInterval)
	case f.configCheck && f.configFile.Path == "":
		return fmt.Errorf("--config.check: expected a file, not --config.file=%s", config.NoFile)
	case f.systemdSocket && *c.set["web.listen-address"]:
		return errors.New("--web.systemd-socket and --web.listen-address: expected at most one of them")
	}
	return nil
}
