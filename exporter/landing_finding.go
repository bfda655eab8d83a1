// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// explain adds to what looks wrong what only this process knows: since when, where to read on, and the names in commands.
func (h *handler) explain(n *fabric.Node, list []trouble) {
	at, instance := h.config.current().config.Links, h.site.title
	if h.site.simulated {
		instance = "" // that Prometheus does not know
	}
	for i := range list {
		t := &list[i]
		if seen, known := h.seen.since(t.members); known {
			t.Since = seen.String()
		}
		runbook := at.Runbook(t.members[0].Check)
		if config.IsAddress(runbook) {
			t.Links = append(t.Links, link{runbook, "Runbook", runbook})
		} else {
			t.Links = append(t.Links, link{Text: "Runbook: " + runbook}) // a browser does not open files of the node
		}
		if to := at.NodeDashboard(instance); to != "" {
			t.Links = append(t.Links, link{to, "Dashboard", to})
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

// conclude makes a good verdict a bad one where probes complain, and an unsure one until traffic has been judged.
func (v *view) conclude(probed cell) {
	complain, good := probed.Class == "bad", v.Verdict.Class == "good"
	if complain {
		v.Probed = probed
	}
	switch {
	case good && complain:
		v.Verdict = cell{Text: "Nothing looks wrong but what probes found", Class: "bad"}
	case good && v.Wait > 0:
		v.Verdict = cell{Text: "Nothing looks wrong so far; traffic has not been judged yet", Class: "unsure"}
	}
}
