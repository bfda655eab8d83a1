// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxSubordinate = 4 << 20 // bytes of subuid(5)
	// block is how many numbers one user or one container has together: a process in a user namespace becomes any of them.
	block = 1 << 16
)

// Users tells who answers for numbers of users. A user may have thousands beside his own, which subuid(5)
// gives him for containers without root: if each were an owner, one user would have the bounds of thousands.
// nil knows of none. It belongs to one goroutine at a time.
type Users struct {
	path    string
	changed time.Time
	size    int64
	spans   []span // by first
}

// span is a range of subordinate numbers.
type span struct{ first, last uint32 }

// UsersOf returns the Users of the node whose root is there.
func UsersOf(root string) *Users { return &Users{path: filepath.Join(root, "etc/subuid")} }

// Look reads the file again if it has changed. Where it cannot be read, each number answers for itself, as
// far as is known.
func (u *Users) Look() {
	if u == nil {
		return
	}
	f, err := os.OpenFile(u.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		u.spans, u.changed = nil, time.Time{}
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.ModTime().Equal(u.changed) && st.Size() == u.size {
		return
	}
	u.changed, u.size, u.spans = st.ModTime(), st.Size(), parseSubordinate(io.LimitReader(f, maxSubordinate))
}

// Of returns the number that stands for all that answer together: the first of them, which is root in most containers.
func (u *Users) Of(uid uint32) uint32 {
	if u == nil {
		return uid
	}
	i, found := slices.BinarySearchFunc(u.spans, uid, func(s span, uid uint32) int { return cmp.Compare(s.first, uid) })
	if !found {
		i--
	}
	if i < 0 || uid > u.spans[i].last {
		return uid
	}
	first := u.spans[i].first
	return first + (uid-first)/block*block
}

// parseSubordinate reads lines "user:first:count". Other lines say nothing. Of ranges that overlap, the first
// one has what both have.
func parseSubordinate(f io.Reader) (spans []span) {
	for lines := bufio.NewScanner(f); lines.Scan(); {
		part := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(part) != 3 {
			continue
		}
		first, err := strconv.ParseUint(part[1], 10, 32)
		count, also := strconv.ParseUint(part[2], 10, 32)
		if err == nil && also == nil && first > 0 && count > 0 {
			spans = append(spans, span{uint32(first), uint32(min(first+count-1, 1<<32-1))})
		}
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first),
			cmp.Compare(b.last, a.last))
	})
	apart := spans[:0]
	for _, s := range spans {
		if n := len(apart); n > 0 && s.first <= apart[n-1].last {
			if s.last <= apart[n-1].last {
				continue
			}
			s.first = apart[n-1].last + 1
		}
		apart = append(apart, s)
	}
	return apart
}
