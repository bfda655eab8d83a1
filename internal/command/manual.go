// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

// Section is a part of the manual page that is not about commands and their flags. It ends with those that Line has.
type Section struct {
	Title   string
	Entries [][2]string // a term, and what it is
}

// manualFlag prints the manual page. kingpin's puts all flags into one list and several lines into the heading.
const manualFlag = "--help-man"

// manual writes the manual page, for man(1). It has no date, so that the same program writes the same page.
func (p *parser) manual(w io.Writer) {
	m := p.app.Model()
	fmt.Fprintf(w, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", strings.ToUpper(Name), roff(Name+" "+version.Version))
	fmt.Fprintf(w, ".SH NAME\n%s \\- Prometheus exporter of the training fabric of a GPU node\n", Name)
	fmt.Fprintf(w,
		".SH SYNOPSIS\n.B %s\n[\\fIoption\\fR ...] [\\fIcommand\\fR] [\\fIoption\\fR ...] [\\fIargument\\fR ...]\n", Name)
	fmt.Fprintf(w, ".SH DESCRIPTION\n%s\n.PP\nWithout a command it is \\fB%s\\fR.\n", roff(m.Help),
		p.line.Commands[0].Name)
	fmt.Fprint(w, ".SH COMMANDS\n")
	for _, c := range m.Commands {
		if c.Hidden || p.command(c.Name) == nil {
			continue
		}
		fmt.Fprintf(w, ".SS %s\n%s\n", c.Name, roff(c.Help))
		for _, a := range c.Args {
			fmt.Fprintf(w, ".TP\n\\fI%s\\fR\n%s\n", roff(a.Name), roff(a.Help))
		}
		for _, f := range c.Flags {
			option(w, f)
		}
	}
	fmt.Fprint(w, ".SH OPTIONS\nThey stand in front of the command or behind it.\n")
	for _, f := range m.Flags {
		option(w, f)
		if group := p.group[f.Name]; group != nil && !f.Hidden {
			fmt.Fprintf(w, ".br\nTaken by: %s.\n", strings.Join(p.takers(group, f.Name), ", "))
		}
	}
	for _, s := range p.line.Sections {
		fmt.Fprintf(w, ".SH %s\n", roff(strings.ToUpper(s.Title)))
		for _, e := range s.Entries {
			fmt.Fprintf(w, ".TP\n\\fB%s\\fR\n%s\n", roff(e[0]), roff(e[1]))
		}
	}
}

// takers are the names of the commands for users that take a shared flag.
func (p *parser) takers(group Group, flag string) []string {
	var names []string
	for _, c := range p.line.Commands {
		if !c.Hidden && c.takes(group, flag, false) {
			names = append(names, c.Name)
		}
	}
	return names
}

func option(w io.Writer, f *kingpin.FlagModel) {
	if f.Hidden {
		return
	}
	fmt.Fprint(w, ".TP\n")
	if f.Short != 0 {
		fmt.Fprintf(w, "\\fB\\-%c\\fR, ", f.Short)
	}
	switch {
	case f.Name == "help", f.Name == "version":
		fmt.Fprintf(w, "\\fB\\-\\-%s\\fR\n", f.Name)
	case f.IsBoolFlag():
		fmt.Fprintf(w, "\\fB\\-\\-\\fR[\\fBno\\-\\fR]\\fB%s\\fR\n", roff(f.Name))
	default:
		fmt.Fprintf(w, "\\fB\\-\\-%s\\fR=\\fI%s\\fR\n", roff(f.Name), roff(f.FormatPlaceHolder()))
	}
	fmt.Fprintln(w, roff(f.Help))
}

// roff is text as man(1) shows it: a point or an apostrophe at the start of a line would be a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if slices.Contains([]string{".", "'"}, line[:min(1, len(line))]) {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
