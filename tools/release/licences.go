// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeLicences writes a list of the modules, and each text once with the files that have it.
func writeLicences(w io.Writer, b binary) error {
	var out strings.Builder
	fmt.Fprintf(&out,
		"%s contains these Go modules (%s is Go's standard library and runtime).\nTheir licences and notices follow.\n\n",
		b.name, standard)
	table := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	var order []string
	files := map[string][]string{}
	for _, m := range b.modules {
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.path, m.version, m.licence)
		for _, t := range m.texts {
			content := strings.TrimSpace(t.content)
			if !slices.Contains(order, content) {
				order = append(order, content)
			}
			files[content] = append(files[content], t.name)
		}
	}
	table.Flush()
	for _, content := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(files[content], "\n"), content)
	}
	_, err := io.WriteString(w, out.String())
	return err
}
