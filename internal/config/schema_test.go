// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// schema is what values.schema.json of the chart says of the key that has this path and of those below it. What it leaves open, the
// program refuses.
func schema(path string) map[string]any {
	for _, k := range keys() {
		switch {
		case k.path != path:
		case k.takes == "true or false":
			return map[string]any{"type": "boolean"}
		case k.takes == "whole number" && k.low != "":
			return map[string]any{"type": "integer", "minimum": json.Number(k.low), "maximum": json.Number(k.high)}
		}
	}
	below := map[string]any{}
	for _, k := range keys() {
		name, ok := strings.CutPrefix(k.path, strings.TrimPrefix(path+".", "."))
		if ok && !strings.ContainsAny(name, ".[") {
			below[name] = schema(k.path)
		}
	}
	if len(below) == 0 {
		return below
	}
	return map[string]any{"properties": below, "additionalProperties": false}
}

// TestChartSchema compares what the chart takes as value config with the keys: a wrong one is an error before anything is installed.
func TestChartSchema(t *testing.T) {
	const file = "../../deploy/chart/values.schema.json"
	of := schema("")
	of["type"] = "object"
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("    ", "  ")
	if err := encoder.Encode(of); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?ms)^    "config": \{.*?^    \}`).ReplaceAllLiteral(got, []byte(`    "config": `+strings.TrimSpace(b.String())))
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil { //nolint:gosec // not secret
			t.Fatal(err)
		}
		got = want
	}
	if !bytes.Equal(got, want) || !bytes.Contains(want, []byte(`"nccl_minimum_version"`)) {
		t.Errorf("%s is not up to date: make docs", file)
	}
}
