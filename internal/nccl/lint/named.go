// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/verdict"
)

// namesFile are variables whose value is a file that has to be there, and what happens without it.
var namesFile = map[string]string{
	"NCCL_TOPO_FILE":         "NCCL uses what it finds of PCIe itself",
	"NCCL_GRAPH_FILE":        "NCCL stops with an error",
	"NCCL_CONF_FILE":         "NCCL reads no configuration in its place",
	"NCCL_TUNER_CONFIG_FILE": "the tuner has no configuration",
	"NCCL_TUNER_CONFIG_PATH": "the tuner has no configuration",
}

// JudgeFiles adds a finding to each line that names a file which the host does not have. A container may have
// it: missing is asked for the host alone, with a clean absolute path, and is false where that is not known.
func (r *Result) JudgeFiles(missing func(file string) bool) {
	for i := range r.Lines {
		l := &r.Lines[i]
		without, reads := namesFile[l.Name]
		known := path.IsAbs(l.Value) && !strings.ContainsAny(l.Value, "$`*?%{\x00")
		undecided := slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Verdict == Undecided }) // or cut
		if !reads || !known || undecided || !missing(path.Clean(l.Value)) {
			continue
		}
		if l.Findings[0].Reason == "" { // that it works says nothing beside the others
			l.Findings = nil
		}
		l.Findings = append(l.Findings, Finding{
			WrongHere, verdict.Warning, "This host has no such file. A container may have it; without it " + without,
			"correct the path, or mount the file into the container",
		})
		slices.SortStableFunc(l.Findings, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	}
}
