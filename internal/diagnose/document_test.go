// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/verdict"
)

// WriteDocument writes the catalogue and the coverage of modes as the Markdown page docs/CHECKS.md.
func WriteDocument(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`# Checks

Generated from the catalogue in internal/diagnose by ` + "`make docs`" + `; do not edit.

A check is ok, failed or unknown for each subject; subjects to which it does not apply get no verdict. If a fact could not be read, the verdict is unknown and never ok. There is no verdict if the facts are in another network namespace, for example those of a device or an interface that was moved into a pod. IDs are stable: they are label values, and what ` + "`check --only`" + ` takes.

The exit code of ` + "`check`" + ` depends on verdicts of severity critical and warning: 1 if one failed, else 2 if one is unknown; 3 if the checks could not be run. What is critical is critical by statement: where nobody states what a port is for, or what should be there, the verdict is unknown with the reason ` + "`unstated`" + ` and severity warning ([ROLES.md](ROLES.md)). Verdicts of severity info are printed, but count only with ` + "`--severity=info`" + `, or for checks named by ` + "`--only`" + `.

`)
	writeTable(&b, diagnose.Catalogue())
	b.WriteString("\n## What they read\n\nWhat each check reads, and where it applies. [Modes](#modes) are the failures that it detects.\n")
	writeDetails(&b, diagnose.Catalogue())
	b.WriteString("\n## Inside a job\n\nChecks of `check --inside`, which is also the command `preflight`: they run in the container or task prolog of a job, and check what the job finds there. They have no metrics. `gid_usable`, `nccl_version` and `reads_return` run there, too.\n\nNo check except `inside_settings` applies " + strings.TrimPrefix(escaped(nccl.WithoutFabric), "not ") + ".\n\n")
	writeTable(&b, nccl.InsideChecks())
	writeDetails(&b, nccl.InsideChecks())
	writeModes(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// writeTable writes a line for each check.
func writeTable(b *bytes.Buffer, checks []*verdict.Check) {
	b.WriteString("| check | severity | subject | fails when |\n|---|---|---|---|\n")
	for _, c := range checks {
		fmt.Fprintf(b, "| [`%s`](#%s) | %s | %s | %s |\n", c.ID, c.ID, c.Severity, c.Scope, escaped(c.Title))
	}
}

// writeDetails writes what has no room in a table. Checks that read the same and apply to the same refer to
// the first of them.
func writeDetails(b *bytes.Buffer, checks []*verdict.Check) {
	for i, c := range checks {
		fmt.Fprintf(b, "\n### %s\n\n[Runbook](../alerts/runbooks/check-%s.md#%s)\n\n", c.ID, c.Topic, c.ID)
		first := slices.IndexFunc(checks, func(o *verdict.Check) bool { return o.Reads == c.Reads && o.Guard == c.Guard && o.Rate == c.Rate })
		guard := c.Guard
		if guard == "" {
			guard = "always"
		}
		if c.Rate {
			guard += "; compares two readings: needs `check --interval`, has no metric"
		}
		guard = strings.Replace(escaped(guard), escaped(nccl.WithoutFabric), "as [above](#inside-a-job)", 1)
		if first < i {
			fmt.Fprintf(b, "- **Reads**, **applies**: as [`%s`](#%s)\n", checks[first].ID, checks[first].ID)
		} else {
			fmt.Fprintf(b, "- **Reads**: %s\n- **Applies**: %s\n", escaped(c.Reads), guard)
		}
		if c.Rests != verdict.OnNothing {
			fmt.Fprintf(b, "- **Rests on**: [who states](ROLES.md) the %s; unknown (`unstated`) without\n", c.Rests)
		}
		if len(c.Modes) > 0 {
			fmt.Fprintf(b, "- **[Modes](#modes)**: %s\n", strings.Join(c.ModeIDs(), ", "))
		}
	}
}

// writeModes writes which checks and alerts detect a mode, and why some have neither.
func writeModes(b *bytes.Buffer) {
	b.WriteString("\n## Modes\n\nHow a fabric fails or is misconfigured, and which checks and alert rules detect it.\n\n| mode | description | checks | alert rule |\n|---|---|---|---|\n")
	var gaps strings.Builder
	for _, m := range diagnose.Modes() {
		found, alert := "", ""
		if ids := FindsMode(m.ID); len(ids) > 0 {
			found = "`" + strings.Join(ids, "`, `") + "`"
		}
		if m.Alert != "" {
			alert = "`" + m.Alert + "`"
		}
		if found+alert == "" {
			fmt.Fprintf(&gaps, "- **%s** %s Reason: %s.\n", m.ID, escaped(m.Text), escaped(m.Gap))
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", m.ID, escaped(m.Text), found, alert)
	}
	b.WriteString("\n### Not detected\n\n" + gaps.String())
}

// escaped is a text in which Markdown finds neither the end of a cell, nor HTML, nor emphasis.
func escaped(s string) string { return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(s) }

// FindsMode returns the ids of the checks that find a mode.
func FindsMode(id string) []string {
	var ids []string
	for _, c := range slices.Concat(diagnose.Catalogue(), nccl.InsideChecks()) {
		if slices.Contains(c.ModeIDs(), id) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
