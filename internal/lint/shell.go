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

// shellReader reads the settings of a shell script, and what the script does with them.
type shellReader struct {
	in     *Input
	nested int
	scope  int
	blocks
	own        []part           // what a command sets for itself alone
	before     string           // the operator before the command
	behind     string           // the operator behind it
	sure       bool             // the command before it succeeds, as far as it matters: && behind it is no condition
	function   string           // the name of the function whose body follows
	parameters bool             // the brackets behind that name are read
	array      bool             // what follows is the value of an array
	all        bool             // set -a: every assignment is exported
	exported   map[string]bool  // variables that programs of the script see
	private    map[string][]int // indices of assignments that are not exported yet
}

// parseShell reads a script whose first line has that number.
func (in *Input) parseShell(text string, line int) error {
	body, err := in.shellParts(text, line, 0)
	in.scripts = append(in.scripts, script{in.scopes, body})
	return err
}

// shellParts reads a script in the script of another one, or in nothing.
func (in *Input) shellParts(text string, line, nested int) ([]part, error) {
	if before, _, found := strings.Cut(text, "\r\n"); found {
		in.append(setting{Setting: ncclconf.Setting{Line: line + strings.Count(before, "\n")}, findings: []Finding{
			{Misread, diagnose.Warning, "Lines end in a carriage return: the shell takes it for a part of the last word, and Slurm refuses the script", "remove the carriage returns, as dos2unix does"},
		}})
	}
	k := shellReader{in: in, nested: nested, scope: in.scopes, blocks: newBlocks(), exported: map[string]bool{}, private: map[string][]int{}}
	s := shellScanner{text: text, line: line}
	carried := ""
	for k.err == nil {
		words, after, ok := s.next()
		switch {
		case s.long:
			k.err = fmt.Errorf("line %d: expected at most %d words in a command", s.line, maxWords)
		case len(in.settings) > maxSettings:
			k.err = errMany
		}
		if !ok {
			break
		}
		if carried != "" {
			after, carried = carried, ""
		}
		if len(words) == 0 && (after == "&&" || after == "||" || after == "|") && s.after != "(" && s.after != "((" { // the command is on the next line
			carried = after
			continue
		}
		k.before, k.behind = after, s.after
		at := s.line
		if len(words) > 0 {
			at = words[0].line
		}
		k.read(words, at)
	}
	k.closeTo(1)
	k.flaws(&s)
	k.keptPrivate()
	return k.stack[0].bodies[0], k.err
}

// flaws reports what the scanner could not read.
func (k *shellReader) flaws(s *shellScanner) {
	for _, at := range s.unclosed {
		k.in.append(setting{Setting: ncclconf.Setting{Line: at}, findings: []Finding{
			{Misread, diagnose.Warning, "A quote that begins here is not closed: the shell takes what follows for a part of it", "close the quote"},
		}})
	}
	for _, at := range s.unread {
		k.in.append(setting{Setting: ncclconf.Setting{Line: at}, findings: []Finding{
			{Undecided, diagnose.Info, "The here-document that has this line sets variables of NCCL, and is not judged: what reads it is not known", "run lint with the text of the document in a file of its own"},
		}})
	}
}

// keptPrivate reports variables that the script does not export.
func (k *shellReader) keptPrivate() {
	for name, list := range k.private {
		for _, i := range list {
			st := &k.in.settings[i]
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

// readOrMeant reports whether NCCL reads a variable, or one with a similar name.
func readOrMeant(name string) bool {
	v, known := ncclconf.Describe(name)
	return known && v.Status == ncclconf.StatusCurrent || !known && ncclconf.Similar(name) != ""
}

// keywords are words of the shell that stand before a command.
var keywords = []string{"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "case", "esac", "{", "}", "!", "time", "function"}

// read reads one simple command, or the words between two operators.
func (k *shellReader) read(words []word, line int) {
	if k.before != "&&" && k.top().begin == "&&" { // what is behind a condition ends
		k.closeTo(len(k.stack) - 1)
	}
	k.brackets(len(words) == 0, line)
	t := k.top()
	switch {
	case t.pattern && (len(words) == 0 || words[0].text != "esac"): // of which ) ends the last one
		t.usual = t.usual || k.behind == ")" && len(words) == 1 && words[0].text == "*"
		return
	case len(words) == 1 && k.behind == "(" && isName(words[0].text):
		k.function = words[0].text
		return
	}
	if (k.before == "||" || k.before == "&&" && !k.sure && t.begin != "&&") && (len(words) > 0 || k.behind == "(") {
		k.open("&&", line)
	}
	for len(words) > 0 && slices.Contains(keywords, words[0].text) {
		words = k.keyword(words, line)
	}
	if len(words) == 0 {
		return
	}
	k.function = ""
	if words[0].text == "for" || words[0].text == "select" {
		k.texts(words)
		k.begin("for", line)
		return
	}
	k.array = k.behind == "(" && strings.HasSuffix(words[len(words)-1].text, "=")
	before := len(k.in.settings)
	if k.command(words); len(k.in.settings) == before && !strings.HasPrefix(words[0].text, "#") && !slices.Contains(conditions, words[0].text) {
		k.texts(words)
	}
}

// brackets reads the bracket before a command.
func (k *shellReader) brackets(empty bool, line int) {
	t := k.top()
	switch k.before {
	case ";;":
		t.pattern = t.begin == "case"
	case ")", "))":
		switch {
		case t.pattern:
			t.pattern = false
			t.bodies = append(t.bodies, nil)
		case k.parameters:
			k.parameters = false
		default:
			for range k.before {
				k.close(false, "(", "[")
			}
		}
	case "(", "((":
		switch {
		case t.pattern:
		case k.function != "" && empty && k.behind == ")":
			k.parameters = true
		case k.array:
			k.array = false
			k.open("[", line)
		default:
			for range k.before {
				k.begin("(", line)
			}
		}
	}
}

// begin begins a block, which may be the body of a function.
func (k *shellReader) begin(word string, line int) {
	k.open(word, line)
	t := k.top()
	t.alone = k.before == "|"
	if word == "{" || word == "(" {
		t.name, k.function = k.function, ""
	}
}

// keyword reads a word of the shell, and returns the words behind it.
func (k *shellReader) keyword(words []word, line int) []word {
	alone := len(words) == 1 && (k.behind == "|" || k.behind == "&")
	switch w := words[0].text; w {
	case "if", "while", "until", "{":
		k.begin(w, line)
	case "case":
		k.begin(w, line)
		k.top().pattern, k.top().usual = true, k.behind == ")" && words[len(words)-1].text == "*"
		return nil
	case "function":
		if len(words) > 1 {
			k.function = words[1].text
			return words[2:]
		}
	case "elif", "else":
		k.otherwise("if", w == "else")
	case "fi":
		k.close(alone, "if")
	case "done":
		k.close(alone, "for", "while", "until")
	case "esac":
		k.close(alone, "case")
	case "}":
		k.close(alone, "{")
	}
	return words[1:]
}

// command reads one simple command.
func (k *shellReader) command(words []word) {
	k.own = nil
	n := 0
	for n < len(words) && isAssignment(words[n].text) {
		n++
	}
	if n == len(words) {
		k.assignments(words)
		k.sure = true
		return
	}
	for _, w := range words[:n] { // for that command alone
		k.once(w)
	}
	command := words[n]
	runs := k.arguments(command, words[n+1:]) && k.top().begin != "["
	k.sure = !runs && !slices.Contains(conditions, command.text)
	switch own := k.own; {
	case len(own) > 0 && strings.HasPrefix(command.text, "#"): // options of a job are for all of its script
		for _, p := range own {
			k.add(p)
		}
	case len(own) > 0:
		k.add(part{kind: partScope, body: [][]part{append(own, run(command))}})
	case runs:
		k.add(run(command))
	}
}

// run is the part that runs a program, or a function.
func run(command word) part {
	if isName(command.text) {
		return part{kind: partRun, name: command.text}
	}
	return part{kind: partRun}
}

// isName reports whether a function may have that name. Longer ones are not followed.
func isName(text string) bool {
	const most = 64
	return text != "" && len(text) <= most && strings.IndexFunc(text, func(r rune) bool { return r > 127 || !isWordByte(byte(r)) && !strings.ContainsRune("-.:", r) }) < 0
}

// builtins are commands that are no program that NCCL runs in.
var builtins = []string{
	"echo", "printf", "cd", "pushd", "popd", "module", "ml", "mkdir", "[", "[[", "test", "ulimit", "conda", "spack", "hostname", "date", "sleep",
	"nvidia-smi", "true", "false", "shift", "local", "declare", "typeset", "readonly", "trap", "wait", "which", "type", "command", "hash", "ls", "cat", "head", "tail",
	"rm", "cp", "mv", "ln", "chmod", "touch", "pwd", "return", "exit", "break", "continue", "read", "mapfile", "let", "getopts", "shopt", "alias", "tee", "grep", "egrep",
	"sed", "awk", "cut", "tr", "sort", "uniq", "wc", "seq", "find", "dirname", "basename", "realpath", "readlink", "id", "whoami", "uname", "getent", "scontrol", "squeue",
	"sinfo", "ip", "ifconfig", "lspci", "lscpu", "ibstat", "ibstatus", "ibv_devinfo", "ibdev2netdev", "pip", "pip3", "git", "tar", "unzip", "curl", "wget", "make", "cmake",
	"apt-get", "apt", "yum", "dnf", "chown", "df", "du", "free", "kill", "modprobe", "sysctl", "FROM", "RUN", "COPY", "WORKDIR", "ARG", "LABEL", "USER", "EXPOSE",
	"#SBATCH", "#PBS", "#BSUB",
}

// conditions are commands that scripts ask something with.
var conditions = []string{"[", "[[", "test", "true", "false", "which", "type", "command", "hash", "grep", "egrep", "read", "let", "getent", "ls", "find", "git"}

// arguments reads what a command sets, and reports whether it may run a program.
func (k *shellReader) arguments(command word, args []word) (runs bool) {
	switch name := command.text; {
	case name == "ENV" && len(args) > 1 && !strings.Contains(args[0].text, "="): // the old form of a Dockerfile
		k.set(joined(args))
	case name == "export" && hasFlag(args, 'n'):
		k.unset(args)
	case name == "export", name == "ENV", (name == "declare" || name == "typeset" || name == "readonly") && hasFlag(args, 'x'):
		k.export(args)
	case name == "unset", name == "unsetenv":
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
	case name == "#BSUB" && len(args) > 0:
		k.list("LSF", args[0].text, args[0])
	case (name == "source" || name == ".") && len(args) > 0:
		return k.source(args[0])
	case name == "eval" && first(args).dynamic && strings.TrimSpace(first(args).text) == "$(...)": // conda shell.bash hook, most often
		k.note(command.line)
	case name == "eval" && strings.HasPrefix(first(args).text, "export ") && args[0].dynamic && !strings.Contains(args[0].text, "NCCL_"):
		k.export([]word{{text: args[0].text, line: args[0].line, dynamic: true}})
	case name == "xargs" && replacesForEnv(args):
		k.undecided(command.line, "The variables that xargs puts behind env are known only when the script runs", "run lint with the file that has them, or on what env prints in the job")
		k.options(name, args)
		return true
	case name == "printf" && len(args) > 1 && args[0].text == "-v" && concerns(args[1].text), name == "read" && slices.ContainsFunc(args, func(w word) bool { return concerns(w.text) }):
		k.undecided(command.line, "The value of this variable is known only when the script runs", "run lint on what env prints in the job")
	case concerns(name) && len(args) > 0 && strings.HasPrefix(args[0].text, "="):
		k.blank(command)
	default:
		k.options(name, args)
		return !slices.Contains(builtins, name)
	}
	return false
}
