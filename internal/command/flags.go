// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

// Flags is what the flags of a group or a command are defined in.
type Flags struct {
	on interface {
		Flag(name, help string) *kingpin.FlagClause
	}
	given  map[string]*bool
	inputs []*value
	checks []func() error
}

// Add adds a flag. Its value is Into, Append, Choice or one of their like.
func (f *Flags) Add(name, help string, v Value) *kingpin.FlagClause {
	clause := f.on.Flag(name, help)
	clause.IsSetByUser(f.mark(name)).SetValue(f.value(name, v))
	return clause
}

// Switch adds a switch: --name and --no-name. What *to is before is the default.
func (f *Flags) Switch(name, help string, to *bool) {
	f.on.Flag(name, help).Default(strconv.FormatBool(*to)).IsSetByUser(f.mark(name)).BoolVar(to)
}

// Argument adds a word that is no flag, which only commands have.
func (f *Flags) Argument(name, help string, v Value) {
	if command, ok := f.on.(*kingpin.CmdClause); ok {
		command.Arg(name, help).SetValue(f.value("", v))
	}
}

// Given reports whether the user gave a flag.
func (f *Flags) Given(name string) bool { return f.given[name] != nil && *f.given[name] }

// Check has something checked that single flags cannot know, when all are read. It may fill in what follows
// from several.
func (f *Flags) Check(check func() error) { f.checks = append(f.checks, check) }

func (f *Flags) mark(name string) *bool {
	f.given[name] = new(bool)
	return f.given[name]
}

func (f *Flags) value(name string, v Value) *value {
	set := &value{Value: v, name: name}
	if v.input {
		f.inputs = append(f.inputs, set)
	}
	return set
}

// parser is a command line being read: kingpin's application and what it fills in.
type parser struct {
	line   Line
	app    *kingpin.Application
	groups map[Group]*Flags
	own    map[*Command]*Flags
	group  map[string]Group // by the names of its flags
}

func newParser(l Line) *parser {
	p := &parser{
		line: l, app: kingpin.New(Name, l.Help), groups: map[Group]*Flags{}, own: map[*Command]*Flags{},
		group: map[string]Group{},
	}
	p.app.HelpFlag.Short('h')
	for _, c := range l.Commands {
		clause := p.app.Command(c.Name, c.Help)
		if c.Hidden {
			clause.Hidden()
		}
		p.own[c] = &Flags{on: clause, given: map[string]*bool{}}
		if c.Define != nil {
			c.Define(p.own[c])
		}
	}
	for _, g := range l.Groups {
		flags := &Flags{on: p.app, given: map[string]*bool{}}
		g.Define(flags)
		p.groups[g] = flags
		for name := range flags.given {
			p.group[name] = g
		}
	}
	p.setUsage()
	return p
}

// run reads the words. Without a command and an error there is nothing left to do.
func (p *parser) run(words []string, stdout, stderr io.Writer) (chosen *Command, code int, err error) {
	done := false
	p.app.UsageWriter(stdout).ErrorWriter(stderr).Version(version.Print(Name))
	p.app.Terminate(func(status int) { // after --help and its like
		if !done && status != 0 {
			code = Usage
		}
		done = true
		p.app.Writer(io.Discard) // kingpin goes on when this does not end the process
	})
	if len(words) > 0 && p.complete(words[0], words[1:], stdout) {
		return nil, OK, nil
	}
	if len(words) > 0 && words[0] == manualFlag {
		_, _ = p.app.ParseContext(nil) // kingpin adds its flags then
		p.manual(stdout)
		return nil, OK, nil
	}
	chosen, err = p.parse(words)
	if done {
		return nil, code, nil
	}
	if err == nil {
		err = p.check(chosen)
	}
	return chosen, OK, err
}

// parse fills in the flags. The default command is put in here: with a default of its own, kingpin drops a
// flag that lacks its value without a word.
func (p *parser) parse(words []string) (*Command, error) {
	if err := p.checkWords(words); err != nil {
		return nil, err
	}
	given, err := p.app.ParseContext(words)
	if _, unknown := p.read(words); unknown != nil {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	asks := func(e *kingpin.ParseElement) bool { return e.Clause == p.app.HelpFlag || e.Clause == p.app.VersionFlag }
	if given.SelectedCommand == nil && !slices.ContainsFunc(given.Elements, asks) {
		words = append([]string{p.line.Commands[0].Name}, words...)
	}
	name, err := p.app.Parse(words)
	return p.command(name), err
}

// command returns the command of that name; nil: the line has none of that name.
func (p *parser) command(name string) *Command {
	i := slices.IndexFunc(p.line.Commands, func(c *Command) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return p.line.Commands[i]
}

// checkWords refuses what kingpin takes for something else: --switch=value for a switch and a stray argument,
// and @file for arguments to be read from a file.
func (p *parser) checkWords(words []string) error {
	for _, w := range words {
		if strings.HasPrefix(w, "@") {
			return fmt.Errorf("%q: expected a command or a flag", w)
		}
		flag, value, found := strings.Cut(w, "=")
		if !found || !strings.HasPrefix(flag, "--") {
			continue
		}
		n := strings.TrimPrefix(flag, "--")
		if f := p.app.GetFlag(strings.TrimPrefix(n, "no-")); f != nil && f.Model().IsBoolFlag() {
			n = strings.TrimPrefix(n, "no-")
			return fmt.Errorf("--%s=%q: expected no value: --%s or --no-%s", n, value, n, n)
		}
	}
	return nil
}

// check refuses the shared flags that the command does not heed, and asks what was to be checked of those that it does.
func (p *parser) check(c *Command) error {
	elsewhere, what := scenarioFlag, "a simulated node"
	if p.own[c].Given(captureFlag) {
		elsewhere, what = captureFlag, "the node of a capture"
	}
	simulated := p.own[c].Given(elsewhere)
	for _, f := range p.app.Model().Flags {
		g := p.group[f.Name]
		if g == nil || !p.groups[g].Given(f.Name) || c.takes(g, f.Name, simulated) {
			continue
		}
		if c.takes(g, f.Name, false) {
			return fmt.Errorf("--%s: %s --%s does not take this flag: it looks at %s", f.Name, c.Name, elsewhere, what)
		}
		return fmt.Errorf("--%s: %s does not take this flag", f.Name, c.Name)
	}
	for _, flags := range p.heeded(c) {
		for _, check := range flags.checks {
			if err := check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// heeded are the flags of the groups that a command takes, and its own.
func (p *parser) heeded(c *Command) []*Flags {
	var all []*Flags
	for _, g := range p.line.Groups {
		if slices.Contains(c.Takes, g) || slices.Contains(c.OnHost, g) {
			all = append(all, p.groups[g])
		}
	}
	return append(all, p.own[c])
}

// inputs are the flags of a command that name files which are read.
func (p *parser) inputs(c *Command) []*value {
	var all []*value
	if c != nil {
		for _, flags := range p.heeded(c) {
			all = append(all, flags.inputs...)
		}
	}
	return all
}
