// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// No build calls itself by the number of a release that is not yet made: packages of it would not be replaced
// by those of the release. The chart, which names the image, has the same number.
func TestVersion(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	version := strings.TrimSpace(read("VERSION"))
	newest := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) / (unreleased|\d{4}-\d{2}-\d{2})$`).FindStringSubmatch(read("CHANGELOG.md"))
	if newest == nil {
		t.Fatal("CHANGELOG.md: expected a heading '## X.Y.Z / YYYY-MM-DD' or '## X.Y.Z / unreleased'")
	}
	switch order := compareVersions(t, version, newest[1]); {
	case newest[2] == "unreleased" && order >= 0:
		t.Errorf("VERSION is %s and CHANGELOG.md has %s as unreleased: expected the version of the last release (docs/CONTRIBUTING.md)", version, newest[1])
	case newest[2] != "unreleased" && order != 0:
		t.Errorf("VERSION is %s and the newest release of CHANGELOG.md is %s, of %s", version, newest[1], newest[2])
	}
	chart := read("deploy/chart/Chart.yaml")
	for _, key := range []string{"version", "appVersion"} {
		if !strings.Contains(chart, "\n"+key+": "+version+"\n") {
			t.Errorf("deploy/chart/Chart.yaml: expected %s: %s", key, version)
		}
	}
}

func compareVersions(t *testing.T, a, b string) int {
	t.Helper()
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	if len(x) != 3 || len(y) != 3 {
		t.Fatalf("%q and %q: expected X.Y.Z", a, b)
	}
	for i := range x {
		m, err := strconv.Atoi(x[i])
		n, err2 := strconv.Atoi(y[i])
		if err != nil || err2 != nil {
			t.Fatalf("%q and %q: expected X.Y.Z", a, b)
		}
		if m != n {
			return m - n
		}
	}
	return 0
}
