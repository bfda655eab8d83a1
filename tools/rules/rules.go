// SPDX-License-Identifier: Apache-2.0

// Package rules judges PromQL expressions against what the exporter exposes: a rule or a dashboard that names a metric
// or a label that does not exist returns nothing, without an error. It has no state. It returns findings in words;
// an error means that the text is not PromQL.
package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Metrics are the labels of each metric that may be used, without those that Prometheus adds to every series
// of a target. A nil list: the labels are not known.
type Metrics map[string][]string

// targetLabels are on every series: Prometheus adds them, or the site. Labels such as rack are those of the site.
var targetLabels = []string{"cluster", "job", "instance"}

// MaxRawRange is the longest range of what the exporter exposes that an expression may read. Recorded series are few
// and may be read for longer.
const MaxRawRange = 10 * time.Minute

// Check returns what is wrong with an expression of a rule.
func Check(expr string, metrics Metrics) ([]string, error) {
	return check(expr, &checker{metrics: metrics, rule: true})
}

// CheckPanel returns what is wrong with an expression that people look at: it may read further back, and drop labels.
func CheckPanel(expr string, metrics Metrics) ([]string, error) {
	return check(expr, &checker{metrics: metrics})
}

func check(expr string, c *checker) ([]string, error) {
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", expr, err)
	}
	parser.Inspect(tree, c.visit)
	return c.wrong, nil
}

type checker struct {
	metrics Metrics
	rule    bool // evaluated all the time, and its labels go on to alerts
	wrong   []string
}

func (c *checker) add(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (c *checker) visit(node parser.Node, _ []parser.Node) error {
	switch n := node.(type) {
	case *parser.VectorSelector:
		c.selector(n)
	case *parser.MatrixSelector:
		if v, ok := n.VectorSelector.(*parser.VectorSelector); ok && c.rule && !recorded(v.Name) && v.Name != "ALERTS" &&
			n.Range+v.OriginalOffset > MaxRawRange {
			c.add("%s reads %s back, more than %s", v.Name, n.Range+v.OriginalOffset, MaxRawRange)
		}
	case *parser.SubqueryExpr:
		c.add("%s: a subquery reads raw samples again and again; record it", n)
	case *parser.AggregateExpr:
		if c.rule {
			c.aggregate(n)
		} else {
			c.listed(n.Expr, n.Grouping, "aggregated over")
		}
	case *parser.BinaryExpr:
		c.binary(n)
	}
	return nil
}

func (c *checker) selector(v *parser.VectorSelector) {
	known, ok := c.metrics[v.Name]
	if !ok {
		c.add("no metric %q", v.Name)
		return
	}
	for _, m := range v.LabelMatchers {
		if m.Name != labels.MetricName && known != nil && !slices.Contains(known, m.Name) &&
			!slices.Contains(targetLabels, m.Name) {
			c.add("%s has no label %s", v.Name, m.Name)
		}
	}
}

// aggregate requires without, because by drops labels that sites add to their targets. For a cluster, by is allowed.
func (c *checker) aggregate(a *parser.AggregateExpr) {
	if !a.Without && !slices.Contains(a.Grouping, "cluster") {
		c.add("%s: by drops the labels of the site; use without", a)
	}
	c.listed(a.Expr, a.Grouping, "aggregated over")
}

// binary requires that the labels after on exist on both sides, and that no labels of the site are dropped.
func (c *checker) binary(b *parser.BinaryExpr) {
	m := b.VectorMatching
	if m == nil {
		return
	}
	if m.On {
		c.listed(b, m.MatchingLabels, "matched on")
	}
	if c.rule && m.On && m.Card == parser.CardOneToOne && !b.Op.IsSetOperator() {
		c.add("%s: one-to-one matching with on drops all other labels; use group_left, or no on", b)
	}
	for _, l := range m.MatchingLabels {
		if m.On && !slices.Contains(targetLabels, l) && (!c.may(b.LHS, l) || !c.may(b.RHS, l)) {
			c.add("%s: matched on %s, which only one side has", b, l)
		}
	}
}

// listed reports labels that nothing inside the expression has.
func (c *checker) listed(e parser.Expr, list []string, how string) {
	for _, l := range list {
		if !slices.Contains(targetLabels, l) && !c.may(e, l) {
			c.add("%s: %s %s, which nothing in it has", e, how, l)
		}
	}
}

// may reports whether any series inside the expression can have the label, or a function makes it.
func (c *checker) may(e parser.Expr, label string) bool {
	found := false
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			known, ok := c.metrics[n.Name]
			found = found || (ok && known == nil) || slices.Contains(known, label)
		case *parser.Call:
			if n.Func.Name == "label_replace" || n.Func.Name == "label_join" {
				if s, ok := n.Args[1].(*parser.StringLiteral); ok {
					found = found || s.Val == label
				}
			}
		case *parser.AggregateExpr:
			if s, ok := n.Param.(*parser.StringLiteral); ok { // count_values makes a label
				found = found || s.Val == label
			}
		}
		return nil
	})
	return found
}

func recorded(name string) bool { return strings.Contains(name, ":") }
