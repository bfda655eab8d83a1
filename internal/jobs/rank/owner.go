// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// What one owner has of a look at most, however many processes he has: others do not wait for him.
const (
	// system calls that look for GPUs among his descriptors; more if nobody else has any
	callsEach      = 2000
	againEach      = 8                      // processes of his that are examined again
	filesEach      = 1 << 10                // descriptors at least; else his part of maxAllFiles
	threadsEach    = 1 << 14                // threads
	namespacesEach = 4                      // network namespaces
	timeEach       = 100 * time.Millisecond // after which no further candidate of his is read
	maxExcesses    = 8                      // that are named
	// late is the age of a process that still waits at which its owner is named.
	late = 2 * time.Minute
)

// share is what an owner has had of a look.
type share struct {
	owner      fabric.Owner
	seen       int // the last look that saw a process of his
	look       int // that the rest is of
	calls      int
	again      int
	files      int
	threads    int
	namespaces int
	spent      time.Duration
	exceeds    bool
	strikes    int       // looks in which he was waited for in vain
	until      time.Time // before which his files are not asked
}

// shareOf returns the share of an owner in this look.
func (r *Reader) shareOf(owner fabric.Owner) *share {
	s := r.shares[owner]
	if s == nil {
		s = &share{owner: owner}
		r.shares[owner] = s
	}
	s.seen = r.look
	return r.refreshed(s)
}

// refreshed returns the share with the counts of this look.
func (r *Reader) refreshed(s *share) *share {
	if s.look != r.look {
		*s = share{owner: s.owner, seen: s.seen, look: r.look, strikes: s.strikes, until: s.until}
	}
	return s
}

// forget drops the shares of owners without processes, but for those whose files hang.
func (r *Reader) forget(now time.Time) {
	for owner, s := range r.shares {
		if s.seen != r.look && !now.Before(s.until) {
			delete(r.shares, owner)
		}
	}
}

// exceeds notes that an owner has more than is read, once in a look.
func (r *Reader) exceeds(s *share, pid int, what string, reason fabric.Reason) {
	if s.exceeds {
		return
	}
	s.exceeds = true
	if len(r.exceeded) < maxExcesses {
		r.exceeded = append(r.exceeded, fabric.Excess{Owner: s.owner, PID: pid, What: what, Reason: reason})
	}
}

// ownerOf reads whose a process is; closely: with the real user, which a program with setuid cannot change.
func (r *Reader) ownerOf(dir string, closely bool) fabric.Owner {
	if b, err := r.file(dir+"/cgroup", maxCgroup); err == nil {
		if _, owner := parseCgroup(b); owner.Kind != "" {
			return owner
		}
	}
	if closely {
		if b, err := r.file(dir+"/status", maxStatus); err == nil {
			if owner, ok := r.parseOwner(dir, b); ok {
				return owner
			}
		}
	}
	r.calls++
	var st unix.Stat_t
	if unix.Fstatat(r.at(), dir, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return fabric.Owner{}
	}
	return userOwner(uint64(r.sources.Users.Of(st.Uid)))
}

func userOwner(user uint64) fabric.Owner {
	return fabric.Owner{Kind: fabric.OwnerUser, ID: strconv.FormatUint(user, 10)}
}

// whose is what keeps the processes of one user from being taken for those of another one, before anything
// else is read.
type whose struct {
	user    uint32
	answers uint32 // who answers for user
	known   bool
	netNS   fabric.Fact[uint64]
}

func (r *Reader) whoseIs(dir string, now time.Time) (w whose) {
	if b, err := r.file(dir+"/status", maxStatus); err == nil {
		w.user, _, w.known = parseStatus(b)
		w.answers = r.sources.Users.Of(w.user)
	}
	w.netNS = r.netNS(dir, now)
	return w
}

// netNS reads the network namespace of a process.
func (r *Reader) netNS(dir string, now time.Time) fabric.Fact[uint64] {
	source := dir + "/ns/net"
	link, err := r.readlink(source)
	if err != nil {
		return fabric.UnknownFact[uint64](reasonOf(err), source, now)
	}
	if n, ok := parseNamespace(link, "net"); ok {
		return fabric.Known(n, source, now)
	}
	return fabric.UnknownFact[uint64](fabric.ReasonMalformed, source, now)
}

// parseOwner reads the real user of a process in its status. Root in a PID namespace of its own is not root
// of the node: that is a container of a kind that is not known.
func (r *Reader) parseOwner(dir string, status []byte) (fabric.Owner, bool) {
	user, _, ok := parseStatus(status)
	if !ok {
		return fabric.Owner{}, false
	}
	if user == 0 && nested(status) {
		link, _ := r.readlink(dir + "/ns/pid")
		n, _ := parseNamespace(link, "pid")
		return fabric.Owner{Kind: fabric.OwnerContainer, ID: "pid-" + strconv.FormatUint(n, 10)}, true
	}
	return userOwner(uint64(r.sources.Users.Of(user))), true
}

// nested reports whether a process is in a PID namespace below that of procfs: it has a PID in both (NSpid).
func nested(status []byte) bool {
	for line := range bytes.Lines(status) {
		if pids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			return len(strings.Fields(string(pids))) > 1
		}
	}
	return false
}

// order puts those first that the driver lists: any user can make files whose names are those of GPUs. Those
// of owners who were waited for in vain come after the others. Then come the oldest process of each owner, the
// second of each, and so on: none uses up the bounds with many.
func (r *Reader) order(pids []int, listed map[int][]string) {
	slices.SortFunc(pids, func(a, b int) int { return cmp.Or(cmp.Compare(r.known[a].start, r.known[b].start), a-b) })
	first := func(pid int) int { return min(1, len(listed[pid])) }
	slices.SortStableFunc(pids, func(a, b int) int { return first(b) - first(a) })
	strikes := func(pid int) int { return r.known[pid].share.strikes }
	of, turn := map[*share]int{}, map[int]int{}
	for _, pid := range pids {
		s := r.known[pid].share
		turn[pid] = of[s]
		of[s]++
	}
	slices.SortStableFunc(pids, func(a, b int) int {
		return cmp.Or(first(b)-first(a), strikes(a)-strikes(b), turn[a]-turn[b])
	})
}

// strike closes the files of an owner who was waited for in vain, each time for twice as long. Once is for
// seconds: his files may have waited for a processor, as this process did.
func (s *share) strike(now time.Time) {
	s.until = now.Add(min(shortest<<min(s.strikes, 8), longest))
	s.strikes++
}
