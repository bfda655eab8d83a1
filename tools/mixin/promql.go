// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// query rewrites an expression. One in which nothing changes stays as it is, with its line breaks.
func (o *options) query(text string, numbers map[float64]float64) (string, error) {
	tree, err := parser.ParseExpr(text)
	if err != nil {
		return "", fmt.Errorf("parse %q: %w", text, err)
	}
	before := tree.String()
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			n.LabelMatchers = o.matched(n.Name, n.LabelMatchers)
		case *parser.AggregateExpr:
			o.names(n.Grouping)
			o.literal(n.Param) // count_values
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				o.names(n.VectorMatching.MatchingLabels)
				o.names(n.VectorMatching.Include)
			}
		case *parser.Call:
			o.call(n)
		case *parser.NumberLiteral:
			if to, ok := numbers[n.Val]; ok {
				n.Val = to
			}
		}
		return nil
	})
	if tree.String() == before {
		return text, nil
	}
	return strings.TrimLeft(parser.Prettify(tree), " ") + "\n", nil
}

func (o *options) name(label string) string {
	if to, ok := o.labels[label]; ok {
		return to
	}
	return label
}

func (o *options) names(list []string) {
	for i, l := range list {
		list[i] = o.name(l)
	}
}

// matched renames matchers, and adds those of the site to what is scraped: recorded series and alerts follow from it. A
// matcher of the site on the job replaces one of the project.
func (o *options) matched(metric string, matchers []*labels.Matcher) []*labels.Matcher {
	var all []*labels.Matcher
	scraped := metric == "up" || strings.HasPrefix(metric, "gpufabric_")
	for _, m := range matchers {
		name := o.name(m.Name)
		if scraped && m.Name == "job" && slices.ContainsFunc(o.matchers,
			func(own *labels.Matcher) bool { return own.Name == name }) {
			continue
		}
		all = append(all, labels.MustNewMatcher(m.Type, name, m.Value))
	}
	if scraped {
		all = append(all, o.matchers...)
	}
	return all
}

// call renames the labels in the arguments of functions that make labels.
func (o *options) call(c *parser.Call) {
	var at []int // of the arguments
	switch c.Func.Name {
	case "label_replace":
		at = []int{1, 3}
	case "label_join":
		at = []int{1}
		for i := 3; i < len(c.Args); i++ {
			at = append(at, i)
		}
	}
	for _, i := range at {
		o.literal(c.Args[i])
	}
}

func (o *options) literal(e parser.Expr) {
	if s, ok := e.(*parser.StringLiteral); ok {
		s.Val = o.name(s.Val)
	}
}

// template renames what texts of alerts and of dashboards show of a series: $labels.cluster, {{cluster}},
// ${__data.fields.cluster}, and what they ask for it: {cluster=%q}, label "cluster".
func (o *options) template(text string) string {
	for from, to := range o.labels {
		for _, form := range []string{
			`(\$labels\.)%s\b`, `({{ *)%s( *}})`, `(\${__data\.fields\.)%s(})`,
			`(\${__field\.labels\.)%s(})`, `([{,])%s(=%%q)`, `(label ")%s(")`,
		} {
			text = regexp.MustCompile(fmt.Sprintf(form, from)).ReplaceAllString(text, "${1}"+to+"${2}") // empty where there is no second group
		}
	}
	return text
}

// number is a number of PromQL as people write it in rules.
func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number: %w", text, err)
	}
	return v, nil
}

// hasNumber reports whether an expression has that number.
func hasNumber(text string, want float64) (bool, error) {
	tree, err := parser.ParseExpr(text)
	if err != nil {
		return false, fmt.Errorf("parse %q: %w", text, err)
	}
	found := false
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		n, ok := node.(*parser.NumberLiteral)
		found = found || ok && n.Val == want
		return nil
	})
	return found, nil
}
