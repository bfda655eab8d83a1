// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"strconv"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/rdmaping"
)

// rdmaPing reads how rails are pinged, which is off unless enabled says otherwise.
func (p *parser) rdmaPing(n *yaml.Node, to *Config) {
	c := rdmaping.DefaultConfig()
	on, before := false, len(p.errs)
	between := func(to *int, name string, low, high int) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if v := p.whole(n, name, float64(high)); v != nil && *v < low {
				p.errorf(n.Line, "%s: %d: expected %d to %d", name, *v, low, high)
			} else {
				set(to, v)
			}
		}
	}
	p.mapping(n, "rdma_ping", map[string]func(*yaml.Node){
		"enabled":      func(n *yaml.Node) { set(&on, p.boolean(n, "enabled")) },
		"target_files": func(n *yaml.Node) { c.Files = p.sources(n, "target_files", p.path) },
		"target_names": func(n *yaml.Node) { c.Names = p.sources(n, "target_names", p.hostPort) },
		"leaf_label":   func(n *yaml.Node) { c.LeafLabel = p.text(n, "leaf_label", "the name of a label") },
		"self":         func(n *yaml.Node) { c.Self = p.hostPort(n, "self") },
		"peers":        between(&c.Peers, "peers", 1, rdmaping.MaxPeers),
		"size":         between(&c.Size, "size", rdmaping.Least, rdmaping.Longest),
		"interval": func(n *yaml.Node) {
			c.Interval = p.duration(n, "interval")
			if c.Interval < rdmaping.LeastInterval || c.Interval > rdmaping.MostInterval {
				p.errorf(n.Line, "interval: %q: expected %s to %s", n.Value, rdmaping.LeastInterval, rdmaping.MostInterval)
			}
		},
		"scheme": func(n *yaml.Node) {
			if c.Scheme = p.text(n, "scheme", "http or https"); c.Scheme != "http" && c.Scheme != "https" {
				p.errorf(n.Line, "scheme: %.20q: expected http or https", n.Value)
			}
		},
		"client_file": func(n *yaml.Node) { c.ClientFile = p.path(n, "client_file") },
		"plain":       func(n *yaml.Node) { set(&c.Plain, p.boolean(n, "plain")) },
		"library":     func(n *yaml.Node) { c.Library = p.text(n, "library", "a path or a name") },
	})
	if on && len(p.errs) == before {
		to.RDMAPing = &c
	}
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
