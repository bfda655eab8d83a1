// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kingpin/v2"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
)

// Flags that have a command look at a simulated or captured node.
const (
	scenarioFlag = "scenario"
	captureFlag  = "capture"
)

// reading is how far a command line has been read.
type reading struct {
	parser    *parser
	global    []*kingpin.FlagModel // flags of all commands
	command   *kingpin.CmdModel    // nil: none yet
	simulated bool                 // --scenario was given
	args      int                  // arguments of the command
	value     *kingpin.FlagModel   // the next word is its value; nil: none waits for one
	noFlags   bool                 // behind --
}

// read reads words as kingpin does, except values. The error names a command or flag that does not exist.
func (p *parser) read(words []string) (reading, error) {
	model := p.app.Model()
	at := reading{parser: p, global: model.Flags}
	for _, w := range words {
		switch {
		case at.value != nil:
			at.value = nil
		case w == "--" && !at.noFlags:
			at.noFlags = true
		case strings.HasPrefix(w, "-") && w != "-" && !at.noFlags:
			if err := at.readFlag(w, model); err != nil {
				return at, err
			}
		case at.command == nil:
			i := slices.IndexFunc(model.Commands, func(m *kingpin.CmdModel) bool { return m.Name == w })
			if i < 0 {
				all := commandNames(model)
				return at, fmt.Errorf("%.64q: unknown command: expected %s%s", w, spelling.List(all), spelling.Hint(w, all))
			}
			at.command = model.Commands[i]
		default:
			at.args++
		}
	}
	return at, nil
}

func (at *reading) readFlag(word string, model *kingpin.ApplicationModel) error {
	name, _, valued := strings.Cut(word, "=")
	if !strings.HasPrefix(word, "--") {
		_, size := utf8.DecodeRuneInString(word[1:])
		name, valued = word[:1+size], len(word) > 1+size
	}
	flag := at.find(name)
	if flag == nil {
		return at.unknown(name, model)
	}
	at.simulated = at.simulated || flag.Name == scenarioFlag || flag.Name == captureFlag
	if !flag.IsBoolFlag() && !valued {
		at.value = flag
	}
	return nil
}

// own are the flags of the command alone.
func (at *reading) own() []*kingpin.FlagModel {
	if at.command == nil {
		return nil
	}
	return at.command.Flags
}

// find returns the flag that is written so: --name, --no-name or -n.
func (at *reading) find(written string) *kingpin.FlagModel {
	for _, f := range slices.Concat(at.own(), at.global) {
		if slices.Contains(spellings(f), written) || f.Short != 0 && written == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

// spellings are how a flag may be written.
func spellings(f *kingpin.FlagModel) []string {
	if f.IsBoolFlag() {
		return []string{"--" + f.Name, "--no-" + f.Name}
	}
	return []string{"--" + f.Name}
}

// unknown reports that there is no such flag, or which commands have it.
func (at *reading) unknown(written string, model *kingpin.ApplicationModel) error {
	var those []string
	for _, m := range model.Commands {
		if (&reading{command: m}).find(written) != nil && !m.Hidden {
			those = append(those, m.Name)
		}
	}
	switch {
	case len(those) > 0 && at.command == nil:
		return fmt.Errorf("%s: expected the command before it: %s", written, spelling.List(those))
	case len(those) > 0:
		return fmt.Errorf("%s: %s does not take this flag, but %s", written, at.command.Name, spelling.List(those))
	}
	var all []string
	for _, f := range at.flags() {
		all = append(all, spellings(f)...)
	}
	return errors.New(fabric.Printable(written, 64) + ": unknown flag" + spelling.Hint(written, all))
}

// flags are those that may follow.
func (at *reading) flags() []*kingpin.FlagModel {
	command := at.parser.line.Commands[0]
	if at.command != nil {
		command = at.parser.command(at.command.Name) // nil: kingpin's help
	}
	all := slices.Clone(at.own())
	for _, f := range at.global {
		switch {
		case f.Name == "help", f.Name == "version" && at.command == nil:
			all = append(all, f)
		case command != nil && command.takes(at.parser.group[f.Name], f.Name, at.simulated):
			all = append(all, f)
		}
	}
	return slices.DeleteFunc(all, func(f *kingpin.FlagModel) bool { return f.Hidden })
}

func commandNames(model *kingpin.ApplicationModel) []string {
	var all []string
	for _, m := range model.Commands {
		if !m.Hidden {
			all = append(all, m.Name)
		}
	}
	return all
}
