// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strings"
)

// command reads one simple command: what it sets for itself alone, its name and its arguments.
func (k *shellReader) command(own []word, command word, args []word) {
	k.own = nil
	before := len(k.in.settings)
	k.in.countNodes(append([]word{command}, args...))
	for _, w := range own {
		k.once(w)
	}
	runs := k.arguments(command, args)
	k.in.own(before, append([]word{command}, args...))
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
	return text != "" && len(text) <= most && strings.IndexFunc(text,
		func(r rune) bool { return r > 127 || !isWordByte(byte(r)) && !strings.ContainsRune("-.:", r) }) < 0
}

// builtins are commands that are no program that NCCL runs in.
var builtins = []string{
	"echo", "printf", "cd", "pushd", "popd", "module", "ml", "mkdir", "[", "[[", "test", "ulimit", "conda", "spack",
	"hostname", "date", "sleep",
	"nvidia-smi", "true", "false", "shift", "local", "declare", "typeset", "readonly", "trap", "wait", "which", "type",
	"command", "hash", "ls", "cat", "head", "tail",
	"rm", "cp", "mv", "ln", "chmod", "touch", "pwd", "return", "exit", "break", "continue", "read", "mapfile", "let",
	"getopts", "shopt", "alias", "tee", "grep", "egrep",
	"sed", "awk", "cut", "tr", "sort", "uniq", "wc", "seq", "find", "dirname", "basename", "realpath", "readlink", "id",
	"whoami", "uname", "getent", "scontrol", "squeue",
	"sinfo", "ip", "ifconfig", "lspci", "lscpu", "ibstat", "ibstatus", "ibv_devinfo", "ibdev2netdev", "pip", "pip3",
	"git", "tar", "unzip", "curl", "wget", "make", "cmake",
	"apt-get", "apt", "yum", "dnf", "chown", "df", "du", "free", "kill", "modprobe", "sysctl", "FROM", "RUN", "COPY",
	"WORKDIR", "ARG", "LABEL", "USER", "EXPOSE",
	"#SBATCH", "#PBS", "#BSUB",
}

// conditions are commands that scripts ask something with.
var conditions = []string{
	"[", "[[", "test", "true", "false", "which", "type", "command", "hash", "grep", "egrep",
	"read", "let", "getent", "ls", "find", "git",
}

// arguments reads what a command sets, and reports whether it may run a program.
func (k *shellReader) arguments(command word, args []word) (runs bool) {
	switch name := command.text; {
	case name == "ENV" && len(args) > 1 && !strings.Contains(args[0].text, "="): // the old form of a Dockerfile
		k.set(joined(args))
	case name == "export" && hasFlag(args, 'n'):
		k.unset(args)
	case name == "export", name == "ENV", (name == "declare" || name == "typeset" || name == "readonly") &&
		hasFlag(args, 'x'):
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
	// conda shell.bash hook, most often
	case name == "eval" && first(args).dynamic && strings.TrimSpace(first(args).text) == "$(...)":
		k.note(command.line)
	case name == "eval" && strings.HasPrefix(first(args).text, "export ") && args[0].dynamic &&
		!strings.Contains(args[0].text, "NCCL_"):
		k.export([]word{{text: args[0].text, line: args[0].line, dynamic: true}})
	case name == "xargs" && replacesForEnv(args):
		k.undecided(command.line, "The variables that xargs puts behind env are known only when the script runs",
			"run lint with the file that has them, or on what env prints in the job")
		k.options(name, args)
		return true
	case name == "printf" && len(args) > 1 && args[0].text == "-v" && concerns(args[1].text), name == "read" &&
		slices.ContainsFunc(args, func(w word) bool { return concerns(w.text) }):
		k.undecided(command.line, "The value of this variable is known only when the script runs",
			"run lint on what env prints in the job")
	case concerns(name) && len(args) > 0 && strings.HasPrefix(args[0].text, "="):
		k.blank(command)
	default:
		k.options(name, args)
		return !slices.Contains(builtins, name)
	}
	return false
}
