// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestReasonTexts(t *testing.T) {
	seen := map[string]fabric.Reason{}
	for _, r := range fabric.Reasons() {
		text := verdict.ReasonText(r)
		if text == string(r) || seen[text] != "" {
			t.Errorf("%s: %q, as %s", r, text, seen[text])
		}
		seen[text] = r
	}
}
