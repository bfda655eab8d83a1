// SPDX-License-Identifier: Apache-2.0

//go:build !lab

package lab

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The document has the verdicts that TestLab/job_privileges finds. The guest of the lab has no documents.
func TestJobPrivilegesDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/JOBS.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobCells {
		if row := jobCells[i].row(); !strings.Contains(string(text), "\n"+row) {
			t.Errorf("docs/JOBS.md has no row\n%s", row)
		}
	}
}

// row is the row of the table.
func (c *jobCell) row() string {
	return fmt.Sprintf("| %s | %s | %s | %s |\n", c.words, c.host, c.pod, c.rxe)
}
