// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/diagnose"
)

// links are where a site keeps what findings lead to. All that names such an address takes it from here: the landing page,
// check, and the alert rules and dashboards that the command rules writes.
type links struct {
	runbooks string // address or path of the folder of runbooks; ends without a slash
	grafana  string // address; ends without a slash; empty: not known
}

func defaultLinks() links { return links{runbooks: strings.TrimSuffix(alerts.RunbookBase, "/")} }

// runbook is the page about a check.
func (l links) runbook(c *diagnose.Check) string { return l.runbooks + "/check-" + c.Topic + ".md" }

// nodeDashboard is the dashboard of a node by the name that Prometheus has for it, of any if that is empty. It is empty if
// Grafana's address is.
func (l links) nodeDashboard(instance string) string {
	switch {
	case l.grafana == "":
		return ""
	case instance == "":
		return l.grafana + "/d/gpufabric-node"
	default:
		return l.grafana + "/d/gpufabric-node?var-instance=" + url.QueryEscape(instance)
	}
}

// What addresses and paths may have in them: they are put into YAML, JSON and templates as they are.
var (
	addressPattern = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/%+,=\[\]-]+$`)
	pathPattern    = regexp.MustCompile(`^/[A-Za-z0-9._~/%+,=-]*$`)
)

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && addressPattern.MatchString(s)
}

// links reads where the site keeps runbooks and Grafana.
func (p *configParser) links(n *yaml.Node, l *links) {
	read := func(to *string, what, expected string, valid func(string) bool) func(*yaml.Node) {
		return func(n *yaml.Node) {
			switch s := p.text(n, what, expected); {
			case s == "": // told
			case !valid(s):
				p.errorf(n.Line, "%s: %q: expected %s", what, s, expected)
			default:
				*to = strings.TrimRight(s, "/")
			}
		}
	}
	p.mapping(n, "links", map[string]func(*yaml.Node){
		"runbooks": read(&l.runbooks, "runbooks", "an address such as https://wiki.example/runbooks, or an absolute path",
			func(s string) bool { return isAddress(s) || pathPattern.MatchString(s) }),
		"grafana": read(&l.grafana, "grafana", "an address such as https://grafana.example", isAddress),
	})
}
