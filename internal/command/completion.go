// SPDX-License-Identifier: Apache-2.0

package command

import (
	_ "embed" // the scripts
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// What shells source. Both ask this program what may follow, as kingpin's do, which however know neither
// --flag=value nor which flags a command takes.
var (
	//go:embed completion.bash
	completionBash string
	//go:embed completion.zsh
	completionZsh string
)

// complete answers the flags that are for shells: a script, or the candidates for the last of some words, one
// a line. It reports whether it was asked.
func (p *parser) complete(flag string, words []string, w io.Writer) bool {
	switch flag {
	case "--completion-script-bash":
		fmt.Fprint(w, completionBash)
	case "--completion-script-zsh":
		fmt.Fprint(w, completionZsh)
	case "--completion-bash":
		for _, candidate := range p.candidates(words) {
			fmt.Fprintln(w, candidate)
		}
	default:
		return false
	}
	return true
}

// candidates are the words that the last one may become. One that ends in = wants a value. There are none
// where a file is to be named, or anything else that only the user knows.
func (p *parser) candidates(words []string) []string {
	_, _ = p.app.ParseContext(nil) // kingpin adds its command help then
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	at, err := p.read(words[:len(words)-1])
	if err != nil {
		return nil
	}
	name, _, valued := strings.Cut(last, "=")
	var all []string
	switch {
	case at.value != nil:
		all = wordsOf(at.value.Value)
	case at.noFlags && at.command != nil, !strings.HasPrefix(last, "-"):
		all = p.arguments(at)
	case valued:
		if f := at.find(name); f != nil {
			for _, word := range wordsOf(f.Value) {
				all = append(all, name+"="+word)
			}
		}
	default:
		for _, f := range at.flags() {
			switch {
			case !f.IsBoolFlag():
				all = append(all, "--"+f.Name+"=")
			case strings.HasPrefix(last, "--no-"):
				all = append(all, "--no-"+f.Name)
			default:
				all = append(all, "--"+f.Name)
			}
		}
	}
	var those []string
	for _, word := range all {
		if strings.HasPrefix(word, last) {
			those = append(those, word)
		}
	}
	return those
}

// arguments are what may follow that is no flag.
func (p *parser) arguments(at reading) []string {
	switch {
	case at.command == nil, at.command.Name == "help" && at.args == 0:
		return commandNames(p.app.Model())
	case at.args < len(at.command.Args):
		return wordsOf(at.command.Args[at.args].Value)
	}
	return nil
}

func wordsOf(v kingpin.Value) []string {
	if f, ok := v.(*value); ok && f.words != nil {
		return f.words()
	}
	return nil
}
