// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"fmt"
	"strconv"
	"strings"
)

// hosts are those of a list of Slurm: "gpu[08-10,12],login1" are gpu08, gpu09, gpu10, gpu12 and login1. They are none
// if it cannot be read.
func hosts(list string) []string {
	var names []string
	for list != "" {
		end := strings.IndexAny(list, ",[")
		if end < 0 || list[end] == ',' {
			name, rest, _ := strings.Cut(list, ",")
			names, list = append(names, name), rest
		} else {
			ranges, rest, closed := strings.Cut(list[end+1:], "]")
			suffix, rest, _ := strings.Cut(rest, ",")
			if names = spread(names, list[:end], ranges, suffix); !closed || names == nil {
				return nil
			}
			list = rest
		}
		if len(names) > sizeMost || !hostName(names[len(names)-1]) {
			return nil
		}
	}
	return names
}

// spread adds the names of ranges such as "08-10,12"; nil: they cannot be read.
func spread(names []string, prefix, ranges, suffix string) []string {
	for r := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.ParseUint(first, 10, 32)
		high, err2 := strconv.ParseUint(last, 10, 32)
		if err != nil || err2 != nil || high < low || high-low >= sizeMost || len(names) > sizeMost {
			return nil
		}
		for n := low; n <= high; n++ {
			names = append(names, fmt.Sprintf("%s%0*d%s", prefix, len(first), n, suffix))
		}
	}
	return names
}
