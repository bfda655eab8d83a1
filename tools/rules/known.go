// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/collector"
)

// Known are the metrics of the catalogue, what Prometheus itself makes, and what the shipped rules record. An error
// means that a rule file cannot be read.
func Known() (Metrics, error) {
	groups, err := alerts.Groups()
	if err != nil {
		return nil, fmt.Errorf("shipped rules: %w", err)
	}
	m := Metrics{"up": {}, "ALERTS": nil, "ALERTS_FOR_STATE": nil}
	for _, f := range collector.Catalogue() {
		m[f.FullName()] = f.Labels
		if f.Type == collector.Histogram {
			m[f.FullName()+"_bucket"] = append(slices.Clone(f.Labels), "le")
			m[f.FullName()+"_sum"], m[f.FullName()+"_count"] = f.Labels, f.Labels
		}
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				m[r.Record] = nil
			}
		}
	}
	return m, nil
}
