// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// writeTable prints a table: what failed first, each with what was seen and what to do. All but what paint
// adds is legible.
func writeTable(w io.Writer, n *fabric.Node, conf config.Config, list []verdict.Verdict, verbose bool,
	paint command.Painter,
) error {
	var b bytes.Buffer
	good, count := map[*verdict.Check]bool{}, map[verdict.Status]int{} // good: has verdicts, and all are ok
	width := 0
	for _, v := range list {
		width = max(width, len(v.Check.ID))
		so, seen := good[v.Check]
		good[v.Check] = v.Status == verdict.OK && (so || !seen)
	}
	maps.DeleteFunc(good, func(_ *verdict.Check, so bool) bool { return !so })
	consequences := 0
	row := func(colour, status string, t verdict.Group, text string) {
		fmt.Fprintf(&b, "%s  %-8s  %-*s  %s\n", paint(colour, fmt.Sprintf("%-7s", status)), t.Severity(), width, t.Check.ID,
			command.OneLine(text))
	}
	for _, t := range verdict.Together(list) {
		count[t.Status]++
		subjects := strings.Join(t.Subjects, ", ")
		switch t.Status {
		case verdict.Failed:
			row(command.Red, "FAILED", t, subjects+": "+t.What)
			for _, line := range t.Seen() {
				indent(&b, line)
			}
			if t.Cause != nil {
				consequences++
				indent(&b, "It follows from "+t.Cause.Check.ID+": repair that.")
				continue
			}
			indent(&b, t.Consequence)
			for _, line := range t.Remedies(n) {
				indent(&b, prefixed("Do: ", line))
			}
			indent(&b, "Runbook: "+conf.Links.Runbook(t.Check))
		case verdict.Unknown:
			if !t.Unstated {
				row(command.Yellow, "UNKNOWN", t, subjects+": "+t.Evidence)
				continue
			}
			row(command.Yellow, "UNKNOWN", t, subjects+": "+t.What)
			for _, line := range append(t.Seen(), t.Remedies(n)...) {
				indent(&b, line)
			}
		default:
			if verbose {
				row(command.Green, "ok", t, subjects)
			}
		}
	}
	fmt.Fprintf(&b, "Configuration: %s\n", command.OneLine(conf.Origin()))
	failed := strconv.Itoa(count[verdict.Failed]-consequences) + " failed"
	if consequences > 0 {
		failed += " (" + spelling.Plural(consequences, "more follows", "more follow") + ")"
	}
	fmt.Fprintf(&b, "%s, %d unknown, %s passed\n", failed, count[verdict.Unknown],
		spelling.Plural(len(good), "check", "checks"))
	_, err := w.Write(b.Bytes())
	return err
}

// writeLeftOut says what was not checked because the flags do not ask for it, and because it is the matter of
// another command. Where flags choose the checks, or the check is made inside a job, it says nothing.
func (k *checking) writeLeftOut(w io.Writer) {
	if k.inside || len(k.only) > 0 {
		return
	}
	if k.interval == 0 {
		fmt.Fprintln(w, "Traffic was not checked: --interval=10s reads the counters twice and compares them.")
	}
	fmt.Fprintln(w, "Jobs were not checked: the command jobs does that.")
}

// writeJudged says by which sources the node is judged. Inside a job they decide nothing.
func (k *checking) writeJudged(w io.Writer, n *fabric.Node) {
	if !k.inside {
		fmt.Fprintln(w, command.OneLine(status.JudgedByOf(n).Text))
	}
}

// writeNote prints the note about the node, if there is one.
func writeNote(w io.Writer, note string) {
	if note != "" {
		fmt.Fprintf(w, "Note: %s\n", command.OneLine(note))
	}
}

func indent(w io.Writer, line string) {
	if line != "" {
		fmt.Fprintf(w, "         %s\n", command.OneLine(line))
	}
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// shown is a verdict as the JSON of check promises it.
type shown struct {
	Check    string `json:"check"`
	Severity string `json:"severity"`
	Status   string `json:"status"`
	verdict.Subject
	Reason      string `json:"unknown_reason,omitempty"`
	Title       string `json:"title"`          // what is so when the check fails
	What        string `json:"what,omitempty"` // what is so
	Evidence    string `json:"evidence,omitempty"`
	Consequence string `json:"consequence,omitempty"`
	Remedy      string `json:"remedy,omitempty"`
	Runbook     string `json:"runbook"`
	Cause       string `json:"cause,omitempty"` // check from whose failure this one follows
}

// writeJSON writes the verdicts. Note is about the node; empty: none.
func (k *checking) writeJSON(w io.Writer, n *fabric.Node, conf config.Config, list []verdict.Verdict,
	note string,
) error {
	report := struct {
		Configuration config.Report    `json:"configuration"`
		JudgedBy      *status.JudgedBy `json:"judged_by,omitempty"` // missing inside a job

		Failed   int     `json:"failed"`
		Unknown  int     `json:"unknown"`
		OK       int     `json:"ok"`
		Note     string  `json:"note,omitempty"`
		Verdicts []shown `json:"verdicts"`
	}{
		Configuration: conf.Report(), Failed: len(verdict.Failures(list)), Unknown: len(verdict.Unknowns(list)),
		Note: note, Verdicts: []shown{},
	}
	report.OK = len(list) - report.Failed - report.Unknown
	if !k.inside {
		report.JudgedBy = status.JudgedByOf(n)
	}
	for i := range list {
		v := &list[i]
		s := shown{
			Check: v.Check.ID, Severity: string(v.Severity()), Status: string(v.Status), Subject: v.Subject,
			Reason: string(v.Reason), Title: v.Check.Title,
			Evidence: v.Evidence, Consequence: v.Consequence, Remedy: verdict.FilledRemedy(n, v),
			Runbook: conf.Links.Runbook(v.Check),
		}
		if v.Status == verdict.Failed {
			s.What = v.What
		}
		if v.Cause != nil {
			s.Cause = v.Cause.Check.ID
		}
		report.Verdicts = append(report.Verdicts, s)
	}
	return command.JSON(w, report)
}

// explain prints everything about a check.
func explain(w io.Writer, c *verdict.Check, at config.Links) {
	fmt.Fprintf(w, "%s (%s)\n  %s.\n", c.ID, c.Severity, c.Title)
	for _, row := range [][2]string{
		{"About", "each " + string(c.Scope)}, {"Reads", c.Reads}, {"When", c.Guard}, {"Finds", strings.Join(c.ModeIDs(), ", ")}, {"Runbook", at.Runbook(c)},
	} {
		if row[1] != "" {
			fmt.Fprintf(w, "  %-8s %s\n", row[0]+":", row[1])
		}
	}
	if c.Rate {
		fmt.Fprintln(w, "  Compares two readings: runs with --interval, and in alert rules.")
	}
}
