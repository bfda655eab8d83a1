// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// holds reports whether a fact of the table holds for a finding.
func (r *Result) holds(fact signature.Fact, f *Finding) bool {
	if rest, negated := strings.CutPrefix(string(fact), "!"); negated {
		return !r.holds(signature.Fact(rest), f)
	}
	for _, list := range []map[signature.Fact]func(r *Result, f *Finding) bool{facts, surrounding} {
		if about, known := list[fact]; known {
			return about(r, f)
		}
	}
	for _, relation := range relations {
		if rest, is := strings.CutPrefix(string(fact), relation.name); is {
			return relation.holds(r, f, rest)
		}
	}
	return false
}

// all reports whether facts hold, of which there is at least one.
func (r *Result) all(list []signature.Fact, f *Finding) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(fact signature.Fact) bool { return !r.holds(fact, f) })
}

// facts are those without an argument.
var facts = map[signature.Fact]func(r *Result, f *Finding) bool{
	signature.PeerLinkLocal: func(_ *Result, f *Finding) bool { a, ok := f.peer(); return ok && a.IsLinkLocalUnicast() },
	signature.PeerLoopback:  func(_ *Result, f *Finding) bool { a, ok := f.peer(); return ok && a.IsLoopback() },
	signature.ChoseLoopback: func(r *Result, _ *Finding) bool { return r.loopback },
	signature.PeerBridge:    func(_ *Result, f *Finding) bool { return f.within("172.17.0.0/16") },
	signature.PeerTunnel:    func(_ *Result, f *Finding) bool { return f.within("100.64.0.0/10") },
	signature.SubnetsDiffer: func(_ *Result, f *Finding) bool { return f.subnetsDiffer() },
	signature.GIDLinkLocal: func(r *Result, f *Finding) bool {
		a, ok := f.gid("local GID", "localGid")
		return ok && a.IsLinkLocalUnicast() && !r.onlyInfiniBand() // where it is the usual one
	},
	signature.SegmentUnnamed: func(_ *Result, f *Finding) bool {
		return strings.Contains(f.raw, "/nccl- (size 0)") || strings.Contains(f.raw, "segment  (size 0)")
	},
	signature.SegmentAbsurd: func(_ *Result, f *Finding) bool { return f.segment() >= 1<<40 },
	signature.InSetup:       func(r *Result, _ *Finding) bool { return r.inSetup() },

	signature.OneHost:      func(r *Result, _ *Finding) bool { return r.oneHost() },
	signature.SeveralHosts: func(r *Result, _ *Finding) bool { return r.severalHosts() },
	signature.Containers:   func(r *Result, _ *Finding) bool { return r.containers() },
	signature.UsesGPUDirect: func(r *Result, _ *Finding) bool {
		return r.Transports().RDMAGPUDirect > 0 || r.Log.RingsGPUDirect == log.Yes
	},
	signature.UsesP2P:          func(r *Result, _ *Finding) bool { return r.Transports().P2P > 0 },
	signature.OnlyFlushed:      func(r *Result, _ *Finding) bool { return r.onlyFlushed() },
	signature.Clique:           func(r *Result, _ *Finding) bool { return r.Log.Clique || r.Log.MNNVL },
	signature.OneGPU:           func(r *Result, _ *Finding) bool { return r.oneGPU() },
	signature.FirstCollective:  func(r *Result, _ *Finding) bool { return r.Waiting.firstCollective() },
	signature.WaitBehind:       func(r *Result, _ *Finding) bool { return r.Waiting.behind() },
	signature.WaitApart:        func(r *Result, _ *Finding) bool { return r.Waiting.apart() },
	signature.HostsDisagree:    func(r *Result, _ *Finding) bool { return r.networksDiffer() },
	signature.RailsCrossed:     func(r *Result, _ *Finding) bool { return r.crossed },
	signature.PeerFailed:       func(r *Result, _ *Finding) bool { return r.processFailed() },
	signature.NoPlugin:         func(r *Result, _ *Finding) bool { return r.Log.NoPlugin },
	signature.PluginUnloadable: func(r *Result, _ *Finding) bool { return r.Log.Unloadable != "" },
	signature.NoDevice:         func(r *Result, _ *Finding) bool { return r.Log.NoDevices },
	signature.OnlyInfiniBand:   func(r *Result, _ *Finding) bool { return r.onlyInfiniBand() },
	signature.NetworksDiffer:   func(r *Result, _ *Finding) bool { return len(r.chosen()) > 1 },
	signature.VersionsDiffer:   func(r *Result, _ *Finding) bool { return len(r.Versions) > 1 },
	signature.LibraryTooOld:    func(r *Result, _ *Finding) bool { return r.libraryTooOld() },
	signature.RanksMissing:     func(r *Result, _ *Finding) bool { return len(r.absent()) > 0 },
	signature.SizeSaid:         func(r *Result, _ *Finding) bool { _, said := r.size(); return said },
	signature.RanksNotBegun: func(r *Result, _ *Finding) bool {
		return slices.ContainsFunc(r.Communicators,
			func(c Communicator) bool { return c.Complete < c.Started && c.Started < c.Ranks })
	},
	signature.DevicesDiffer: func(r *Result, _ *Finding) bool { return r.devicesDiffer() },
	signature.IOMMUWarned:   func(r *Result, _ *Finding) bool { return r.iommuWarned() },
	signature.Connecting:    func(r *Result, _ *Finding) bool { return len(r.Log.Links) > 0 },
	signature.AllRanksWait:  func(r *Result, _ *Finding) bool { return r.allWait() },
	signature.RankAlone:     func(r *Result, _ *Finding) bool { return r.rankAlone() },
	signature.Busy:          func(r *Result, f *Finding) bool { return r.goesLong(f) },
	signature.Starting: func(r *Result, _ *Finding) bool {
		return len(r.Communicators) == 0 && r.Log.Bootstrap != ""
	},
	signature.GDRApart:   func(r *Result, _ *Finding) bool { return r.gdrApart() != "" },
	signature.XidsRepeat: func(r *Result, _ *Finding) bool { return r.xids.repeated() != nil },
	signature.Crashed:    func(r *Result, _ *Finding) bool { return r.crash.place() != "" },
	signature.ByLauncher: func(r *Result, f *Finding) bool {
		return has(strings.ToLower(f.raw+"\n"+r.said.stack), launchers)
	},
	signature.MemlockSmall: func(r *Result, _ *Finding) bool { return r.lockedLittle() },
	signature.MemlockFree:  func(r *Result, _ *Finding) bool { return r.Log.Memlock == "unlimited" },
	signature.GPUsFewer: func(r *Result, f *Finding) bool {
		return r.visible() > 0 && r.ordinal(f) >= r.visible()
	},
	signature.NoVerbsGiven:  func(r *Result, _ *Finding) bool { return r.Log.Container.Run && !r.Log.Container.Verbs },
	signature.NoSharedGiven: func(r *Result, _ *Finding) bool { return r.Log.Container.Run && !r.Log.Container.SHM },
	signature.TwoPackages:   func(r *Result, _ *Finding) bool { return len(r.Log.Packages) > 1 },
	signature.OfOneHost:     func(r *Result, f *Finding) bool { return r.ofOneHost(f) },
	signature.Placed: func(_ *Result, f *Finding) bool {
		return f.Place != "" && f.Signature.Source == signature.Program
	},
	signature.HostsReport:    func(_ *Result, f *Finding) bool { return len(f.Hosts) > 1 },
	signature.WithoutGDR:     func(r *Result, _ *Finding) bool { return r.withoutGDR() },
	signature.AgentListens:   func(r *Result, _ *Finding) bool { return r.said.agentListens() },
	signature.PortLow:        func(r *Result, _ *Finding) bool { return r.portLow() },
	signature.SameName:       func(r *Result, _ *Finding) bool { return r.sameName },
	signature.ForOtherArch:   func(r *Result, _ *Finding) bool { return r.Log.Misbuilt },
	signature.Warned:         func(r *Result, _ *Finding) bool { return r.warned() },
	signature.LargeTest:      func(r *Result, _ *Finding) bool { return r.tests.worlds.large },
	signature.SettingForced:  func(r *Result, _ *Finding) bool { return len(r.forced()) > 0 },
	signature.BetweenHosts:   func(r *Result, _ *Finding) bool { return r.tests.worlds.spread && !r.tests.worlds.devices },
	signature.WithinHost:     func(r *Result, _ *Finding) bool { return r.tests.worlds.several && !r.tests.worlds.spread },
	signature.NameUnknown:    func(r *Result, f *Finding) bool { return r.unnamed },
	signature.NameUnresolved: func(r *Result, f *Finding) bool { return r.unnamed || r.seen("name_unresolved", f) },
}

// launchers are words of lines and stacks of those that start processes on other hosts.
var launchers = []string{"pdsh@", "mpirun", "mpiexec", "orted", "prted", "plm_rsh", "/launcher/", "horovod/runner"}

// relations are facts with an argument.
var relations = []struct {
	name  string
	holds func(r *Result, f *Finding, argument string) bool
}{
	{"errno:", func(_ *Result, f *Finding, want string) bool {
		named := Errno(f.raw)
		return slices.Contains(strings.Split(want, ","), strconv.Itoa(named))
	}},
	{"bind:", func(r *Result, f *Finding, want string) bool {
		return slices.Contains(strings.Split(want, ","), strconv.Itoa(r.bindErrno(f)))
	}},
	{"provider:", func(r *Result, _ *Finding, want string) bool { return r.provider == want }},
	{"code:", func(_ *Result, f *Finding, want string) bool {
		return slices.Contains(strings.Split(want, ","), strconv.Itoa(f.Code))
	}},
	{"text:", func(_ *Result, f *Finding, want string) bool {
		text := strings.ToLower(f.raw) + "$"
		return slices.ContainsFunc(strings.Split(strings.ToLower(want), "|"), func(s string) bool { return strings.Contains(text, s) })
	}},
	{"stack:", func(r *Result, _ *Finding, want string) bool {
		return has(strings.ToLower(r.said.stack), strings.Split(strings.ToLower(want), "|"))
	}},
	{"crash:", func(r *Result, _ *Finding, want string) bool {
		return has(strings.ToLower(r.crash.place()), strings.Split(want, "|"))
	}},
	{"built<", func(r *Result, _ *Finding, than string) bool {
		v, known := cudaOf(r.Log.CUDA)
		before, _ := cudaOf(than)
		return known && v < before
	}},
	{"built>=", func(r *Result, _ *Finding, than string) bool {
		v, known := cudaOf(r.Log.CUDA)
		from, _ := cudaOf(than)
		return known && v >= from
	}},
	{"through:", func(_ *Result, f *Finding, want string) bool { return strings.Contains(f.through, want) }},
	{"seen:", func(r *Result, f *Finding, id string) bool { return r.seen(id, f) }},
	{"set:", func(r *Result, _ *Finding, want string) bool {
		name, value, valued := strings.Cut(want, "=")
		return slices.ContainsFunc(r.Log.Settings, func(s log.Setting) bool {
			return s.Name == name && (!valued || strings.EqualFold(strings.TrimSuffix(s.Value, "."), value))
		})
	}},
	{"release<", func(r *Result, _ *Finding, than string) bool {
		if len(r.Versions) == 0 {
			return false
		}
		v, err := fabric.ParseNCCLVersion(r.Versions[0])
		return err == nil && !v.AtLeast(than)
	}},
	{"driver<", func(r *Result, _ *Finding, than string) bool {
		before, _ := cudaOf(than)
		return r.Log.Driver > 0 && r.Log.Driver < before
	}},
}

// cudaOf is a version of CUDA as the driver counts them: 12020 for 12.2.
func cudaOf(version string) (int, bool) {
	major, minor, found := strings.Cut(version, ".")
	a, wrong := strconv.Atoi(major)
	b, err := strconv.Atoi(minor)
	const thousand, ten, most = 1000, 10, 100
	if !found || wrong != nil || err != nil || a < 0 || b < 0 || a > most || b > most {
		return 0, false
	}
	return a*thousand + b*ten, true
}

// seen reports whether the log has a signature, not later than a finding.
func (r *Result) seen(id string, about *Finding) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		xid := strings.HasPrefix(f.Signature.ID, "xid")
		hardware := xid && f.Signature.ID != "xid_application"
		return !f.after(about) && (f.Signature.ID == id || id == "xid" && xid || id == "xid_hardware" && hardware)
	})
}

// peer is the address of the other side, "10.0.0.4<56849>".
func (f *Finding) peer() (netip.Addr, bool) {
	text, _, _ := strings.Cut(f.Peer, "<")
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err == nil
}

func (f *Finding) within(network string) bool {
	a, known := f.peer()
	return known && netip.MustParsePrefix(network).Contains(a)
}

// gid is the first address that a line has behind one of these words.
func (f *Finding) gid(before ...string) (netip.Addr, bool) {
	for _, word := range before {
		rest, found := f.raw, true
		for found {
			if _, rest, found = strings.Cut(rest, word); !found {
				break
			}
			text, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(rest, "s"), " ="), " ")
			if a, err := netip.ParseAddr(strings.TrimRight(text, ",.;")); err == nil {
				return a.Unmap(), true
			}
		}
	}
	return netip.Addr{}, false
}

// subnetsDiffer reports whether the GIDs of both sides are of different networks, as far as addresses show it:
// of IPv4 the first three bytes, of IPv6 the first 64 bits.
func (f *Finding) subnetsDiffer() bool {
	a, known := f.gid("local GID", "localGid")
	b, both := f.gid("remote GID", "remoteGid")
	if !known || !both || a.Is4() != b.Is4() {
		return false
	}
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	return err == nil && !p.Contains(b)
}

// segment is the size of the shared memory that a line names, in bytes; 0: it names none.
func (f *Finding) segment() uint64 {
	_, rest, _ := strings.Cut(f.raw, "(size ")
	digits, _, _ := strings.Cut(rest, ")")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// inSetup reports whether a process was in the set-up of a communicator when the log ended.
func (r *Result) inSetup() bool {
	if r.NCCLLines == 0 {
		return false
	}
	ended := 0
	for _, p := range r.processes {
		if p.began > p.ended {
			return true
		}
		ended += p.ended
	}
	return ended == 0
}

func (r *Result) oneHost() bool { return r.Log.Nodes == 1 || len(r.Hosts) == 1 && r.allRanks() }

// containers reports whether several names are of what NCCL takes for one host. With NVLink between hosts it counts
// NVLink domains.
func (r *Result) containers() bool { return len(r.Hosts) > 1 && r.Log.Nodes == 1 && !r.Log.MNNVL }

func (r *Result) severalHosts() bool {
	return r.Log.Nodes > 1 || r.Log.Nodes == 0 && len(r.Hosts) > 1 ||
		slices.ContainsFunc(r.Communicators, func(c Communicator) bool { return c.Spread }) && r.Log.Nodes != 1
}

// onlyFlushed reports whether no request failed with a status that says why.
func (r *Result) onlyFlushed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == "completion_flushed" }) &&
		!slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return strings.HasPrefix(f.Signature.ID, "completion_") && f.Signature.ID != "completion_flushed"
		})
}

// oneGPU reports whether each host has one GPU, as far as the ranks in the log use them, and none shows that
// GPUDirect RDMA is possible.
func (r *Result) oneGPU() bool {
	possible := func(h log.HCA) bool { return h.GPUDirect }
	if r.devices != 0 || !r.severalHosts() || slices.ContainsFunc(r.Log.HCAs, possible) {
		return false
	}
	return r.Log.Local == 1 || r.Log.Local == 0 && r.allRanks() && r.Processes <= len(r.Hosts)
}

// processFailed reports whether a process crashed or was killed, or a GPU failed.
func (r *Result) processFailed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		switch f.Signature.ID {
		case "process_crashed", "heap_corrupted", "process_killed", "host_out_of_memory",
			"gpu_out_of_memory", "gpu_program_error",
			signature.Exception.ID:
			return true
		}
		return strings.HasPrefix(f.Signature.ID, "xid")
	})
}

// world is how many ranks the job has, as far as is known.
func (r *Result) world() int {
	most := 0
	for i := range r.Communicators {
		most = max(most, r.Communicators[i].Ranks)
	}
	return most
}

// onlyInfiniBand reports whether all devices are of InfiniBand.
func (r *Result) onlyInfiniBand() bool {
	other := func(d log.Device) bool { return d.LinkLayer != "IB" }
	return len(r.Log.Devices) > 0 && !slices.ContainsFunc(r.Log.Devices, other)
}

// libraryTooOld reports whether a plugin needs a version of a library that the image does not have: GLIBC_2.34.
func (r *Result) libraryTooOld() bool {
	return r.Log.Unloadable != "" && !strings.Contains(r.Log.Unloadable, ".so")
}

// chosen are the networks that hosts chose, sorted.
func (r *Result) chosen() []string {
	return slices.Compact(slices.Sorted(maps.Values(r.networks)))
}

// devicesDiffer reports whether hosts have different numbers of devices.
func (r *Result) devicesDiffer() bool {
	counts := map[int]struct{}{}
	for _, list := range r.nics {
		counts[strings.Count(list, "[")] = struct{}{}
	}
	return len(counts) > 1
}

// iommuWarned reports whether RCCL says that the kernel has not iommu=pt.
func (r *Result) iommuWarned() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Signature.ID == "rccl_host_setting" && strings.Contains(f.raw, "iommu=pt")
	})
}

// networksDiffer reports whether some hosts use RDMA and others TCP.
func (r *Result) networksDiffer() bool {
	tcp, other := false, false
	for _, name := range r.networks {
		if name == "Socket" {
			tcp = true
		} else {
			other = true
		}
	}
	return tcp && other
}
