// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// WriteDocument writes the catalogue and the coverage of modes as the Markdown page docs/CHECKS.md.
func WriteDocument(w io.Writer) error {
	var b bytes.Buffer
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	b.WriteString(`# Checks

Generated from the catalogue in internal/diagnose by ` + "`make docs`" + `; do not edit.

A check is ok, failed or unknown for each thing that it is about; what its guard leaves out it is not asked of. What could not be read makes a verdict unknown and never ok. There is no verdict where the facts are in another network namespace, as those of a device or an interface that a pod has. Ids are stable: they are label values, and what ` + "`check --only`" + ` takes.

The exit code of ` + "`check`" + ` is about verdicts of severity critical and warning: 1 where one failed, else 2 where one is unknown; 3 says that the checks could not be made. Info is told and counts only with ` + "`--severity=info`" + `, or for a check that ` + "`--only`" + ` names.

| Check | Severity | Fails when | About each | Reads | Asked | Modes | Runbook |
|---|---|---|---|---|---|---|---|
`)
	for _, c := range Catalogue() {
		guard := c.Guard
		if guard == "" {
			guard = "always"
		}
		if c.Rate {
			guard += "; compares two readings: `check --interval`, and no metric"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | [check-%s](../alerts/runbooks/check-%s.md#%s) |\n", c.ID, c.Severity, cell(c.Title), c.Scope, cell(c.Reads), cell(guard),
			strings.Join(c.Modes, ", "), c.Topic, c.Topic, c.ID)
	}
	b.WriteString("\n## Modes\n\nHow a fabric fails or is configured wrong, and what finds it.\n\n| Mode | What it is | Checks | Alert rule |\n|---|---|---|---|\n")
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

// FindsMode returns the ids of the checks that find a mode.
func FindsMode(id string) []string {
	var ids []string
	for _, c := range Catalogue() {
		for _, m := range c.Modes {
			if m == id {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}
