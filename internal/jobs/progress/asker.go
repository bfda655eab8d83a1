// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
)

const (
	port     = 28028             // NCCL_RAS_CLIENT_PORT, unless NCCL_RAS_ADDR is set
	leastAge = 10 * time.Minute  // of a process; its communicators may be younger
	tick     = time.Second / 100 // USER_HZ, of the start times of processes

	// ports of connections between ranks, where net.ipv4.ip_local_port_range is not known: it is often widened
	unprivilegedFrom = 1024
)

// Target is a process that may be asked.
type Target struct {
	Addr    netip.AddrPort // of the loopback interface
	PID     int
	Start   uint64 // as in fabric.RankCandidate
	Version fabric.NCCLVersion
}

// Asker is the process that would ask.
type Asker struct {
	NetNS uint64 // inode of its network namespace, 0: not known
	// ByHand: a person decided to ask. Releases that are later than those that were examined are asked, and a job whose
	// environment states no rank is asked on any of its nodes.
	ByHand bool
	// Version is the version of the NCCL library that a process has mapped; empty: not known.
	Version func(c *fabric.RankCandidate) string
}

// Choose returns the process to ask about a job. The error is a *Refusal.
func (a Asker) Choose(n *fabric.Node, j *job.Job) (Target, error) {
	candidates, known := n.Ranks.Get()
	if !known {
		return Target{}, refuse(ProcessesUnknown, "the processes of the node could not be read")
	}
	asked, err := a.first(n, j)
	if err != nil {
		return Target{}, err
	}
	ns, known := asked.NetNS.Get()
	switch {
	case a.NetNS == 0 || !known:
		return Target{}, refuse(NamespaceUnknown, "its network namespace is not known")
	case ns != a.NetNS:
		return Target{}, refuse(OtherNamespace,
			"its RAS listens in the network namespace of a pod or container, which the exporter does not enter")
	}
	addr, ok := listener(asked)
	if !ok {
		return Target{}, refuse(NoListener,
			"PID %d is not seen to listen on port %d: NCCL before 2.24, NCCL_RAS_ENABLE=0, NCCL_RAS_ADDR, or no communicator",
			asked.PID, port)
	}
	target := Target{Addr: addr, PID: asked.PID, Start: asked.Start}
	for i := range candidates {
		c := &candidates[i]
		if of, known := c.NetNS.Get(); known && of != ns || othersUser(asked, c) {
			continue
		}
		if c.Sockets.State != fabric.OK {
			return Target{}, refuse(ListenersUnknown, "whether PID %d listens on the port, too, is not known", c.PID)
		}
		if _, listens := listener(c); !listens {
			continue
		}
		v, err := a.askable(n, j, c)
		if err != nil {
			return Target{}, err
		}
		if c == asked {
			target.Version = v
		}
	}
	return target, nil
}

// othersUser reports whether a process is of another user. The kernel gives a port to sockets of one user
// only (SO_REUSEPORT), so that a connection to a socket which the process to ask is seen to have is not
// answered by one of another user. So a user with processes of which
// nothing can be read keeps nobody else's job from being asked.
func othersUser(asked, c *fabric.RankCandidate) bool {
	known := func(c *fabric.RankCandidate) bool { return c.UserKnown || c.Limits.State == fabric.OK }
	return known(asked) && known(c) && asked.User != c.User
}

// first is the process of the lowest rank of a job on this node. All nodes would get the same answer: that of
// rank 0 asks.
func (a Asker) first(n *fabric.Node, j *job.Job) (*fabric.RankCandidate, error) {
	candidates := n.Ranks.Or(nil)
	var found *fabric.RankCandidate
	lowest := -1 // -1: not stated
	for _, r := range j.Ranks {
		i := slices.IndexFunc(candidates, func(c fabric.RankCandidate) bool { return c.PID == r.PID })
		if i < 0 {
			continue
		}
		if found == nil || r.Rank >= 0 && (lowest < 0 || r.Rank < lowest) {
			found, lowest = &candidates[i], r.Rank
		}
	}
	switch {
	case found == nil:
		return nil, refuse(NoRank, "none of its ranks is left")
	case lowest > 0:
		return nil, refuse(RankElsewhere,
			"its lowest rank on this node is %d: ask on the node of rank 0, which reports all nodes", lowest)
	case lowest < 0 && !a.ByHand && !lowestHost(n, j):
		return nil, refuse(RankElsewhere,
			"its environment states no rank, and it is not seen that this is the node with its lowest address")
	}
	return found, nil
}

// lowestHost reports whether a job has no connection to a host with a lower address. RAS sorts the processes
// of a job by address, as numbers, and connects each to the one before and the one after it
// (rasLinkReinitConns and ncclSocketsCompare in src/ras/peers.cc of NCCL), over dead ones: each node but the
// lowest one that lives has such a connection. A connection to another service at a lower address keeps a job
// from being asked, which is the lesser harm: two nodes must not ask.
func lowestHost(n *fabric.Node, j *job.Job) bool {
	for _, c := range processesOf(n, j) {
		sockets, known := c.Sockets.Get()
		if !known {
			return false
		}
		from := cmp.Or(c.EphemeralFrom, unprivilegedFrom)
		for _, s := range sockets {
			local, remote := s.Local.Addr().Unmap(), s.Remote.Addr().Unmap()
			if !s.Listening && remote.IsValid() && !remote.IsLoopback() && s.Local.Port() >= from && s.Remote.Port() >= from &&
				remote.Less(local) {
				return false
			}
		}
	}
	return true
}

// listener is where RAS of a process listens.
func listener(c *fabric.RankCandidate) (netip.AddrPort, bool) {
	for _, s := range c.Sockets.Or(nil) {
		a := s.Local.Addr()
		switch {
		case !s.Listening || s.Local.Port() != port:
		case a.IsLoopback():
			return s.Local, true
		case a.IsUnspecified() && a.Is4():
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), true
		case a.IsUnspecified():
			return netip.AddrPortFrom(netip.IPv6Loopback(), port), true
		}
	}
	return netip.AddrPort{}, false
}

// askable is the version of NCCL of a process that the kernel may connect to.
func (a Asker) askable(n *fabric.Node, j *job.Job, c *fabric.RankCandidate) (fabric.NCCLVersion, error) {
	if !slices.ContainsFunc(j.Ranks, func(r job.Rank) bool { return r.PID == c.PID }) {
		return fabric.NCCLVersion{}, refuse(OtherJob, "PID %d of another job listens on the same port, and might answer",
			c.PID)
	}
	boot, known := n.Host.BootTime.Get()
	if !known {
		return fabric.NCCLVersion{}, refuse(AgeUnknown, "the age of its processes is not known")
	}
	// The boot time is that of the clock when it was read: a clock that was set since makes no process older.
	read := n.Host.BootTime.At
	if age := read.Round(0).Sub(boot.Add(time.Duration(c.Start)*tick)) + n.Ranks.At.Sub(read); age < leastAge {
		return fabric.NCCLVersion{}, refuse(Young,
			"PID %d is younger than %s: asking while communicators are made has crashed jobs", c.PID, leastAge)
	}
	v, err := fabric.ParseNCCLVersion(a.Version(c))
	if err != nil {
		return fabric.NCCLVersion{}, refuse(VersionUnknown, "the version of NCCL of PID %d is not known", c.PID)
	}
	if why := Refused(v, a.ByHand); why != "" {
		return fabric.NCCLVersion{}, refuse(VersionRefused, "%s", why)
	}
	return v, nil
}

// busyFrom is the mean utilization from which GPUs are at work.
const busyFrom = 0.3

// ActivityOf returns what the GPUs of a job on this node do.
func ActivityOf(n *fabric.Node, j *job.Job) Activity {
	sum := 0.0
	for _, uuid := range j.GPUs {
		i := slices.IndexFunc(n.GPUDriver.GPUs, func(g fabric.GPU) bool { return g.UUID == uuid })
		if i < 0 {
			return ActivityUnknown
		}
		v, known := n.GPUDriver.GPUs[i].Utilization.Get()
		if !known {
			return ActivityUnknown
		}
		sum += v
	}
	switch {
	case len(j.GPUs) == 0:
		return ActivityUnknown
	case sum/float64(len(j.GPUs)) >= busyFrom:
		return GPUsBusy
	}
	return GPUsIdle
}
