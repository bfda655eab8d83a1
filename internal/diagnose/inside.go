// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Inside returns the checks of the place where a job runs, as its container (Node.Inside). They are asked
// there only, and are no metrics.
func Inside() []*verdict.Check {
	gid := *Find(verdict.CheckGID)
	always := gid.Judge
	gid.Judge = func(n *fabric.Node, v *verdict.Verdicts) {
		if _, applies := nccl.JobDevices(n); applies {
			always(n, v)
		}
	}
	return append(append(nccl.InsideChecks(), &gid), Checks(verdict.CheckNCCLVersion, verdict.CheckReads)...)
}
