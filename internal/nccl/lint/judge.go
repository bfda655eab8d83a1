// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

const remove = nccl.RemoveLine

// judgeSetting says what NCCL of that release makes of one line, whatever the node.
func judgeSetting(file string, s setting, version Version) Line {
	l := Line{File: file, Number: s.Line, Name: s.Name, Value: s.Value, Findings: s.findings}
	if s.Name == "" {
		return l
	}
	v, known := settings.Describe(s.Name)
	if known {
		l.Source, l.Release = v.Source, settings.NewestNCCL
		switch {
		case v.Status == settings.StatusRemoved:
			l.Release = strings.TrimPrefix(v.Removed, "<")
		case v.Status != settings.StatusCurrent:
			l.Source, l.Release = v.Source, ""
		}
	}
	if s.set {
		l.Findings = append(l.Findings, judgeVariable(s, v, known, version)...)
		if a := adviceOn(s, version); len(a) > 0 && slices.ContainsFunc(l.Findings,
			func(f Finding) bool { return f.Verdict == Verdict(a[0].Verdict) }) {
			l.Source, l.Release = a[0].File, a[0].Release
		}
	}
	if s.chosen {
		l.Findings = append(l.Findings, Finding{
			Works, verdict.Info,
			"The line sets this value only where the caller has not set the variable that it names", "",
		})
	}
	if len(l.Findings) == 0 {
		l.Findings = []Finding{{Verdict: Works}}
	}
	return l
}

// judgeVariable says whether the release reads the variable and, if so, what it makes of the value.
func judgeVariable(s setting, v settings.Variable, known bool, version Version) []Finding {
	switch {
	case !known:
		return []Finding{unknownVariable(s, version)}
	case s.rccl && (v.Status == settings.StatusCurrent || mayHave(v.Removed)):
		return judgeValue(s, v, version)
	}
	switch v.Status {
	case settings.StatusMistaken:
		better := remove
		if strings.HasPrefix(v.Instead, "NCCL_") {
			better = "use " + v.Instead
		}
		reason := "No release of NCCL reads " + s.Name
		if v.Note != "" {
			reason += ": " + v.Note
		}
		return []Finding{{Unknown, verdict.Warning, reason, better}}
	case settings.StatusFramework, settings.StatusPlugin, settings.StatusTool:
		f := Finding{Verdict: Foreign, Severity: verdict.Info, Reason: "NCCL does not read it; it belongs to: " +
			cmp.Or(v.Note, v.Source)}
		if v.Instead != "" {
			f.Better = v.Instead + "=" + s.Value
		}
		return []Finding{f}
	case settings.StatusRemoved:
		if last := strings.TrimPrefix(v.Removed, "<"); version.After(last) || strings.HasPrefix(v.Removed, "<") &&
			version.AtLeast(last) {
			return []Finding{{Ignored, verdict.Warning, fmt.Sprintf("NCCL %s does not read it: %s", version,
				lastRelease(v.Removed)), instead(v, s)}}
		}
		return nil
	}
	since, early := strings.CutPrefix(v.Since, "<=")
	before, late := strings.CutPrefix(v.Since, ">")
	switch {
	case late && !version.After(before):
		return []Finding{{Ignored, verdict.Warning, fmt.Sprintf("NCCL %s does not read it: it came after %s", version,
			before), remove}}
	case late && !version.AtLeast(settings.NewestNCCL):
		return []Finding{{
			Undecided, verdict.Info,
			fmt.Sprintf("NCCL %s reads it and %s does not; whether %s does is not known", settings.NewestNCCL, before,
				version), "",
		}}
	case late, version.AtLeast(since):
	case early:
		return []Finding{{Undecided, verdict.Info, fmt.Sprintf("NCCL %s reads it; whether %s does is not known", since,
			version), ""}}
	default:
		return []Finding{{Ignored, verdict.Warning, fmt.Sprintf("NCCL %s does not read it: it came with %s", version,
			since), remove}}
	}
	list := judgeValue(s, v, version)
	if v.Deprecated != "" && version.AtLeast(v.Deprecated) {
		list = append(list, Finding{
			Deprecated, verdict.Info,
			fmt.Sprintf("NCCL %s still reads it; it is deprecated since %s", version, v.Deprecated), instead(v, s),
		})
	}
	return list
}

// mayHave reports whether RCCL may still read a variable that NCCL read until a release: those in use are of
// NCCL 2.18 and later.
func mayHave(removed string) bool {
	last, err := fabric.ParseNCCLVersion(strings.TrimPrefix(removed, "<"))
	return err == nil && last.AtLeast("2.18")
}

// lastRelease says which release was the last one to read a variable; with < it is the last one before that.
func lastRelease(removed string) string {
	if next, before := strings.CutPrefix(removed, "<"); before {
		return "the last release that did is older than " + next
	}
	return removed + " was the last release that did"
}

// instead is the line to write in place of that of a variable with a successor.
func instead(v settings.Variable, s setting) string {
	switch {
	case v.Instead == "":
		return remove
	case strings.HasPrefix(v.Instead, "NCCL_") && !strings.Contains(v.Instead, "=") && v.Type == "int" &&
		v.Status == settings.StatusCurrent:
		return v.Instead + "=" + s.Value
	}
	return "use " + v.Instead
}

func unknownVariable(s setting, version Version) Finding {
	near, meant := settings.Similar(s.Name), ""
	if near != "" {
		meant = "write " + near + " if it is meant"
	}
	switch {
	case version.After(settings.NewestNCCL):
		return Finding{
			Undecided, verdict.Info,
			fmt.Sprintf("No release of NCCL up to %s reads it; whether %s does is not known", settings.NewestNCCL, version), meant,
		}
	case s.rccl && near == "":
		return Finding{
			Foreign, verdict.Info,
			fmt.Sprintf("No release of NCCL up to %s reads it; whether RCCL does is not known", settings.NewestNCCL), "",
		}
	case near != "":
		return Finding{Unknown, verdict.Warning, fmt.Sprintf("No release of NCCL up to %s reads %s", settings.NewestNCCL,
			s.Name), meant + ", else remove the line"}
	}
	return Finding{
		Unknown, verdict.Info,
		fmt.Sprintf("No release of NCCL up to %s reads %s, and no software that is known here", settings.NewestNCCL,
			s.Name), "remove the line, unless a plugin reads it",
	}
}

// judgeValue says what becomes of the value of a variable that the release reads.
func judgeValue(s setting, v settings.Variable, version Version) []Finding {
	advice := adviceOn(s, version)
	refused := slices.DeleteFunc(slices.Clone(advice),
		func(a settings.Advice) bool { return Verdict(a.Verdict) != Refused })
	switch {
	case len(refused) > 0 && !s.dynamic && !s.rccl:
		return []Finding{{Refused, verdict.Critical, upper(refused[0].Text), refused[0].Better}}
	case s.dynamic && v.Type == "path": // NCCL takes any path
		return []Finding{{Verdict: Works}}
	case s.dynamic:
		return []Finding{{Undecided, verdict.Info, "The value is known only when the script or the container runs", ""}}
	case s.Value == "" && (v.Parser == settings.ParserNumber || v.Parser == settings.ParserOne):
		return []Finding{{Default, verdict.Info, "NCCL takes an empty number for one that is not set", remove}}
	case s.Value == "":
		return []Finding{{
			Works, verdict.Info,
			"NCCL gets an empty text, which is not the same as no text for every variable", remove,
		}}
	}
	list, ofNCCL := checkValue(s, v, version)
	if ofNCCL = ofNCCL || len(advice) > 0 || isDefault(s, v) || v.Status == settings.StatusRemoved; s.rccl {
		if ofNCCL {
			list = append(list, Finding{Works, verdict.Info, "For RCCL, not judged: its defaults and ranges are its own", ""})
		}
		return list
	}
	if (v.Type == "hcalist" || v.Type == "iflist") && strings.IndexFunc(s.Value, fabric.Unprintable) >= 0 {
		list = append(list, Finding{
			Misread, verdict.Warning,
			"The value has characters that are not printed: no device has such a name, and what has them matches none",
			"write the value anew",
		})
	}
	if v.Type == "hcalist" || v.Type == "iflist" {
		list = append(list, misnamed(s, v)...)
	}
	if n, ok := v.Number(s.Value); len(list) > 0 && (!ok || !v.Flag(n)) { // of a switch it still matters what 1 does
		return list
	}
	hasDefault := len(list) > 0
	for _, a := range advice {
		hasDefault = hasDefault || a.Verdict == string(Default)
		one := Finding{Verdict(a.Verdict), verdict.Severity(a.Severity), upper(a.Text), a.Better}
		if one.Verdict == Default {
			one.Reason, one.Better = byDefault(version), remove
		}
		list = append(list, one)
	}
	if !hasDefault && isDefault(s, v) {
		list = append([]Finding{{
			Default, verdict.Info, byDefault(version), remove,
		}}, list...)
	}
	if trafficClass := s.Name == "NCCL_IB_TC"; trafficClass {
		if n, ok := v.Number(s.Value); ok && n > 0 {
			list = append(list, Finding{
				Works, "",
				fmt.Sprintf("Packets have DSCP %d and ECN bits %d; which priority that is depends on the network interface", n>>2,
					n&3), "",
			})
		}
	}
	return list
}

// checkValue returns what a release does otherwise than the value says. ofNCCL: a limit of NCCL is among that,
// which RCCL may have otherwise.
func checkValue(s setting, v settings.Variable, version Version) (list []Finding, ofNCCL bool) {
	for _, f := range settings.CheckValue(s.Setting) {
		one, matters := valueFinding(f, s, version)
		ofVerbs := v.Above == settings.OutsideCut || v.Above == settings.OutsideDevice
		limit := f.Rule == settings.RuleOutOfRange && !ofVerbs
		if ofNCCL = ofNCCL || limit; matters && (!s.rccl || !limit) {
			list = append(list, one)
		}
	}
	return list, ofNCCL
}

// adviceOn returns what is known of the value for that release.
func adviceOn(s setting, version Version) []settings.Advice {
	return slices.DeleteFunc(settings.AdviceOn(s.Name, s.Value),
		func(a settings.Advice) bool { return !version.In(a.Releases) })
}

// byDefault says that a release does the same without a line; of one that is not known, the newest that is.
func byDefault(version Version) string {
	if version.After(settings.NewestNCCL) {
		return fmt.Sprintf("It is what NCCL %s does by default", settings.NewestNCCL)
	}
	return fmt.Sprintf("It is what NCCL %s does by default", version)
}

// isDefault reports whether a value is the default of the table, where that is one word or number for all releases.
func isDefault(s setting, v settings.Variable) bool {
	if v.Default == "" || strings.ContainsAny(v.Default, " :$*") {
		return false
	}
	if n, ok := v.Number(s.Value); ok {
		want, isNumber := v.Number(v.Default)
		return isNumber && n == want && v.Default[0] <= '9'
	}
	return strings.EqualFold(s.Value, v.Default)
}

// valueFinding turns what ncclconf returns for a value into a finding for one release. matters is false where
// it is irrelevant to that release.
func valueFinding(f fabric.NCCLFinding, s setting, version Version) (one Finding, matters bool) {
	one = Finding{Misread, verdict.Warning, upper(f.Text), better(f, s, version)}
	mayChange := []string{settings.RuleUnknownValue, settings.RuleOutOfRange, settings.RuleRejectedValue}
	if version.After(settings.NewestNCCL) && slices.Contains(mayChange, f.Rule) {
		return Finding{
			Undecided, verdict.Info,
			fmt.Sprintf("With NCCL %s: %s. Whether %s does the same is not known", settings.NewestNCCL, f.Text, version), one.Better,
		}, true
	}
	switch f.Rule {
	case settings.RuleRejectedValue, settings.RuleWithdrawnValue:
		if version.AtLeast("2.24") || s.Name == "NCCL_PROTO" && !leavesProtocol(s.Value) {
			one.Verdict, one.Severity = Refused, verdict.Critical
		}
	case settings.RuleOutOfRange, settings.RuleTrailingGarbage, settings.RuleNotANumber, settings.RuleOctalNumber:
		v, _ := settings.Describe(s.Name)
		if n, ok := v.Number(s.Value); ok && v.Breaks(n) {
			one.Verdict, one.Severity = Refused, verdict.Critical
		}
	case settings.RuleCarriageReturn:
		if version.AtLeast("2.30.3") {
			return one, false
		}
	case settings.RuleShellSyntax:
		one.Severity = verdict.Info
	}
	return one, true
}

// leavesProtocol reports whether NCCL before 2.24 has a protocol left with that value of NCCL_PROTO.
func leavesProtocol(value string) bool {
	v, _ := settings.Describe("NCCL_PROTO")
	return strings.HasPrefix(value, "^") || slices.ContainsFunc(strings.Split(value, ","), func(word string) bool {
		return slices.ContainsFunc(strings.Split(v.Valid, "|"), func(w string) bool { return strings.EqualFold(w, word) })
	})
}

// better is the line that was probably meant, unless NCCL without it does better: who wrote
// NCCL_IB_DISABLE=true has RDMA now, and must not be led to lose it.
func better(f fabric.NCCLFinding, s setting, version Version) string {
	line := func(value string) string {
		if slices.ContainsFunc(settings.AdviceOn(s.Name, value), func(a settings.Advice) bool {
			return Verdict(a.Verdict) == NotRecommended && version.In(a.Releases)
		}) {
			return remove
		}
		return s.Name + "=" + value
	}
	lower := strings.ToLower(strings.TrimSpace(s.Value))
	switch f.Rule {
	case settings.RuleRejectedValue, settings.RuleWithdrawnValue:
		plain, _, _ := strings.Cut(s.Value, "#")
		plain = strings.NewReplacer(`"`, "", "'", "", " ", "", "\t", "").Replace(plain)
		if other := (settings.Setting{Name: s.Name, Value: plain}); plain != s.Value && plain != "" &&
			len(settings.CheckValue(other)) == 0 {
			return line(plain)
		}
	case settings.RuleNotANumber:
		switch lower {
		case "true", "yes", "on", "enable", "enabled":
			return line("1")
		case "false", "no", "off", "disable", "disabled":
			return line("0")
		}
	case settings.RuleTrailingGarbage:
		if n, ok := settings.ParseNumber(s.Value); ok && n > 0 {
			for suffix, shift := range map[string]uint{"k": 10, "m": 20, "g": 30} {
				if rest, cut := strings.CutSuffix(strings.TrimSuffix(lower, "b"), suffix); cut &&
					rest == strconv.FormatInt(n, 10) && n < 1<<20 {
					return line(strconv.FormatInt(n<<shift, 10))
				}
			}
		}
	case settings.RuleQuotedValue:
		return line(strings.Trim(s.Value, `"'`))
	case settings.RuleBlankAroundValue:
		if v, _ := settings.Describe(s.Name); v.Type == "hcalist" || v.Type == "iflist" {
			return line(strings.ReplaceAll(strings.ReplaceAll(s.Value, " ", ""), "\t", ""))
		}
		return line(strings.TrimSpace(s.Value))
	case settings.RuleInlineComment:
		before, _, _ := strings.Cut(s.Value, "#")
		return line(strings.TrimSpace(before))
	case settings.RuleOctalNumber:
		return line(strings.TrimLeft(s.Value, "0"))
	}
	return "correct or remove the line"
}

func upper(s string) string {
	if s == "" || strings.HasPrefix(s, "mlx5") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
