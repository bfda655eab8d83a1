// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const maxInterfaces = 128 // of a network namespace

// addPorts reads the range of ephemeral ports (ipv4_local_port_range of net/ipv4/sysctl_net_ipv4.c), which
// procfs shows of the network namespace of its reader.
func (r *Reader) addPorts(list []fabric.RankCandidate) {
	own := r.ownNamespace()
	var first uint16
	for i := range list {
		if ns, known := list[i].NetNS.Get(); !known || ns != own || own == 0 {
			continue
		}
		if first == 0 {
			b, err := r.file("sys/net/ipv4/ip_local_port_range", 64)
			if first = parsePorts(b); err != nil || first == 0 {
				return
			}
		}
		list[i].EphemeralFrom = first
	}
}

// parsePorts returns the first of the two ports in "32768	60999"; 0: it is not that. Ports below 1024 are of services.
func parsePorts(b []byte) uint16 {
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return 0
	}
	first, err := strconv.ParseUint(f[0], 10, 16)
	if err != nil {
		return 0
	}
	return max(1024, uint16(first))
}

// addInterfaces reads the interfaces of each network namespace once.
func (r *Reader) addInterfaces(list []fabric.RankCandidate, now time.Time) {
	read := map[uint64]fabric.Fact[[]fabric.InterfaceUse]{}
	for i := range list {
		c := &list[i]
		ns, known := c.NetNS.Get()
		if use, ok := read[ns]; ok && known {
			c.NetDevs = use
			continue
		}
		source := strconv.Itoa(c.PID) + "/net/dev"
		if b, err := r.file(source, 64<<10); err != nil {
			c.NetDevs = fabric.UnknownFact[[]fabric.InterfaceUse](reasonOf(err), source, now)
		} else if use, ok := parseInterfaces(b); !ok {
			c.NetDevs = fabric.UnknownFact[[]fabric.InterfaceUse](fabric.ReasonMalformed, source, now)
		} else {
			c.NetDevs = fabric.Known(use, source, now)
		}
		if known && c.NetDevs.Reason != fabric.ReasonGone { // a process that ended says nothing about the others
			read[ns] = c.NetDevs
		}
	}
}

// parseInterfaces reads /proc/PID/net/dev (dev_seq_show of net/core/net-procfs.c): two lines of headers, then
// "name: bytes packets ..." with 8 numbers received and 8 sent.
func parseInterfaces(b []byte) ([]fabric.InterfaceUse, bool) {
	const received, sent, columns = 0, 8, 16
	list := []fabric.InterfaceUse{}
	n := 0
	for line := range bytes.Lines(b) {
		if n++; n <= 2 {
			if !bytes.Contains(line, []byte("|")) {
				return nil, false
			}
			continue
		}
		// A name may have colons in it, the numbers have none.
		i := bytes.LastIndexByte(line, ':')
		if i < 0 || len(list) == maxInterfaces {
			return nil, false
		}
		f := bytes.Fields(line[i+1:])
		if len(f) != columns {
			return nil, false
		}
		in, err := strconv.ParseUint(string(f[received]), 10, 64)
		out, also := strconv.ParseUint(string(f[sent]), 10, 64)
		if err != nil || also != nil {
			return nil, false
		}
		list = append(list, fabric.InterfaceUse{
			Name:     plain(strings.TrimSpace(string(line[:i])), unix.IFNAMSIZ-1),
			Received: in, Sent: out,
		})
	}
	return list, n >= 2
}

// addSockets lists the sockets of each network namespace once, and gives each to the candidate that it belongs to.
func (r *Reader) addSockets(list []fabric.RankCandidate, now time.Time) {
	const source = "sock_diag"
	owners := socketOwners(list)
	own := r.ownNamespace()
	groups := map[uint64][]int{} // candidates by network namespace
	for i := range list {
		c := &list[i]
		ns, known := c.NetNS.Get()
		var why fabric.Reason
		switch {
		case r.sources.Sockets == nil:
			why = fabric.ReasonNotRead
		case c.Files.State != fabric.OK:
			why = c.Files.Reason
		case !known:
			why = c.NetNS.Reason
		case groups[ns] == nil && ns != own && !r.mayList(c.PID, len(groups)):
			why = fabric.ReasonMalformed
		default:
			groups[ns] = append(groups[ns], i)
			continue
		}
		c.Sockets = fabric.UnknownFact[[]fabric.Socket](why, source, now)
	}
	for ns, members := range groups {
		of, err := r.socketsIn(ns == own, list[members[0]].PID, owners)
		for _, i := range members {
			if err != nil {
				list[i].Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonOf(err), source, now)
				continue
			}
			list[i].Sockets = fabric.Known(append([]fabric.Socket{}, of[i]...), source, now)
		}
		if ns == own && fabric.ReasonOf(err) == fabric.ReasonTimeout {
			r.socketsByGroup(list, members, owners, now)
		}
	}
}

// errCrowded: see Reader.crowded.
var errCrowded = fabric.Because(fabric.ReasonTimeout, "the network namespace has more sockets than are listed in time")

// socketsIn lists the sockets in the network namespace of a process, by the candidate that they belong to. In
// that which all share, a list that took too long is not asked for again at once, and each time for twice as
// many looks.
func (r *Reader) socketsIn(own bool, pid int, owners map[uint64]int) (map[int][]fabric.Socket, error) {
	const longestPause = 20 // looks
	if own && r.look < r.crowded {
		r.tooManySockets(pid, own)
		return nil, errCrowded
	}
	found, err := r.sockets(own, pid, func(s Sockets) ([]fabric.Socket, error) {
		return s.Sockets(func(inode uint64) bool { _, ok := owners[inode]; return ok }, nil)
	})
	tooLong := fabric.ReasonOf(err) == fabric.ReasonTimeout
	if tooLong {
		r.tooManySockets(pid, own)
	}
	switch {
	case own && tooLong:
		r.pause = min(max(2, 2*r.pause), longestPause)
		r.crowded = r.look + r.pause
	case own:
		r.pause = 0
	}
	of := map[int][]fabric.Socket{}
	for _, s := range found {
		of[owners[s.Inode]] = append(of[owners[s.Inode]], s)
	}
	return of, err
}

// maxGroups bounds the control groups that are asked for one by one.
const maxGroups = 16

// socketsByGroup gives candidates those of their sockets that were made in their control group. An owner who made
// too many has them in his own group.
func (r *Reader) socketsByGroup(list []fabric.RankCandidate, members []int, owners map[uint64]int, now time.Time) {
	answers := map[uint64][]fabric.Socket{}
	for _, i := range members {
		c, p := &list[i], r.known[list[i].PID]
		if p == nil || p.details == nil || p.details.cgroup == 0 {
			continue
		}
		id := p.details.cgroup
		answer, asked := answers[id]
		if !asked && len(answers) < maxGroups {
			var err error
			answer, err = r.sockets(true, 0, func(s Sockets) ([]fabric.Socket, error) {
				return s.InGroup(id, func(inode uint64) bool { _, ok := owners[inode]; return ok })
			})
			if err != nil {
				answer = nil
			}
			answers[id] = answer
		}
		if answer == nil {
			continue
		}
		mine := []fabric.Socket{}
		for _, s := range answer {
			if owners[s.Inode] == i {
				mine = append(mine, s)
			}
		}
		c.Sockets, c.SocketsByCgroup = fabric.Known(mine, "sock_diag", now), true
	}
}

// tooManySockets notes that a list took too long: the kernel does not say whose the sockets are in the
// namespace that all share.
func (r *Reader) tooManySockets(pid int, own bool) {
	if p := r.known[pid]; !own && p != nil {
		r.exceeds(p.share, pid, "sockets", fabric.ReasonTimeout)
		return
	}
	r.exceeded = append(r.exceeded, fabric.Excess{
		What:   "sockets of the network namespace of the node",
		Reason: fabric.ReasonTimeout,
	})
}

// mayList reports whether the sockets of one more network namespace are listed for the owner of a process.
// Who is first in the order of candidates has the first one.
func (r *Reader) mayList(pid, groups int) bool {
	p := r.known[pid]
	if p == nil {
		return false
	}
	if p.share.namespaces++; p.share.namespaces > namespacesEach || groups >= maxNamespaces {
		r.exceeds(p.share, pid, "network namespaces", fabric.ReasonMalformed)
		return false
	}
	return true
}

// addSocketsByCgroup gives candidates whose descriptors cannot be read the sockets that were made in their
// control group, of those in the network namespace of this process. Where there are none, the process may be
// in another one: nothing is known.
func (r *Reader) addSocketsByCgroup(list []fabric.RankCandidate, now time.Time) {
	own := r.ownNamespace()
	ids, members := map[uint64]bool{}, map[uint64][]int{}
	for i := range list {
		c, p := &list[i], r.known[list[i].PID]
		ns, known := c.NetNS.Get()
		if c.Files.State == fabric.OK || known && ns != own || p == nil || p.details == nil || p.details.cgroup == 0 {
			continue
		}
		id := p.details.cgroup
		ids[id], members[id] = true, append(members[id], i)
	}
	if len(ids) == 0 || r.sources.Sockets == nil {
		return
	}
	found, err := r.sockets(true, 0, func(s Sockets) ([]fabric.Socket, error) {
		return s.Sockets(func(uint64) bool { return false }, ids)
	})
	if err != nil { // that descriptors cannot be read is the reason that the facts have already
		return
	}
	for _, s := range found {
		for _, i := range members[s.Cgroup] {
			c := &list[i]
			c.Sockets, c.SocketsByCgroup = fabric.Known(append(c.Sockets.Value, s), "sock_diag", now), true
		}
	}
}

// sockets asks for those of the network namespace of a process.
func (r *Reader) sockets(own bool, pid int, ask func(Sockets) ([]fabric.Socket, error)) (list []fabric.Socket,
	err error,
) {
	var namespace *os.File
	if !own {
		name := strconv.Itoa(pid) + "/ns/net"
		fd, err := r.open(name, unix.O_RDONLY)
		if err != nil {
			return nil, fabric.Because(reasonOf(err), name+": "+err.Error())
		}
		namespace = os.NewFile(uintptr(fd), name)
		defer namespace.Close()
	}
	s, err := r.sources.Sockets(namespace)
	if err != nil {
		return nil, err
	}
	list, err = ask(s)
	return list, errors.Join(err, s.Close())
}

// ownNamespace is the network namespace of this process, 0: not known.
func (r *Reader) ownNamespace() uint64 {
	link, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0
	}
	ns, _ := parseNamespace(link, "net")
	return ns
}

// socketOwners returns which candidate a socket belongs to. A process that was started by another one may
// have inherited sockets of it: they belong to the one that has verbs open, else to the oldest.
func socketOwners(list []fabric.RankCandidate) map[uint64]int {
	owners := map[uint64]int{}
	better := func(a, b int) bool {
		va, vb := len(list[a].Files.Value.Uverbs) > 0, len(list[b].Files.Value.Uverbs) > 0
		if va != vb {
			return va
		}
		return list[a].Start < list[b].Start
	}
	for i := range list {
		for _, inode := range list[i].Files.Value.Sockets {
			if o, ok := owners[inode]; !ok || better(i, o) {
				owners[inode] = i
			}
		}
	}
	return owners
}
