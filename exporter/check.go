// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// What check exits with. A check that cannot be made is no all-clear either.
const (
	exitChecked   = 0 // nothing failed, everything could be told
	exitFailed    = 1
	exitUndecided = 2 // nothing failed in what could be told
)

// checkWants is what the checks read.
const checkWants = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantCounters | fabric.WantQoS | fabric.WantNetStats | fabric.WantPCI | fabric.WantGPU

// check judges this host, or a simulated node, once.
func check(ctx context.Context, f *flags, o Options) int {
	if f.checkExplain != nil {
		explain(o.Stdout, f.checkExplain)
		return exitChecked
	}
	n, err := observeOnce(ctx, f, o, checkWants, f.checkInterval)
	if err != nil {
		fmt.Fprintf(o.Stderr, "%s: error: %v\n", name, err)
		return exitUndecided
	}
	list := diagnose.Run(n, asked(f))
	switch f.checkOutput {
	case outputJSON:
		err = writeChecksJSON(o.Stdout, list)
	default:
		writeChecks(o.Stdout, list, f.checkVerbose, colours(o.Stdout))
	}
	if err != nil {
		fmt.Fprintf(o.Stderr, "%s: error: %v\n", name, err)
		return exitUndecided
	}
	switch {
	case len(diagnose.Failures(list)) > 0:
		return exitFailed
	case len(diagnose.Unknowns(list)) > 0:
		return exitUndecided
	}
	return exitChecked
}

// asked returns the checks that the flags leave. Those that compare two readings are asked with an interval only.
func asked(f *flags) []*diagnose.Check {
	worst := slices.Index(diagnose.Severities(), f.checkSeverity)
	return slices.DeleteFunc(diagnose.Catalogue(), func(c *diagnose.Check) bool {
		named := slices.Contains(f.checkOnly, c.ID)
		return len(f.checkOnly) > 0 && !named || slices.Index(diagnose.Severities(), c.Severity) > worst || c.Rate && f.checkInterval == 0 && !named
	})
}

// writeChecks prints a table: what failed first, each with what was seen and what to do.
func writeChecks(w io.Writer, list []diagnose.Verdict, verbose bool, paint painter) {
	var good []string
	count := map[diagnose.Status]int{}
	for _, t := range together(list) {
		count[t.Status]++
		switch t.Status {
		case diagnose.Failed:
			fmt.Fprintf(w, "%s  %-8s  %-24s  %s: %s\n", paint(red, "FAILED "), t.Check.Severity, t.Check.ID, strings.Join(t.subjects, ", "), t.What)
			for _, line := range []string{t.Evidence, t.Consequence} {
				indent(w, line)
			}
			indent(w, prefixed("Do: ", t.Remedy))
			indent(w, "Runbook: "+runbook(t.Check))
		case diagnose.Unknown:
			fmt.Fprintf(w, "%s  %-8s  %-24s  %s: %s\n", paint(yellow, "UNKNOWN"), t.Check.Severity, t.Check.ID, strings.Join(t.subjects, ", "), t.Evidence)
		default:
			if verbose {
				fmt.Fprintf(w, "%s  %-8s  %-24s  %s\n", paint(green, "ok     "), t.Check.Severity, t.Check.ID, strings.Join(t.subjects, ", "))
			}
			if !slices.Contains(good, t.Check.ID) {
				good = append(good, t.Check.ID)
			}
		}
	}
	fmt.Fprintf(w, "%d failed, %d unknown, %d checks fine\n", count[diagnose.Failed], count[diagnose.Unknown], len(good))
}

func indent(w io.Writer, line string) {
	if line != "" {
		fmt.Fprintf(w, "         %s\n", line)
	}
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// runbook is the page about a check, below the source of the project.
func runbook(c *diagnose.Check) string { return "alerts/runbooks/check-" + c.Topic + ".md" }

// checkVerdict is what the JSON of check promises.
type checkVerdict struct {
	Check       string `json:"check"`
	Severity    string `json:"severity"`
	Status      string `json:"status"`
	Device      string `json:"device,omitempty"`
	Port        int    `json:"port,omitempty"`
	GPU         string `json:"gpu,omitempty"`
	File        string `json:"file,omitempty"`
	Reason      string `json:"unknown_reason,omitempty"`
	What        string `json:"what"`
	Evidence    string `json:"evidence,omitempty"`
	Consequence string `json:"consequence,omitempty"`
	Remedy      string `json:"remedy,omitempty"`
	Runbook     string `json:"runbook"`
}

func writeChecksJSON(w io.Writer, list []diagnose.Verdict) error {
	report := struct {
		Failed   int            `json:"failed"`
		Unknown  int            `json:"unknown"`
		OK       int            `json:"ok"`
		Verdicts []checkVerdict `json:"verdicts"`
	}{Verdicts: []checkVerdict{}}
	for _, v := range list {
		switch v.Status {
		case diagnose.Failed:
			report.Failed++
		case diagnose.Unknown:
			report.Unknown++
		default:
			report.OK++
		}
		report.Verdicts = append(report.Verdicts, checkVerdict{
			Check: v.Check.ID, Severity: string(v.Check.Severity), Status: string(v.Status), Device: v.Subject.Device, Port: v.Subject.Port,
			GPU: v.Subject.GPU, File: v.Subject.File, Reason: string(v.Reason), What: v.What, Evidence: v.Evidence, Consequence: v.Consequence,
			Remedy: v.Remedy, Runbook: runbook(v.Check),
		})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// explain prints all there is to say about a check.
func explain(w io.Writer, c *diagnose.Check) {
	fmt.Fprintf(w, "%s (%s)\n  %s.\n", c.ID, c.Severity, c.Title)
	for _, row := range [][2]string{
		{"About", "each " + string(c.Scope)}, {"Reads", c.Reads}, {"Asked", c.Guard}, {"Finds", strings.Join(c.Modes, ", ")}, {"Runbook", runbook(c)},
	} {
		if row[1] != "" {
			fmt.Fprintf(w, "  %-8s %s\n", row[0]+":", row[1])
		}
	}
	if c.Rate {
		fmt.Fprintln(w, "  It compares two readings: asked with --interval, and by alert rules.")
	}
}

// observeOnce observes this host, or the simulated node that the flags name; a second time after the interval, if there
// is one, so that rates show.
func observeOnce(ctx context.Context, f *flags, o Options, want fabric.Want, interval time.Duration) (*fabric.Node, error) {
	look, done, err := lookout(f, o)
	if err != nil {
		return nil, err
	}
	defer done()
	n, err := look(ctx, want, 0)
	if err != nil || interval == 0 {
		return n, err
	}
	wait := time.NewTimer(interval)
	defer wait.Stop()
	select {
	case <-wait.C:
		return look(ctx, want, interval)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
