// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/host/ncclconf"
)

// maxNested bounds how deep scripts stand in scripts: bash -c "...".
const maxNested = 3

// script reads the settings of a shell script.
type script struct {
	in       *Input
	nested   int
	scope    int
	around   []arm            // branches, loops and functions, the innermost last
	single   int              // the arm of what the command sets for itself alone; 0: nothing yet
	ran      int              // programs that were run so far
	all      bool             // set -a: every assignment is exported
	exported map[string]bool  // variables that programs of the script see
	private  map[string][]int // indices of assignments that are not exported yet
	live     map[string][]int // indices of settings that nothing unsets yet
}

// arm is a part of a script that may not be reached.
type arm struct {
	id    int
	begin string // the word that begins it: if, case, ...
}

// newArm returns a new arm inside another one.
func (in *Input) newArm(around int) int {
	if in.arms == nil {
		in.arms = []int{0}
	}
	in.arms = append(in.arms, around)
	return len(in.arms) - 1
}

// arm is the innermost arm; 0: none.
func (k *script) arm() int {
	if len(k.around) == 0 {
		return 0
	}
	return k.around[len(k.around)-1].id
}

func (k *script) enter(begin string) {
	k.around = append(k.around, arm{k.in.newArm(k.arm()), begin})
}

func (k *script) leave() {
	k.around = k.around[:max(len(k.around)-1, 0)]
}

// otherwise begins the next arm of an if or a case.
func (k *script) otherwise(begin string) {
	if n := len(k.around); n > 0 && k.around[n-1].begin == begin {
		k.leave()
		k.enter(begin)
	}
}

// parseShell reads a script whose first line has that number.
func (in *Input) parseShell(text string, line, nested int) {
	if before, _, found := strings.Cut(text, "\r\n"); found {
		in.append(setting{Setting: ncclconf.Setting{Line: line + strings.Count(before, "\n")}, findings: []Finding{
			{Misread, diagnose.Warning, "Lines end in a carriage return: the shell takes it for a part of the last word, and Slurm refuses the script", "remove the carriage returns, as dos2unix does"},
		}})
	}
	k := script{in: in, nested: nested, scope: in.scopes, exported: map[string]bool{}, private: map[string][]int{}, live: map[string][]int{}}
	s := shellScanner{text: text, line: line}
	for {
		words, after, ok := s.next()
		if !ok {
			break
		}
		if after == ";;" {
			k.otherwise("case")
		}
		k.command(words, after == "&&" || after == "||")
	}
	for _, at := range s.unclosed {
		in.append(setting{Setting: ncclconf.Setting{Line: at}, findings: []Finding{
			{Misread, diagnose.Warning, "A quote that begins here is not closed: the shell takes what follows for a part of it", "close the quote"},
		}})
	}
	for _, at := range s.unread {
		in.append(setting{Setting: ncclconf.Setting{Line: at}, findings: []Finding{
			{Undecided, diagnose.Info, "The here-document that has this line sets variables of NCCL, and is not judged: what reads it is not known", "run lint with the text of the document in a file of its own"},
		}})
	}
	for name, list := range k.private {
		for _, i := range list {
			st := &in.settings[i]
			st.set = false
			severity := diagnose.Info // scripts keep paths and options in such names
			if readOrMeant(name) {
				severity = diagnose.Warning
			}
			st.findings = append(st.findings, Finding{
				Ignored, severity, "The shell keeps the variable to itself: programs that the script starts do not get it, unless the script got it from its caller",
				"export " + name + "=" + st.Value,
			})
		}
	}
}

// readOrMeant tells whether NCCL reads a variable, or one with a similar name.
func readOrMeant(name string) bool {
	v, known := ncclconf.Describe(name)
	return known && v.Status == ncclconf.StatusCurrent || !known && ncclconf.Similar(name) != ""
}

// words of the shell that stand before a command.
var keywords = []string{"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "case", "esac", "{", "}", "!", "time", "function"}

// command reads one simple command.
func (k *script) command(words []word, branch bool) {
	k.single = 0
	for len(words) > 0 && slices.Contains(keywords, words[0].text) {
		switch words[0].text {
		case "if", "while", "until", "case", "{":
			k.enter(words[0].text)
		case "elif", "else":
			k.otherwise("if")
		case "fi", "done", "esac", "}":
			k.leave()
		}
		words = words[1:]
	}
	if len(words) > 0 && (words[0].text == "for" || words[0].text == "select") {
		k.enter("for")
		return
	}
	if branch {
		k.enter("&&")
		defer k.leave()
	}
	n := 0
	for n < len(words) && isAssignment(words[n].text) {
		n++
	}
	if n == len(words) {
		k.assignments(words)
		return
	}
	for _, w := range words[:n] { // for that command alone
		k.once(w)
	}
	k.arguments(words[n], words[n+1:])
}

// assignments reads a command that is nothing but assignments, or a line Environment= of a unit of systemd.
func (k *script) assignments(words []word) {
	if len(words) > 0 && strings.HasPrefix(words[0].text, "Environment=") {
		words[0].text = strings.TrimPrefix(words[0].text, "Environment=")
		k.export(words)
		return
	}
	for _, w := range words {
		k.assign(w)
	}
}

// builtins are commands that are no program that NCCL runs in.
var builtins = []string{
	"echo", "printf", "cd", "module", "ml", "source", ".", "mkdir", "[", "[[", "test", "ulimit", "conda", "spack", "hostname", "date", "sleep",
	"nvidia-smi", "true", "false", "shift", "local", "trap", "wait", "which", "ls", "cat", "rm", "pwd", "return", "exit", "#SBATCH", "#PBS",
}

// arguments reads what a command sets.
func (k *script) arguments(command word, args []word) {
	switch name := command.text; {
	case name == "ENV" && len(args) > 1 && !strings.Contains(args[0].text, "="): // the old form of a Dockerfile
		k.set(joined(args))
	case name == "export", name == "ENV", (name == "declare" || name == "typeset" || name == "readonly") && hasFlag(args, 'x'):
		k.export(args)
	case name == "unset":
		k.unset(args)
	case name == "set":
		for i, a := range args {
			k.all = k.all && a.text != "+a" || a.text == "-a" || a.text == "allexport" && args[max(i-1, 0)].text == "-o"
		}
	case name == "setenv" && len(args) > 1:
		k.set(joined(args))
	case name == ":":
		for _, a := range args {
			if a.assigns != "" {
				k.assign(word{text: a.assigns + "=" + a.text, line: a.line, chosen: true})
			}
		}
	case name == "#PBS" && len(args) > 0:
		k.list("PBS", args[0].text, args[0])
	case concerns(name) && len(args) > 0 && strings.HasPrefix(args[0].text, "="):
		k.blank(command)
	default:
		k.options(name, args)
		if !slices.Contains(builtins, name) {
			k.ran++
		}
	}
}

func (k *script) export(args []word) {
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
		case concerns(a.text) && i+1 < len(args) && strings.HasPrefix(args[i+1].text, "="):
			k.blank(a)
		default:
			k.exported[a.text] = true
			delete(k.private, a.text)
		}
	}
}

func (k *script) unset(args []word) {
	for _, a := range args {
		if k.arm() != 0 || !concerns(a.text) {
			continue
		}
		for _, i := range k.live[a.text] {
			st := &k.in.settings[i]
			if st.after < k.ran { // programs have run with it
				continue
			}
			st.set = false
			st.findings = append(st.findings, Finding{Ignored, diagnose.Info, fmt.Sprintf("Line %d unsets it", a.line), remove})
		}
		delete(k.live, a.text)
		delete(k.exported, a.text)
		delete(k.private, a.text)
	}
}

// assign reads NAME=value without a command behind it.
func (k *script) assign(w word) {
	name, _, _ := strings.Cut(w.text, "=")
	before := len(k.in.settings)
	k.set(w)
	if !k.all && !k.exported[name] && len(k.in.settings) > before {
		k.private[name] = append(k.private[name], before)
	}
}

// set adds a setting.
func (k *script) set(w word) {
	if w.chosen { // the variable may be set otherwise
		k.enter("${")
		defer k.leave()
	}
	name, value, _ := strings.Cut(w.text, "=")
	name, appended := strings.CutSuffix(name, "+")
	before := len(k.in.settings)
	k.in.add(setting{
		Setting: ncclconf.Setting{Line: w.line, Name: name, Value: value}, set: true, dynamic: w.dynamic || appended, chosen: w.chosen && !w.dynamic,
		arm: k.arm(), scope: k.scope, after: k.ran,
	})
	if len(k.in.settings) > before && k.arm() == 0 {
		k.live[name] = append(k.live[name], before)
	}
}

// once adds a setting for one command. All of its settings have one arm.
func (k *script) once(w word) {
	if k.single == 0 {
		k.single = k.in.newArm(k.arm())
	}
	k.around = append(k.around, arm{k.single, "once"})
	k.set(w)
	k.leave()
}

// joined is NAME=value of the words NAME and value.
func joined(args []word) word {
	return word{text: args[0].text + "=" + args[1].text, line: args[0].line, dynamic: args[1].dynamic, chosen: args[1].chosen}
}

// blank reports NAME = value, which is no assignment to a shell.
func (k *script) blank(w word) {
	k.in.append(setting{Setting: ncclconf.Setting{Line: w.line, Name: w.text}, scope: k.scope, findings: []Finding{
		{Misread, diagnose.Warning, "There is a blank before the \"=\": the shell does not set the variable", "write " + w.text + "=value without blanks"},
	}})
}

// isAssignment tells whether a word sets a variable.
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
