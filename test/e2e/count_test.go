// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/test/prometheus"
)

// lingers is how long after a fault its alerts may still come, because something else that it caused is noticed late.
const lingers = 12 * time.Minute

// quiet reports whether the alerts of all faults are gone from Prometheus, or have had the time that tickets have.
func quiet(t *testing.T, server *prometheus.Server, nodes []*node) bool {
	t.Helper()
	firing := server.Query(t, `ALERTS{alertstate="firing",severity!="info"}`)
	return !slices.ContainsFunc(nodes, func(n *node) bool {
		if n.fault == nil {
			return false
		}
		mended, ok := n.said(t, "mended")
		return !ok || time.Since(mended) < calm || time.Since(mended) < lingers &&
			slices.ContainsFunc(firing, func(s prometheus.Sample) bool { return n.isOf(s.Labels) })
	})
}

// isOf reports whether an alert is about the node, or about the job of its fault.
func (n *node) isOf(labels map[string]string) bool {
	return labels["instance"] == n.instance || labels["instance"] == "" && n.fault.ofJob && labels["alertname"] == n.fault.alert
}

// news is a notification that says something new of a node.
type news struct {
	at            time.Time
	receiver      string
	fires, clears []string
}

func (w *webhook) news(n *node) (list []news) {
	state := map[string]string{} // the last one said, by receiver and alert
	post := 0
	for _, m := range w.messages() {
		if !n.isOf(m.Labels) || m.receiver == "log" {
			continue
		}
		var part []string
		for _, l := range []string{"check", "device", "uuid", "kind", "rule", "signature", "state"} {
			if m.Labels[l] != "" {
				part = append(part, m.Labels[l])
			}
		}
		alert := strings.TrimSpace(strings.TrimPrefix(m.Labels["alertname"], "GpuFabric") + " " + strings.Join(part, " "))
		if key := m.receiver + " " + alert; state[key] == m.Status {
			continue
		} else {
			state[key] = m.Status
		}
		if m.post != post {
			list, post = append(list, news{at: m.at, receiver: m.receiver}), m.post
		}
		last := &list[len(list)-1]
		if m.Status == "firing" {
			last.fires = append(last.fires, alert)
		} else {
			last.clears = append(last.clears, alert)
		}
	}
	return list
}

// count wants one message for each planted fault, and one more when it is over.
func count(t *testing.T, hook *webhook, nodes []*node) {
	t.Helper()
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nfault\tmessages\tafter the fault\tto\tfires\tis over")
	for _, n := range nodes {
		if n.fault == nil {
			continue
		}
		broke, _ := n.said(t, "breaks")
		list := hook.news(n)
		fires := 0
		for _, m := range list {
			if len(m.fires) > 0 {
				fires++
			}
		}
		want := 1
		if n.fault.alert == "" {
			want = 0
		}
		if fires != want || len(list) > 2*want {
			t.Errorf("%s: %d messages that something is wrong, want %d; %d in all", n.instance, fires, want, len(list))
		}
		if len(list) == 0 {
			fmt.Fprintf(table, "%s\t0\t\t\t\t\n", n.instance)
		}
		for i, m := range list {
			fmt.Fprintf(table, "%s\t%d of %d\t%s\t%s\t%s\t%s\n", n.instance, i+1, len(list), m.at.Sub(broke).Round(time.Second), m.receiver,
				strings.Join(m.fires, ", "), strings.Join(m.clears, ", "))
		}
	}
	table.Flush()
}
