// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/verdict"
)

// Links are where a site keeps what findings lead to. All that names such an address takes it from here: the
// landing page, check, and the alert rules and dashboards that the command rules writes.
type Links struct {
	Runbooks string // address or path of the folder of runbooks; ends without a slash
	Grafana  string // address; ends without a slash; empty: not known
}

// DefaultLinks are those of the project.
func DefaultLinks() Links { return Links{Runbooks: strings.TrimSuffix(alerts.RunbookBase, "/")} }

// AlertRunbook is the page about an alert.
func (l Links) AlertRunbook(alert string) string { return l.Runbooks + "/" + alert + ".md" }

// Runbook is the page about a check; of an address, the part of the page about it.
func (l Links) Runbook(c *verdict.Check) string {
	page := l.Runbooks + "/check-" + c.Topic + ".md"
	if strings.HasPrefix(l.Runbooks, "/") {
		return page
	}
	return page + "#" + c.ID
}

// NodeDashboard is the dashboard of a node by the name that Prometheus has for it, of any if that is empty.
// It is empty if Grafana's address is.
func (l Links) NodeDashboard(instance string) string {
	switch {
	case l.Grafana == "":
		return ""
	case instance == "":
		return l.Grafana + "/d/gpufabric-node"
	default:
		return l.Grafana + "/d/gpufabric-node?var-instance=" + url.QueryEscape(instance)
	}
}

// Put puts the addresses of the site into rules and dashboards, which have those of the project. Alerts have the
// path of their dashboard, which becomes a link where the address of Grafana is known.
func (l Links) Put(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte(alerts.RunbookBase), []byte(l.Runbooks+"/"))
	if l.Grafana == "" {
		return text
	}
	return bytes.ReplaceAll(text, []byte("dashboard: /d/"), []byte("dashboard_url: "+l.Grafana+"/d/"))
}

// What addresses and paths may have in them: they are put into YAML, JSON and templates as they are.
var (
	addressPattern = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/%+,=\[\]-]+$`)
	pathPattern    = regexp.MustCompile(`^/[A-Za-z0-9._~/%+,=-]*$`)
)

// IsAddress reports whether s is an HTTP address that is safe to link to: without a user, a query or
// characters to escape.
func IsAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && addressPattern.MatchString(s)
}

// links reads where the site keeps runbooks and Grafana.
func (p *parser) links(n *yaml.Node, l *Links) {
	read := func(to *string, what, expected string, valid func(string) bool) func(*yaml.Node) {
		return func(n *yaml.Node) {
			switch s := p.text(n, what, expected); {
			case s == "": // reported before
			case strings.Contains(s, "@"): // what is before it may be a password, so it is not shown
				p.errorf(n.Line, "%s: expected %s, without a user", what, expected)
			case !valid(s):
				p.errorf(n.Line, "%s: %q: expected %s", what, s, expected)
			default:
				*to = strings.TrimRight(s, "/")
			}
		}
	}
	p.mapping(n, "links", map[string]func(*yaml.Node){
		"runbooks": read(&l.Runbooks, "runbooks", "an address such as https://wiki.example/runbooks, or an absolute path",
			func(s string) bool { return IsAddress(s) || pathPattern.MatchString(s) }),
		"grafana": read(&l.Grafana, "grafana", "an address such as https://grafana.example", IsAddress),
	})
}
