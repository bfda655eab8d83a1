// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chosen is the value of a variable: what queries get and what the reader sees.
type chosen struct {
	label, text string
	values      []string
	pattern     bool // queries get a regular expression
	all         string
	hidden      bool
}

// query is what stands for the variable in a query, as Grafana's Prometheus data source writes it.
func (c chosen) query() string {
	switch {
	case c.all != "":
		return c.all
	case !c.pattern:
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Join(c.values, ","))
	}
	var quoted []string
	for _, v := range c.values {
		quoted = append(quoted, strings.ReplaceAll(regexp.QuoteMeta(v), `\`, `\\`))
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "(" + strings.Join(quoted, "|") + ")"
}

var labelValues = regexp.MustCompile(`^label_values\(\s*(?:(.+?)\s*,\s*)?([a-zA-Z_][a-zA-Z0-9_]*)\s*\)$`)

// choose gives each variable a value, in their order: that of given, else all, else the first one.
func (s *sheet) choose(ctx context.Context, given map[string]string) error {
	s.variables, s.order = map[string]chosen{}, nil
	for _, v := range s.Templating.List {
		c := chosen{label: v.Label, hidden: v.Hide == 2}
		if c.label == "" {
			c.label = v.Name
		}
		switch v.Type {
		case "datasource":
			c.text, c.values = "Prometheus", []string{"Prometheus"}
		case "query":
			values, err := s.options(ctx, v)
			if err != nil {
				return fmt.Errorf("variable %s: %w", v.Name, err)
			}
			c.pattern = v.Multi || v.IncludeAll
			is, ok := given[v.Name]
			switch {
			case ok && !slices.Contains(values, is):
				return fmt.Errorf("variable %s: %q is none of %q", v.Name, is, values)
			case ok:
				c.text, c.values = is, []string{is}
			case v.IncludeAll:
				c.text, c.values, c.all = "All", values, v.AllValue
			case len(values) > 0:
				c.text, c.values = values[0], values[:1]
			}
		case "constant", "textbox", "custom", "interval":
			var text string
			_ = json.Unmarshal(v.Current.Value, &text)
			c.text, c.values = text, []string{text}
		default:
			return fmt.Errorf("variable %s: type %q is not known", v.Name, v.Type)
		}
		s.variables[v.Name] = c
		s.order = append(s.order, v.Name)
	}
	return nil
}

func (s *sheet) options(ctx context.Context, v Variable) ([]string, error) {
	var text string
	if json.Unmarshal(v.Query, &text) != nil {
		var object struct{ Query string }
		if err := json.Unmarshal(v.Query, &object); err != nil {
			return nil, err
		}
		text = object.Query
	}
	m := labelValues.FindStringSubmatch(s.fill(text, 0))
	if m == nil || v.Regex != "" {
		return nil, fmt.Errorf("query %q: only label_values without a regex is known", text)
	}
	list, err := s.prometheus.values(ctx, m[1], m[2], s.from, s.to)
	list = slices.DeleteFunc(list, func(v string) bool { return v == "" })
	slices.Sort(list)
	return list, err
}

var placeholder = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+)(?::([a-z]+))?\}|\$([a-zA-Z0-9_]+)|\[\[([a-zA-Z0-9_]+)\]\]`)

// fill puts the variables, and Grafana's own ones for a step, into a query. What is no variable stays as it is.
func (s *sheet) fill(text string, step time.Duration) string {
	return placeholder.ReplaceAllStringFunc(text, func(whole string) string {
		m := placeholder.FindStringSubmatch(whole)
		name := m[1] + m[3] + m[4]
		span := s.to.Sub(s.from)
		switch name {
		case "__interval":
			return promDuration(step)
		case "__rate_interval":
			return promDuration(max(step+s.scrape, 4*s.scrape))
		case "__range":
			return promDuration(span)
		case "__range_s":
			return strconv.Itoa(int(span.Seconds()))
		case "__interval_ms":
			return strconv.Itoa(int(step.Milliseconds()))
		}
		c, known := s.variables[name]
		switch {
		case !known:
			return whole
		case m[2] == "text", m[2] == "raw":
			return c.text
		}
		return c.query()
	})
}

// told is fill for what the reader sees: the names and not the patterns.
func (s *sheet) told(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(whole string) string {
		m := placeholder.FindStringSubmatch(whole)
		if c, known := s.variables[m[1]+m[3]+m[4]]; known {
			return c.text
		}
		return whole
	})
}

func promDuration(d time.Duration) string {
	return strconv.Itoa(max(int(d.Round(time.Second).Seconds()), 1)) + "s"
}
