// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// filled is a text of the table with what the log shows in its braces: {NCCL_BUFFSIZE}, {versions}.
func (r *Result) filled(text string, f *Finding) string {
	for range 4 {
		before, rest, found := strings.Cut(text, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			break
		}
		value := r.shows(name, f)
		if value != name {
			value = r.hidden.text(value)
		}
		text = before + value + after
	}
	return text
}

func (r *Result) shows(name string, f *Finding) string {
	switch name {
	case "versions":
		return spelling.Few(r.Versions, 4)
	case "networks":
		return spelling.Few(slices.DeleteFunc(r.chosen(), func(name string) bool { return !isValue(name) }), 4)
	case "forced":
		return spelling.Few(r.forced(), 2)
	case "library":
		return r.Log.Unloadable
	case "missing":
		who := ranksNamed(r.absent())
		return strings.ToUpper(who[:1]) + who[1:]
	case "crashed":
		return shown(r.crash.place())
	case "where":
		return shown(cmp.Or(r.crash.place(), r.crash.python, "a place that the log does not show"))
	case "interface":
		return r.chosenInterface()
	case "without":
		return spelling.Few(r.gdrHosts(without), 4)
	case "ordinals":
		return r.ordinals(f)
	case "packages":
		return spelling.Few(r.Log.Packages, 4)
	case "at":
		if f.Signature.Source != signature.Program {
			return ""
		}
		return inPlace(f.Place)
	case "xid":
		if at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == "xid_application" }); at >= 0 {
			return fmt.Sprintf(", as Xid %d of the driver says, too", r.Findings[at].Code)
		}
		return ""
	case "peered":
		return r.interfaceOf(f)
	case "hosts":
		return spelling.Few(f.Hosts, 4)
	case "memlock":
		if r.Log.Memlock == "" {
			return ""
		}
		return ": " + r.Log.Memlock + " KiB"
	case "timeout":
		return spoken(patience(f.raw))
	case "odd":
		return spelling.Few(r.oddInterfaces(), 4)
	case "interfaces":
		return r.interfacesOfHosts()
	case "asked":
		return r.said.asked
	case "far":
		return cmp.Or(distance().FindString(r.said.far), "a distance above the level")
	case "busy":
		return r.busy()
	}
	for _, s := range r.Log.Settings {
		if s.Name == name {
			return assigned(s)
		}
	}
	return name
}

// A log may have sentences where values belong, which the reader would take for those of the table.
var (
	value    = lazyregexp.New(`^[\^=]?[\w.,:;/@+=*-]*(?: [\w.-]+)?$`)
	distance = lazyregexp.New(`^GPU \w{1,16} / HCA \w{1,16} \(distance \d{1,4} > \d{1,4}\)`)
)

// isValue reports whether a text is short and of at most two words, as values of settings and names of networks are.
func isValue(text string) bool {
	const most = 64
	return len(text) <= most && value().MatchString(text)
}

// assigned is a setting with its value, or its name alone where the value has another form.
func assigned(s log.Setting) string {
	if v := strings.TrimSuffix(s.Value, "."); isValue(v) {
		return s.Name + "=" + v
	}
	return s.Name
}
