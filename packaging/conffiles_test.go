// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// An upgrade asks about a file below /etc that both the site and the release changed. Releases never change these: what they would
// explain is in /usr/share/doc.
func TestUpgradesNeverAsk(t *testing.T) {
	is := map[string]string{
		"config.yml": "f977ca120bc50fcb99f0a5fb0329c61e1028eb72c2010183b04c0a07e8ff9c8e",
		"default":    "f3279584d7940585c8aeb6fa9ea075000b925f93494511004dd2c13f9af71b80",
	}
	files := regexp.MustCompile(`(?m)^  - \{src: (\S+), .*type: config\|noreplace\}$`).FindAllStringSubmatch(text(t, "nfpm.yml"), -1)
	if len(files) != len(is) {
		t.Errorf("%d files of the site: %q", len(files), files)
	}
	for _, file := range files {
		content := text(t, file[1])
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content))); sum != is[file[1]] {
			t.Errorf("%s is another one, %s: apt asks at the next upgrade of each site that changed it", file[1], sum)
		}
		if strings.Count(content, "\n") > 8 {
			t.Errorf("%s is long", file[1])
		}
	}
}

// Verdicts that nothing renews go with the package.
func TestVerdictsGo(t *testing.T) {
	said := regexp.MustCompile(`--textfile=(\S+)`).FindStringSubmatch(text(t, "systemd/gpufabric-check.service"))
	for _, script := range []string{"deb/postrm", "rpm/postun"} {
		for _, file := range []string{said[1], "/var/lib/prometheus/node-exporter/gpufabric.prom"} {
			if !regexp.MustCompile(`rm -f .*` + regexp.QuoteMeta(file)).MatchString(text(t, script)) {
				t.Errorf("%s leaves %s", script, file)
			}
		}
	}
}

// A node of which something is unknown has no broken unit: the file says what is unknown, and alerts watch it.
func TestUnknownIsNoFailure(t *testing.T) {
	if !strings.Contains(text(t, "systemd/gpufabric-check.service"), "\nSuccessExitStatus=1 2\n") {
		t.Error("a check with unknown results makes the unit failed")
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
