// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"cmp"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Choose returns at most so many of the files, and counts the others: one of each owner in turn, those that
// were changed last first. A date in the future says nothing, and such a file is the last of its owner.
func (f *Found) Choose(files []File, now time.Time, most int) []File {
	age := func(f *File) time.Duration {
		if age := now.Sub(f.Changed); age >= -Ahead {
			return age
		}
		return time.Duration(1<<63 - 1)
	}
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(age(&a), age(&b)), cmp.Compare(a.Path(), b.Path()), cmp.Compare(a.Inode, b.Inode))
	})
	turns := map[fabric.FileOwner]int{}
	turn := map[Identity]int{}
	for i := range files {
		turn[files[i].Identity] = turns[files[i].Owner]
		turns[files[i].Owner]++
	}
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(turn[a.Identity], turn[b.Identity]) })
	if len(files) <= most {
		return files
	}
	for i := range files[most:] {
		f.Lose(files[most+i].Owner, 1)
	}
	return files[:most]
}

// Group is the files of an owner.
type Group struct {
	Owner fabric.FileOwner
	Files []File
	// Demand is what all of them demand, and Share what they get.
	Demand, Share int64
}

// Groups puts files together by owner and divides total among owners by what their files demand, those who
// demand least first: what these leave is for the others.
func Groups(files []File, total int64, demand func(f *File) int64) []Group {
	var list []Group
	var demands []int64
	at := map[fabric.FileOwner]int{}
	for i := range files {
		k, known := at[files[i].Owner]
		if !known {
			k = len(list)
			at[files[i].Owner] = k
			list, demands = append(list, Group{Owner: files[i].Owner}), append(demands, 0)
		}
		list[k].Files = append(list[k].Files, files[i])
		demands[k] += demand(&files[i])
	}
	for i, share := range Divide(total, demands) {
		list[i].Demand, list[i].Share = demands[i], share
	}
	slices.SortStableFunc(list, func(a, b Group) int { return cmp.Compare(a.Share, b.Share) })
	return list
}

// Divide divides total: nobody gets more than he demands, and what is left of an even share is for the others.
func Divide(total int64, demands []int64) []int64 {
	order := make([]int, len(demands))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(demands[a], demands[b]) })
	shares := make([]int64, len(demands))
	for i, k := range order {
		shares[k] = min(max(demands[k], 0), total/int64(len(order)-i))
		total -= shares[k]
	}
	return shares
}
