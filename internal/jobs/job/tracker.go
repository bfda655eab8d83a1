// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of what is kept of a node. A node has at most some ten GPUs and a few ranks for each of them.
const (
	maxCandidates = 1024
	maxJobs       = 64
	maxGPUs       = 64
	maxName       = 320 // namespace and pod of Kubernetes: 63 and 253
	maxCommand    = 15
)

// Tracker follows the jobs of a node from reading to reading. The zero Tracker is ready.
type Tracker struct {
	mu       sync.Mutex
	last     Jobs
	read     time.Time // of last, as the reading of ranks says it
	traffic  traffic
	before   map[processID]*tracked
	impaired map[string]map[Impairment]float64
	lint     map[string]linted
}

// tracked is what is remembered of a process.
type tracked struct {
	candidate fabric.RankCandidate
	busy      answer
	settled   settled
	grown     growth
	nics      nics
	found     held
	known     facts // that were known of it at any reading
}

// Update takes a reading of the node and returns its jobs. A reading that was taken already, or one that is
// too close to it, changes nothing. What it returns is not changed later.
func (t *Tracker) Update(n *fabric.Node) Jobs {
	t.mu.Lock()
	defer t.mu.Unlock()
	candidates, known := n.Ranks.Get()
	if !known {
		// there is no GPU to hold
		if loaded, readable := n.GPUDriver.Loaded.Get(); n.Ranks.State == fabric.Absent || readable && !loaded {
			return Jobs{At: n.At, Known: true, Impaired: t.totals()}
		}
		return t.miss(n, because(n.Ranks.Meta().Reason))
	}
	if elapsed := n.Ranks.At.Sub(t.read); !t.read.IsZero() && elapsed < leastInterval && elapsed > -leastInterval {
		return t.last
	}
	return t.take(n, candidates)
}

// miss returns the jobs that there were, where no process could be looked for. What was known is compared
// with the next reading.
func (t *Tracker) miss(n *fabric.Node, why Reason) Jobs {
	now := Jobs{At: n.At, Reason: why}
	now.List, now.Dropped = t.jobs(n, n.At, t.unlisted(func(processID) bool { return true }, why, n.At), traffic{},
		false, t.before)
	now.Impaired = t.totals()
	return now
}

// take judges a new reading.
func (t *Tracker) take(n *fabric.Node, candidates []fabric.RankCandidate) Jobs {
	listed, left := split(candidates)
	now := Jobs{At: n.Ranks.At, Known: true, Dropped: len(left)}
	elapsed := now.At.Sub(t.read)
	if t.read.IsZero() || elapsed < 0 || elapsed > mostInterval {
		elapsed = 0
	}
	carried := trafficOf(n)
	ranks, next := t.observe(n, processesOf(listed), elapsed)
	for _, r := range t.unlisted(func(id processID) bool { return left[id] }, Unreadable, now.At) {
		was := t.before[r.id()]
		was.candidate, was.busy = *r.RankCandidate, unclear // what it did meanwhile was not over the time between two looks
		ranks, next[r.id()] = append(ranks, r), was
		now.Dropped--
	}
	var more int
	now.List, more = t.jobs(n, now.At, ranks, carried.rates(t.traffic, elapsed.Seconds()), elapsed > 0, next)
	now.Dropped += more
	t.forgetLint()
	t.account(n, now.List, elapsed)
	t.before, t.traffic, t.read = next, carried, now.At
	now.Impaired = t.totals()
	t.last = now
	return now
}

// byDriver puts those first that the driver lists: any user can make files whose names are those of GPUs.
// Then the oldest.
func byDriver(a, b fabric.RankCandidate) int {
	return cmp.Or(-cmp.Compare(min(1, len(a.GPUs.Or(nil))), min(1, len(b.GPUs.Or(nil)))), byAge(&a, &b))
}

// jobs judges the jobs of these processes, and returns how many processes are in none, because there are too many.
func (t *Tracker) jobs(n *fabric.Node, at time.Time, ranks []*observed, rates traffic, compared bool,
	next map[processID]*tracked,
) (list []Job, left int) {
	groups := groupsOf(ranks)
	devices := devicesOf(n, groups, rates, compared)
	order := func(g *group) int { // what users name themselves comes last, and what is not seen after what is
		return map[bool]int{true: 1}[g.stated()] + map[bool]int{true: 2}[!g.listed()]
	}
	shown := fairly(slices.Clone(groups), maxJobs, func(a, b *group) int { return order(a) - order(b) },
		func(g *group) string { return fmt.Sprint(order(g), g.key.owner) },
		func(g *group) string { return fmt.Sprint(order(g), payer(g.ranks[0].RankCandidate)) })
	for _, g := range shown {
		list = append(list, t.judge(n, at, g.name, &evidence{ranks: g.ranks, devices: devices}, next))
		left -= len(g.ranks)
	}
	slices.SortFunc(list, func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
	return list, left + len(ranks)
}

// observe compares the processes with the last reading, and returns what is to be remembered of them.
func (t *Tracker) observe(n *fabric.Node, all []*process, elapsed time.Duration) ([]*observed, map[processID]*tracked) {
	next := make(map[processID]*tracked, len(all))
	var ranks []*observed
	for _, p := range all {
		r := &observed{process: p, gpus: gpusOf(p.RankCandidate)}
		busy := busyOf(n, r.gpus)
		r.domain = inDomain(n, r.gpus)
		keep := &tracked{busy: busy}
		if was := t.before[p.id()]; was != nil {
			remind(p.RankCandidate, &was.candidate)
			keep.settled, keep.grown, keep.nics = was.settled, was.grown, was.nics
			keep.found, keep.known = was.found, was.known
			if elapsed > 0 {
				r.interval = between(&was.candidate, p.RankCandidate, elapsed.Seconds(), n.Host.NetNS.Or(0), both(was.busy, busy))
			}
		}
		keep.candidate = *p.RankCandidate
		next[p.id()] = keep
		ranks = append(ranks, r)
	}
	return ranks, next
}

// judge puts a job together.
func (t *Tracker) judge(n *fabric.Node, at time.Time, name string, e *evidence, next map[processID]*tracked) Job {
	j := Job{Name: name}
	j.Scheduler, _, _ = strings.Cut(name, "/")
	for _, r := range e.ranks {
		w := r.Workload.Or(fabric.Workload{Rank: -1})
		e.size = max(e.size, w.Ranks)
		if j.User == "" && r.Limits.State == fabric.OK {
			j.User = strconv.FormatUint(uint64(r.User), 10)
		}
		for _, uuid := range r.gpus {
			if !slices.Contains(j.GPUs, uuid) && len(j.GPUs) < maxGPUs {
				j.GPUs = append(j.GPUs, uuid)
			}
		}
	}
	slices.Sort(j.GPUs)
	e.gather()
	j.Size, j.Spans = e.size, e.spans()
	used := map[string]bool{}
	var beat pulse
	for _, r := range e.ranks {
		keep := next[r.id()]
		v := e.verdictOf(r)
		beat.add(r, &v)
		keep.settled.take(v, at)
		keep.grown.take(r.Verbs)
		j.see(&keep.settled)
		j.Ranks = append(j.Ranks, Rank{
			PID: r.PID, Start: r.Start, Rank: r.Workload.Or(fabric.Workload{Rank: -1}).Rank,
			Command: clean(r.Command, maxCommand), GPUs: r.gpus,
			Children: r.children + r.Children, Verdict: keep.settled.shown, Unseen: keep.settled.kept(),
		})
		u := e.rdmaOf(r)
		keep.nics.take(&u, r.Verbs.Or(fabric.VerbsUse{}).Devices, e.devices.rates, at)
		for _, d := range u.devices {
			used[d] = true
		}
		if keep.settled.since.After(j.Since) {
			j.Since = keep.settled.since
		}
	}
	slices.SortFunc(j.Ranks, func(a, b Rank) int { return cmp.Compare(a.PID, b.PID) })
	j.Devices = slices.SortedFunc(maps.Keys(used), fabric.NaturalOrder)
	j.Verdict = worst(j.Ranks)
	j.Pulse = beat.of()
	j.Findings = t.findings(n, at, e, next)
	return j
}

// see notes that a rank is not seen.
func (j *Job) see(s *settled) {
	if s.unseen != "" && !s.seen.IsZero() && (j.Seen.IsZero() || s.seen.Before(j.Seen)) {
		j.Seen, j.Unseen = s.seen, s.unseen
	}
}

// worst is the verdict of the worst rank. It is confirmed only if that of all ranks with the same transport
// is, but for TCP: one rank that is confirmed to use it makes the job slow.
func worst(ranks []Rank) Verdict {
	w := slices.MaxFunc(ranks, func(a, b Rank) int {
		return cmp.Compare(badness(&a.Verdict),
			badness(&b.Verdict))
	}).Verdict
	if w.Transport != TCP {
		w.Confirmed = !slices.ContainsFunc(ranks, func(r Rank) bool {
			return r.Verdict.Transport == w.Transport &&
				!r.Verdict.Confirmed
		})
	}
	return w
}

func badness(v *Verdict) int {
	switch {
	case v.fellBack() && v.Confirmed:
		return 6
	case v.fellBack():
		return 5
	case v.Transport == Mixed:
		return 4
	case v.Transport == TCP: // by design
		return 3
	case v.Transport == Unknown:
		return 2
	case v.Transport == RDMA:
		return 1
	}
	return 0
}

func schedulerOf(s string) string {
	if slices.Contains([]string{"slurm", "kubernetes", "container"}, s) {
		return s
	}
	return "none"
}

// clean keeps what is safe in a label, a page and a terminal.
func clean(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:+@", r) {
			return r
		}
		return '_'
	}, s)
}

// gpusOf are the GPUs of a process by UUID, each once.
func gpusOf(c *fabric.RankCandidate) []string {
	list := slices.Clone(c.GPUs.Or(nil))
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), maxGPUs)]
}

// busyOf reports whether the GPUs are at work on average; it is unclear if that of one is not known.
func busyOf(n *fabric.Node, uuids []string) answer {
	sum := 0.0
	for _, uuid := range uuids {
		g := gpuOf(n, uuid)
		if g == nil {
			return unclear
		}
		v, known := g.Utilization.Get()
		if !known {
			return unclear
		}
		sum += v
	}
	switch {
	case len(uuids) == 0:
		return unclear
	case sum/float64(len(uuids)) >= busyFrom:
		return yes
	}
	return no
}

// both is yes only if both are.
func both(a, b answer) answer {
	switch {
	case a == no || b == no:
		return no
	case a == yes && b == yes:
		return yes
	}
	return unclear
}

func gpuOf(n *fabric.Node, uuid string) *fabric.GPU {
	for i := range n.GPUDriver.GPUs {
		if g := &n.GPUDriver.GPUs[i]; g.UUID == uuid {
			return g
		}
	}
	return nil
}

// inDomain reports whether all GPUs are in an NVLink domain that reaches beyond the node: the cluster of its
// partition is not zero.
func inDomain(n *fabric.Node, uuids []string) bool {
	return len(uuids) > 0 && !slices.ContainsFunc(uuids, func(uuid string) bool {
		g := gpuOf(n, uuid)
		return g == nil || strings.Trim(g.Fabric.Or(fabric.GPUFabric{}).Cluster, "0-") == ""
	})
}

// devicesOf looks at the devices of the node, and at who has contexts on them.
func devicesOf(n *fabric.Node, groups []*group, rates traffic, compared bool) devices {
	users := map[string]map[string]bool{}
	for _, g := range groups {
		for _, r := range g.ranks {
			for _, device := range r.Verbs.Or(fabric.VerbsUse{}).Devices {
				if users[device] == nil {
					users[device] = map[string]bool{}
				}
				users[device][g.name] = true
			}
		}
	}
	return devices{
		rates: rates, compared: compared,
		users: func(device string) map[string]bool { return users[device] },
		efa: func(device string) bool {
			h := n.HCA(device)
			return h != nil && h.Driver.Or("") == "efa"
		},
		packets: func(device string) bool {
			h := n.HCA(device)
			return h != nil && countsPackets(h)
		},
		byName: func(device string) bool {
			h := n.HCA(device)
			return h != nil && !h.Moved
		},
		moved: slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return h.Moved }),
		lacks: func(filter string) bool { return lacks(n, filter) },
	}
}
