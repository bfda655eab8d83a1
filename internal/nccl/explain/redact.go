// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
)

// What names a host or a user in a log; the first group that matched is the name.
var (
	hostsIn = lazyregexp.New(`\[([A-Za-z][\w.-]*)(?:\]:\d|:\d+:\d+)|(?:^|[ (])([A-Za-z][\w.-]*)<\d+>|` +
		`\b(?:on node|on host|daemons? on|to host|not found|hostname)[ =:]+(?:([\w.-]*[\d-][\w.-]*)|([\w.-]+)(?:[:,)'"]|$))|` +
		`srun: error: ([\w.-]+):| ON ([\w.-]+) |Pid +\d+ on +([\w.-]+)|^ *host +: +([\w.-]+)|` +
		`(?:rdzv_endpoint *[:=] *|tcp://|NCCL_COMM_ID set by environment to |MASTER_ADDR ?[:=] ?)([A-Za-z][\w.-]*)`)
	usersIn = lazyregexp.New(`(?i)/(?:home\d*|users|u)/([\w.-]+)|\buid=\d+\(([^)]+)\)|` +
		`\b(?:user|username|logname)[=:] *([\w.-]+)|logged in as: ([\w.-]+)|([\w.+-]+)@(?:[\w-]+\.)+[a-z]{2,}`)
)

// What is replaced wherever it is, in this order.
var (
	cuts  = lazyregexp.New(`\S* \.\.\. \S*`) // half of a value may be left there
	mails = lazyregexp.New(`[\w.+-]+@(?:[\w-]+\.)+[a-z]{2,}\b`)
	macs  = lazyregexp.New(`(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b`)
	guids = lazyregexp.New(`(?i)\b(?:0x[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})\b`)
	paths = lazyregexp.New(`(?:file://)?/[\w.@+-]+(?:/+[^\s"'()\[\]<>:,;]*)?|~(?:[a-z_]|/)[^\s"'()<>:,;]*|[A-Za-z]:\\[^\s"'<>]+|[\w.-]+(?:/[\w.-]+)+\.py\b`)
	ipv6  = lazyregexp.New(`(?i)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:(?:\.[0-9]{1,3}){3})?(?:%[0-9a-z.]+)?`)
	ipv4  = lazyregexp.New(`(?:[0-9]{1,3}\.){3}[0-9]{1,3}`)
	fqdns = lazyregexp.New(`\b(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+(?:com|org|net|edu|gov|mil|info|cloud|internal|local|localdomain|` +
		`lan|intranet|intra|corp|home|private|cluster|arpa|` +
		`de|fr|uk|nl|be|ch|at|eu|it|es|pt|se|no|fi|dk|pl|cz|us|ca|cn|jp|kr|au|sg|tw|br|ru|il|io|ai|co)\b`)
)

// redactor replaces what names a site, the same value always by the same. A nil one replaces nothing.
type redactor struct {
	hosts, users []string            // in the order that numbers them
	known        map[string]struct{} // hosts and users, which the log names
	numbers      map[string][]string // what else was replaced, by its kind
	host, user   *regexp.Regexp      // nil: none
}

// collect notes hosts and users that a line names.
func (d *redactor) collect(line string) {
	if d == nil || len(d.known) >= maxHosts {
		return
	}
	for _, m := range hostsIn().FindAllStringSubmatch(line, -1) {
		d.add(&d.hosts, strings.Join(m[1:], ""))
	}
	for _, m := range usersIn().FindAllStringSubmatch(line, -1) {
		d.add(&d.users, strings.Join(m[1:], ""))
	}
}

// add takes a name, a host without its domain.
func (d *redactor) add(to *[]string, name string) {
	name = strings.ToLower(strings.Trim(name, ".-"))
	if to == &d.hosts {
		name, _, _ = strings.Cut(name, ".")
	}
	_, is := d.known[name]
	if is || strings.Trim(name, digits) == "" || name == "localhost" || name == "root" || name == "user" {
		return
	}
	d.known[name] = struct{}{}
	*to = append(*to, name)
}

// compile is called when all of a log is read. Hosts that number on from one that is known are hosts, too.
func (d *redactor) compile(r *Result) {
	if d == nil {
		return
	}
	collected := d.hosts
	d.hosts, d.known = nil, map[string]struct{}{}
	for _, h := range r.Hosts {
		d.add(&d.hosts, h)
	}
	for i := range r.Findings {
		d.add(&d.hosts, r.Findings[i].Host)
	}
	for _, h := range collected {
		d.add(&d.hosts, h)
	}
	d.host, d.user = alternatives(d.hosts, `(?:\.[a-z][\w-]*)*`), alternatives(d.users, "")
}

func alternatives(names []string, behind string) *regexp.Regexp {
	const least = 4 // of what stands before a number
	var list []string
	for _, name := range names {
		list = append(list, regexp.QuoteMeta(name))
		if stem := strings.TrimRight(name, digits); behind != "" && stem != name && len(stem) >= least {
			list = append(list, regexp.QuoteMeta(stem)+`\d+`)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(slices.Compact(list), "|") + `)` + behind + `\b`)
}

// text is text of a log without what names the site.
func (d *redactor) text(s string) string {
	if d == nil || s == "" {
		return s
	}
	s = cuts().ReplaceAllString(s, " ... ")
	s = mails().ReplaceAllStringFunc(s, func(m string) string { return d.number("mail", m) })
	s = macs().ReplaceAllStringFunc(s, func(m string) string { return d.number("mac", m) })
	s = bounded(s, ipv6(), d.address)
	s = bounded(s, ipv4(), d.address)
	s = guids().ReplaceAllStringFunc(s, func(m string) string { return d.number("guid", m) })
	s = bounded(s, paths(), d.path)
	if d.host != nil {
		s = d.host.ReplaceAllStringFunc(s, d.name)
	}
	s = fqdns().ReplaceAllStringFunc(s, func(m string) string { return d.number("domain", m) })
	if d.user != nil {
		s = d.user.ReplaceAllStringFunc(s, func(m string) string { return d.number("user", m) })
	}
	return s
}

func (d *redactor) number(kind, value string) string {
	value = strings.ToLower(value)
	i := slices.Index(d.numbers[kind], value)
	if i < 0 {
		i = len(d.numbers[kind])
		d.numbers[kind] = append(d.numbers[kind], value)
	}
	return fmt.Sprintf("%s%d", kind, i+1)
}

// name is for a host, with or without its domain.
func (d *redactor) name(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	i := slices.Index(d.hosts, host)
	if i < 0 {
		i = len(d.hosts)
		d.hosts = append(d.hosts, host)
	}
	return fmt.Sprintf("host%d", i+1)
}

// address is for what may be an address: times look like some.
func (d *redactor) address(s string) string {
	plain, _, _ := strings.Cut(s, "%")
	if a, err := netip.ParseAddr(plain); err != nil || a.IsUnspecified() {
		return s
	}
	return d.number("address", s)
}

// path keeps the name of a file, what is below site-packages, and the system's own.
func (d *redactor) path(s string) string {
	for _, of := range []string{"/sys/", "/proc/", "/dev/", "/usr/", "/lib", "/etc/", "/bin/", "/sbin/", "/var/"} {
		if strings.HasPrefix(s, of) {
			return s
		}
	}
	for _, below := range []string{"/site-packages/", "/dist-packages/"} {
		if at := strings.Index("/"+s, below); at >= 0 {
			return "..." + ("/" + s)[at:]
		}
	}
	at := strings.LastIndexAny(s, `/\`)
	if at < 0 || !files().MatchString(s[at+1:]) {
		return d.number("path", strings.TrimRight(s, `/\.`))
	}
	return d.number("path", s[:at]) + "/" + s[at+1:]
}

var files = lazyregexp.New(`\.(?:py|so[.\d]*|sh|xml|json|ya?ml|toml|log|txt|pt|pth|bin|safetensors|c|cc|cpp|cu|h|cfg|conf)$`)

// bounded replaces what a pattern matches and what is no part of a longer word, except where plugins forget the blank:
// "remoteGidsfd00::7".
func bounded(s string, of *regexp.Regexp, by func(string) string) string {
	var b strings.Builder
	for from := 0; ; {
		at := of.FindStringIndex(s[from:])
		if at == nil {
			return b.String() + s[from:]
		}
		start, end := from+at[0], from+at[1]
		switch before, after := start > 0 && inWord(s[start-1]), end < len(s) && inWord(s[end]); {
		case (!before || strings.HasSuffix(s[:start], "Gids")) && !after && end > start:
			b.WriteString(s[from:start] + by(s[start:end]))
			from = end
		default: // "eth0:fe80::1" has one behind its first part
			next := start + 1 + max(0, strings.IndexAny(s[start:end], ":/"))
			next = min(next, len(s))
			b.WriteString(s[from:next])
			from = next
		}
	}
}

func inWord(c byte) bool {
	return c == '_' || c == '.' || c == '/' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Redact replaces what names a site, for a ticket, in all strings of v, a pointer, but those with the tag fixed: they
// are of the tables, and what the log has in them is replaced already. It does nothing if r is not read for a ticket.
func (r *Result) Redact(v any) {
	if r.hidden != nil {
		r.redact(reflect.ValueOf(v).Elem())
	}
}

func (r *Result) redact(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if i := slices.Index(r.Files, v.String()); i >= 0 {
			v.SetString(fmt.Sprintf("log%d", i+1))
			return
		}
		v.SetString(r.hidden.text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			r.redact(v.Elem())
		}
	case reflect.Slice: // which the result may have, too
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		for i := range v.Len() {
			r.redact(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if _, fixed := v.Type().Field(i).Tag.Lookup("fixed"); !fixed && v.Field(i).CanSet() {
				r.redact(v.Field(i))
			}
		}
	}
}
