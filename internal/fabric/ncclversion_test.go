// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// A release as packages, libraries and Git tags write it is refused with the spelling that is accepted.
func TestNCCLVersionSuggestsRelease(t *testing.T) {
	for text, want := range map[string]string{
		"v2.21.5": "2.21.5", "v2.21.5-1": "2.21.5", "2.21.5-1+cuda12.4": "2.21.5", "nccl-2.21": "2.21", "22105": "2.21.5", "NCCL version 2.27.7": "2.27.7",
		"3": "", "v3.1": "", "2.21.5.1": "", "x": "", "": "", "20899": "", "30000": "", "2.": "", "..": "", "v" + strings.Repeat("2", 20000): "",
	} {
		_, err := fabric.ParseNCCLVersion(text)
		if err == nil {
			t.Errorf("%.64q is accepted", text)
			continue
		}
		_, hint, _ := strings.Cut(err.Error(), "; did you mean ")
		if strings.TrimSuffix(hint, "?") != want || !strings.Contains(err.Error(), "such as 2.21.5") {
			t.Errorf("%.64q: %q, want %q", text, err, want)
		}
	}
}
