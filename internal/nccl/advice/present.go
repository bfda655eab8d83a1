// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"cmp"
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
)

// present judges the NCCL configuration of the host: lines that lint objects to, and those that set what NCCL does by
// itself, are to be removed. The rest of the advice is for the node without it.
func (k *adviser) present() {
	result := lint.Judge(lint.HostInputs(k.node), k.version, k.node)
	removed := map[string]bool{}
	for i := range result.Lines {
		l := &result.Lines[i]
		worst := l.Worst()
		from := fmt.Sprintf("%s:%d", l.File, l.Number)
		switch {
		case worst.Verdict == lint.Undecided:
			k.open(cmp.Or(l.Name, "NCCL configuration"), worst.Reason+".",
				"judge the line where the job runs: gpufabric_exporter lint --host --env")
		case worst.Severity == "" || worst.Verdict == lint.Works || worst.Verdict == lint.Foreign:
		default:
			removed[from] = true
			k.Remove = append(k.Remove, Removal{
				Name: l.Name, Value: l.Value, From: from, Verdict: worst.Verdict, Level: worst.Severity,
				Reason: worst.Reason + ".", Instead: better(worst.Better), Source: lineSource(l),
			})
		}
	}
	if len(removed) > 0 {
		kept := slices.DeleteFunc(slices.Clone(k.node.NCCL.Variables),
			func(v fabric.NCCLVariable) bool { return removed[v.Source] })
		k.base = lint.WithVariables(k.node, kept)
	}
	slices.SortStableFunc(k.Remove, func(a, b Removal) int { return a.Level.Rank() - b.Level.Rank() })
}

// keepUnreplaced cancels the removal of what does not fit the node where the advice has nothing better: then
// the node is more likely at fault than the setting, as where a device is missing that NCCL_IB_HCA names.
func (k *adviser) keepUnreplaced() {
	for _, name := range []string{devicesVariable, classVariable} {
		at := slices.IndexFunc(k.Remove, func(r Removal) bool { return r.Name == name && r.Verdict == lint.WrongHere })
		if at < 0 || k.isSet(name) {
			continue
		}
		r := k.Remove[at]
		k.Remove = slices.Delete(k.Remove, at, at+1)
		k.open(name,
			fmt.Sprintf("The host sets %s=%s (%s), which does not fit the node as it is now: %s The node may be at fault rather than the setting.", r.Name, r.Value, r.From, r.Reason),
			"repair the node before the line is changed: run `gpufabric_exporter check`")
	}
}

// foldReplaced takes lines that a setting replaces out of the removals: the setting says what is wrong with them.
func (k *adviser) foldReplaced() {
	for i := range k.Settings {
		s := &k.Settings[i]
		at := slices.IndexFunc(k.Remove, func(r Removal) bool { return s.Change == Replace && r.From == s.PresentFrom })
		if at >= 0 {
			s.Reason = "It replaces " + s.PresentFrom + ": " + k.Remove[at].Reason + " " + s.Reason
			k.Remove = slices.Delete(k.Remove, at, at+1)
		}
	}
}

// better is what lint has instead of a line, where that is more than its removal.
func better(instead string) string {
	if instead == "remove the line" {
		return ""
	}
	return instead
}

func lineSource(l *lint.Line) string {
	if l.Release == "" {
		return l.Source
	}
	return l.Source + " of NCCL " + l.Release
}

// kept adds what the host sets and lint accepts, so that the settings are whole where they replace its
// configuration. One that could not be judged stays, and is listed once.
func (k *adviser) kept() {
	for _, v := range k.base.NCCL.Variables {
		switch {
		case k.isSet(v.Name) || v.Value == "":
		case v.Masked:
			k.open(v.Name, "The host sets it, and its value has a credential, which is not shown.",
				"copy the line from "+v.Source)
		default:
			reason := "The host sets it, and lint finds no fault in it."
			if at := slices.IndexFunc(k.Unknown, func(o Open) bool { return o.Name == v.Name }); at >= 0 {
				reason = "The host sets it. Whether it is right is not known: " + k.Unknown[at].Reason + " To find out: " +
					k.Unknown[at].Ask + "."
			}
			k.set(Setting{Name: v.Name, Value: v.Value, Reason: reason, Source: v.Source, HostNames: v.Name == socketVariable},
				nil)
		}
	}
	k.Unknown = slices.DeleteFunc(k.Unknown, func(o Open) bool { return k.isSet(o.Name) })
}
