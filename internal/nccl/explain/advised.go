// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// undone is advice without what the log shows as done: a setting that has the value already.
func (r *Result) undone(advice string) string {
	if len(r.Log.Settings) == 0 {
		return advice
	}
	parts := strings.Split(strings.TrimSuffix(advice, "."), "; ")
	left := slices.DeleteFunc(slices.Clone(parts), r.done)
	if len(left) == len(parts) || len(left) == 0 && strings.HasSuffix(advice, ".") {
		return advice
	}
	text := strings.Join(left, "; ")
	if strings.HasSuffix(advice, ".") {
		text = strings.ToUpper(text[:1]) + text[1:] + "."
	}
	return text
}

// done reports whether a part of an advice sets only what the log shows as set so.
func (r *Result) done(part string) bool {
	found := false
	for word := range strings.FieldsFuncSeq(part, func(c rune) bool { return strings.ContainsRune(" ,:()", c) }) {
		name, value, sets := strings.Cut(strings.TrimRight(word, "."), "=")
		if !sets || !strings.HasPrefix(name, "NCCL_") {
			continue
		}
		if !slices.ContainsFunc(r.Log.Settings, func(s log.Setting) bool {
			return s.Name == name && strings.TrimSuffix(s.Value, ".") == value
		}) {
			return false
		}
		found = true
	}
	return found
}

// chosenWay puts a setting that has NCCL take the way that failed before the other reasons, unless one of them is
// certain or names it; behind the first where only the consequence is in the log.
func (r *Result) chosenWay(f *Finding, list []Stated) []Stated {
	for _, c := range signature.Choices() {
		if !slices.Contains(c.Breaks, f.Signature.ID) || len(list) > 0 && list[0].Certainty == Certain {
			continue
		}
		at := slices.IndexFunc(r.Log.Settings, func(s log.Setting) bool { return s.Name == c.Setting })
		if at < 0 || slices.ContainsFunc(list, func(one Stated) bool { return strings.Contains(one.Cause, c.Setting) }) {
			continue
		}
		value := strings.TrimSuffix(r.Log.Settings[at].Value, ".")
		if slices.Contains(c.But, value) {
			continue
		}
		one := Stated{
			Certainty: Likely,
			Cause:     fmt.Sprintf("%s=%s has NCCL %s, and this fails here.", c.Setting, r.hidden.text(value), c.Has),
			Remedy:    "Unset " + c.Setting + ".", Test: "unset " + c.Setting + " for one run",
		}
		if f.Signature.Kind == signature.Consequence || f.Open {
			one.Certainty = Possible
		}
		first := slices.IndexFunc(list, func(other Stated) bool { return bySurety(one, other) <= 0 })
		if first < 0 {
			first = len(list)
		}
		list = slices.Insert(list, first, one)
	}
	return list
}
