// SPDX-License-Identifier: Apache-2.0

// Package explain says what logs of a job show: how NCCL was set up, which transport its connections use, what
// failed first, why, and how sure that is.
//
// Lines become events (package failure). A cause comes before what follows from it, what a host says of itself before
// what it says of others, and a reason counts as certain only on facts that separate it from the other reasons of its
// row (package signature).
//
// A log is not trusted, and may have no end. Read takes it line by line, up to a number of bytes; what it
// keeps is bounded, and can be printed. A Result is for one goroutine until it is read, and does not change
// then. The errors of Read are those of reading, and ErrNotText for input
// that is not text.
package explain

import (
	"errors"
	"time"

	"gpufabric_exporter/internal/nccl/failure"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// Limits of what is kept of a log.
const (
	maxHosts         = 4096
	maxProcesses     = 1 << 16
	maxThreads       = 4096 // whose warnings are kept until it is known whether they matter
	maxCommunicators = 256
	maxRanks         = 1 << 20 // of all communicators together
	maxVersions      = 8
	maxFindings      = 64
	maxFindingHosts  = 64
	maxWarnings      = 16
	maxWaiters       = 4096
	maxChannels      = 4096
	maxBytes         = 4 << 30 // that are read: a pipe may have no end
)

// Unknown is a number that the log does not have.
const Unknown = log.Unknown

// ErrNotText is wrapped by the errors of input that is not text.
var ErrNotText = errors.New("it is not text")

// Result is what a log shows.
type Result struct {
	Files            []string // names of the logs, where there are several
	Lines, NCCLLines int64    // all, and those of NCCL
	Cut              bool     // the log is longer than maxBytes, and its end was not read
	Long             int64    // lines of more than log.MaxLine bytes, of which the rest was not read
	Unprintable      int64    // lines with control characters or bytes that are not UTF-8

	Log       log.Log
	Versions  []string // of NCCL, as they were found
	Hosts     []string // sorted
	Processes int
	Full      bool // a limit was reached: counts are at least these

	Communicators []Communicator

	Findings []Finding // failures and notes, in the order of their first lines
	Warnings []Warning // of NCCL without a signature
	Unknown  int64     // lines that are such warnings
	Waiting  Waiting   // ranks that PyTorch's watchdog says to wait in collectives

	unread    []unread
	hidden    *redactor         // nil: nothing is
	networks  map[string]string // of hosts
	loop      string            // the progress bar that the log ends in, up to its percentage
	looped    time.Duration     // how long it ran, as its bar says
	tests     benchmark         // of nccl-tests
	provider  string            // of libfabric, that a plugin selected
	sameName  bool              // a host name has several addresses on one interface
	loopback  bool              // is the first interface of NCCL
	said      said
	last      string            // the last line of NCCL
	nics      map[string]string // of hosts, as NCCL lists them
	addresses map[string]string // of hosts, behind the name of the first interface
	gdr       map[string]direct // of hosts
	crash     crash
	xids      xids
	gpus      string // names of GPUs, as nccl-tests lists them
	unnamed   bool   // a name has neither an address of IPv4 nor of IPv6
	stamp     string // the last time that a line of the log began with
	devices   int    // highest number of a GPU on its host; Unknown
	report    report
	near      map[int]struct{} // ranks at the ends of connections within a host
	processes map[process]member
	first     int  // finding; -1: none
	crossed   bool // a connection leads from one device to another
}

// Communicator is a group of ranks.
type Communicator struct {
	ID       string // empty before NCCL 2.16
	Ranks    int    // that it has
	Started  int    // ranks whose set-up the log shows the begin or the end of
	Complete int    // ranks whose set-up ended
	Missing  []int  // first ranks that began and did not end
	Spread   bool   // ranks of it are on more than one host

	host string // that logged first
	// How often each rank began and ended a set-up. Releases from 2.23 on log no ID of what is split from
	// another communicator, so that groups of one size count as one communicator.
	started, complete map[int]int32
}

// Finding is a signature that the log shows.
type Finding struct {
	Signature *signature.Signature `fixed:""`
	Count     int64
	Hosts     []string // that logged it; as far as is known
	// What follows is of the first line.
	File   string // name of the log, where there are several
	Line   int64
	Host   string   // empty if not known
	Rank   int      // Unknown if not known
	Code   int      // completion status, Xid or error of CUDA; signature.NoCode if it has none
	Peer   string   // address of the other side; empty if it names none
	Peers  []string // of all its lines
	Pairs  []string // addresses of the devices at both ends, of all its lines
	Place  string   // in the source of NCCL or its plugin; empty if not known
	Writer string   // the plugin that wrote it; empty: NCCL
	Text   string
	// Guessed: nothing shows that a call failed after this warning; but nothing else explains what failed later.
	Guessed bool
	// Open: it is none on some platforms or with one host, which the log does not tell.
	Open bool
	// Reasons are what may be behind it, the surest first; at least one.
	Reasons []Stated

	process process
	time    string
	raw     string // more of the text, for facts
	through string // source files of NCCL that unwound after it
	order   int64  // of the first line, in all logs
	last    int64  // of the last
	told    []told // of lines of the kernel
	own     bool   // a line is of the job itself
	untied  bool   // nothing ties it to the job
}

// Warning is a line of NCCL that has no signature.
type Warning struct {
	Line int64
	Text string

	finding Finding
}

// process is a process that logs.
type process struct {
	host string
	pid  int
}

// member is which rank a process is, of how many, and how many set-ups it began and ended.
type member struct{ rank, of, began, ended int }

// group is what distinguishes communicators.
type group struct {
	id    string
	ranks int
}

// reading is a Result in the making.
type reading struct {
	Result
	name     string // of the log that is read
	lines    *failure.Reader
	before   int64 // lines of the logs before
	hosts    map[string]struct{}
	groups   map[group]int // communicators by what distinguishes them
	tracked  int           // ranks
	span     span
	called   call // the last warning that names an error of the system
	warnings map[string]struct{}
	channels map[string]int    // devices by which connections leave
	sockets  map[process]int64 // lines in which processes chose TCP
	// failedCall is the first line of a call that returned an error; nil: none.
	failedCall *Finding
}

// benchmark is how far nccl-tests came.
type benchmark struct {
	worlds                 worlds
	began, measured, ended bool
	rows, averaged         bool   // rows since the last average, and whether there was one since the last head
	apart                  bool   // a test has two averages, so that its processes ran each on its own
	wrong                  string // the line that says that results are wrong; empty: none does
	first                  string // hosts of rank 0, each followed by a blank
}

func newReading() *reading {
	r := &reading{
		lines: failure.New(maxThreads, true), hosts: map[string]struct{}{}, groups: map[group]int{},
		warnings: map[string]struct{}{}, channels: map[string]int{},
		sockets: map[process]int64{},
	}
	r.addresses = map[string]string{}
	r.gdr = map[string]direct{}
	r.nics, r.near = map[string]string{}, map[int]struct{}{}
	r.processes, r.networks, r.devices = map[process]member{}, map[string]string{}, Unknown
	return r
}

// begin begins another log.
func (r *reading) begin(name string) {
	if name != "" {
		r.Files = append(r.Files, name)
	}
	r.name, r.before, r.stamp = name, r.Lines, ""
}
