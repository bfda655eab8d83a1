// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/rdmaping"
)

// rdmaPing reads how rails are pinged, which is off unless enabled says otherwise.
func (p *parser) rdmaPing(n *yaml.Node, to *Config) {
	c := rdmaping.DefaultConfig()
	on, before := false, len(p.errs)
	between := func(to *int, name string, low, high float64) func(*yaml.Node) {
		return func(n *yaml.Node) { set(to, p.wholeFrom(n, name, low, high)) }
	}
	p.mapping(n, "rdma_ping", map[string]func(*yaml.Node){
		"enabled":      func(n *yaml.Node) { set(&on, p.boolean(n, "enabled")) },
		"target_files": func(n *yaml.Node) { c.Files = p.sources(n, "target_files", p.path) },
		"target_names": func(n *yaml.Node) { c.Names = p.sources(n, "target_names", p.hostPort) },
		"leaf_label":   func(n *yaml.Node) { c.LeafLabel = p.label(n, "leaf_label") },
		"self":         func(n *yaml.Node) { c.Self = p.hostPort(n, "self") },
		"peers":        between(&c.Peers, "peers", 1, rdmaping.MaxPeers),
		"size":         between(&c.Size, "size", rdmaping.Least, rdmaping.Longest),
		"interval": func(n *yaml.Node) {
			c.Interval = p.duration(n, "interval")
			if c.Interval > 0 && (c.Interval < rdmaping.LeastInterval || c.Interval > rdmaping.MostInterval) {
				p.errorf(n.Line, "interval: %q: expected %s to %s", n.Value, rdmaping.LeastInterval, rdmaping.MostInterval)
			}
		},
		"scheme": func(n *yaml.Node) {
			c.Scheme = p.text(n, "scheme", "http or https")
			if c.Scheme != "" && c.Scheme != "http" && c.Scheme != "https" {
				p.errorf(n.Line, "scheme: %.20q: expected http or https", n.Value)
			}
		},
		"client_file": func(n *yaml.Node) { c.ClientFile = p.path(n, "client_file") },
		"plain":       func(n *yaml.Node) { set(&c.Plain, p.boolean(n, "plain")) },
		"library":     func(n *yaml.Node) { c.Library = p.library(n, "library") },
	})
	if on && len(p.errs) == before {
		to.RDMAPing = &c
	}
}

var labelPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// label is the name of a label of a target other than rail, which has a meaning of its own.
func (p *parser) label(n *yaml.Node, what string) string {
	const expected = "the name of a label other than rail: letters, digits and _"
	s := p.text(n, what, expected)
	if s != "" && (s == "rail" || !labelPattern.MatchString(s)) {
		p.errorf(n.Line, "%s: %.64q: expected %s", what, s, expected)
	}
	return s
}

// library is what the loader finds by itself, or an absolute path: any other would be of the folder of the process.
func (p *parser) library(n *yaml.Node, what string) string {
	const expected = "an absolute path, or a name without /"
	s := p.text(n, what, expected)
	if strings.Contains(s, "/") && !path.IsAbs(s) {
		p.errorf(n.Line, "%s: %.64q: expected %s", what, s, expected)
	}
	return s
}

// sources is a list of files or names.
func (p *parser) sources(n *yaml.Node, what string, read func(*yaml.Node, string) string) (list []string) {
	p.sequence(n, what, func(n *yaml.Node) {
		if list = append(list, read(n, what)); len(list) == rdmaping.MaxSources+1 {
			p.errorf(n.Line, "%s: expected at most %d entries", what, rdmaping.MaxSources)
		}
	})
	return list
}

func (p *parser) hostPort(n *yaml.Node, what string) string {
	const expected = "host:port"
	s := p.text(n, what, expected)
	host, port, err := net.SplitHostPort(s)
	number, wrong := strconv.ParseUint(port, 10, 16)
	if s != "" && (err != nil || wrong != nil || host == "" || number == 0) {
		p.errorf(n.Line, "%s: %.64q: expected %s", what, s, expected)
	}
	return s
}
