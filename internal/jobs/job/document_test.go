// SPDX-License-Identifier: Apache-2.0

package job

import "testing"

// The status document cuts the texts of a document in place: those of the reading, which others show too, must stay.
func TestDocumentSharesNoTexts(t *testing.T) {
	v := Verdict{Transport: TCP, Evidence: []string{"evidence"}}
	now := Jobs{List: []Job{{
		GPUs: []string{"GPU0"}, Verdict: v, Ranks: []Rank{{Verdict: v, GPUs: []string{"GPU0"}}},
		Findings: []Finding{{Text: "text", Variables: []string{"NCCL_NET"}}},
	}}}
	d := now.Document()
	one := &d.Jobs[0]
	one.Evidence[0], one.GPUs[0], one.Ranks[0].Evidence[0], one.Findings[0].Text = "", "", "", ""
	if j := &now.List[0]; j.Verdict.Evidence[0] == "" || j.GPUs[0] == "" || j.Findings[0].Text == "" || one.Findings[0].Variables != nil {
		t.Errorf("cutting the document changed the reading: %+v", j)
	}
}
