// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const (
	rasPort       = 28028 // NCCL_RAS_ADDR
	ephemeralFrom = 32768 // default of net.ipv4.ip_local_port_range; stores and TCPStore (29500) listen below it
)

// process is a process that holds a GPU, with the children that belong to it.
type process struct {
	*fabric.RankCandidate
	children int
	sign     sign
}

type processID struct {
	pid   int
	start uint64
}

func (p *process) id() processID { return processID{p.PID, p.Start} }

// sign is how certain it is that a process has an NCCL communicator.
type sign int

const (
	signNone   sign = iota // it shows none, and all of it was read
	signUnread             // it shows none, and not all of it could be read
	signWeak               // connections like those of the bootstrap, which other libraries have, too
	signStrong
)

// processesOf folds candidates into processes: forked children into the rank that they inherited from. Each
// socket is left to one process, the oldest that holds it.
func processesOf(candidates []fabric.RankCandidate) []*process {
	all := make([]*process, 0, len(candidates))
	for i := range candidates {
		c := candidates[i] // a copy, because its sockets are replaced
		all = append(all, &process{RankCandidate: &c})
	}
	slices.SortStableFunc(all, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.PID, b.PID))
	})
	holders := map[uint64]*process{} // by inode
	byPID := map[int]*process{}
	var kept []*process
	for _, p := range all {
		if of := inheritedFrom(p, byPID, holders); of != nil && !foreign(p.RankCandidate, of.RankCandidate) {
			of.children++
			byPID[p.PID] = of // for its own children
			continue
		}
		byPID[p.PID] = p
		if !computes(p.RankCandidate) {
			continue
		}
		kept = append(kept, p)
		keepOwn(p, holders)
	}
	for _, p := range kept {
		p.sign = signOf(p.RankCandidate)
	}
	return kept
}

// computes reports whether a process may use a GPU. What only watches GPUs, such as a monitoring agent, has
// their files open, too.
func computes(c *fabric.RankCandidate) bool {
	files, read := c.Files.Get()
	switch {
	case len(c.GPUs.Or(nil)) > 0:
		return true
	case c.GPUs.State == fabric.Absent:
		return false
	}
	return !read || files.CUDA
}

// inheritedFrom returns the older process that a process was forked from; nil: it is one of its own. A
// process that the driver lists for a GPU is one of its own.
func inheritedFrom(p *process, byPID map[int]*process, holders map[uint64]*process) *process {
	if len(p.GPUs.Or(nil)) > 0 {
		return nil
	}
	if parent := byPID[p.Parent]; parent != nil && (p.GPUs.State == fabric.Absent || sharesSocket(p, holders) == parent) {
		return parent
	}
	return sharesSocket(p, holders) // its parent may have died
}

func sharesSocket(p *process, holders map[uint64]*process) *process {
	for _, inode := range p.Files.Value.Sockets {
		if of := holders[inode]; of != nil {
			return of
		}
	}
	return nil
}

// keepOwn takes from a process the sockets that an older one holds.
func keepOwn(p *process, holders map[uint64]*process) {
	for _, inode := range p.Files.Value.Sockets {
		if holders[inode] == nil {
			holders[inode] = p
		}
	}
	if p.Sockets.State != fabric.OK {
		return
	}
	var own []fabric.Socket
	for _, s := range p.Sockets.Value {
		if of := holders[s.Inode]; of == nil || of == p {
			holders[s.Inode] = p
			own = append(own, s)
		}
	}
	p.Sockets.Value = own
}

// signOf returns how certain it is that a process has a communicator.
func signOf(c *fabric.RankCandidate) sign {
	sockets := c.Sockets.Or(nil)
	ras := slices.ContainsFunc(sockets, func(s fabric.Socket) bool { return s.Listening && s.Local.Port() == rasPort })
	switch {
	case ras, c.Maps.Or(fabric.MappedFiles{}).Segments > 0, hasVerbs(c) == yes:
		return signStrong
	case bootstraps(c) && !showsRAS(c):
		return signWeak
	case c.Files.State != fabric.OK, c.Maps.State != fabric.OK, c.Sockets.State != fabric.OK:
		return signUnread
	}
	return signNone
}

// bootstraps reports whether a process listens on an ephemeral port for other hosts, and is connected to one
// from and to such ports, and that it may have NCCL.
func bootstraps(c *fabric.RankCandidate) bool {
	maps, read := c.Maps.Get()
	if read && maps.NCCL == "" && !maps.Torch {
		return false
	}
	listens, connected := false, false
	for _, s := range c.Sockets.Or(nil) {
		switch {
		case s.Listening:
			listens = listens || s.Local.Port() >= firstPort(c) && !s.Local.Addr().Unmap().IsLoopback()
		case betweenHosts(s, firstPort(c)):
			connected = true
		}
	}
	return listens && connected
}

// showsRAS reports whether a communicator would show by its RAS listener: NCCL 2.24 and later, unless it is
// configured otherwise.
func showsRAS(c *fabric.RankCandidate) bool {
	_, read := c.Settings.Get()
	configured := slices.ContainsFunc(c.Variables(), func(v fabric.NCCLVariable) bool {
		return strings.HasPrefix(v.Name,
			"NCCL_RAS_")
	})
	return read && !configured && atLeast(c.Maps.Or(fabric.MappedFiles{}).Version, 2, 24)
}

// firstPort is the first ephemeral port of a process. The other hosts of a job are taken to have the same.
func firstPort(c *fabric.RankCandidate) uint16 { return cmp.Or(c.EphemeralFrom, ephemeralFrom) }

// betweenHosts reports whether a connection is one between ephemeral ports of two hosts.
func betweenHosts(s fabric.Socket, first uint16) bool {
	local, remote := s.Local.Addr().Unmap(), s.Remote.Addr().Unmap()
	return !s.Listening && s.Local.Port() >= first && s.Remote.Port() >= first &&
		remote.IsValid() && !remote.IsLoopback() && !remote.IsUnspecified() && remote != local
}

// withinHost reports whether a connection has one address at both ends.
func withinHost(s fabric.Socket) bool {
	return !s.Listening && s.Remote.Addr().IsValid() && s.Remote.Addr() == s.Local.Addr()
}

// hostOf is the other host of a connection.
func hostOf(s fabric.Socket) netip.Addr { return s.Remote.Addr().Unmap().WithZone("") }

// answer is yes, no or neither.
type answer int

const (
	unclear answer = iota
	yes
	no
)

// hasVerbs reports whether a process has RDMA devices open. It is no only if all that could show it was read.
func hasVerbs(c *fabric.RankCandidate) answer {
	files, verbs := c.Files.Or(fabric.OpenFiles{}), c.Verbs.Or(fabric.VerbsUse{})
	switch {
	case len(files.Uverbs) > 0, verbs.Contexts > 0:
		return yes
	case c.Files.State == fabric.OK && files.Complete && c.Verbs.State != fabric.Unknown:
		return no
	}
	return unclear
}

// atLeast reports whether a version "2.27.3" is that one or later; false if there is none.
func atLeast(version string, major, minor int) bool {
	var of [2]int
	for i, part := range strings.SplitN(version, ".", 3) {
		if i == len(of) {
			break
		}
		for _, r := range part {
			if r < '0' || r > '9' || of[i] > 1000 {
				return false
			}
			of[i] = of[i]*10 + int(r-'0')
		}
	}
	return of[0] > major || of[0] == major && of[1] >= minor
}
