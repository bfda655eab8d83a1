// SPDX-License-Identifier: Apache-2.0

// Package check is the command check: it judges this host, or a simulated node, once.
package check

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// Exit codes of check: 0 to 2 are about the node, 3 is about the check itself. Verdicts of severity info do not count:
// see counts. If a check failed, the code is 1 even if the report cannot be written.
const (
	exitChecked   = command.OK // nothing failed, everything could be judged
	exitFailed    = 1
	exitUndecided = 2 // nothing failed in what could be judged, or no check applies
	// the command line or the configuration is wrong, the checks could not be made or not be reported
	exitUnchecked = command.Usage
)

// checking is one call of the command.
type checking struct {
	site *site.Site
	log  *logging.Flags

	expected      fabric.InsideExpected
	inside        bool // the environment of a job is checked, and not the node
	json          bool
	only          []string // IDs; empty: all
	severity      verdict.Severity
	interval      time.Duration
	manifest      string // to compare with; empty: none
	writeManifest string // to write instead of judging; empty: judge
	explain       *verdict.Check
	accept        []string // devices of which the record is to forget what they had; empty: judge
	textfile      string   // file; empty: none
	verbose       bool
	scenario      *simulator.Scenario // nil: this host
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	k := &checking{site: s, log: log}
	return &command.Command{
		Name:    "check",
		Help:    "Check this node: print what is wrong, why, and how to fix it. Exit code 0: all checks passed; 1: a check failed; 2: no check failed, but some are unknown or none applies; 3: the command line or the configuration is wrong, or the checks could not be run or reported. Verdicts of severity info do not count, unless selected by --severity=info or --only.",
		Define:  k.define,
		Takes:   []command.Group{&s.Config, log, &s.Devices},
		OnHost:  []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:     k.run,
		Refused: refused,
	}
}

func (k *checking) run(ctx context.Context, c *command.Call) int {
	code, err := exitChecked, error(nil)
	if k.explain != nil {
		var conf config.Config
		if conf, err = k.site.Config.Read(); err != nil {
			code = command.Usage
		} else {
			explain(c.Stdout, k.explain, conf.Links)
		}
	} else if len(k.accept) > 0 {
		code, err = k.forget(ctx, c)
	} else {
		code, err = k.judge(ctx, c)
	}
	if err != nil {
		c.Complain(err)
	}
	return code
}

// judge observes, prints the verdicts and returns the exit code.
func (k *checking) judge(ctx context.Context, c *command.Call) (int, error) {
	n, conf, err := k.observe(ctx, c)
	if err != nil {
		return exitUnchecked, errors.Join(err, writeTextfileError(k.textfile, time.Now()))
	}
	if k.writeManifest != "" {
		if err := config.WriteManifest(k.writeManifest, node.NewManifest(n)); err != nil {
			return exitUnchecked, command.Unwritable("write-manifest", k.writeManifest, err)
		}
		return exitChecked, nil
	}
	list, note := []verdict.Verdict(nil), diagnose.Elsewhere(n)
	if k.inside {
		note = nccl.InsideNote(n)
		if list, err = k.insideVerdicts(n); err != nil {
			return exitUnchecked, err
		}
	} else {
		list = verdictsOf(n, k.asked())
		if len(k.only) == 0 {
			note = strings.Join(strings.Fields(note+" "+gpu.GPUsNotAsked(n)+" "+diagnose.UnprovenNote(n)+" "+n.Unrecorded), " ")
		}
	}
	if len(list) == 0 {
		err := errors.New("no check applies to this node with the given --only and --severity")
		return exitUndecided, errors.Join(err, writeTextfileError(k.textfile, n.At))
	}
	if k.json {
		err = k.writeJSON(c.Stdout, n, conf, list, note)
	} else {
		k.writeJudged(c.Stdout, n)
		writeNote(c.Stdout, note)
		err = writeTable(command.Raw(c.Stdout), n, conf, list, k.verbose, command.Colours(c.Stdout))
		k.writeLeftOut(c.Stdout)
	}
	if k.textfile != "" {
		err = errors.Join(err, writeTextfile(k.textfile, list, n.At))
	}
	switch {
	case k.counts(verdict.Failures(list)):
		return exitFailed, err
	case err != nil:
		return exitUnchecked, err
	case k.counts(verdict.Unknowns(list)):
		return exitUndecided, nil
	}
	return exitChecked, nil
}

// observe observes the node, and reads what the site expects of it.
func (k *checking) observe(ctx context.Context, c *command.Call) (*fabric.Node, config.Config, error) {
	var manifest fabric.Manifest
	if k.manifest != "" {
		var err error
		if manifest, err = config.ReadManifest(k.manifest); err != nil {
			return nil, config.Config{}, err
		}
	}
	at, want := *k.site, collector.CheckWants()
	if k.inside {
		at.LibraryPath, at.Home = os.Getenv("LD_LIBRARY_PATH"), jobHome()
		// the GPU driver is not queried: a prolog must not wait for it
		want = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantInside
	}
	n, conf, err := at.ObserveOnce(ctx, k.scenario, want, k.interval, k.log.Logger(c.Stderr))
	if err == nil && n.Inside != nil {
		with, in := *n, *n.Inside
		in.Expected, with.Inside = k.expected, &in
		n = &with
	}
	if err == nil && k.manifest != "" {
		n = withManifest(n, manifest)
	}
	return n, conf, err
}

// counts reports whether one of the verdicts counts for the exit code. A verdict of severity info takes no node out of
// service, unless the flags ask for that severity or check.
func (k *checking) counts(list []verdict.Verdict) bool {
	return slices.ContainsFunc(list, func(v verdict.Verdict) bool {
		return v.Check.Severity != verdict.Info || k.severity == verdict.Info || slices.Contains(k.only, v.Check.ID)
	})
}

// verdictsOf runs the checks that the flags select. If these do not include the check of failed reads, it
// runs, too, and what could not be read is unknown: other checks have no verdict on devices that are not
// visible, and that must not look like ok.
func verdictsOf(n *fabric.Node, checks []*verdict.Check) []verdict.Verdict {
	list := diagnose.Run(n, checks)
	reads := func(c *verdict.Check) bool { return c.ID == verdict.CheckReads }
	if slices.ContainsFunc(checks, reads) {
		return list
	}
	for _, v := range diagnose.Run(n, []*verdict.Check{diagnose.Find(verdict.CheckReads)}) {
		if v.Status == verdict.OK {
			continue
		}
		if v.Status == verdict.Failed {
			v.Status, v.Reason = verdict.Unknown, fabric.ReasonStuck
		}
		at := len(list) - len(verdict.WithStatus(list, verdict.OK))
		list = slices.Insert(list, at, v)
	}
	return list
}

// asked returns the checks that the flags select. Those that compare two readings need an interval.
func (k *checking) asked() []*verdict.Check {
	all := diagnose.Catalogue()
	if k.inside {
		all = diagnose.Inside()
	}
	return slices.DeleteFunc(all, func(c *verdict.Check) bool {
		return len(k.only) > 0 && !slices.Contains(k.only, c.ID) || !severe(c, k.severity) || c.Rate && k.interval == 0
	})
}

// withManifest returns a node with the manifest among the expectations of the site.
func withManifest(n *fabric.Node, m fabric.Manifest) *fabric.Node {
	policy := *n.Policy
	policy.Manifest = &m
	return n.WithPolicy(&policy)
}

// severe reports whether a check is at least as severe as least; empty: all are.
func severe(c *verdict.Check, least verdict.Severity) bool {
	return least == "" || c.Severity.AtLeast(least)
}
