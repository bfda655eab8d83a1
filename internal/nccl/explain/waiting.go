// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/spelling"
)

// Waiting are the ranks that wait in collectives, by the time-outs of PyTorch's watchdog.
type Waiting struct {
	waits map[waiter]wait
	full  bool
}

// waiter is a rank of a process group.
type waiter struct {
	group string
	rank  int
}

// wait is the collective that a rank waits in, the first that timed out.
type wait struct {
	seq     int64
	op      string
	in, out string
}

// waits takes "[PG ID 0 PG GUID 0(default_pg) Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808,
// OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for ...".
func (r *reading) waits(text string) {
	before, work, found := strings.Cut(text, "WorkNCCL(")
	work, _, closed := strings.Cut(work, "Timeout")
	if !found || !closed || !strings.Contains(before, "Watchdog caught") {
		return
	}
	before = before[strings.LastIndexByte(before, '[')+1:]
	group, rest, _ := strings.Cut(before, "Rank ")
	digits, _, _ := strings.Cut(rest, "]")
	rank, err := strconv.Atoi(digits)
	if err != nil || rank < 0 || rank >= maxRanks {
		return
	}
	var w wait
	for field := range strings.SplitSeq(work, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "SeqNum":
			if w.seq, err = strconv.ParseInt(value, 10, 64); err != nil {
				return
			}
		case "OpType":
			w.op = shown(value)
		case "NumelIn":
			w.in = shown(value)
		case "NumelOut":
			w.out = shown(value)
		}
	}
	of := waiter{shown(strings.TrimSpace(group)), rank}
	if r.Waiting.waits == nil {
		r.Waiting.waits = map[waiter]wait{}
	}
	if had, known := r.Waiting.waits[of]; known && had.seq <= w.seq {
		return
	}
	if len(r.Waiting.waits) == maxWaiters {
		r.Waiting.full = true
		return
	}
	r.Waiting.waits[of] = w
}

// pairwise reports whether only two ranks take part, so that others are elsewhere.
func (w wait) pairwise() bool {
	return strings.HasPrefix(w.op, "SEND") || strings.HasPrefix(w.op, "RECV") || w.op == "COALESCED" || w.op == ""
}

// apart reports whether two ranks wait in different collectives at the same place of the program. Sizes may differ
// where ranks give or take lists of shares.
func (w wait) apart(other wait) bool {
	sized := w.op == "ALLREDUCE" || w.op == "BROADCAST" || w.op == "_ALLGATHER_BASE" || w.op == "_REDUCE_SCATTER_BASE"
	return w.seq == other.seq && (w.op != other.op || sized && (w.in != other.in || w.out != other.out))
}

// apart reports whether ranks of a group wait in different collectives at the same place of the program.
func (w *Waiting) apart() bool { return w.some(wait.apart) }

// behind reports whether ranks of a group wait at different places of the program: the root of a broadcast, for
// one, may have gone on.
func (w *Waiting) behind() bool {
	return w.some(func(a, b wait) bool { return a.seq != b.seq })
}

// some reports whether two ranks of a group are so. Of each collective one rank is compared.
func (w *Waiting) some(is func(a, b wait) bool) bool {
	seen := map[string][]wait{}
	for of, one := range w.waits {
		if one.pairwise() {
			continue
		}
		list := seen[of.group]
		if slices.ContainsFunc(list, func(other wait) bool { return is(one, other) }) {
			return true
		}
		const most = 8
		if !slices.Contains(list, one) && len(list) < most {
			seen[of.group] = append(list, one)
		}
	}
	return false
}

// firstCollective reports whether the first collective of a group is what all wait in.
func (w *Waiting) firstCollective() bool {
	if len(w.waits) == 0 {
		return false
	}
	for _, one := range w.waits {
		if one.seq > 1 {
			return false
		}
	}
	return true
}

// ranks are those that wait.
func (w *Waiting) ranks() map[int]struct{} {
	seen := map[int]struct{}{}
	for of := range w.waits {
		seen[of.rank] = struct{}{}
	}
	return seen
}

// size is how many ranks the job has, and whether the log says so. Where it does not, it is taken from the highest rank
// that waits, as long as most wait and the number is even.
func (r *Result) size() (ranks int, said bool) {
	if world := r.world(); world > 0 {
		return world, true
	}
	seen, highest := r.Waiting.ranks(), -1
	for rank := range seen {
		highest = max(highest, rank)
	}
	if world := highest + 1; len(seen) > 1 && len(seen)*2 >= world && world%2 == 0 {
		return world, false
	}
	return 0, false
}

// absent are the first ranks of the job that do not wait; none if its size is not known.
func (r *Result) absent() (names []string) {
	const most = 16
	world, _ := r.size()
	seen := r.Waiting.ranks()
	// the log is of one rank
	if len(seen) == 0 || r.Waiting.full || world > maxWaiters || len(seen) == 1 && len(r.processes) <= 1 {
		return nil
	}
	for rank := 0; rank < world && len(names) < most; rank++ {
		if _, waits := seen[rank]; !waits {
			names = append(names, strconv.Itoa(rank))
		}
	}
	return names
}

// allWait reports whether all ranks that are known wait in one collective, and more than one.
func (r *Result) allWait() bool {
	world, _ := r.size()
	return world > 1 && len(r.Waiting.ranks()) == world && !r.Waiting.apart() && !r.Waiting.behind() && !r.Waiting.full
}

// rankAlone reports whether one rank waits, and no other is known.
func (r *Result) rankAlone() bool { return len(r.Waiting.ranks()) == 1 && len(r.absent()) == 0 }

// Waiters says who waits in what, and which ranks do not: "ranks 0, 1, 2 in ALLREDUCE 808 (9801523 elements); not: rank
// 3". Empty: nobody.
func (r *Result) Waiters() string {
	who := r.Waiting.String()
	if missing := r.absent(); len(missing) > 0 {
		who += "; not: " + ranksNamed(missing)
	}
	return who
}

func ranksNamed(names []string) string {
	if len(names) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + spelling.Few(names, 16)
}

// String says who waits in what.
func (w *Waiting) String() string {
	type place struct {
		group string
		wait
	}
	in := map[place][]int{}
	for of, one := range w.waits {
		at := place{of.group, one}
		in[at] = append(in[at], of.rank)
	}
	places := slices.SortedFunc(maps.Keys(in), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.seq, b.seq),
			cmp.Compare(a.op, b.op), cmp.Compare(a.in, b.in))
	})
	var parts []string
	for _, at := range places {
		ranks := in[at]
		slices.Sort(ranks)
		var names []string
		for _, rank := range ranks {
			names = append(names, strconv.Itoa(rank))
		}
		part := ranksNamed(names) + fmt.Sprintf(" in %s %d", at.op, at.seq)
		if at.in != "" {
			part += " (" + at.in + " elements)"
		}
		parts = append(parts, part)
	}
	return spelling.Few(parts, 4)
}
