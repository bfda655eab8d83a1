// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"slices"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// What check exits with: 0 to 2 tell about the node, 3 about the check itself. Verdicts of severity info do not count: see
// counts. What failed is 1 whatever else went wrong, as when the report cannot be written.
const (
	exitChecked   = 0 // nothing failed, everything could be told
	exitFailed    = 1
	exitUndecided = 2         // nothing failed in what could be told, or no check applies
	exitUnchecked = exitUsage // the command line or the configuration is wrong, the checks could not be made or not be reported
)

// check judges this host, or a simulated node, once.
func check(ctx context.Context, f *flags, o Options) int {
	code, err := exitChecked, error(nil)
	if f.checkExplain != nil {
		var conf config.Config
		if conf, err = f.configFile.Read(); err != nil {
			code = exitUsage
		} else {
			explain(o.Stdout, f.checkExplain, conf.Links)
		}
	} else {
		code, err = judge(ctx, f, o)
	}
	if err != nil {
		complain(o.Stderr, f.explain(err))
	}
	return code
}

// judge observes, prints the verdicts and returns what to exit with.
func judge(ctx context.Context, f *flags, o Options) (int, error) {
	n, conf, err := observeToCheck(ctx, f, o)
	if err != nil {
		return exitUnchecked, errors.Join(err, writeTextfileError(f.checkTextfile, time.Now()))
	}
	if f.writeManifest != "" {
		if err := config.WriteManifest(f.writeManifest, diagnose.NewManifest(n)); err != nil {
			return exitUnchecked, unwritable("write-manifest", f.writeManifest, err)
		}
		return exitChecked, nil
	}
	list := verdictsOf(n, asked(f))
	if len(list) == 0 {
		err := errors.New("no check applies to this node: expected at least one that --only and --severity leave")
		return exitUndecided, errors.Join(err, writeTextfileError(f.checkTextfile, n.At))
	}
	if f.checkOutput == outputJSON {
		err = writeChecksJSON(o.Stdout, conf, list, diagnose.Elsewhere(n))
	} else {
		writeNote(o.Stdout, diagnose.Elsewhere(n))
		err = writeChecks(raw(o.Stdout), conf, list, f.checkVerbose, colours(o.Stdout))
	}
	if f.checkTextfile != "" {
		err = errors.Join(err, writeTextfile(f.checkTextfile, list, n.At))
	}
	switch {
	case counts(f, diagnose.Failures(list)):
		return exitFailed, err
	case err != nil:
		return exitUnchecked, err
	case counts(f, diagnose.Unknowns(list)):
		return exitUndecided, nil
	}
	return exitChecked, nil
}

// observeToCheck observes the node to be judged, and reads what the site expects of it.
func observeToCheck(ctx context.Context, f *flags, o Options) (*fabric.Node, config.Config, error) {
	var manifest fabric.Manifest
	if f.checkManifest != "" {
		var err error
		if manifest, err = config.ReadManifest(f.checkManifest); err != nil {
			return nil, config.Config{}, err
		}
	}
	n, conf, err := observeOnce(ctx, f, o, collector.CheckWants(), f.checkInterval)
	if err == nil && f.checkManifest != "" {
		n = withManifest(n, manifest)
	}
	return n, conf, err
}

// counts tells whether one of the verdicts is a matter for the exit code. What is worth knowing and no more takes no node
// out of service, unless somebody asked for just that.
func counts(f *flags, list []diagnose.Verdict) bool {
	return slices.ContainsFunc(list, func(v diagnose.Verdict) bool {
		return v.Check.Severity != diagnose.Info || f.checkSeverity == diagnose.Info || slices.Contains(f.checkOnly, v.Check.ID)
	})
}

// verdictsOf asks the checks that the flags leave. Where that leaves out the one that tells what could not be read at all,
// it is asked for just that: checks have nothing to say of devices that do not show, and that is no all-clear.
func verdictsOf(n *fabric.Node, checks []*diagnose.Check) []diagnose.Verdict {
	list := diagnose.Run(n, checks)
	reads := func(c *diagnose.Check) bool { return c.ID == diagnose.CheckReads }
	if slices.ContainsFunc(checks, reads) {
		return list
	}
	for _, v := range diagnose.Run(n, []*diagnose.Check{diagnose.Find(diagnose.CheckReads)}) {
		if v.Status == diagnose.OK {
			continue
		}
		if v.Status == diagnose.Failed {
			v.Status, v.Reason = diagnose.Unknown, fabric.ReasonStuck
		}
		at := len(list) - len(withStatus(list, diagnose.OK))
		list = slices.Insert(list, at, v)
	}
	return list
}

func withStatus(list []diagnose.Verdict, s diagnose.Status) []diagnose.Verdict {
	return slices.DeleteFunc(slices.Clone(list), func(v diagnose.Verdict) bool { return v.Status != s })
}

// asked returns the checks that the flags leave. Those that compare two readings are asked with an interval only.
func asked(f *flags) []*diagnose.Check {
	return slices.DeleteFunc(diagnose.Catalogue(), func(c *diagnose.Check) bool {
		return len(f.checkOnly) > 0 && !slices.Contains(f.checkOnly, c.ID) || !severe(c, f.checkSeverity) || c.Rate && f.checkInterval == 0
	})
}

// withManifest returns a node of which the site expects that too.
func withManifest(n *fabric.Node, m fabric.Manifest) *fabric.Node {
	with, policy := *n, *n.Policy
	policy.Manifest = &m
	with.Policy = &policy
	return &with
}

// severe tells that a check is as severe as that or worse; all are, where nobody said how severe.
func severe(c *diagnose.Check, least diagnose.Severity) bool {
	return least == "" || c.Severity.AtLeast(least)
}

// observeOnce observes this host, or the simulated node that the flags name; a second time after the interval, if there
// is one, so that rates show.
func observeOnce(ctx context.Context, f *flags, o Options, want fabric.Want, interval time.Duration) (*fabric.Node, config.Config, error) {
	look, conf, done, err := lookout(f, o)
	if err != nil {
		return nil, conf, err
	}
	defer done()
	n, err := look(ctx, want, 0)
	if err != nil || interval == 0 {
		return n, conf, err
	}
	wait := time.NewTimer(interval)
	defer wait.Stop()
	select {
	case <-wait.C:
		n, err = look(ctx, want, interval)
		return n, conf, err
	case <-ctx.Done():
		return nil, conf, ctx.Err()
	}
}
