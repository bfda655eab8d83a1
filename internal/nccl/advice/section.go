// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"cmp"
	"slices"

	"gpufabric_exporter/internal/document"
)

// Section is the advice as a part of a report.
func (a *Advice) Section() document.Section {
	s := document.Section{Title: "NCCL settings", Sub: true}
	s.Say("For jobs of several nodes with NCCL "+cmp.Or(a.NCCL, "unknown")+" ("+cmp.Or(a.NCCLFrom, "unknown")+"). ",
		document.Code("gpufabric_exporter advise"),
		" prints them as lines to copy, and takes another release (--nccl-version), fabric or workload.")
	open := slices.DeleteFunc(slices.Clone(a.Unknown), func(v Open) bool { return v.Name == "NCCL version" }) // said above
	if len(a.Settings) > 0 {
		t := document.Table{Head: []string{"Set", "Now", "Why", "Source"}}
		for _, v := range a.Settings {
			now := document.Line("not set: add it")
			switch v.Change {
			case Keep:
				now = document.Line("set: keep it")
			case Replace:
				now = document.Line(document.Code(v.Present), " ("+v.PresentFrom+"): replace it")
			}
			t.Add(document.Code(v.Name+"="+v.Value), now, document.Marked(v.Reason), v.Source)
		}
		s.Table(t)
	} else if len(open) == 0 {
		s.Say("No setting does better than NCCL's default on this node.")
	}
	if len(a.Remove) > 0 {
		t := document.Table{Head: []string{"Remove", "Where", "Why", "Instead"}}
		for _, v := range a.Remove {
			line := v.Value
			if v.Name != "" {
				line = v.Name + "=" + v.Value
			}
			t.Add(document.Code(line), v.From, document.Marked(v.Reason), v.Instead)
		}
		s.Table(t)
	}
	if len(a.Leave) > 0 {
		t := document.Table{Head: []string{"Leave unset", "Why", "Source"}}
		for _, v := range a.Leave {
			t.Add(document.Code(v.Name), document.Marked(v.Reason), v.Source)
		}
		s.Table(t)
	}
	var lines []document.Text
	for _, v := range open {
		lines = append(lines, document.Line(document.Code(v.Name), " is not decided: ",
			document.Marked(document.End(v.Reason)), " To find out: ", document.Marked(document.End(v.Ask))))
	}
	s.List(lines[:min(len(lines), document.MaxList)]...)
	return s
}
