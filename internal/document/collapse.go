// SPDX-License-Identifier: Apache-2.0

package document

import (
	"slices"
	"strconv"
	"strings"
)

// minRun is how many rows that are the same become one.
const minRun = 4

// Collapse makes one row, "eth0 to eth63", of rows that follow each other by the numbers of their names, and
// are the same otherwise. The names are the first cells of a row.
func (t *Table) Collapse(names int) {
	var rows [][]Text
	for at := 0; at < len(t.Rows); {
		end := at + 1
		for end < len(t.Rows) && follows(t.Rows[end-1], t.Rows[end], names) {
			end++
		}
		if end-at < minRun {
			rows, at = append(rows, t.Rows[at]), at+1
			continue
		}
		row := slices.Clone(t.Rows[at])
		for i := range names {
			row[i] = Line(row[i], " to ", t.Rows[end-1][i])
		}
		rows, at = append(rows, row), end
	}
	t.Rows = rows
}

// follows reports whether the names of a row are the next ones.
func follows(row, next []Text, names int) bool {
	for i := range next {
		if i >= names && !slices.Equal(row[i], next[i]) || i < names && !isNext(row[i].Plain(), next[i].Plain()) {
			return false
		}
	}
	return len(row) == len(next)
}

func isNext(name, next string) bool {
	word := strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(word):])
	return err == nil && next == word+strconv.Itoa(n+1)
}
