// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/verdict"
)

// hiddenValue stands for a value that the reader does not give out.
const hiddenValue = "set"

// lintAge is how long a verdict on settings stands: the node that they are held against may change.
const lintAge = time.Minute

// linted is the verdict on the settings of a rank, by settings.
type linted struct {
	at       time.Time
	used     bool
	findings []Finding
}

// settings judges the NCCL variables of a rank by the rules of package lint. Ranks of a job have the same as
// a rule: they are judged once.
func (t *Tracker) settings(n *fabric.Node, c *fabric.RankCandidate) []Finding {
	var environ []string
	files := map[string]string{} // that set a variable which the environment does not
	for _, v := range c.Variables() {
		if !v.Masked && v.Value != hiddenValue && strings.HasPrefix(v.Name, "NCCL_") {
			environ = append(environ, v.Name+"="+v.Value)
			if strings.HasPrefix(v.Source, "/") {
				files[v.Name] = v.Source
			}
		}
	}
	if len(environ) == 0 {
		return nil
	}
	slices.Sort(environ)
	version, err := fabric.ParseNCCLVersion(c.Maps.Or(fabric.MappedFiles{}).Version)
	if err != nil {
		version = lint.Newest()
	}
	key := fmt.Sprintf("%s\x00%q\x00%q", version, environ, files)
	if l, ok := t.lint[key]; ok && n.Ranks.At.Sub(l.at) < lintAge {
		l.used = true
		t.lint[key] = l
		return l.findings
	}
	l := linted{at: n.Ranks.At, used: true}
	if in, err := lint.Environment("job", environ); err == nil {
		l.findings = lintFindings(lint.Judge([]lint.Input{in}, version, n), files)
	}
	if t.lint == nil {
		t.lint = map[string]linted{}
	}
	t.lint[key] = l
	return l.findings
}

// ruleOf are the rules of verdicts on settings.
var ruleOf = map[lint.Verdict]Rule{
	lint.Misread: RuleSettingMisread, lint.Refused: RuleSettingRefused, lint.Ignored: RuleSettingIgnored,
	lint.Unknown:   RuleSettingUnknown,
	lint.WrongHere: RuleSettingWrongHere, lint.NotRecommended: RuleSettingNotRecommended,
}

// lintFindings are the settings that are wrong, one finding for each rule. files are those that set a variable.
func lintFindings(r lint.Result, files map[string]string) []Finding {
	var list []Finding
	for i := range r.Lines {
		line := &r.Lines[i]
		worst := line.Worst()
		rule, known := ruleOf[worst.Verdict]
		if !known || !worst.Severity.AtLeast(verdict.Warning) {
			continue
		}
		text := fmt.Sprintf("%s=%s: %s", line.Name, line.Value, worst.Reason)
		if file := files[line.Name]; file != "" {
			text = fmt.Sprintf("%s=%s in %s: %s", line.Name, line.Value, file, worst.Reason)
		}
		k := slices.IndexFunc(list, func(f Finding) bool { return f.Rule == rule })
		if k < 0 {
			list = append(list, Finding{Rule: rule, Severity: worst.Severity, Text: text, Variables: []string{line.Name}})
			continue
		}
		list[k].Text += "; " + text
		list[k].Variables = append(list[k].Variables, line.Name)
		if worst.Severity.AtLeast(list[k].Severity) {
			list[k].Severity = worst.Severity
		}
	}
	return list
}

// forgetLint drops what no rank has any more.
func (t *Tracker) forgetLint() {
	for key, l := range t.lint {
		if !l.used {
			delete(t.lint, key)
			continue
		}
		l.used = false
		t.lint[key] = l
	}
}
