// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
)

// Gap is what could not be looked at: no trouble was seen there, and none can be ruled out.
type Gap struct {
	Subjects []string `json:"subjects"`
	What     string   `json:"what"` // which checks it keeps from judging
	Why      string   `json:"why"`
}

// Unchecked returns the gaps that are news, by subject and reason.
func Unchecked(list []Verdict) []Gap {
	var unread []Verdict
	for _, v := range list {
		if v.Check.ID == CheckReads && v.Status != OK {
			unread = append(unread, v)
		}
	}
	var all []Gap
	var checks [][]string
	for _, t := range Together(Unknowns(list)) {
		if explainedBySource(t.Verdict, unread) {
			continue
		}
		if t.Unstated {
			all, checks = append(all, Gap{Subjects: t.Subjects, What: t.What, Why: strings.Join(t.Seen(), " ") + " " +
				t.Remedy}), append(checks, nil)
			continue
		}
		i := slices.IndexFunc(all, func(o Gap) bool { return o.Why == t.Evidence && slices.Equal(o.Subjects, t.Subjects) })
		if i < 0 {
			all, checks, i = append(all, Gap{Subjects: t.Subjects, Why: t.Evidence}), append(checks, nil), len(all)
		}
		checks[i] = append(checks[i], t.Check.ID)
	}
	for i := range all {
		if all[i].What != "" {
			continue
		}
		all[i].What = "Could not be checked: " + checkList(checks[i])
		if checks[i][0] == CheckReads {
			all[i].What = "Could not be read"
		}
	}
	return all
}

// checkList names the first of a long list.
func checkList(list []string) string {
	most := 3
	if len(list) == most+1 {
		most++
	}
	return spelling.Few(list, most)
}

// explainedBySource reports whether a verdict is unknown for a reason that the list has already, such as a
// device whose reads fail or hang, with what follows for its peers; for one that the site chose (collectors
// that are off, settings of jobs); or because a driver does not show how it treats RoCE.
func explainedBySource(v Verdict, unread []Verdict) bool {
	if v.Check.ID == CheckReads {
		return false
	}
	switch v.Reason {
	case fabric.ReasonNotRead, fabric.ReasonStuck, fabric.ReasonRTNLStuck:
		return true
	case fabric.ReasonMissing, fabric.ReasonUnsupported:
		return v.Check.Topic == "roce"
	}
	return slices.ContainsFunc(unread, func(r Verdict) bool {
		s := r.Subject
		return r.Reason == v.Reason && (s.Device == v.Subject.Device || s.Device == "" ||
			slices.Contains([]string{CheckPortRate, CheckFirmware, CheckMTU, CheckPFCUniform}, v.Check.ID))
	})
}
