// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// activations are files that scripts source for compilers, Python and modules. They set nothing of NCCL.
var activations = []string{
	"activate", ".bashrc", ".bash_profile", ".profile", "profile", "bashrc", "conda.sh", "mamba.sh", "micromamba.sh",
	"modules.sh", "lmod.sh", "z00_lmod.sh", "bash", "sh",
	"setvars.sh", "setup-env.sh", "hpcx-init.sh", "hpcx-init-ompi.sh", "hpcx-mt-init.sh", "hpcx-mt-init-ompi.sh",
	"os-release", "functions", "nvm.sh", "env_parallel.bash",
}

// source mentions a file that the script reads, which is not followed: it may belong to others, or not be
// there. It reports whether the file may run a program.
func (k *shellReader) source(file word) (runs bool) {
	if file.text == substituted {
		k.undecided(file.line, "lint does not run the command whose output the script reads: what it sets is not judged",
			"run lint on what env prints in the job")
		return true
	}
	base := path.Base(file.text)
	s := setting{Setting: settings.Setting{Line: file.line}, scope: k.scope, sources: base}
	name := fabric.MaskTokens(fabric.MaskCredentials(shown(file.text)))
	if slices.Contains(activations, base) {
		s.findings = []Finding{{Foreign, verdict.Info, "lint does not read " + name +
			", which such scripts use for other software", ""}}
		k.in.append(s)
		return false
	}
	s.findings = []Finding{{
		Undecided, verdict.Info, "lint does not read " + name + ": what it sets is not judged",
		"run lint with that file, too",
	}}
	k.in.append(s)
	return true
}

// undecided reports a line that may set variables in a way that is not followed.
func (k *shellReader) undecided(line int, reason, better string) {
	k.in.append(setting{
		Setting: settings.Setting{Line: line}, scope: k.scope,
		findings: []Finding{{Undecided, verdict.Info, reason, better}},
	})
}

// note reports a line that reads what a command prints, which is seldom about NCCL: scripts activate
// environments that way.
func (k *shellReader) note(line int) {
	const reason = "lint does not run the command whose output this reads: what it sets is not judged"
	k.in.append(setting{
		Setting: settings.Setting{Line: line}, scope: k.scope,
		findings: []Finding{{Foreign, verdict.Info, reason, ""}},
	})
}

// textSetting is a setting in a text: of a variable that holds a command, a file that echo writes, a trap.
// One whose value is a variable is most often printed.
var textSetting = lazyregexp.New(`(?:^|[^\w$}])NCCL_[A-Z0-9_]+=[^$=\s]`)

// texts reports settings in words of a command of which none was read. What echo prints with words before it
// is a message.
func (k *shellReader) texts(words []word) {
	for i, w := range words {
		at := textSetting().FindStringIndex(w.text)
		if at == nil || at[0] > 0 && i > 0 && (words[0].text == "echo" || words[0].text == "printf") {
			continue
		}
		k.undecided(w.line, "The text sets variables of NCCL, and is not judged: what reads it is not known",
			"export the variables in a line of their own")
		return
	}
}

// replacesForEnv reports whether xargs puts what it reads before the program of env, where it sets variables
// (-I, -i, --replace). Otherwise xargs appends it to the arguments of the program, where it sets none.
func replacesForEnv(args []word) bool {
	env := slices.IndexFunc(args, func(w word) bool { return w.text == "env" })
	return env >= 0 && slices.ContainsFunc(args[:env], func(w word) bool {
		return strings.HasPrefix(w.text, "-I") || strings.HasPrefix(w.text, "-i") || strings.HasPrefix(w.text, "--replace")
	})
}

// first returns the first argument, or none.
func first(args []word) word {
	if len(args) == 0 {
		return word{}
	}
	return args[0]
}
