// SPDX-License-Identifier: Apache-2.0

package page

import "testing"

// Green needs both: traffic that was judged, and probes that do not complain.
func TestLandingConcludes(t *testing.T) {
	for _, c := range []struct {
		wait              int
		verdict, probed   string
		want, wantVerdict string
	}{
		{0, "good", "", "good", ""},
		{0, "good", "good", "good", ""},
		{11, "good", "", "unsure", "Nothing looks wrong so far; traffic has not been judged yet"},
		{0, "good", "bad", "bad", "Nothing looks wrong but what probes found"},
		{11, "good", "bad", "bad", "Nothing looks wrong but what probes found"},
		{11, "unsure", "bad", "unsure", ""},
		{11, "bad", "", "bad", ""},
	} {
		v := view{Wait: c.wait, Verdict: cell{Class: c.verdict}}
		v.conclude(cell{Class: c.probed})
		if v.Verdict.Class != c.want || v.Verdict.Text != c.wantVerdict {
			t.Errorf("%+v: %+v", c, v.Verdict)
		}
	}
}
