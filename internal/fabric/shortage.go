// SPDX-License-Identifier: Apache-2.0

package fabric

import "strconv"

// FileOwner is who answers for files of jobs. Bounds are for each owner, so that an owner who exceeds one loses
// files of his own.
type FileOwner struct {
	UID uint32 // the first of those who answer together, as the subordinate numbers of a user do
	// Folder is what root made for a job or a pod, below the folder that the site names; empty: UID made the
	// files, or a folder that they are in.
	Folder string
}

// String names an owner in a log; names of folders are quoted.
func (o FileOwner) String() string {
	if o.Folder != "" {
		return "folder " + strconv.Quote(o.Folder)
	}
	return "uid " + strconv.FormatUint(uint64(o.UID), 10)
}

// Shortage is what a look at files of jobs left out because a bound was reached: what it found is not all
// there is. The zero Shortage: nothing.
type Shortage struct {
	Owners int       // that lost something
	Most   FileOwner // who lost most
	Lost   int       // by Most: files, folders and times that names were left over
}

// Any reports whether something was left out.
func (s Shortage) Any() bool { return s.Owners > 0 }

// ShortageOf sums up what owners lost.
func ShortageOf(lost map[FileOwner]int) Shortage {
	var s Shortage
	for owner, n := range lost {
		if n <= 0 {
			continue
		}
		s.Owners++
		if n > s.Lost || n == s.Lost && less(owner, s.Most) {
			s.Most, s.Lost = owner, n
		}
	}
	return s
}

func less(a, b FileOwner) bool {
	return a.UID < b.UID || a.UID == b.UID && a.Folder < b.Folder
}
