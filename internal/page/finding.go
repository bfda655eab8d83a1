// SPDX-License-Identifier: Apache-2.0

package page

import (
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// explain adds to what looks wrong what the node does not say: since when, where to read on, and the names in commands.
func (l *Landing) explain(n *fabric.Node, list []trouble) {
	at := l.Config().Config.Links
	for i := range list {
		t := &list[i]
		if seen, known := l.Seen.since(t.members); known {
			t.Since = seen.String()
		}
		runbook := at.Runbook(t.members[0].Check)
		if config.IsAddress(at.Runbooks) {
			t.Links = append(t.Links, Link{runbook, "Runbook", runbook})
		} else {
			t.Links = append(t.Links, Link{Text: "Runbook: " + runbook}) // a browser does not open files of the node
		}
		if to := at.NodeDashboard(l.Instance); to != "" {
			t.Links = append(t.Links, Link{to, "Dashboard", to})
		}
		t.fill(n)
	}
}

// fill puts names into commands.
func (t *trouble) fill(n *fabric.Node) {
	same := true
	for i := range t.members {
		filled := diagnose.FilledRemedy(n, &t.members[i])
		t.Remedies = append(t.Remedies, namedValue{t.Where[i], filled})
		same = same && filled == t.Remedies[0].Value
	}
	if same {
		t.Remedy, t.Remedies = t.Remedies[0].Value, nil
	}
}

// conclude makes a good verdict a bad one where probes complain or jobs are in trouble, and an unsure one until traffic has been judged.
func (v *view) conclude(probed cell) {
	complain, good := probed.Class == "bad", v.Verdict.Class == "good"
	if complain {
		v.Probed = probed
	}
	switch {
	case good && complain && v.Jobs.Problem != "":
		v.Verdict = cell{Text: "No problems found except by probes and in " + v.Jobs.Problem, Class: "bad"}
	case good && complain:
		v.Verdict = cell{Text: "No problems found except by probes", Class: "bad"}
	case good && v.Jobs.Problem != "":
		v.Verdict = cell{Text: "No problems found except in " + v.Jobs.Problem, Class: v.Jobs.Class}
	case good && v.Wait > 0:
		v.Verdict = cell{Text: "No problems found so far; traffic has not been checked yet", Class: "unsure"}
	}
}
