// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// carriers take settings for a program at any place.
var carriers = []string{"env", "sudo", "ssh", "pdsh", "clush", "kubectl", "horovodrun"}

// remote run a text as a script.
var remote = []string{"ssh", "pdsh", "clush", "eval"}

// options reads settings that a program passes on: env NAME=value, mpirun -x NAME=value, docker run -e NAME=value, srun
// --export=ALL,NAME=value, and scripts of other shells.
func (k *shellReader) options(command string, args []word) {
	carries := slices.Contains(carriers, command)
	for i, a := range args {
		carries = carries || a.text == "env" // nohup env NAME=value
		flag, value, equals := strings.Cut(a.text, "=")
		before := command // the first option of an array stands in its place
		if i > 0 {
			before = args[i-1].text
		}
		switch {
		case flag == "--env-file" && equals:
			k.source(word{text: value, line: a.line})
		case before == "--env-file":
			k.source(a)
		case (isCommandFlag(before) || slices.Contains(remote, command) && strings.ContainsAny(a.text, " ;")) &&
			strings.Contains(a.text, "NCCL_") && k.nested < maxNested:
			k.script(command, a)
		case command == "bsub" && before == "-env":
			k.list("LSF", a.text, a)
		case (before == "-genv" || before == "-env") && !equals && i+1 < len(args): // MPICH
			k.passed(joined(args[i:]))
		case (strings.HasPrefix(flag, "-eNCCL_") || strings.HasPrefix(flag, "-xNCCL_")) && equals:
			one := a
			one.text = a.text[2:]
			k.passed(one)
		case (command == "apptainer" || command == "singularity") && (before == "--env" || flag == "--env"):
			k.between(value, a, before == "--env")
		case equals && strings.HasPrefix(flag, "-"):
			if strings.HasPrefix(flag, "--export") {
				k.list("Slurm", value, a)
			} else {
				one := a
				one.text = value
				k.passed(one)
			}
		case strings.HasPrefix(before, "-") && !strings.Contains(before, "="), carries:
			if strings.HasPrefix(before, "--export") {
				k.list("Slurm", a.text, a)
				continue
			}
			k.passed(a)
		}
	}
}

// script reads a script that is a word of a command.
func (k *shellReader) script(command string, w word) {
	body, err := k.in.shellParts(w.text, w.line, k.nested+1)
	if k.err == nil && err != nil {
		k.err = err
	}
	if command == "eval" { // in the same shell
		for _, p := range body {
			k.add(p)
		}
		return
	}
	k.own = append(k.own, part{kind: partScope, body: [][]part{append(body, part{kind: partRun})}})
}

// isCommandFlag reports whether a script follows the option: -c, -lc.
func isCommandFlag(option string) bool {
	return len(option) >= 2 && len(option) <= 4 && option[0] == '-' && option[1] != '-' && option[len(option)-1] == 'c'
}

// between reads settings between commas, as options of Apptainer have them. Those without a name belong to
// the value before.
func (k *shellReader) between(value string, w word, whole bool) {
	if whole {
		value = w.text
	}
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if n := len(parts); n > 0 && !isAssignment(part) {
			parts[n-1] += "," + part
			continue
		}
		parts = append(parts, part)
	}
	for _, part := range parts {
		one := w
		one.text = part
		k.passed(one)
	}
}

// list reads the value of an option of Slurm or PBS: settings and names of variables between commas.
func (k *shellReader) list(manager, value string, w word) {
	parts := splitExport(value)
	for i, part := range parts {
		one := w
		one.text = part
		before := len(k.in.settings)
		k.passed(one)
		if len(k.in.settings) == before || i+1 == len(parts) {
			continue
		}
		if st := &k.in.settings[before]; continues(st.Name, parts[i+1]) {
			st.findings = append(st.findings, Finding{
				Misread, verdict.Warning, manager +
					" ends the value at the comma, and takes what follows for the name of a variable",
				"export " + st.Name + " before the command, and pass the whole environment",
			})
		}
	}
}

// splitExport splits the value of --export at commas that are not between quotes.
func splitExport(value string) []string {
	quote := rune(0)
	parts := strings.FieldsFunc(value, func(r rune) bool {
		switch {
		case quote == r:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		}
		return r == ',' && quote == 0
	})
	for i := range parts {
		parts[i] = strings.NewReplacer("'", "", `"`, "").Replace(strings.TrimSpace(parts[i]))
	}
	return parts
}

// continues reports whether a part of --export behind a setting was meant as a part of its value: it is no
// name that people give variables, or the value is a list of such words.
func continues(name, part string) bool {
	if strings.Contains(part, "=") {
		return false
	}
	if strings.ToUpper(part) != part || strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return true
	}
	v, _ := settings.Describe(name)
	words := strings.FieldsFunc(v.Valid, func(r rune) bool { return strings.ContainsRune(" |,", r) })
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, part) })
}

// passed adds a setting for one program, if it has to do with NCCL.
func (k *shellReader) passed(w word) {
	if isAssignment(w.text) {
		others := k.in.others
		k.once(w)
		k.in.others = others // options of programs are none
	}
}
