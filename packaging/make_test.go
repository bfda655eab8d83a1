// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func makes(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", "..", "--no-print-directory"}, args...)...).CombinedOutput()
	return string(out), err
}

// What somebody builds is for the machine before them, and a release for all. A compiler that is missing is named before
// anything is built.
func TestArchitectures(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for target, both := range map[string]bool{"packages": false, "archive": false, "binaries": false, "release SNAPSHOT=1": true, "image": true} {
		out, err := makes(t, append([]string{"--dry-run"}, strings.Fields(target)...)...)
		if err != nil || !strings.Contains(out, runtime.GOARCH) || strings.Contains(out, "GOARCH="+other) != both && target != "image" || strings.Contains(out, other) != both {
			t.Errorf("make %s, for both: %v: %v\n%s", target, !both, err, out)
		}
	}
	out, err := makes(t, "packages", "CC_"+other+"=no-such-gcc", "ARCHITECTURES="+other+" "+runtime.GOARCH)
	if err == nil || !strings.HasPrefix(out, "no-such-gcc is missing, the C compiler for "+other) {
		t.Errorf("%v: %s", err, out)
	}
}

// The list of targets fits a terminal, and can be typed as it stands.
func TestHelpFits(t *testing.T) {
	out, err := makes(t, "help")
	if err != nil || !strings.Contains(out, "\nbuild ") {
		t.Errorf("%v: %s", err, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "$(") {
			t.Errorf("a variable of make: %s", line)
		}
		if len(line) > 101 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}
