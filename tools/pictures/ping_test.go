// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestPings: what is served is what Prometheus takes, and only rails that ask the bad leaf, or are on it, lose messages.
func TestPings(t *testing.T) {
	p := &pings{nodes: strings.Fields("n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15")}
	for _, since := range []time.Duration{time.Minute, 10 * time.Minute} {
		lost := map[string]bool{}
		for node := range p.nodes {
			w := httptest.NewRecorder()
			p.write(w, node, since)
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range families["gpufabric_ping_lost_total"].GetMetric() {
				if m.GetUntyped().GetValue() > 0 {
					lost[m.GetLabel()[3].GetValue()+" "+m.GetLabel()[4].GetValue()] = true
				}
			}
		}
		if since < pingsBreak && len(lost) > 0 {
			t.Errorf("lost after %s: %v", since, lost)
		}
		for pair := range lost {
			if !strings.Contains(pair, "leaf-3") {
				t.Errorf("lost between %s", pair)
			}
		}
		if since > pingsBreak && len(lost) != 6 {
			t.Errorf("lost after %s: %v", since, lost)
		}
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/other", nil))
	if w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
}
