// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// layoutVersion is that of the files.
const layoutVersion = 1

// Limits of what is in a file. What there is to say stays far below them.
const (
	maxNodes  = 4096 // of YAML
	maxDepth  = 8
	maxNumber = 1024 // of devices of a kind
	maxList   = 64
	maxText   = 256
)

// document is a profile as YAML.
type document struct {
	Version int                    `yaml:"version"`
	Name    string                 `yaml:"name"`
	Title   string                 `yaml:"title"`
	Match   []matchEntry           `yaml:"match"`
	GPUs    *gpusEntry             `yaml:"gpus,omitempty"`
	Rails   []nicEntry             `yaml:"rails,omitempty"`
	Other   []nicEntry             `yaml:"other,omitempty"`
	Cabling cablingEntry           `yaml:"cabling"`
	Normal  []normalEntry          `yaml:"normal,omitempty"`
	Sources map[string]sourceEntry `yaml:"sources"`
}

type matchEntry struct {
	Vendor      string `yaml:"vendor,omitempty"`
	Product     string `yaml:"product,omitempty"`
	Version     string `yaml:"product_version,omitempty"`
	BoardVendor string `yaml:"board_vendor,omitempty"`
	Board       string `yaml:"board,omitempty"`
	AssetTag    string `yaml:"asset_tag,omitempty"`
	GPUs        names  `yaml:"gpus,omitempty,flow"`
	AtLeast     int    `yaml:"at_least,omitempty"`
	Source      names  `yaml:"source,flow"`
}

type gpusEntry struct {
	IDs    names `yaml:"ids,flow"`
	Number int   `yaml:"number"`
	Source names `yaml:"source,flow"`
}

type nicEntry struct {
	Chips            names   `yaml:"chips,flow"`
	Number           int     `yaml:"number"`
	Optional         bool    `yaml:"optional,omitempty"`
	Role             string  `yaml:"role,omitempty"`
	PortsPerCard     int     `yaml:"ports_per_card,omitempty"`
	VirtualFunctions bool    `yaml:"virtual_functions,omitempty"`
	LinkLayer        string  `yaml:"link_layer,omitempty"`
	Rate             float64 `yaml:"rate_gigabits_per_second,omitempty"`
	Near             string  `yaml:"near,omitempty"`
	Planes           int     `yaml:"planes,omitempty"`
	Source           names   `yaml:"source,flow"`
}

type cablingEntry struct {
	By     string `yaml:"by"`
	Source names  `yaml:"source,omitempty,flow"`
}

type normalEntry struct {
	What   string `yaml:"what"`
	Source names  `yaml:"source,flow"`
}

type sourceEntry struct {
	Title string `yaml:"title"`
	URL   string `yaml:"url,omitempty"`
	Date  string `yaml:"date"`
}

// names is a list of texts, or one of them.
type names []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (n *names) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*n = names{node.Value}
		return nil
	}
	var list []string
	if err := node.Decode(&list); err != nil {
		return err
	}
	*n = list
	return nil
}

// Who fixes the cabling.
const (
	byProvider = "provider"
	bySite     = "site"
)

// Parse reads a profile. It returns all that is wrong with it, in one line.
func Parse(data []byte) (fabric.Profile, error) {
	var d document
	if err := decode(data, &d); err != nil {
		return fabric.Profile{}, err
	}
	c := checker{sources: d.Sources}
	p := c.profile(&d)
	if len(c.wrong) > 0 {
		return fabric.Profile{}, errors.New(strings.Join(c.wrong, "; "))
	}
	return p, nil
}

func decode(data []byte, d *document) error {
	if len(data) > maxSize {
		return fmt.Errorf("larger than %d bytes", maxSize)
	}
	var top, second yaml.Node
	plain := yaml.NewDecoder(bytes.NewReader(data))
	if err := plain.Decode(&top); err != nil {
		return fmt.Errorf("expected a profile in YAML: %w", oneLine(err))
	}
	if err := plain.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("expected one YAML document")
	}
	nodes := 0
	if err := bounded(&top, 0, &nodes); err != nil {
		return err
	}
	strict := yaml.NewDecoder(bytes.NewReader(data))
	strict.KnownFields(true)
	if err := strict.Decode(d); err != nil {
		return oneLine(err)
	}
	if d.Version != layoutVersion {
		return fmt.Errorf("version %d: expected %d", d.Version, layoutVersion)
	}
	return nil
}

// bounded refuses what a profile does not need and what could cost more than it has bytes: aliases, and deep nesting.
func bounded(n *yaml.Node, depth int, nodes *int) error {
	*nodes++
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fmt.Errorf("line %d: expected no anchors and aliases", n.Line)
	case depth > maxDepth:
		return fmt.Errorf("line %d: nested too deeply", n.Line)
	case *nodes > maxNodes:
		return fmt.Errorf("line %d: more than %d values", n.Line, maxNodes)
	}
	for _, below := range n.Content {
		if err := bounded(below, depth+1, nodes); err != nil {
			return err
		}
	}
	return nil
}

var (
	unknownField = lazyregexp.New(`field (\S{1,64}).* not found in type \S+`)
	goType       = lazyregexp.New(` into (?:\[\])?(?:profiles\.)?\w+`)
)

// oneLine words errors of the YAML package for people who do not know its types.
func oneLine(err error) error {
	text := unknownField().ReplaceAllString(err.Error(), "unknown key $1")
	text = strings.ReplaceAll(goType().ReplaceAllString(text, ""), "cannot unmarshal", "not expected:")
	return errors.New(strings.Join(strings.Fields(strings.TrimPrefix(text, "yaml: unmarshal errors:")), " "))
}
