// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// ruleFile rewrites a file of rules. Comments stay; a file in which nothing changes keeps its bytes.
func (o *options) ruleFile(text []byte, used map[setting]bool) ([]byte, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if len(file.Content) != 1 || field(file.Content[0], "groups") == nil {
		return nil, errors.New("parse: no groups of rules")
	}
	changed := false
	for _, group := range field(file.Content[0], "groups").Content {
		if name := field(group, "name"); name != nil {
			for _, s := range o.settings {
				if s.name == name.Value && s.field == "interval" {
					changed, used[s] = true, true
					put(group, s.field, s.value)
				}
			}
		}
		rules := field(group, "rules")
		if rules == nil {
			continue
		}
		for _, rule := range rules.Content {
			c, err := o.rule(rule, used)
			if err != nil {
				return nil, err
			}
			changed = changed || c
		}
	}
	if !changed {
		return text, nil
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&file); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// rule reports whether it changed anything.
func (o *options) rule(rule *yaml.Node, used map[setting]bool) (changed bool, err error) {
	name := field(rule, "alert")
	if name == nil {
		name = field(rule, "record")
	}
	expr := field(rule, "expr")
	if name == nil || expr == nil {
		return false, fmt.Errorf("line %d: a rule without a name or an expression", rule.Line)
	}
	alert := field(rule, "alert") != nil
	numbers, wanted := map[float64]float64{}, map[float64]setting{}
	for _, s := range o.settings {
		if s.name != name.Value {
			continue
		}
		switch {
		case alert && (s.field == "for" || s.field == "keep_firing_for"):
			put(rule, s.field, s.value)
			changed, used[s] = true, true
		case alert && s.field == "severity":
			put(field(rule, "labels"), s.field, s.value)
			changed, used[s] = true, true
		default:
			from, err := number(s.field)
			if err != nil {
				return false, fmt.Errorf("--set=%s: no such field: %w", s, err)
			}
			if numbers[from], err = number(s.value); err != nil {
				return false, fmt.Errorf("--set=%s: %w", s, err)
			}
			wanted[from] = s
		}
	}
	for from, s := range wanted {
		has, err := hasNumber(expr.Value, from)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name.Value, err)
		}
		used[s] = used[s] || has
	}
	rewritten, err := o.query(expr.Value, numbers)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name.Value, err)
	}
	if rewritten != expr.Value {
		changed, expr.Value, expr.Style = true, rewritten, yaml.LiteralStyle
	}
	if annotations := field(rule, "annotations"); annotations != nil {
		for i := 1; i < len(annotations.Content); i += 2 {
			if n := annotations.Content[i]; o.template(n.Value) != n.Value {
				changed, n.Value = true, o.template(n.Value)
			}
		}
	}
	return changed, nil
}

// field is the value of a key of a mapping, or nil.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// put sets the value of a key, which it adds where there is none.
func put(mapping *yaml.Node, key, value string) {
	n := field(mapping, key)
	if n == nil {
		n = &yaml.Node{Kind: yaml.ScalarNode}
		mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, n)
	}
	n.SetString(value)
}
