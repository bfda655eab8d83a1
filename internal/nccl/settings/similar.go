// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"

	"gpufabric_exporter/internal/spelling"
)

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
		if v.Status != StatusCurrent {
			continue
		}
		if d := spelling.Distance(name, v.Name, limit); d < limit {
			best, limit = v.Name, d
		}
	}
	return best
}
