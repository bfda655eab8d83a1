// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

func ncclChecks() []*Check {
	return []*Check{
		{
			ID: "nccl_configuration", Title: "A line of the NCCL configuration does not do what it says", Severity: Warning, Topic: "nccl", Scope: ScopeFile,
			Reads: "the host's NCCL configuration files as NCCL parses them", Modes: []string{ModeNCCLConfig},
			judge: judgeNCCL,
		},
	}
}

// judgeNCCL tells each finding, and gives a verdict for each file without any.
func judgeNCCL(n *fabric.Node, v *verdicts) {
	bad := map[string]bool{}
	for _, f := range n.NCCL.Findings {
		path, _, _ := strings.Cut(f.Source, ":")
		bad[path] = true
		v.failed(Subject{File: f.Source}, Verdict{What: f.Name + " does not do what it says", Evidence: Sentence(f.Text), Remedy: "Correct or remove the line."})
	}
	for _, f := range n.NCCL.Files {
		switch exists, known := f.Exists.Get(); {
		case !known:
			v.unknown(Subject{File: f.Path}, f.Exists.Meta().Reason, "The file could not be read: "+ReasonText(f.Exists.Meta().Reason)+".")
		case exists && !bad[f.Path]:
			v.ok(Subject{File: f.Path})
		}
	}
}
