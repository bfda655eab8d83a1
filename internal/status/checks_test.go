// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// What a node serves is read back: what failed there, what is right, and what is not known.
func TestVerdicts(t *testing.T) {
	d := gpuNode(func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRModule, "no module"))
	served, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	node, found, err := Verdicts(served)
	if err != nil || node != "node17" {
		t.Errorf("%q, %v", node, err)
	}
	has := func(id string, s verdict.Status) bool {
		return slices.ContainsFunc(found, func(v verdict.Verdict) bool { return v.Check.ID == id && v.Status == s })
	}
	if !has("gpudirect_usable", verdict.Failed) || has("gpudirect_usable", verdict.OK) || !has("port_active", verdict.OK) {
		t.Errorf("%+v", d.Checks)
	}
}

// A document may come from anyone, and from another release.
func TestVerdictsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "no status document",
		"[]":                             "no status document",
		"{}":                             "no status document",
		`{"version": 2, "findings": []}`: "version 1",
		`{"version": 1}`:                 "no status document",
		`{"version": 1, "findings": [{"check": 7}]}`:                             "no status document",
		`{"version": 1, "findings": [` + strings.Repeat("{},", maxList) + "{}]}": "one node",
		strings.Repeat("[", 1<<20):                                               "no status document",
	} {
		if _, _, err := Verdicts([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, expected %q", text, err, want)
		}
	}
	_, found, err := Verdicts([]byte(`{"version": 1, "node": {"name": "n"}, "findings": [{"check": "a", "what": "x\u001b[31m\u202ey"}],
		"checks": [{"id": "a", "status": "ok"}, {"id": "b", "status": "zzz"}]}`))
	if err != nil || len(found) != 2 || found[0].Status != verdict.Failed || strings.ContainsAny(found[0].What, "\x1b\u202e") ||
		found[1].Status != verdict.Unknown {
		t.Errorf("%+v, %v", found, err)
	}
}
