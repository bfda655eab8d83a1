// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
)

// parser walks the YAML of one file and collects everything that is wrong with it.
type parser struct {
	file string
	errs []error
}

func (p *parser) errorf(line int, format string, args ...any) {
	where := p.file
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	p.errs = append(p.errs, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

// yamlError is how the YAML parser words a syntax error.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// document returns the top node, or nil if there is nothing to walk.
func (p *parser) document(data []byte) *yaml.Node {
	if len(data) > maxSize {
		p.errorf(0, "is larger than %d bytes", maxSize)
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		p.syntaxError(err)
		return nil
	}
	switch err := d.Decode(&second); {
	case err == nil:
		p.errorf(second.Line, "a second YAML document: expected one")
	case !errors.Is(err, io.EOF):
		p.syntaxError(err)
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil
	}
	return doc.Content[0]
}

func (p *parser) syntaxError(err error) {
	m := yamlError.FindStringSubmatch(err.Error())
	line := 0
	if m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	text := yamlError.ReplaceAllString(err.Error(), "")
	if strings.Contains(text, "cannot start any token") { // what the parser reports about a tab
		text += ": indent with spaces, not with tabs, and quote values that begin with % @ or a backquote"
	}
	p.errorf(line, "not YAML: %s", text)
}

// mapping calls the function of each key. A key without a value counts as not given.
func (p *parser) mapping(n *yaml.Node, what string, keys map[string]func(*yaml.Node), required ...string) {
	if !p.is(n, yaml.MappingNode, what, "keys with values") {
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		known := keys[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || known == nil:
			all := slices.Sorted(maps.Keys(keys))
			p.errorf(key.Line, "unknown key %.64q (%s takes: %s)%s", key.Value, what, strings.Join(all, ", "),
				spelling.Hint(key.Value, all))
		case lines[key.Value] != 0:
			p.errorf(key.Line, "%s: the key is already in line %d", key.Value, lines[key.Value])
		default:
			lines[key.Value] = key.Line
			if !isNull(value) {
				known(value)
			} else if slices.Contains(required, key.Value) {
				p.errorf(key.Line, "%s: expected a value", key.Value)
			}
		}
	}
	for _, r := range required {
		if lines[r] == 0 {
			p.errorf(n.Line, "%s lacks the key %s", what, r)
		}
	}
}

// entries calls each for each key, of whatever name, and its value.
func (p *parser) entries(n *yaml.Node, what string, each func(key string, value *yaml.Node)) {
	if !p.is(n, yaml.MappingNode, what, "keys with values") {
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !p.is(key, yaml.ScalarNode, what, "keys with values"):
		case lines[key.Value] != 0:
			p.errorf(key.Line, "%s: the key is already in line %d", key.Value, lines[key.Value])
		default:
			lines[key.Value] = key.Line
			each(key.Value, value)
		}
	}
}

// sequence calls each for each item.
func (p *parser) sequence(n *yaml.Node, what string, each func(*yaml.Node)) {
	if !p.is(n, yaml.SequenceNode, what, "a list") {
		return
	}
	for _, item := range n.Content {
		each(item)
	}
}

// is reports whether n is of that kind, and complains otherwise.
func (p *parser) is(n *yaml.Node, kind yaml.Kind, what, expected string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		p.errorf(n.Line, "%s: *%s is a YAML alias: expected %s (put patterns that begin with * in quotes)", what, n.Value,
			expected)
	case n.Kind != kind:
		p.errorf(n.Line, "%s: expected %s", what, expected)
	default:
		return true
	}
	return false
}

// text returns a string, or "" after a complaint.
func (p *parser) text(n *yaml.Node, what, expected string) string {
	if !p.is(n, yaml.ScalarNode, what, expected) {
		return ""
	}
	if n.ShortTag() != "!!str" || n.Value == "" {
		p.errorf(n.Line, "%s: %q: expected %s", what, n.Value, expected)
		return ""
	}
	return n.Value
}

// pattern returns a compiled pattern for whole names, or nil after a complaint.
func (p *parser) pattern(n *yaml.Node, what string) *regexp.Regexp {
	s := p.text(n, what, "a regular expression that matches device names")
	if s == "" {
		return nil
	}
	re, err := ParsePattern(s)
	if err != nil {
		p.errorf(n.Line, "%s: %q: %w", what, s, err)
	}
	return re
}

func (p *parser) role(n *yaml.Node) fabric.Role {
	var words []string
	for _, r := range fabric.Roles() {
		words = append(words, string(r))
	}
	s := p.text(n, "role", spelling.List(words))
	if s != "" && !slices.Contains(words, s) {
		p.errorf(n.Line, "role: %q: expected %s%s", s, spelling.List(words), spelling.Hint(s, words))
	}
	return fabric.Role(s)
}

func (p *parser) path(n *yaml.Node, what string) string {
	s := p.text(n, what, "an absolute path")
	if s != "" && !path.IsAbs(s) {
		p.errorf(n.Line, "%s: %q: expected an absolute path", what, s)
	}
	return s
}

// number returns a number as it is written, in decimal: YAML's own reading would take 0400 for octal.
func (p *parser) number(n *yaml.Node, what, expected string, low, high float64) (float64, bool) {
	if !p.is(n, yaml.ScalarNode, what, expected) {
		return 0, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || n.ShortTag() == "!!str" || !(v >= low && v <= high) {
		p.errorf(n.Line, "%s: %q: expected %s from %v to %v", what, n.Value, expected, low, high)
		return 0, false
	}
	return v, true
}

// whole returns a whole number from 0 to high, or nil after a complaint.
func (p *parser) whole(n *yaml.Node, what string, high float64) *int {
	return p.wholeFrom(n, what, 0, high)
}

func (p *parser) wholeFrom(n *yaml.Node, what string, low, high float64) *int {
	const expected = "a whole number"
	v, ok := p.number(n, what, expected, low, high)
	switch {
	case !ok:
		return nil
	case v != math.Trunc(v):
		p.errorf(n.Line, "%s: %q: expected %s", what, n.Value, expected)
		return nil
	}
	return new(int(v))
}

// boolean returns true or false, or nil after a complaint.
func (p *parser) boolean(n *yaml.Node, what string) *bool {
	const expected = "true or false"
	if !p.is(n, yaml.ScalarNode, what, expected) {
		return nil
	}
	v := strings.ToLower(n.Value)
	if n.ShortTag() != "!!bool" || v != "true" && v != "false" {
		p.errorf(n.Line, "%s: %q: expected %s", what, n.Value, expected)
		return nil
	}
	return new(v == "true")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// ParsePattern compiles a regular expression that matches whole names.
func ParsePattern(s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, errors.New("expected a regular expression, not an empty one")
	}
	if _, err := regexp.Compile(s); err != nil { // by itself first: "a)(b" is none, but fits between the parentheses below
		return nil, fmt.Errorf("expected a regular expression: %w",
			errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	return regexp.Compile("^(?:" + s + ")$")
}
