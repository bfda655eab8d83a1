// SPDX-License-Identifier: Apache-2.0

//go:build !lab

package status

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/jobs/progress"
)

// fields returns what JSON has of a type: the type of each value by its path.
func fields(t reflect.Type, path string, into map[string]string) {
	switch {
	case t.Kind() == reflect.Pointer && t.Elem() != reflect.TypeFor[progress.JobsDocument]():
		fields(t.Elem(), path, into)
		into[path] += " or null"
	case strings.HasPrefix(t.Name(), "Fact["):
		value := t.Field(0).Type.Field(0).Type
		inner := map[string]string{}
		fields(value, "", inner)
		into[path] = "fact: " + inner[""]
		if value.Kind() != reflect.Struct && value.Kind() != reflect.Slice {
			return
		}
		delete(inner, "")
		into[path] = "fact"
		for p, what := range inner {
			into[strings.Replace(path+".value."+p, ".[]", "[]", 1)] = what
		}
	case t == reflect.TypeFor[time.Time]():
		into[path] = "time"
	case t.Kind() == reflect.Pointer: // of package progress
		into[path] = "object or null"
	case t.Kind() == reflect.Slice:
		fields(t.Elem(), path+"[]", into)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if f.Anonymous && name == "" {
				fields(f.Type, path, into)
				continue
			}
			fields(f.Type, strings.TrimPrefix(path+"."+name, "."), into)
		}
	default:
		into[path] = map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Float64: "number", reflect.Bool: "boolean"}[t.Kind()]
	}
}

// documentedFields are the rows of docs/STATUS.md: field, type and meaning.
func documentedFields(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/STATUS.md")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1)
}

// TestDocumentIsDocumented compares docs/STATUS.md with the types.
func TestDocumentIsDocumented(t *testing.T) {
	want := map[string]string{}
	fields(reflect.TypeFor[Document](), "", want)
	got := map[string]string{}
	for _, row := range documentedFields(t) {
		got[row[1]] = row[2]
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			t.Errorf("| `%s` | %s | | is documented as %q", path, want[path], got[path])
		}
	}
	for path := range got {
		if want[path] == "" {
			t.Errorf("%s is documented, and not in the document", path)
		}
	}
}
