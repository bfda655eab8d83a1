// SPDX-License-Identifier: Apache-2.0

package ncclconf

import "strings"

// maxSimilar is at least the length of every name in the table.
const maxSimilar = 64

// similar returns the variable of NCCL whose name is nearest to one that is misspelt, or nothing.
func similar(name string) string {
	if len(name) > maxSimilar {
		return ""
	}
	name = strings.ToUpper(name)
	// A short name is like many others: one edit for it, three at most, and limit is the first that is too many.
	best, limit := "", 1+min(3, 1+(len(name)-len(prefix))/6)
	for _, v := range variables() {
		if v.Status != StatusCurrent || len(v.Name) >= len(name)+limit || len(name) >= len(v.Name)+limit {
			continue
		}
		if d := distance(name, v.Name); d < limit {
			best, limit = v.Name, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete, replace or swap with their neighbour (optimal
// string alignment). Neither string is longer than maxSimilar.
func distance(a, b string) int {
	var before, last, row [maxSimilar + 1]int // rows of the table, of which three are needed
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last = last, row
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
