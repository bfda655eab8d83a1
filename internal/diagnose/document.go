// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteDocument writes the catalogue and the coverage of modes as the Markdown page docs/CHECKS.md.
func WriteDocument(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`# Checks

Generated from the catalogue in internal/diagnose by ` + "`make docs`" + `; do not edit.

A check is ok, failed or unknown for each subject; subjects that its guard excludes get no verdict. If a fact could not be read, the verdict is unknown and never ok. There is no verdict if the facts are in another network namespace, for example those of a device or an interface that was moved into a pod. Ids are stable: they are label values, and what ` + "`check --only`" + ` takes.

The exit code of ` + "`check`" + ` depends on verdicts of severity critical and warning: 1 if one failed, else 2 if one is unknown; 3 if the checks could not be run. Verdicts of severity info are printed, but count only with ` + "`--severity=info`" + `, or for checks named by ` + "`--only`" + `.

` + header)
	for _, c := range Catalogue() {
		writeRow(&b, c)
	}
	b.WriteString("\n## Inside a job\n\nChecks of `check --inside`, which is also the command `preflight`: run in the container or task prolog of a job, they say what the job finds there. They have no metrics. `gid_usable`, `nccl_version` and `reads_return` are made there, too.\n\n" + header)
	for _, c := range insideChecks() {
		writeRow(&b, c)
	}
	b.WriteString("\n## Modes\n\nHow a fabric fails or is misconfigured, and which checks and alert rules detect it.\n\n| Mode | Description | Checks | Alert rule |\n|---|---|---|---|\n")
	for _, m := range Modes() {
		found, alert := "", ""
		if ids := FindsMode(m.ID); len(ids) > 0 {
			found = "`" + strings.Join(ids, "`, `") + "`"
		}
		if m.Alert != "" {
			alert = "`" + m.Alert + "`"
		}
		if found+alert == "" {
			found = "none: " + m.Gap
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.ID, cell(m.Text), cell(found), alert)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// header begins a table of checks.
const header = `| Check | Severity | Fails when | Subject | Reads | Applies | Modes | Runbook |
|---|---|---|---|---|---|---|---|
`

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func writeRow(b *bytes.Buffer, c *Check) {
	guard := c.Guard
	if guard == "" {
		guard = "always"
	}
	if c.Rate {
		guard += "; compares two readings: needs `check --interval`, has no metric"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s | [check-%s](../alerts/runbooks/check-%s.md#%s) |\n", c.ID, c.Severity, cell(c.Title), c.Scope, cell(c.Reads), cell(guard),
		strings.Join(c.Modes, ", "), c.Topic, c.Topic, c.ID)
}

// FindsMode returns the ids of the checks that find a mode.
func FindsMode(id string) []string {
	var ids []string
	for _, c := range slices.Concat(Catalogue(), insideChecks()) {
		for _, m := range c.Modes {
			if m == id {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}
