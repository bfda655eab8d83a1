// SPDX-License-Identifier: Apache-2.0

// Package signature is a table of log lines that identify failures of jobs: of NCCL 2.18 to 2.30 and its network
// plugins, PyTorch, Gloo and the kernel. Each row says what such a line means. Where it can have several reasons, the
// row has them in order, each with the facts that make it likely or certain, and with what tells it from the others.
//
// The rows are data; docs/SIGNATURES.md is generated from them. Which releases of NCCL print a line is not
// written by hand: releases.tsv is generated from the tags of NCCL's repository (TestReleases). Functions are
// pure and may be called from any goroutine. A message is untrusted: Match keeps nothing of it, and has no
// errors.
package signature

import (
	"slices"
	"strings"
	"sync"
)

// Source is what prints a line.
type Source string

// Sources.
const (
	NCCL    Source = "NCCL"
	PyTorch Source = "PyTorch"
	Program Source = "program" // any that calls NCCL
	Plugin  Source = "plugin"  // of NCCL, for a network: it logs as NCCL does
	Gloo    Source = "Gloo"
	Kernel  Source = "kernel"
)

// Kind is what a line means for the job.
type Kind string

// Kinds.
const (
	Cause       Kind = "cause"       // something failed
	Consequence Kind = "consequence" // something failed before, often on another rank or host
	Note        Kind = "note"        // worth knowing; the job may go on
)

// Signature is a failure that a line of a log shows.
type Signature struct {
	ID     string // stable, for programs
	Source Source
	Kind   Kind
	Forms  []Form // a line that contains the text of one of them matches
	// Files are how the names of the source files begin, one of which NCCL must name with the warning. None: any.
	// Without forms, all warnings of these files match that no other row has.
	Files []string
	// Codes are those of which a line must have one: the completion status (ibv_wc_status), the number of the Xid,
	// or that of CUDA's error. None: any.
	Codes []int
	// Generic: it says that something failed, not what. Any other cause in the log comes first.
	Generic bool
	// Remote: the network or the other side may have failed. What a host says of itself comes first.
	Remote bool
	// Leads: though a job may survive it, requests that fail later failed because of it.
	Leads bool
	// Info: NCCL writes it at the level INFO, too.
	Info bool
	// Harmless: the job goes on as if it had not happened.
	Harmless bool
	// Quiet: a log that shows nothing else shows no failure.
	Quiet bool
	// Unwound is what it is where its thread returns from failed calls right after it; nil: the same.
	Unwound *Signature

	Cause, Remedy string
	Sure          bool     // nothing else prints such a line
	Reasons       []Reason // what may be behind it, the usual first; none: what Cause says
	Runbook       string   // file in alerts/runbooks; empty: none
}

// Reason is one of the reasons that a failure may have. It is considered if all facts of If hold, likely if it has
// facts in Likely that all hold, and certain if it has facts in Certain that all hold.
type Reason struct {
	Cause, Remedy       string
	Test                string // the command or setting that tells it from the others
	If, Likely, Certain []Fact
}

// Fact is what a log or a line of it shows; a "!" before it negates it. All but those that need an argument are
// constants. With an argument:
//
//	errno:110,113   the line names one of these errors of the system
//	bind:98         the line, or one of a port that a process cannot have, names one of these errors
//	provider:efa    the provider of libfabric that the plugin says to have selected; none said: none
//	code:801        the line has this code
//	text:T          the line contains T, in any case; "$" is its end
//	stack:T         a stack of a program that the log shows contains the text T, in any case
//	through:FILE    NCCL unwound through this source file after the line
//	seen:ID         the log has a line of this signature; xid: of any Xid, xid_hardware: but those of programs
//	set:NCCL_X=0    the log shows this setting; without a value, any
//	crash:T         a process crashed in a library or function whose name contains the text T, in any case
//	release<2.28    the log shows a release of NCCL before this one
//	driver<12.3     the log shows a driver of CUDA before this version
//	built<11.3      NCCL was built with a CUDA before this version; >=: with it or a later one
type Fact string

// Facts about the line.
const (
	PeerLinkLocal  Fact = "peer link-local" // the address that the line names
	PeerLoopback   Fact = "peer loopback"
	ChoseLoopback  Fact = "loopback chosen"     // as the first interface
	PeerBridge     Fact = "peer of a bridge"    // docker0
	PeerTunnel     Fact = "peer of a tunnel"    // 100.64.0.0/10, such as Tailscale
	SubnetsDiffer  Fact = "subnets differ"      // of the two GIDs
	GIDLinkLocal   Fact = "GID link-local"      // of this side
	SegmentUnnamed Fact = "segment has no name" // of shared memory, size 0
	SegmentAbsurd  Fact = "segment of terabytes"
	InSetup        Fact = "in set-up" // its process had begun a set-up, and not ended it
)

// Facts about the log.
const (
	OneHost          Fact = "one host" // NCCL says so, or all ranks are there
	SeveralHosts     Fact = "several hosts"
	Containers       Fact = "containers" // several names, and NCCL takes them for one host
	UsesGPUDirect    Fact = "GPUDirect RDMA"
	UsesP2P          Fact = "P2P"           // connections without NVLink between hosts
	OnlyFlushed      Fact = "only flushes"  // no completion has another status
	Clique           Fact = "NVLink domain" // GPUs are registered in a fabric with a clique
	OneGPU           Fact = "one GPU a host"
	FirstCollective  Fact = "first collective" // is the one that ranks wait in
	WaitBehind       Fact = "ranks wait in earlier collectives than others"
	WaitApart        Fact = "ranks wait in different collectives"
	HostsDisagree    Fact = "hosts disagree"   // on the network
	RailsCrossed     Fact = "rails crossed"    // connections lead from one device to another of the peer
	PeerFailed       Fact = "a process failed" // crashed, or was killed
	NoPlugin         Fact = "no network plugin"
	PluginUnloadable Fact = "plugin without its libraries"
	NoDevice         Fact = "no RDMA device" // NCCL found none
	OnlyInfiniBand   Fact = "InfiniBand"     // all devices are of it
	NetworksDiffer   Fact = "networks of hosts differ"
	VersionsDiffer   Fact = "releases differ"     // of NCCL
	LibraryTooOld    Fact = "library too old"     // that a plugin needs: it is there, without the version
	RanksNotBegun    Fact = "ranks did not begin" // the set-up that did not end
	DevicesDiffer    Fact = "devices differ"      // hosts have different numbers of RDMA devices
	IOMMUWarned      Fact = "iommu=pt is missing" // as RCCL says
	Connecting       Fact = "ranks connect"       // connections are in the log
	RanksMissing     Fact = "ranks are missing"   // of those that wait in a collective
	AllRanksWait     Fact = "all ranks wait"      // in one collective
	SizeSaid         Fact = "number of ranks"     // of the job
	RankAlone        Fact = "one rank waits"
	AgentListens     Fact = "the agent has the port" // of the launcher: the program opens what it has
	PortLow          Fact = "a port below 1024"
	SameName         Fact = "one name, several hosts"    // a host name has several addresses on one interface
	ForOtherArch     Fact = "library of another machine" // that a plugin needs or is
	Warned           Fact = "NCCL warned"
	BetweenHosts     Fact = "test between hosts" // with one GPU of each, as nccl-tests lists its ranks
	LargeTest        Fact = "test of 4 GiB or more"
	SettingForced    Fact = "protocol or algorithm forced"
	WithinHost       Fact = "test within a host" // of several GPUs
	NameUnresolved   Fact = "a name is not resolved"
	NameUnknown      Fact = "name is unknown"          // neither an address of IPv4 nor of IPv6
	Busy             Fact = "a loop goes on"           // the log ends in a progress bar
	Starting         Fact = "no set-up began"          // the log ends before
	GDRApart         Fact = "GPUDirect RDMA by host"   // some hosts use it for all connections, others for none
	XidsRepeat       Fact = "Xids repeat on a GPU"     // of several processes
	Crashed          Fact = "place of a crash"         // the log shows in which library or function
	ByLauncher       Fact = "a launcher reports it"    // the line or a stack names one
	MemlockSmall     Fact = "locked memory is limited" // as a file says that is given with the log
	MemlockFree      Fact = "locked memory is unlimited"
	GPUsFewer        Fact = "fewer GPUs than local ranks"
	TwoPackages      Fact = "two packages of NCCL"
	OfOneHost        Fact = "both devices are of one host"
	NoVerbsGiven     Fact = "container without devices of RDMA" // as the command shows that starts it
	NoSharedGiven    Fact = "container with the usual shared memory"
	Placed           Fact = "a stack shows where" // an exception was raised
	HostsReport      Fact = "several hosts report it"
	WithoutGDR       Fact = "GPU without GPUDirect RDMA" // by its name: GeForce, GB10
)

// Form is one wording.
type Form struct {
	Text string // what the line contains
	// In is the text in the source, if a macro composes the line from parts. Empty: Text.
	In string
	// File is where the source has it, for sources other than NCCL, and for wordings of NCCL that no release of
	// releases.tsv has, or only with others.
	File string
}

// NoCode is the code of a line without one.
const NoCode = -1

// Match returns the first signature that fits a message of this source, and its code; nil if there is none.
// For PyTorch, Gloo and Kernel the message is a whole line.
func Match(source Source, message string) (*Signature, int) {
	return matchers()[source].match("", message)
}

// MatchWarning is Match for a warning of NCCL or of one of its plugins, which names the file of the source that
// it is in. Without one, only rows match that need none.
func MatchWarning(file, message string) (*Signature, int) {
	return matchers()[NCCL].match(file, message)
}

// in reports whether the row is of a file.
func (s *Signature) in(file string) bool {
	return file != "" && slices.ContainsFunc(s.Files, func(f string) bool { return strings.HasPrefix(file, f) })
}

// MatchInfo is Match for a line of NCCL at the level INFO: there, a failure is one that NCCL retries or can
// go on without, so that only notes match, and rows that say so.
func MatchInfo(message string) *Signature {
	s, _ := notes().match("", message)
	return s
}

// MatchLine is Match for a line that NCCL did not write.
func MatchLine(line string) (*Signature, int) { return others().match("", line) }

var (
	warnings = sync.OnceValue(func() []Signature { return slices.Concat(plugins, nccl()) })
	matchers = sync.OnceValue(func() map[Source]*matcher {
		return map[Source]*matcher{
			NCCL: newMatcher(warnings()), PyTorch: newMatcher(pytorch),
			Program: newMatcher(slices.Concat(frameworks, surroundings, gpuErrors, program, launchers)),
			Gloo:    newMatcher(gloo), Kernel: newMatcher(kernel),
		}
	})
	notes = sync.OnceValue(func() *matcher {
		silent := func(s Signature) bool { return s.Kind != Note && !s.Info }
		return newMatcher(slices.DeleteFunc(slices.Clone(warnings()), silent))
	})
	others = sync.OnceValue(func() *matcher {
		return newMatcher(slices.Concat(frameworks, surroundings, gpuErrors, pytorch, program, launchers, gloo, kernel,
			[]Signature{Exception}))
	})
)

// matcher looks for the texts of all rows in one pass over a message. The first row that matches counts, so
// those with codes come before those without.
type matcher struct {
	rows  []Signature
	begin [1 << 10]uint64     // a bit for each hash of the first bytes of a text
	texts map[uint32][]anchor // by the first bytes
}

type anchor struct {
	text string
	row  int
}

// keyBytes is how many bytes of a text are looked up.
const keyBytes = 4

func newMatcher(rows []Signature) *matcher {
	m := &matcher{rows: rows, texts: map[uint32][]anchor{}}
	for i := range rows {
		for _, f := range rows[i].Forms {
			key := keyAt(f.Text, 0)
			m.texts[key] = append(m.texts[key], anchor{f.Text, i})
			h := hash(key)
			m.begin[h>>6] |= 1 << (h & 63)
		}
	}
	return m
}

func keyAt(s string, i int) uint32 {
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
}

// hash has as many bits as there are in matcher.begin.
func hash(key uint32) uint32 { return key * 2654435761 >> 16 }

func (m *matcher) match(file, message string) (*Signature, int) {
	best, code, coded := len(m.rows), NoCode, false
	for i := 0; i+keyBytes <= len(message); i++ {
		key := keyAt(message, i)
		if h := hash(key); m.begin[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, a := range m.texts[key] {
			if a.row >= best || !strings.HasPrefix(message[i:], a.text) {
				continue
			}
			if !coded {
				code, coded = codeOf(message), true
			}
			row := &m.rows[a.row]
			if (len(row.Codes) == 0 || slices.Contains(row.Codes, code)) && (len(row.Files) == 0 || row.in(file)) {
				best = a.row
			}
		}
	}
	if best == len(m.rows) {
		return nil, NoCode
	}
	return &m.rows[best], code
}

// Peer is the address of the other side that a message names; empty if it names none.
func Peer(message string) string {
	for _, before := range []string{
		"from peer ", "remote peer ", "connect to ", "Connect to ", "PollConnect to ", "recv from ", "send to ",
	} {
		if _, rest, found := strings.Cut(message, before); found {
			peer, _, _ := strings.Cut(strings.TrimPrefix(rest, "any network address of "), " ")
			if !strings.ContainsAny(peer, "0123456789") { // "connect to all addresses"
				continue
			}
			return strings.Trim(peer, "(,:.")
		}
	}
	return ""
}

// In is where a text has one of the wordings; 0: nowhere else than at its begin.
func (s *Signature) In(text string) int {
	if s == nil {
		return 0
	}
	for _, f := range s.Forms {
		if at := strings.Index(text, f.Text); at > 0 {
			return at
		}
	}
	return 0
}

// All returns all signatures, in the order of the document.
func All() []Signature {
	return slices.Concat(nccl(), areas, plugins, gpuErrors, pytorch, program, frameworks, surroundings, launchers,
		[]Signature{
			Exception, ProgramError, ProgramWarned, Passed, NVMLRefused, DriverLibraryMissing, NVMLIgnored, PortFailed,
		},
		gloo, kernel)
}
