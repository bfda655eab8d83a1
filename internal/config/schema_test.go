// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// patterns are how values of strings of a type look. What they leave open, the program refuses.
var patterns = map[string]string{
	"absolute path":               "^/",
	"address":                     "^https?://[^?@]+$",
	"address or absolute path":    "^(https?://[^?@]+|/.*)$",
	"time":                        `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`,
	"regular expression":          ".",
	"path or name":                "[^0-9]",
	"absolute path or name":       "^(/|[^/]*[^/0-9][^/]*$)",
	"list of regular expressions": ".",
}

// schema is what values.schema.json of the chart defines for the key with this path and for those below it.
func schema(path string) map[string]any {
	of := map[string]any{}
	for _, k := range keys() {
		if k.path == path {
			of = scalar(k)
		}
	}
	below, entries := children(path+"."), children(path+"[].")
	switch {
	case len(entries) > 0:
		of["items"] = map[string]any{"type": "object", "properties": entries, "additionalProperties": false}
	case len(below) > 0:
		of["properties"], of["additionalProperties"] = below, false
		if of["type"] == nil {
			of["type"] = []string{"object", "null"} // a section without keys
		}
	}
	return of
}

// children are the schemas of the keys whose paths begin with a prefix.
func children(prefix string) map[string]any {
	all := map[string]any{}
	for _, k := range keys() {
		name, ok := strings.CutPrefix(k.path, strings.TrimPrefix(prefix, "."))
		if ok && !strings.ContainsAny(name, ".[") {
			all[name] = schema(k.path)
		}
	}
	return all
}

// scalar is the type of a key, without what is below it.
func scalar(k key) map[string]any {
	of := map[string]any{}
	switch words := regexp.MustCompile(", | or ").Split(k.takes, -1); {
	case k.path == "expected.manifest": // a path or its content
		of["type"] = []string{"string", "object"}
	case k.takes == "true or false, or settings":
		of["type"] = []string{"boolean", "object"}
	case k.takes == "true or false":
		of["type"] = "boolean"
	case k.takes == "whole number", strings.HasPrefix(k.takes, "number"):
		of["type"] = "number"
		if k.takes == "whole number" {
			of["type"] = "integer"
		}
		of["minimum"], of["maximum"] = json.Number(k.low), json.Number(k.high)
	case strings.HasPrefix(k.takes, "list"):
		of["type"] = "array"
		if p := patterns[k.takes]; p != "" {
			of["items"] = map[string]any{"type": "string", "pattern": p}
		}
	case k.takes == "bytes":
		of["type"], of["pattern"] = []string{"string", "integer"}, "^[0-9]+(\\.[0-9]+)?[KMG]?$"
	case patterns[k.takes] != "":
		of["type"], of["pattern"] = "string", patterns[k.takes]
	case len(words) > 1 && (slices.Contains(words, k.example) || slices.Contains(words, k.initial)):
		of["enum"] = words
	}
	return of
}

// TestChartSchema compares the chart's schema of the value config with the keys of the configuration, so that
// a wrong key is an error before anything is installed.
func TestChartSchema(t *testing.T) {
	const file = "../../deploy/chart/values.schema.json"
	of := schema("")
	of["type"] = "object"
	of["description"] = "docs/CONFIGURATION.md"
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
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
