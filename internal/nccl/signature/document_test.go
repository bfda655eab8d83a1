// SPDX-License-Identifier: Apache-2.0

package signature

import (
	_ "embed" // the releases
	"fmt"
	"io"
	"strings"
)

//go:embed releases.tsv
var releases string

// Release says which releases of NCCL have a wording.
type Release struct {
	In     string // what the source contains
	Tags   string // "2.18.3-2.23.4, 2.27.3"
	Source string // file:line in the newest of them
}

// Releases returns what was found in the tags of NCCL's repository.
func Releases() []Release {
	var all []Release
	for line := range strings.Lines(releases) {
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(fields) == 3 {
			all = append(all, Release{fields[0], fields[1], fields[2]})
		}
	}
	return all
}

const preamble = `# Failure signatures

What the command ` + "`explain`" + ` knows of lines in logs of jobs and of the kernel. Written by ` + "`make docs`" + ` from internal/nccl/signature: do not edit.

The releases of NCCL are those of the tags 2.18.1 to 2.30.7 whose source has the wording, with the place in the newest of them. A *cause* is a failure of its own. A *consequence* follows from a failure before, often on another rank or host. A *note* does not fail a log. Signatures without a text are of warnings that no other row has, after which a call failed, by the file of the source.

| signature | kind | line contains | printed by | cause | remedy | runbook |
|---|---|---|---|---|---|---|
`

// WriteDocument writes docs/SIGNATURES.md.
func WriteDocument(w io.Writer) error {
	known := map[string]Release{}
	for _, r := range Releases() {
		known[r.In] = r
	}
	var b, reasons strings.Builder
	b.WriteString(preamble)
	for _, s := range append(All(), judgements()...) {
		var contains, printed []string
		for _, f := range s.Forms {
			contains = append(contains, "`"+f.Text+"`")
			by := f.File
			if f.File == "" {
				r := known[f.in()]
				by = "NCCL " + r.Tags + " (" + r.Source + ")"
			}
			printed = append(printed, by)
		}
		for _, file := range s.Files {
			contains = append(contains, "in `"+file+"`")
		}
		if len(s.Codes) > 0 {
			contains = append(contains, "number "+strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Codes), " ", ", "), "[]"))
		}
		runbook := ""
		if s.Runbook != "" {
			runbook = fmt.Sprintf("[%s](../alerts/runbooks/%s)", strings.TrimSuffix(s.Runbook, ".md"), s.Runbook)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", s.ID, s.Kind, strings.Join(contains, "<br>"), strings.Join(printed, "<br>"), s.Cause, s.Remedy, runbook)
		for i, r := range s.Reasons {
			fmt.Fprintf(&reasons, "| `%s` %d | %s | %s | %s | %s | %s |\n", s.ID, i+1, r.Cause, r.Test, r.Remedy, words(r.Likely), words(r.Certain))
		}
	}
	b.WriteString(reasonsHead + reasons.String())
	_, err := io.WriteString(w, b.String())
	return err
}

const reasonsHead = `
## Reasons

What may be behind a signature, the usual first. "Likely" and "certain" say what a log must show for it; where nothing is certain, the reasons are possible in this order, and the test tells them apart. What the log shows replaces words in braces.

| signature | reason | test | remedy | likely with | certain with |
|---|---|---|---|---|---|
`

// words are facts as the document shows them.
func words(facts []Fact) string {
	var list []string
	for _, f := range facts {
		list = append(list, "`"+strings.ReplaceAll(string(f), "|", " or ")+"`")
	}
	return strings.Join(list, ", ")
}
