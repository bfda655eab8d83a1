// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// HostInputs returns the NCCL configuration of a node as inputs, one for each of its files that sets
// something. A file that could not be read has a line that says so.
func HostInputs(node *fabric.Node) []Input {
	var inputs []Input
	for _, f := range node.NCCL.Files {
		in := Input{Name: f.Path, Format: FormatConf, host: true}
		if f.Exists.State == fabric.Unknown {
			in.append(setting{findings: []Finding{{Undecided, verdict.Info, "The file could not be read: " +
				verdict.ReasonText(f.Exists.Meta().Reason), ""}}})
		}
		seen := map[int]bool{}
		for _, v := range node.NCCL.Variables {
			if line, ok := lineOf(v.Source, f.Path); ok {
				seen[line] = true
				in.append(setting{Setting: settings.Setting{Line: line, Name: v.Name, Value: v.Value, Masked: v.Masked}, set: true})
			}
		}
		for _, x := range node.NCCL.Findings { // of lines that set nothing
			if line, ok := lineOf(x.Source, f.Path); ok && !seen[line] {
				one := Finding{Misread, verdict.Warning, upper(x.Text), "correct or remove the line"}
				if x.Harm == fabric.NCCLNote {
					one.Verdict, one.Severity = Ignored, verdict.Info
				}
				in.append(setting{Setting: settings.Setting{Line: line, Name: x.Name}, findings: []Finding{one}})
			}
		}
		slices.SortStableFunc(in.settings, func(a, b setting) int { return a.Line - b.Line })
		if len(in.settings) > 0 {
			inputs = append(inputs, in)
		}
	}
	return inputs
}

// lineOf returns the line of a source "file:line" of that file.
func lineOf(source, file string) (line int, ok bool) {
	number, ok := strings.CutPrefix(source, file+":")
	line, err := strconv.Atoi(number)
	return line, ok && err == nil
}
