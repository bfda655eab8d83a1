// SPDX-License-Identifier: Apache-2.0

// Package report is the command report: it writes a report on NCCL of this host, or of a simulated node, for
// other people.
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/demo"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/report"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/state"
)

// format is what a report is written as.
type format string

const (
	markdown format = "markdown"
	html     format = "html"
	asJSON   format = "json"
)

// Bounds of files that are read.
const (
	maxBefore  = 16 << 20 // of a node of 128 ports: less than 1 MiB
	maxResults = 8 << 20
)

// reporting is one call of the command.
type reporting struct {
	site *site.Site
	log  *logging.Flags

	format    format
	results   []string // files of results of probes; empty: those that the exporter keeps
	logFile   string   // empty: none
	before    string   // empty: none
	iteration *report.Iteration
	scenario  *simulator.Scenario // nil: this host

	wait time.Duration // for the end of a log that is no regular file
}

// maxWait bounds the wait for the end of a log that is no regular file: a pipe may have no writer. That for
// the standard input is bounded by the caller.
const maxWait = 30 * time.Second

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	return (&reporting{site: s, log: log, wait: maxWait}).command()
}

func (k *reporting) command() *command.Command {
	s := k.site
	return &command.Command{
		Name:   "report",
		Help:   "Write a report on NCCL of this node to hand to others: what the node is, what is wrong and why, what was measured, which settings to change and why. It measures nothing by itself. A report is no verdict: exit code 0: it was written, whatever it says; 1: it could not be made or written; 3: the command line, the configuration or a file that was named is wrong.",
		Define: k.define,
		Takes:  []command.Group{&s.Config, k.log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    k.run,
	}
}

func (k *reporting) define(f *command.Flags) {
	f.Add("output", "Format: markdown, html (one page without assets), json (for programs, and for --before).",
		command.Choice(&k.format, markdown, html, asJSON)).
		Short('o').Default(string(markdown))
	f.Add("probe",
		"Results of probes: output of probe --output=json, or /probes.json of the exporter. Repeatable. Default: what the exporter of this host keeps.",
		command.Append(&k.results, command.ParseFile)).PlaceHolder("FILE")
	f.Add("log", "Log of a job to take evidence from, as explain does; - is the standard input.",
		command.File(&k.logFile)).PlaceHolder("FILE")
	f.Add("before", "Compare with this earlier report of --output=json.", command.File(&k.before)).PlaceHolder("FILE")
	f.Add("iteration-ms",
		"Times of a training iteration in milliseconds, before and after a change, as your training script logs them.",
		command.Into(&k.iteration, parseIteration)).PlaceHolder("BEFORE,AFTER")
	site.AddScenario(f, &k.scenario)
}

// parseIteration parses BEFORE,AFTER.
func parseIteration(s string) (*report.Iteration, error) {
	expected := errors.New("expected two times in milliseconds above 0 and up to a day, BEFORE,AFTER such as 812.5,640")
	parts := strings.Split(s, ",")
	if len(parts) != 2 {
		return nil, expected
	}
	var times [2]time.Duration
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || !(v >= 1e-3 && v <= 24*60*60*1000) { // a microsecond at least
			return nil, expected
		}
		times[i] = time.Duration(v * float64(time.Millisecond))
	}
	return &report.Iteration{Before: times[0], After: times[1]}, nil
}

func (k *reporting) run(ctx context.Context, c *command.Call) int {
	in, before, err := k.files(ctx)
	if err != nil {
		c.Complain(err)
		return command.Usage
	}
	if err := k.observe(ctx, c, &in); err != nil {
		return c.Fail(err)
	}
	if err := k.name(ctx, &in); err != nil {
		return c.Fail(err)
	}
	if err := write(c.Stdout, k.format, report.Collect(&in), before); err != nil {
		return c.Fail(err)
	}
	return command.OK
}

// observe reads the node, and its jobs for some seconds longer.
func (k *reporting) observe(ctx context.Context, c *command.Call, in *report.Input) error {
	look, conf, done, err := k.site.Open(ctx, k.scenario, k.log.Logger(c.Stderr))
	if err != nil {
		return err
	}
	defer done()
	wants := collector.CheckWants() | plan.Wants | job.Wants
	n, err := look(ctx, wants, 0)
	in.Traffic = k.scenario != nil && k.scenario.OverTime // one reading does not show its fault
	if err == nil && in.Traffic {
		if err = wait(ctx, betweenScenario); err == nil {
			n, err = look(ctx, wants, betweenScenario)
		}
	}
	if err != nil {
		return err
	}
	in.Node, in.Config, in.Verdicts = n, conf, verdicts(n, in.Traffic)
	if k.scenario != nil || k.site.ThisHost() {
		in.Jobs, err = k.jobs(ctx, look, n)
	}
	return err
}

// Readings of running jobs. On a busy node, one may be late.
const (
	betweenReadings = 5 * time.Second
	betweenScenario = 2 * time.Second // of a node whose fault shows over time only
	mostReadings    = 3
)

// jobs follows the jobs from a first reading until two of each could be compared. A simulated node is read at once.
func (k *reporting) jobs(ctx context.Context, look site.Look, first *fabric.Node) (job.Jobs, error) {
	var tracker job.Tracker
	jobs := tracker.Update(first)
	for i := 1; i < mostReadings && jobs.Known && !jobs.Compared(); i++ {
		further := time.Duration(i) * betweenReadings
		if k.scenario == nil {
			if err := wait(ctx, betweenReadings); err != nil {
				return jobs, err
			}
		}
		n, err := look(ctx, job.Wants, further)
		if err != nil {
			return jobs, err
		}
		if k.scenario != nil {
			later := *n
			later.Ranks.At = first.Ranks.At.Add(further)
			n = &later
		}
		jobs = tracker.Update(n)
	}
	return jobs, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verdicts runs all checks, those that compare two readings where there are two.
func verdicts(n *fabric.Node, traffic bool) []verdict.Verdict {
	var checks []*verdict.Check
	for _, c := range diagnose.Catalogue() {
		if traffic || !c.Rate {
			checks = append(checks, c)
		}
	}
	return diagnose.Run(n, checks)
}

// files reads what the flags name.
func (k *reporting) files(ctx context.Context) (in report.Input, before *report.Facts, err error) {
	in = report.Input{
		Program: command.Name + " " + cmp.Or(version.Version, "without a version"), Iteration: k.iteration,
		LogFile: k.logFile,
	}
	for _, name := range k.results {
		data, err := files.Read(name, maxResults)
		var all []probes.Result
		if err == nil {
			all, err = state.ParseResults(data, time.Now())
		}
		if err != nil {
			return in, nil, named("probe", name, err, "the output of probe --output=json, or /probes.json")
		}
		in.Results = append(in.Results, all...)
	}
	in.ResultsFrom = "from " + strings.Join(k.results, ", ")
	if k.before != "" {
		data, err := files.Read(k.before, maxBefore)
		if err == nil {
			before, err = report.ParseFacts(data)
		}
		if err != nil {
			return in, nil, named("before", k.before, err, "the output of report --output=json")
		}
	}
	if k.logFile != "" {
		if info, err := os.Stat(k.logFile); err == nil && !info.Mode().IsRegular() && k.logFile != explain.StandardInput {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, k.wait)
			defer cancel()
		}
		if in.Log, err = explain.ReadFile(ctx, k.logFile, os.Stdin); err != nil {
			return in, nil, fmt.Errorf("--log=%.512q: %w", k.logFile, err)
		}
	}
	return in, before, nil
}

func named(flag, file string, err error, expected string) error {
	return fmt.Errorf("--%s=%.512q: %w: expected %s", flag, file, err, expected)
}

// name adds what is not read of the node itself: its name, and the results of probes where no file has them.
func (k *reporting) name(ctx context.Context, in *report.Input) error {
	if s := k.scenario; s != nil {
		built := s.Build()
		in.Name, in.Simulated = built.Host.Name, s.Name
		if len(k.results) > 0 || len(built.GPUs) == 0 {
			return nil
		}
		r, err := demo.NewRehearsal(func() simulator.NCCL { return built.NCCL }, s.Healthy())
		if err != nil {
			return err
		}
		status := r.Past(in.Node, time.Now())
		in.Results, in.ResultsFrom = status.Results(), "simulated"
		return nil
	}
	in.Name, _ = os.Hostname()
	if len(k.results) == 0 {
		in.Results, in.ResultsFrom, in.ResultsNote = k.saved(ctx, in.Config)
	}
	return nil
}

// saved are the results that the exporter of this host keeps, or why there are none.
func (k *reporting) saved(ctx context.Context, conf config.Config) (all []probes.Result, from, note string) {
	file := conf.ByHand.StateFile
	switch {
	case !k.site.ThisHost():
		return nil, "", "Probes of the host that the files are of are not known: --probe names results."
	case file == "":
		return nil, "", "The exporter keeps no results of probes (probes.state_file): --probe names results."
	}
	all, err := state.SavedResults(ctx, file, time.Now())
	switch {
	case errors.Is(err, os.ErrPermission):
		note = fmt.Sprintf("Results of probes in %s may not be read by user %d", file, os.Geteuid())
	case err != nil:
		note = "Results of probes could not be read: " + err.Error()
	case all == nil:
		note = "The exporter has kept no results of probes in " + file
	}
	return all, "saved in " + file, note
}

// write writes a report in a format.
func write(w io.Writer, as format, f *report.Facts, before *report.Facts) error {
	switch as {
	case asJSON:
		return command.JSON(w, f)
	case html:
		return document.WriteHTML(w, f.Document(before))
	}
	return document.WriteMarkdown(w, f.Document(before))
}
