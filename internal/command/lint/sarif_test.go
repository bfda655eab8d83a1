// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// sarifObject is what the published schema (sarif-schema-2.1.0.json) requires of an object: the properties
// that lint may use, and those that have to be there. Each object of the schema forbids other properties.
type sarifObject struct {
	required []string
	object   map[string]string // properties that are objects or arrays of these, with the name of the definition
	scalar   map[string]func(any) error
}

func someString(v any) error {
	if s, ok := v.(string); !ok || s == "" {
		return fmt.Errorf("%v: expected a text", v)
	}
	return nil
}

func oneOf(words ...string) func(any) error {
	return func(v any) error {
		if s, ok := v.(string); !ok || !slices.Contains(words, s) {
			return fmt.Errorf("%v: expected one of %v", v, words)
		}
		return nil
	}
}

func atLeast(low float64) func(any) error {
	return func(v any) error {
		if n, ok := v.(float64); !ok || n < low || n != float64(int(n)) {
			return fmt.Errorf("%v: expected an integer from %v on", v, low)
		}
		return nil
	}
}

func uri(v any) error {
	s, _ := v.(string)
	if _, err := url.Parse(s); err != nil || s == "" || strings.ContainsAny(s, " %\\") && !strings.Contains(s, "%2") && !strings.Contains(s, "%1") {
		return fmt.Errorf("%q: expected a URI reference", s)
	}
	return nil
}

type scalars = map[string]func(any) error

var sarifSchema = map[string]sarifObject{
	"sarifLog":            {[]string{"version", "runs"}, map[string]string{"runs": "run"}, scalars{"$schema": uri, "version": oneOf("2.1.0")}},
	"run":                 {[]string{"tool"}, map[string]string{"tool": "tool", "results": "result"}, nil},
	"tool":                {[]string{"driver"}, map[string]string{"driver": "toolComponent"}, nil},
	"toolComponent":       {[]string{"name"}, map[string]string{"rules": "reportingDescriptor"}, scalars{"name": someString, "version": someString, "informationUri": uri}},
	"reportingDescriptor": {[]string{"id"}, map[string]string{"shortDescription": "multiformatMessageString"}, scalars{"id": someString}},
	"multiformatMessageString": {
		[]string{"text"}, nil, scalars{"text": someString},
	},
	"message":          {nil, nil, scalars{"text": someString}},
	"result":           {[]string{"message"}, map[string]string{"message": "message", "locations": "location"}, scalars{"ruleId": someString, "ruleIndex": atLeast(-1), "level": oneOf("none", "note", "warning", "error")}},
	"location":         {nil, map[string]string{"physicalLocation": "physicalLocation", "logicalLocations": "logicalLocation"}, nil},
	"physicalLocation": {[]string{"artifactLocation"}, map[string]string{"artifactLocation": "artifactLocation", "region": "region"}, nil},
	"artifactLocation": {nil, nil, scalars{"uri": uri}},
	"region":           {nil, nil, scalars{"startLine": atLeast(1)}},
	"logicalLocation":  {nil, nil, scalars{"name": someString}},
}

// checkSARIF tests a value against a definition of the schema.
func checkSARIF(t *testing.T, definition, at string, value any) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for i, one := range v {
			checkSARIF(t, definition, fmt.Sprintf("%s[%d]", at, i), one)
		}
	case map[string]any:
		schema := sarifSchema[definition]
		for _, name := range schema.required {
			if _, ok := v[name]; !ok {
				t.Errorf("%s has no %s", at, name)
			}
		}
		for name, property := range v {
			if of, ok := schema.object[name]; ok {
				checkSARIF(t, of, at+"."+name, property)
			} else if check, ok := schema.scalar[name]; !ok {
				t.Errorf("%s.%s is not in the schema", at, name)
			} else if err := check(property); err != nil {
				t.Errorf("%s.%s: %v", at, name, err)
			}
		}
	default:
		t.Errorf("%s: %v: expected an object", at, value)
	}
}

func TestSARIF(t *testing.T) {
	t.Setenv("NCCL_IB_DISABLE", "true")
	_, stdout, _ := lintJob(t, "my job%.sh", job+"export NCCL_SOCKET_IFNAME=$IF\n", "--output=sarif", "--env")
	var log map[string]any
	if err := json.Unmarshal([]byte(stdout), &log); err != nil {
		t.Fatal(err)
	}
	checkSARIF(t, "sarifLog", "log", log)
	if strings.Contains(stdout, "hunter2") {
		t.Error("a secret is shown")
	}

	var typed sarifLog
	if err := json.Unmarshal([]byte(stdout), &typed); err != nil {
		t.Fatal(err)
	}
	run := typed.Runs[0]
	var got []string
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.Index].ID != r.Rule {
			t.Errorf("%+v: rule %d is another one", r, r.Index)
		}
		where := "no place"
		switch l := r.Locations[0]; {
		case l.Physical != nil:
			where = fmt.Sprintf("%s:%d", l.Physical.Artifact.URI, l.Physical.Region.StartLine)
			where = where[strings.LastIndex(where, "/")+1:]
		case len(l.Logical) == 1:
			where = l.Logical[0].Name
		}
		got = append(got, fmt.Sprintf("%s %s %s", where, r.Level, r.Rule))
	}
	want := []string{"my%20job%25.sh:3 warning misread", "my%20job%25.sh:4 error refused", "my%20job%25.sh:5 note undecided", "environment warning misread"}
	if !slices.Equal(got, want) {
		t.Errorf("results are %q, want %q", got, want)
	}
	for _, rule := range run.Tool.Driver.Rules {
		if rule.ShortDescription.Text == "" {
			t.Errorf("%s has no description", rule.ID)
		}
	}
}
