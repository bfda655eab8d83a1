// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// endsLater are alerts that last longer than three minutes after their fault, or ten where they are tickets, and why.
var endsLater = map[string]string{
	"ConfigurationDrift":     "30 min: a node that restarts keeps it",
	"DeviceFailureLogged":    "15 min after the last message: no message says that the firmware runs again",
	"ErrorBudgetBurnFast":    "30 min: it is about hours",
	"ErrorBudgetBurnSlow":    "2 h: it is about days",
	"ExporterUnstable":       "20 min: by then it has answered all the time",
	"JobBandwidthRegression": "20 min: the mean of 10 min, and what a job does varies",
	"LinkFlapping":           "12 min: a link that went down twice within ten minutes is steady when it has not",
	"LinkUnstable":           "12 h: it is about a day",
	"NvlinkErrors":           "10 min: errors come rarely",
	"PingLeaf":               "an hour where the loss is small: it is about an hour",
	"PingRail":               "90 min where the loss is small: it is about the last hour that has ended",
	"PingSpine":              "an hour where the loss is small: it is about an hour",
	"PcieErrors":             "10 min after the last error: errors come rarely",
	"PcieFatalErrors":        "10 min after the error: it is an event",
	"ProbeWrongResult":       "24 h: one right result does not clear a GPU",
}

// ends is the section on when alerts end.
func ends() string {
	var b strings.Builder
	b.WriteString(`
## When they end

A page ends at most three minutes after its fault, a ticket after ten; a ticket about a PCIe link, which may come and go with the load, after thirty, and alerts about probes with the next run.
What is not known ends no alert: not while the exporter is silent, or what it reads cannot be read. These take longer:

| alert | ends after |
|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(endsLater)) {
		fmt.Fprintf(&b, "| `GpuFabric%s` | %s |\n", name, endsLater[name])
	}
	return b.String()
}

// TestAlertsEnd: no alert is kept longer than is promised.
func TestAlertsEnd(t *testing.T) {
	rules, _ := alertRules(t)
	known := map[string]bool{}
	for _, r := range rules {
		name := strings.TrimPrefix(r.Alert, "GpuFabric")
		known[name] = true
		limit := 10 * time.Minute
		if r.Labels["severity"] == "critical" {
			limit = 3 * time.Minute
		}
		kept, err := time.ParseDuration(cmp.Or(r.KeepFiringFor, "0s"))
		if err != nil || kept > limit && endsLater[name] == "" {
			t.Errorf("%s is kept for %s, more than %s (%v): say why in endsLater", r.Alert, r.KeepFiringFor, limit, err)
		}
	}
	for name := range endsLater {
		if !known[name] {
			t.Errorf("no alert GpuFabric%s", name)
		}
	}
}
