// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// WriteDocument writes docs/NCCL.md: every variable of the table in one line.
func WriteDocument(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# NCCL variables

What `+"`gpufabric_exporter lint`, `check`"+` and the collector `+"`nccl`"+` know of variables, for NCCL up to %s. Written by `+"`make docs`"+` from internal/nccl/settings/variables.tsv, advice.tsv and void.tsv: do not edit.

## Variables that NCCL reads

NCCL of a release in the column verified, run without a GPU (test/nccl), said that it read the variable and what it read, or did what the row says; with "over RDMA" in a guest with Soft-RoCE. Of NCCL_*_GDR_* that is the reading alone: no data went into memory of a GPU. All other rows were read in the source.

%s

| variable | since | deprecated | default | values | note | source | verified |
|---|---|---|---|---|---|---|---|
`, NewestNCCL, shareText())
	all := Variables()
	for _, v := range all {
		if v.Status == StatusCurrent {
			row(&b, code(v.Name), v.Since, deprecation(v), v.Default, v.Valid, v.Note, v.Source, cmp.Or(strings.ReplaceAll(strings.Join(v.Verified, ", "), OverRDMA, " over RDMA"), "from source"))
		}
	}
	b.WriteString("\n## What values mean\n\n| variable | value | releases | verdict | what NCCL does | better | source |\n|---|---|---|---|---|---|---|\n")
	for _, a := range adviceTable() {
		row(&b, code(a.Name), a.Value, cmp.Or(a.Releases, "all"), a.Verdict, a.Text, a.Better, a.File+" of "+a.Release)
	}
	b.WriteString("\n## Values that make other variables void\n\n| variable | value | void | verdict | because | better | source |\n|---|---|---|---|---|---|---|\n")
	for _, v := range voidTable() {
		row(&b, code(v.By.Name), v.By.Value, strings.Join(v.patterns, ", "), v.By.Verdict, v.By.Text, v.By.Better, v.By.File+" of "+v.By.Release)
	}
	b.WriteString("\n## Variables that NCCL no longer reads\n\n| variable | since | last release | use | source |\n|---|---|---|---|---|\n")
	for _, v := range all {
		if v.Status == StatusRemoved {
			row(&b, code(v.Name), v.Since, v.Removed, v.Instead, v.Source)
		}
	}
	b.WriteString("\n## Variables that NCCL does not read\n\n| variable | belongs to | use | note |\n|---|---|---|---|\n")
	for _, v := range all {
		if v.Status != StatusRemoved && v.Status != StatusCurrent {
			belongs := map[Status]string{StatusMistaken: "nothing reads it", StatusFramework: "a framework", StatusPlugin: "a plugin", StatusTool: "a tool"}[v.Status]
			row(&b, code(v.Name), belongs, v.Instead, v.Note)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func deprecation(v Variable) string {
	if v.Deprecated == "" {
		return ""
	}
	return v.Deprecated + ", use " + v.Instead
}

func code(s string) string { return "`" + s + "`" }

// cellText escapes what Markdown would take for its own.
var cellText = strings.NewReplacer("|", `\|`, "<", "&lt;")

func row(w io.Writer, cells ...string) {
	for _, c := range cells {
		fmt.Fprintf(w, "| %s ", cellText.Replace(c))
	}
	fmt.Fprintln(w, "|")
}
