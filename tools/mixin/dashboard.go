// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Durations that replace those of Grafana while a query is parsed; no query has them.
const interval, intervalName, span, spanName = "13m37s", "$__rate_interval", "13m38s", "$__range"

// values is a query for the values of a label, for a variable.
var values = regexp.MustCompile(`^label_values\((.*),\s*(\w+)\)$`)

// dashboard rewrites a dashboard of Grafana. Names of its variables stay, since links between dashboards have them.
func (o *options) dashboard(text []byte) ([]byte, error) {
	if len(o.labels)+len(o.matchers) == 0 {
		return text, nil
	}
	var tree any
	r := json.NewDecoder(bytes.NewReader(text))
	r.UseNumber()
	if err := r.Decode(&tree); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if err := o.walk(tree); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	w.SetIndent("", " ")
	if err := w.Encode(tree); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

func (o *options) walk(tree any) error {
	switch t := tree.(type) {
	case []any:
		for _, v := range t {
			if err := o.walk(v); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, v := range t {
			if key == "transformations" {
				t[key] = o.fields(v)
				continue
			}
			s, ok := v.(string)
			if !ok {
				if err := o.walk(v); err != nil {
					return err
				}
				continue
			}
			to, err := o.text(key, s)
			if err != nil {
				return err
			}
			t[key] = to
		}
		if t["id"] == "byName" { // the title of a column, if it is the name of its label
			t["options"] = o.fields(t["options"])
		}
	}
	return nil
}

// text rewrites a text by the key that it has.
func (o *options) text(key, s string) (string, error) {
	switch key {
	case "expr":
		return o.panelQuery(s)
	case "query", "definition":
		if m := values.FindStringSubmatch(s); m != nil {
			of, err := o.panelQuery(m[1])
			return "label_values(" + strings.TrimSpace(of) + ", " + o.name(m[2]) + ")", err
		}
	case "tagKeys":
		return o.name(s), nil
	}
	return o.template(s), nil
}

func (o *options) panelQuery(s string) (string, error) {
	to, err := o.query(strings.NewReplacer(intervalName, interval, spanName, span).Replace(s), nil)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(strings.NewReplacer(interval, intervalName, span, spanName).Replace(to)), nil
}

// fields renames fields of tables, wherever transformations name them: cluster, "cluster (uniqueValues)", cluster\rail.
func (o *options) fields(tree any) any {
	switch t := tree.(type) {
	case string:
		return o.fieldName(t)
	case []any:
		for i, v := range t {
			t[i] = o.fields(v)
		}
	case map[string]any:
		to := map[string]any{}
		for key, v := range t {
			to[o.fieldName(key)] = o.fields(v)
		}
		return to
	}
	return tree
}

func (o *options) fieldName(s string) string {
	parts := strings.Split(s, `\`)
	for i, p := range parts {
		name, how, of := strings.Cut(p, " (")
		if parts[i] = o.name(name); of {
			parts[i] += " (" + how
		}
	}
	return strings.Join(parts, `\`)
}
