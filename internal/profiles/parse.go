// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// layoutVersion is that of the files.
const layoutVersion = 1

// Limits of what is in a file. What there is to say stays far below them.
const (
	maxDepth  = 8    // of YAML
	maxNumber = 1024 // of devices of a kind
	maxList   = 64
	maxText   = 256
)

// document is a profile as YAML.
type document struct {
	Version        int `yaml:"version"`
	fabric.Profile `yaml:",inline"`
}

// Parse reads a profile. It returns all that is wrong with it, in one line; then the profile has at most a name.
func Parse(data []byte) (fabric.Profile, error) {
	p := fabric.Profile{
		Rails: []fabric.ProfileNIC{}, Others: []fabric.ProfileNIC{}, Normal: []fabric.ProfileNormal{},
		Cabling: fabric.ProfileCabling{Sources: []string{}},
	}
	err := decode(data, &p)
	if err == nil {
		err = check(&p)
	}
	if err != nil {
		if name := nameLine().FindSubmatch(data); name != nil {
			return fabric.Profile{Name: string(name[1])}, err
		}
		return fabric.Profile{}, err
	}
	return p, nil
}

func decode(data []byte, p *fabric.Profile) error {
	if len(data) > maxSize {
		return fmt.Errorf("larger than %d bytes", maxSize)
	}
	var top, second yaml.Node
	plain := yaml.NewDecoder(bytes.NewReader(data))
	switch err := plain.Decode(&top); {
	case err != nil && strings.Contains(err.Error(), "anchor"): // whose name it quotes
		return errors.New("expected no anchors and aliases")
	case err != nil:
		return fmt.Errorf("expected a profile in YAML: %w", err)
	}
	if err := cmp.Or(versioned(top.Content[0]), bounded(&top, 0)); err != nil {
		return err
	}
	if err := plain.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("expected one YAML document")
	}
	strict := yaml.NewDecoder(bytes.NewReader(data))
	strict.KnownFields(true)
	d := document{Profile: *p}
	err := strict.Decode(&d)
	*p = d.Profile
	return worded(err)
}

// versioned refuses what is no profile, of which nothing may be quoted: a link may have led to a file with secrets.
func versioned(n *yaml.Node) error {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value != "version" {
			continue
		}
		if v, err := strconv.Atoi(n.Content[i+1].Value); err != nil || v != layoutVersion {
			return fmt.Errorf("version %d: expected %d", v, layoutVersion)
		}
		return nil
	}
	return errors.New("expected a profile in YAML, with the key version")
}

// bounded refuses what could cost more than it has bytes, which are aliases and deep nesting, and what would
// be read as if it were not there.
func bounded(n *yaml.Node, depth int) error {
	empty := n.Kind == yaml.ScalarNode && (n.Value == "" || n.Tag == "!!null") ||
		n.Kind&(yaml.SequenceNode|yaml.MappingNode) != 0 && len(n.Content) == 0
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fmt.Errorf("line %d: expected no anchors and aliases", n.Line)
	case empty:
		return fmt.Errorf("line %d: expected a value", n.Line)
	case depth > maxDepth:
		return fmt.Errorf("line %d: nested too deeply", n.Line)
	case len(n.Content) > 2*maxList:
		return fmt.Errorf("line %d: more than %d values", n.Line, maxList)
	}
	for i, below := range n.Content {
		counts := []string{"number", "at_least", "ports_per_card"}
		if n.Kind == yaml.MappingNode && i%2 == 1 && slices.Contains(counts, n.Content[i-1].Value) &&
			!whole().MatchString(below.Value) {
			return fmt.Errorf("line %d: %s %.64q: expected a whole number", below.Line, n.Content[i-1].Value, below.Value)
		}
		if err := bounded(below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

var (
	nameLine     = lazyregexp.New(`(?m)^name:[ \t]*["']?([a-z0-9-]+)`)
	whole        = lazyregexp.New(`^-?(0|[1-9][0-9]*)$`) // not 010, 0x8 or 8.5, which YAML would make 8
	unknownField = lazyregexp.New(`field (\S{1,64}).* not found in type \S+`)
	goType       = lazyregexp.New(` into \S+`)
)

// worded puts errors of the YAML package into words for people who do not know its types.
func worded(err error) error {
	if err == nil {
		return nil
	}
	text := unknownField().ReplaceAllString(err.Error(), "unknown key $1")
	text = strings.ReplaceAll(goType().ReplaceAllString(text, ""), "cannot unmarshal", "not expected:")
	return errors.New(strings.Join(strings.Fields(strings.TrimPrefix(text, "yaml: unmarshal errors:")), " "))
}
