// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
)

var (
	addresses = lazyregexp.New(`(?i:[0-9a-f:]*:)?(?:[0-9]{1,3}\.){3}[0-9]{1,3}|(?i:[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:%[0-9a-z.]+)?)`)
	homes     = lazyregexp.New(`/(?:home|users|Users|fsx|lustre|scratch)/[^/ :'"]+`)
	users     = lazyregexp.New(`(?i)\b(user|username|logname)([=: ]+)[^ ,;'"]+`)
)

// redactor replaces names by others, each always by the same.
type redactor struct {
	hosts, addresses []string
	host             *regexp.Regexp // names of hosts in text; nil: none
}

// Redact replaces hosts, users and addresses, for a ticket.
func (r *Result) Redact() {
	d := redactor{hosts: slices.Clone(r.Hosts)}
	for i := range r.Findings {
		if h := r.Findings[i].Host; h != "" && !slices.Contains(d.hosts, h) {
			d.hosts = append(d.hosts, h)
		}
	}
	var names []string
	for _, h := range d.hosts {
		names = append(names, regexp.QuoteMeta(h))
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	if len(names) > 0 {
		d.host = regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
	}
	for i, h := range r.Hosts {
		r.Hosts[i] = d.name(h)
	}
	for i := range r.unread {
		r.unread[i].name = fmt.Sprintf("unread%d", i+1)
	}
	for i := range r.Files {
		r.Files[i] = fmt.Sprintf("log%d", i+1)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.File, f.Host = "", d.name(f.Host)
		for j, h := range f.Hosts {
			f.Hosts[j] = d.name(h)
		}
		f.Peer, f.Text, f.Place = d.text(f.Peer), d.text(f.Text), d.text(f.Place)
		for _, list := range [][]string{f.Peers, f.Pairs} {
			for j := range list {
				list[j] = d.text(list[j])
			}
		}
		for j := range f.Reasons {
			one := &f.Reasons[j]
			one.Cause, one.Remedy, one.Test = d.text(one.Cause), d.text(one.Remedy), d.text(one.Test)
		}
	}
	for i := range r.Warnings {
		r.Warnings[i].Text = d.text(r.Warnings[i].Text)
	}
	r.Log.Failed, r.Log.Bootstrap = d.text(r.Log.Failed), d.text(r.Log.Bootstrap)
}

func (d *redactor) name(host string) string {
	if i := slices.Index(d.hosts, host); i >= 0 {
		return fmt.Sprintf("host%d", i+1)
	}
	return host
}

func (d *redactor) text(s string) string {
	if d.host != nil {
		s = d.host.ReplaceAllStringFunc(s, d.name)
	}
	s = addresses().ReplaceAllStringFunc(s, d.address)
	s = homes().ReplaceAllString(s, "/home/user")
	return users().ReplaceAllString(s, "$1${2}user")
}

// address replaces what is an address: times and places in the source look like some.
func (d *redactor) address(s string) string {
	plain, _, _ := strings.Cut(s, "%")
	if _, err := netip.ParseAddr(plain); err != nil {
		if at := strings.LastIndexByte(s, ':'); at >= 0 && strings.Contains(s[at:], ".") { // "eth7:10.0.0.1"
			return s[:at+1] + d.address(s[at+1:])
		}
		return s
	}
	i := slices.Index(d.addresses, s)
	if i < 0 {
		i = len(d.addresses)
		d.addresses = append(d.addresses, s)
	}
	return fmt.Sprintf("address%d", i+1)
}
