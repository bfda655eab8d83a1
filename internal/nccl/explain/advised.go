// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
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
