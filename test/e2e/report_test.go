// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/test/prometheus"
)

// report prints which notification arrived when, and compares the times with the limits.
func report(t *testing.T, server *prometheus.Server, hook *webhook, nodes []*node, firing []prometheus.Sample) {
	t.Helper()
	wrong, late := judge(t, hook, nodes, firing)
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nfault\talert\tn\tto fire p50\tp90\tmax\tlimit\tworst in theory\tto resolve p50\tmax\tgone from Prometheus\twrong alerts\tafter recovery")
	for i, f := range faults() {
		if f.alert == "" {
			fmt.Fprintf(table, "%s\tnone may come\t%d\t\t\t\t\t\t\t\t\t%d\t%d\n", f.scenario, f.nodes, wrong[f.scenario], late[f.scenario])
			continue
		}
		var fire, resolve, gone []time.Duration
		for _, n := range nodes {
			if n.fault == nil || n.fault.scenario != f.scenario {
				continue
			}
			broke, ok := n.said(t, "breaks")
			if !ok {
				t.Errorf("%s never broke", n.instance)
				continue
			}
			if at, ok := hook.first("firing", n.named(), f.alert, f.device); ok {
				if fire = append(fire, at.Sub(broke)); at.Before(broke) {
					t.Errorf("%s: %s came %s before the fault", n.instance, f.alert, broke.Sub(at))
				}
			} else {
				t.Errorf("%s: no %s", n.instance, f.alert)
			}
			mended, ok := n.said(t, "mended")
			if !ok {
				t.Errorf("%s was never mended", n.instance)
				continue
			}
			if at, ok := hook.first("resolved", n.named(), f.alert, f.device); ok {
				resolve = append(resolve, at.Sub(mended))
			} else if f.stays == "" {
				t.Errorf("%s: %s does not resolve", n.instance, f.alert)
			}
			if at := n.gone(t, server); !at.IsZero() {
				gone = append(gone, at.Sub(mended))
			} else if f.watched {
				t.Errorf("%s: %s stays in Prometheus", n.instance, f.alert)
			}
		}
		resolved := fmt.Sprintf("%s\t%s", rank(resolve, 0.5), rank(resolve, 1))
		if len(resolve) == 0 {
			resolved = cmp.Or(f.stays, "never") + "\t"
		}
		fmt.Fprintf(table, "%s\t%s\t%d of %d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", f.scenario, f.alert, len(fire), f.nodes, rank(fire, 0.5), rank(fire, 0.9),
			rank(fire, 1), f.within, f.worst(t), resolved, rank(gone, 1), wrong[f.scenario], late[f.scenario])
		if p90 := at(fire, 0.9); p90 > faults()[i].within {
			t.Errorf("%s: p90 of the time to fire is %s, limit %s", f.scenario, p90, f.within)
		}
	}
	fmt.Fprintf(table, "none\tnone may come\t%d\t\t\t\t\t\t\t\t\t%d\t\n", len(healthy()), wrong[""])
	table.Flush()
}

// judge counts false alerts by scenario, with "" for all healthy nodes, as Prometheus fires them, and those whose first
// page is sent after the end of the fault; tickets may come later.
func judge(t *testing.T, hook *webhook, nodes []*node, firing []prometheus.Sample) (wrong, late map[string]int) {
	t.Helper()
	wrong, late = map[string]int{}, map[string]int{}
	for _, n := range nodes {
		scenario := ""
		if n.fault != nil {
			scenario = n.fault.scenario
		}
		for _, s := range firing {
			if l := s.Labels; l["instance"] == n.instance && !n.isTrue(l) {
				wrong[scenario]++
				t.Errorf("%s: wrong alert %s %s %s", n.instance, l["alertname"], l["check"], l["device"])
			}
		}
		mended, ok := n.said(t, "mended")
		notified := map[string]bool{}
		for _, m := range hook.messages() {
			key := m.Labels["alertname"] + " " + m.Labels["check"] + " " + m.Labels["device"]
			if m.Labels["instance"] != n.instance || m.Status != "firing" || m.receiver != "page" || notified[key] {
				continue
			}
			notified[key] = true
			// A result of a probe stays until the next one.
			if ok && m.at.Sub(mended) > time.Minute && !strings.HasPrefix(m.Labels["alertname"], "GpuFabricProbe") {
				late[scenario]++
				t.Errorf("%s: %s notified %s after the recovery, to %s", n.instance, key, m.at.Sub(mended).Round(time.Second), m.receiver)
			}
		}
	}
	var strange []string
	for _, s := range firing {
		if !slices.ContainsFunc(nodes, func(n *node) bool {
			return n.instance == s.Labels["instance"] || s.Labels["instance"] == "" && n.fault != nil && n.fault.ofJob && n.fault.alert == s.Labels["alertname"]
		}) {
			strange = append(strange, fmt.Sprint(s.Labels))
		}
	}
	if len(strange) > 0 {
		t.Errorf("alerts of no node: %v", strange)
	}
	return wrong, late
}

// isTrue reports whether an alert is true of the node: its fault or what follows from it, on the broken
// device or on the node as a whole.
func (n *node) isTrue(alert map[string]string) bool {
	f := n.fault
	if f != nil && slices.Contains(f.everywhere, alert["alertname"]) {
		return true
	}
	return f != nil && (alert["alertname"] == f.alert || slices.Contains(f.also, alert["alertname"])) &&
		(alert["device"] == f.device || alert["device"] == "")
}

// at returns the value at a rank of all, the nearest one: of ten, 0.9 is the ninth.
func at(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return s[max(0, int(math.Ceil(p*float64(len(s))))-1)]
}

// rank prints it.
func rank(all []time.Duration, p float64) string {
	if len(all) == 0 {
		return "-"
	}
	return at(all, p).Round(100 * time.Millisecond).String()
}
