// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// release is a span of releases that are not asked.
type release struct {
	from, below string // empty: from the first one, or with all later ones
	why         string
	issue       string // public, empty: none
	byHand      bool   // it is asked by hand
}

// refused are the releases whose RAS is not asked, with the reason. The first one counts.
//
// NVIDIA/nccl#2346 is a crash of the text report; its cause is in the sources up to 2.30.7. From 2.29.2 on a
// report is asked for as JSON, which does not run that code, and 2.29.7, for which the crash was reported, is
// refused all the same. The crash needs communicators that are made meanwhile: on suspicion, a job that made
// one within the last ten minutes is not asked (Quiet).
func refused() []release {
	const issues = "https://github.com/NVIDIA/nccl/issues/"
	return []release{
		{"", "2.24.0", "it has no RAS", "", false},
		{"2.24.0", "2.27.3", "asking while a communicator is made has crashed jobs", issues + "1669", false},
		{"2.27.3", "2.29.2", "asking while ranks are missing has corrupted memory", issues + "1762", false},
		{"2.29.7", "2.29.8", "asking has crashed jobs that make communicators", issues + "2346", false},
		{"2.30.8", "", "its RAS was not examined: it is asked by hand only", "", true},
	}
}

// Refused says why a release of NCCL is not asked, by hand or on suspicion; empty: it may be. A release
// without its patch is refused, because that decides.
func Refused(v fabric.NCCLVersion, byHand bool) string {
	if strings.Count(v.String(), ".") != 2 {
		return "the version of NCCL is not known in full: " + v.String()
	}
	for _, r := range refused() {
		if r.byHand && byHand {
			continue
		}
		if (r.from == "" || v.AtLeast(r.from)) && (r.below == "" || !v.AtLeast(r.below)) {
			why := "NCCL " + v.String() + ": " + r.why
			if r.issue != "" {
				why += " (" + r.issue + ")"
			}
			return why
		}
	}
	return ""
}
