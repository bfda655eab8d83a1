// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each metric that docs/NEIGHBOURS.md names is in the catalogue, and has the counter of the kernel that
// stands beside it. The name of the program looks like one.
func TestMigrationDocument(t *testing.T) {
	migration, err := os.ReadFile("../docs/NEIGHBOURS.md")
	if err != nil {
		t.Fatal(err)
	}
	counters, err := os.ReadFile("../docs/COUNTERS.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, name := regexp.MustCompile(Prefix+`[a-z0-9_]+`), regexp.MustCompile("^ `(?:node_|rdma_|DCGM_FI_)[A-Za-z0-9_*]+` $")
	rows := 0
	for line := range strings.Lines(string(migration)) {
		for _, m := range ours.FindAllString(line, -1) {
			if m != Prefix+"exporter" && !slices.ContainsFunc(Catalogue(), func(f *Family) bool { return f.FullName() == m }) {
				t.Errorf("docs/NEIGHBOURS.md: %s is no metric of the catalogue", m)
			}
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || !name.MatchString(cells[1]) {
			continue
		}
		rows++
		if len(cells) == 5 && !strings.Contains(string(counters), "|"+cells[2]+"|"+cells[3]+"|") {
			t.Errorf("docs/NEIGHBOURS.md: docs/COUNTERS.md does not have%sas%s", cells[2], cells[3])
		}
	}
	if rows < 105 {
		t.Errorf("%d rows with names of other exporters are found", rows)
	}
}
