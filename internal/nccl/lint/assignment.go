// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// assignments reads a command that is nothing but assignments, or a line Environment= of a unit of systemd.
func (k *shellReader) assignments(words []word) {
	if len(words) > 0 && strings.HasPrefix(words[0].text, "Environment=") {
		words[0].text = strings.TrimPrefix(words[0].text, "Environment=")
		k.export(words)
		return
	}
	for _, w := range words {
		k.assign(w)
	}
}

func (k *shellReader) export(args []word) {
	for i, a := range args {
		switch {
		case a.assigns != "":
			k.set(word{text: a.assigns + "=" + a.text, line: a.line, chosen: true})
			k.exported[a.assigns] = true
		case isAssignment(a.text):
			k.set(a)
			name, _, _ := strings.Cut(a.text, "=")
			k.exported[name] = true
		case strings.HasPrefix(a.text, "-"):
		case a.dynamic:
			k.undecided(a.line, "The names of the variables that this exports are known only when the script runs",
				"run lint with the file that has them, or on what env prints in the job")
		case concerns(a.text) && i+1 < len(args) && strings.HasPrefix(args[i+1].text, "="):
			k.blank(a)
		default:
			k.exported[a.text] = true
			delete(k.private, a.text)
		}
	}
}

func (k *shellReader) unset(args []word) {
	for _, a := range args {
		if !concerns(a.text) {
			continue
		}
		k.add(part{kind: partUnset, name: a.text, line: a.line})
		delete(k.exported, a.text)
		delete(k.private, a.text)
	}
}

// assign reads NAME=value without a command behind it.
func (k *shellReader) assign(w word) {
	name, _, _ := strings.Cut(w.text, "=")
	before := len(k.in.settings)
	k.set(w)
	if !k.all && !k.exported[name] && len(k.in.settings) > before {
		k.private[name] = append(k.private[name], before)
	}
}

// set adds a setting.
func (k *shellReader) set(w word) {
	if p, ok := k.setting(w); ok {
		k.add(p)
	}
}

// once adds a setting for one command.
func (k *shellReader) once(w word) {
	if p, ok := k.setting(w); ok {
		k.own = append(k.own, p)
	}
}

// setting returns the part that sets a variable, if that has to do with NCCL.
func (k *shellReader) setting(w word) (p part, ok bool) {
	name, value, _ := strings.Cut(w.text, "=")
	name, appended := strings.CutSuffix(name, "+")
	p = part{kind: partSet, setting: len(k.in.settings)}
	if w.chosen { // the variable may be set otherwise
		p.kind = partDefault
	}
	k.in.add(setting{
		Setting: settings.Setting{Line: w.line, Name: name, Value: value}, set: true, dynamic: w.dynamic || appended,
		chosen: w.chosen && !w.dynamic,
		scope:  k.scope, scripted: true,
	})
	return p, len(k.in.settings) > p.setting
}

// joined is NAME=value of the words NAME and value.
func joined(args []word) word {
	return word{
		text: args[0].text + "=" + args[1].text, line: args[0].line, dynamic: args[1].dynamic,
		chosen: args[1].chosen,
	}
}

// blank reports NAME = value, which is no assignment to a shell.
func (k *shellReader) blank(w word) {
	k.in.append(setting{Setting: settings.Setting{Line: w.line, Name: w.text}, scope: k.scope, findings: []Finding{
		{Misread, verdict.Warning, "There is a blank before the \"=\": the shell does not set the variable", "write " + w.text + "=value without blanks"},
	}})
}

// isAssignment reports whether a word sets a variable.
func isAssignment(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	name = strings.TrimSuffix(name, "+")
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r > 127 || !isWordByte(byte(r)) }) < 0
}

func hasFlag(args []word, flag byte) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		return strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.IndexByte(w.text, flag) > 0
	})
}
