// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// maxUnlisted bounds the processes that are kept beside those of a look.
const maxUnlisted = maxCandidates / 2

// because is why a transport is unknown where a reading failed.
func because(r fabric.Reason) Reason {
	if r == fabric.ReasonPrivilege {
		return Privilege
	}
	return Unreadable
}

// unlisted returns those of the processes of the reading before that live, as far as is known, and of which
// nothing more is.
func (t *Tracker) unlisted(lives func(processID) bool, why Reason, at time.Time) []*observed {
	var list []*observed
	for id, was := range t.before {
		if lives(id) {
			list = append(list, &observed{
				process:  &process{RankCandidate: unread(&was.candidate, at), sign: signUnread},
				unlisted: why,
			})
		}
	}
	return fairCandidates(list, maxUnlisted, func(a, b *observed) int { return byAge(a.RankCandidate, b.RankCandidate) },
		func(r *observed) *fabric.RankCandidate { return r.RankCandidate })
}

// split separates the candidates that a look has from those that it left out, and leaves out more where there
// are too many.
func split(candidates []fabric.RankCandidate) (listed []fabric.RankCandidate, left map[processID]bool) {
	left = map[processID]bool{}
	for i := range candidates {
		left[processID{candidates[i].PID, candidates[i].Start}] = true
		if !candidates[i].Left {
			listed = append(listed, candidates[i])
		}
	}
	listed = fairCandidates(listed, maxCandidates, byDriver,
		func(c fabric.RankCandidate) *fabric.RankCandidate { return &c })
	for i := range listed {
		delete(left, processID{listed[i].PID, listed[i].Start})
	}
	return listed, left
}

// unread is a process of which is known only what does not change: who it is, and whose.
func unread(c *fabric.RankCandidate, at time.Time) *fabric.RankCandidate {
	return &fabric.RankCandidate{
		PID: c.PID, Start: c.Start, Parent: c.Parent, User: c.User, UserKnown: c.UserKnown, Answers: c.Answers,
		Owner: c.Owner, Command: c.Command, At: at, Children: c.Children, EphemeralFrom: c.EphemeralFrom,
		Workload: c.Workload, Limits: c.Limits,
	}
}

// remind gives a process what was known of it and does not change: a look that cannot read it does not make
// it one of another job.
func remind(c, was *fabric.RankCandidate) {
	if c.Workload.State != fabric.OK {
		c.Workload, c.Owner = was.Workload, was.Owner
		c.Command = cmp.Or(c.Command, was.Command)
	}
	if c.Limits.State != fabric.OK && was.Limits.State == fabric.OK {
		c.User, c.UserKnown, c.Answers, c.Limits = was.User, was.UserKnown, was.Answers, was.Limits
	}
}

func byAge(a, b *fabric.RankCandidate) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
}

// fairly returns as many of a list as a bound allows: the first of each owner, then the second of each, and
// so on. An owner of many loses only their own. The owners are the narrowest first: with pods and their namespace,
// the pods of a namespace take turns for its places. The list is sorted by order, in place.
func fairly[T any](list []T, most int, order func(a, b T) int, owners ...func(T) string) []T {
	slices.SortStableFunc(list, order)
	if len(list) <= most {
		return list
	}
	type place struct {
		item T
		turn int
	}
	places := make([]place, len(list))
	for i, item := range list {
		places[i].item = item
	}
	for _, owner := range owners {
		turns := map[string]int{}
		for i := range places {
			of := owner(places[i].item)
			places[i].turn = turns[of]
			turns[of]++
		}
		slices.SortStableFunc(places, func(a, b place) int { return a.turn - b.turn })
	}
	for i := range list[:most] {
		list[i] = places[i].item
	}
	return list[:most]
}

// fairCandidates is fairly for processes.
func fairCandidates[T any](list []T, most int, order func(a, b T) int, of func(T) *fabric.RankCandidate) []T {
	return fairly(list, most, order, func(c T) string { return of(c).Tenant().String() },
		func(c T) string { return payer(of(c)) })
}

// payer is who answers for an owner where bounds are shared out: the namespace of a pod, as kubelet says it,
// because who may make one pod may make many. Else it is the owner.
func payer(c *fabric.RankCandidate) string {
	tenant, w := c.Tenant(), c.Workload.Or(fabric.Workload{})
	if namespace, _, named := strings.Cut(w.Job, "/"); named && tenant.Kind == fabric.OwnerPod && !w.Stated {
		return "namespace " + namespace
	}
	return tenant.String()
}

// facts is a set of facts of a process.
type facts uint16

// factsOf returns which facts of a process are known that findings are made from.
func factsOf(r *observed) (f facts) {
	for i, state := range []fabric.State{
		r.GPUs.State, r.Files.State, r.Maps.State, r.Sockets.State, r.Verbs.State, r.Settings.State, r.Conf.State,
		r.Limits.State, r.Devices.State,
	} {
		if state != fabric.Unknown {
			f |= 1 << i
		}
	}
	if r.compared {
		f |= 1 << 15
	}
	return f
}

// held are the findings about a process, with when each was last made.
type held map[Rule]heldFinding

type heldFinding struct {
	Finding
	seen time.Time
}

// take takes the findings of one reading. Those that were made before stand, for as long as a verdict does,
// if not all is seen that they were made from.
func (h held) take(now []Finding, all bool, at time.Time) held {
	next := make(held, len(now))
	for _, f := range now {
		if _, twice := next[f.Rule]; !twice {
			next[f.Rule] = heldFinding{f, at}
		}
	}
	for rule, f := range h {
		if _, made := next[rule]; !made && !all && at.Sub(f.seen) < keep {
			next[rule] = f
		}
	}
	return next
}

// list returns the findings by rule.
func (h held) list() []Finding {
	list := make([]Finding, 0, len(h))
	for _, rule := range slices.Sorted(maps.Keys(h)) {
		list = append(list, h[rule].Finding)
	}
	return list
}

// seesNode reports whether the facts of the node are known that findings are made from.
func seesNode(n *fabric.Node) bool {
	return !slices.ContainsFunc(n.Sources, func(s fabric.Source) bool {
		return !s.Up && slices.Contains([]string{
			fabric.SourceClass, fabric.SourceHCA, fabric.SourceNetDev,
			fabric.SourceGPU, fabric.SourcePCI,
		}, s.Name)
	})
}
