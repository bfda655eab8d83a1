// SPDX-License-Identifier: Apache-2.0

//go:build !lab

package status

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/status.schema.json instead of comparing it")

const schemaFile = "../../docs/status.schema.json"

// schema is an object of JSON Schema.
type schema map[string]any

// factSchema is what all facts have. A value that is not known is missing.
func factSchema() schema {
	text := schema{"type": "string"}
	return schema{
		"type": "object", "required": []string{"state"},
		"properties": schema{"state": schema{"enum": []string{"ok", "absent", "unknown"}}, "reason": text, "source": text},
		"if":         schema{"properties": schema{"state": schema{"const": "ok"}}}, "then": schema{"required": []string{"value"}},
		"else": schema{"properties": schema{"value": false}},
	}
}

// schemaOf is the schema of what JSON has of a type. About has the meaning of each value by its path, as
// docs/STATUS.md.
func schemaOf(t reflect.Type, path string, about map[string]string) schema {
	s := schema{}
	switch {
	case t.Kind() == reflect.Pointer:
		s = schemaOf(t.Elem(), path, about)
		s["type"] = []string{s["type"].(string), "null"}
	case strings.HasPrefix(t.Name(), "Fact["):
		s["$ref"], s["properties"] = "#/$defs/fact", schema{"value": schemaOf(t.Field(0).Type.Field(0).Type, path+".value", about)}
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), path+"[]", about)
	case t.Kind() == reflect.Struct:
		s["type"] = "object"
		properties, required := schema{}, []string{}
		addFields(t, path, about, properties, &required)
		s["properties"], s["required"] = properties, required
	default:
		s["type"] = map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Uint64: "integer", reflect.Float64: "number", reflect.Bool: "boolean"}[t.Kind()]
	}
	if text := about[path]; text != "" {
		s["description"] = text
	}
	return s
}

func addFields(t reflect.Type, path string, about map[string]string, properties schema, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			addFields(f.Type, path, about, properties, required)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		properties[name] = schemaOf(f.Type, strings.TrimPrefix(path+"."+name, "."), about)
		if options != "omitempty" {
			*required = append(*required, name)
		}
	}
}

// TestSchema compares docs/status.schema.json with the types (go test ./internal/status -run TestSchema
// -update writes it).
func TestSchema(t *testing.T) {
	about := map[string]string{}
	for _, row := range documentedFields(t) {
		about[row[1]] = row[3]
	}
	s := schemaOf(reflect.TypeFor[Document](), "", about)
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "Status document of gpufabric_exporter"
	s["$defs"] = schema{"fact": factSchema()}
	s["properties"].(schema)["version"].(schema)["const"] = Version
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, b.Bytes(), 0o644); err != nil { //nolint:gosec // everyone may read it
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("docs/status.schema.json is not what the types are (refresh with -update): %v", err)
	}
}
