// SPDX-License-Identifier: Apache-2.0

// Package rank finds the processes of a node that hold a GPU, and reads what shows whether they are NCCL ranks and how
// their data travels: /proc/PID, the sockets and the RDMA objects that are theirs, and the devices that their
// mount namespace offers. It never attaches to a process, sends it no signal, and reads no memory of it but
// the strings of its environment.
//
// Cost: a look lists /proc once; only new processes are examined, and others again when their age has
// doubled. Descriptors of candidates are counted at each look, those that are new are read, and all of them
// again at every fourth look; everything else about a candidate is read once. Processes that were forked from
// a candidate and still run its program, such as data loaders, are counted and not read.
//
// Users control everything that is read: lists, texts and sizes are bounded, and text leaves the package only
// where it is of an enumerated kind or of the characters that the scheduler itself accepts. No value of an
// environment does, unless its name is on the list of names and it is a number or a word of NCCL's. Whose a
// process is, its control group shows (fabric.Owner); what one owner has beyond a bound is missing, what
// others have is not, and the reading names him.
//
// Privileges, as TestPrivileges shows on a kernel. "files" is CAP_SYS_PTRACE with CAP_DAC_READ_SEARCH, both
// of which need the PID namespace of the node; all other facts are unknown(privilege):
//
//	root, or files and CAP_SYS_ADMIN   everything, also of pods with a network namespace of their own
//	files                              everything but the sockets of such pods
//	CAP_SYS_PTRACE alone               memory map, devices, limits, interfaces, control groups
//	none                               limits, interfaces, control groups, of processes that NVML lists
//	none, PID namespace of its own     nothing, and the reading says so
//
// Concurrency: a Reader serves one goroutine at a time. What may hang (the memory map of a process whose lock
// is held, a path through its root) runs in a goroutine that is left behind; one of each owner.
//
// Errors: what cannot be read of a process is an unknown fact with the reason; a process that ends meanwhile
// is left out.
package rank

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

// Bounds of a look.
const (
	maxProcesses  = 1 << 18
	maxCandidates = 256     // 16 GPUs with 16 processes each
	maxLeft       = 1 << 10 // more, which are named and not read
	maxFiles      = 1 << 12 // of a process
	maxAllFiles   = 1 << 15 // of all candidates, those that NVML lists first
	maxRead       = 16      // candidates about which everything is read: the others wait for the next look
	maxNamespaces = 32      // other network namespaces whose sockets are listed
)

// Sockets lists TCP sockets of one network namespace, by inode and by control group, as sockdiag.Client does.
type Sockets interface {
	Sockets(wanted func(inode uint64) bool, groups map[uint64]bool) ([]fabric.Socket, error)
	// InGroup lists those of one control group, also where Sockets takes too long.
	InGroup(group uint64, wanted func(inode uint64) bool) ([]fabric.Socket, error)
	io.Closer
}

// Sources are what a Reader asks beside procfs. Each may be nil: its facts are then unknown (not read).
type Sources struct {
	// Sockets opens the list of sockets of a network namespace; nil is that of this process.
	Sockets func(namespace *os.File) (Sockets, error)
	// Cgroup returns the ID of a control group of version 2, by its path from the root.
	Cgroup func(path string) (uint64, error)
	// Verbs returns what processes have of verbs, by their PIDs, as rdmanl.Client.Use does. process returns that
	// of a thread, or 0.
	Verbs func(process func(task int) int) (map[int]*fabric.VerbsUse, error)
	// Variable returns what may leave the package of a variable of the environment: nothing, or the value if it
	// is one that words or a number of this variable can be.
	Variable func(name, value string) (v fabric.NCCLVariable, ok bool)
	// Distances returns how far NUMA nodes are from CPUs, as fabric.ProcessLimits has it.
	Distances func(cpus string) []int
	// Conf returns the variables that an nccl.conf sets.
	Conf func(text []byte) []fabric.NCCLVariable
	// Users tells who answers for numbers of users.
	Users *owned.Users
	// Log returns what a log of NCCL says, of its beginning and its end, between which some bytes were dropped.
	Log func(head, tail []byte, dropped int64) fabric.NCCLLog
}

// Reader looks at the processes of one procfs.
type Reader struct {
	dir     *os.File
	sources Sources
	known   map[int]*process
	look    int // number of this look
	buffer  []byte
	links   []byte
	calls   int // system calls of this look
	left    int // descriptors of candidates that this look may still read
	reads   int // candidates about which this look has read everything
	stuck   *gate
	turns   int // candidates that have got a turn

	shares    map[fabric.Owner]*share
	filesEach int             // descriptors that one owner may have in this look
	spent     time.Duration   // in which this look has read files that may hang
	exceeded  []fabric.Excess // in this look
	crowded   int             // the look up to which the sockets of all are not listed: there were too many
	pause     int             // how many looks that is

	counts   bool          // procfs reports how many descriptors a process has
	samePIDs bool          // PIDs of procfs are those of this process and its kernel interfaces
	hidden   fabric.Reason // why procfs does not show all processes
}

// Open returns a Reader of the procfs mounted at path.
func Open(path string, sources Sources) (*Reader, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("procfs: %w", err)
	}
	r := &Reader{
		dir: dir, sources: sources, known: map[int]*process{}, buffer: make([]byte, 64<<10), links: make([]byte, 256),
		shares: map[fabric.Owner]*share{}, stuck: &gate{},
	}
	r.namespaces()
	n, err := r.count("self")
	r.counts = err == nil && n > 0
	return r, nil
}

// namespaces looks which PID namespace procfs shows.
func (r *Reader) namespaces() {
	const initial = "pid:[4026531836]" // PROC_PID_INIT_INO of linux/proc_ns.h
	self, err := r.readlink("self")
	r.samePIDs = err == nil && self == strconv.Itoa(os.Getpid())
	if !r.samePIDs {
		return // mounted from a namespace above this one: it shows more than this process's own
	}
	if ns, err := r.readlink("self/ns/pid"); err != nil || ns != initial {
		r.hidden = fabric.ReasonPrivilege
	}
	var st unix.Stat_t
	if err := unix.Fstatat(r.at(), "1", &st, 0); err != nil { // hidepid
		r.hidden = fabric.ReasonPrivilege
	}
}

// Close closes what the Reader keeps open. Nothing can be read after it.
func (r *Reader) Close() error {
	return r.stuck.close(r.dir)
}

func (r *Reader) at() int { return int(r.dir.Fd()) }

// Look looks at the processes. gpus are the UUIDs of the GPUs that NVML lists a PID for; unknown where it was
// not asked.
func (r *Reader) Look(ctx context.Context, gpus fabric.Fact[map[int][]string], now time.Time) (fabric.RankReading,
	error,
) {
	r.look++
	r.calls, r.left, r.reads, r.spent, r.exceeded = 0, maxAllFiles, 0, 0, nil
	r.sources.Users.Look()
	processes, err := r.list(gpus.Value, now)
	if err != nil {
		return fabric.RankReading{}, fmt.Errorf("procfs: %w", err)
	}
	reading := fabric.RankReading{Processes: processes, Hidden: r.hidden}
	if !r.examine(ctx, gpus, now) && gpus.State != fabric.OK { // for now: what else is hidden, the next look says
		reading.Hidden = fabric.ReasonNotRead
	}
	if ctx.Err() != nil {
		return fabric.RankReading{}, ctx.Err()
	}
	ranks, children, closed := r.candidates()
	if closed && gpus.State != fabric.OK && reading.Hidden != fabric.ReasonNotRead {
		reading.Hidden = fabric.ReasonPrivilege
	}
	ranks, beyond := r.bounded(ranks, gpus.Value)
	var left []int
	for _, pid := range ranks {
		p := r.known[pid]
		c, err := r.candidate(ctx, pid, p, gpus, now)
		switch {
		case err == nil:
		// or another process by now: the next look finds what it is
		case errors.Is(err, errGone) || reasonOf(err) == fabric.ReasonGone:
			delete(r.known, pid)
			continue
		default:
			r.exceeds(p.share, pid, "processes that cannot be read", reasonOf(err))
			left = append(left, pid)
			continue
		}
		c.Children = children[p]
		reading.Candidates = append(reading.Candidates, c)
	}
	r.addPorts(reading.Candidates)
	r.addInterfaces(reading.Candidates, now)
	r.addSockets(reading.Candidates, now)
	r.addSocketsByCgroup(reading.Candidates, now)
	r.addVerbs(reading.Candidates, now)
	reading.Candidates = append(reading.Candidates, r.leave(append(left, beyond...), now)...)
	r.forget(now)
	reading.Exceeded = r.exceeded
	return reading, nil
}

// candidates returns those that are known, how many children each has, and whether descriptors of some
// process may not be read.
func (r *Reader) candidates() (ranks []int, children map[*process]int, closed bool) {
	children = map[*process]int{}
	for pid, p := range r.known {
		switch p.kind {
		case candidate:
			ranks = append(ranks, pid)
		case child:
			children[p.rank]++
		case denied:
			closed = true
		}
	}
	return ranks, children, closed
}

// bounded returns those that are read, in their order, and those beyond the bound, and divides among their
// owners what may be read of all.
func (r *Reader) bounded(ranks []int, listed map[int][]string) (within, beyond []int) {
	r.order(ranks, listed)
	within, beyond = ranks[:min(len(ranks), maxCandidates)], ranks[min(len(ranks), maxCandidates):]
	for _, pid := range beyond {
		r.exceeds(r.refreshed(r.known[pid].share), pid, "processes with GPUs", fabric.ReasonMalformed)
	}
	owners := map[*share]bool{}
	for _, pid := range within {
		owners[r.refreshed(r.known[pid].share)] = true
	}
	r.filesEach = max(filesEach, maxAllFiles/max(1, len(owners)))
	return within, beyond
}

// leave returns candidates of which this look has no more than that they live: what it does not name has
// ended. Those come after them that wait to be examined again, because procfs has given them another inode.
func (r *Reader) leave(pids []int, now time.Time) (left []fabric.RankCandidate) {
	for pid, p := range r.known {
		if p.kind != fresh || p.start == 0 {
			continue
		}
		if st, err := r.stat(strconv.Itoa(pid)); err == nil && st.start == p.start {
			pids = append(pids, pid)
			r.exceeds(r.refreshed(p.share), pid, "processes", fabric.ReasonNotRead)
		}
	}
	for _, pid := range pids[:min(len(pids), maxLeft)] {
		p := r.known[pid]
		left = append(left, fabric.RankCandidate{
			PID: pid, Start: p.start, User: p.whose.user, UserKnown: p.whose.known, Answers: p.whose.answers,
			Owner: p.share.owner, NetNS: p.whose.netNS,
			At: now, Left: true,
		})
	}
	return left
}

// candidate reads a process that holds a GPU.
func (r *Reader) candidate(ctx context.Context, pid int, p *process, gpus fabric.Fact[map[int][]string],
	now time.Time,
) (fabric.RankCandidate, error) {
	dir := strconv.Itoa(pid)
	st, err := r.stat(dir)
	if err != nil {
		return fabric.RankCandidate{}, err
	}
	if st.start != p.start {
		return fabric.RankCandidate{}, errGone
	}
	if st.image != p.image { // it runs another program
		p.image, p.details, p.targets, p.next = st.image, nil, nil, time.Time{}
		p.share, p.whose = r.shareOf(r.ownerOf(dir, true)), r.whoseIs(dir, now)
	}
	files := r.files(dir, p, now)
	if f, ok := files.Get(); ok && f.Complete && len(f.GPUs) == 0 && len(gpus.Value[pid]) == 0 {
		return fabric.RankCandidate{}, errGone // it has closed its GPUs
	}
	if p.details == nil || files.State == fabric.OK && !now.Before(p.next) && p.details.early() {
		r.readOnce(ctx, pid, p, st.command, now, len(gpus.Value[pid]) > 0)
	}
	c := fabric.RankCandidate{
		PID: pid, Start: st.start, Parent: st.parent, User: p.whose.user, UserKnown: p.whose.known,
		Answers: p.whose.answers, Owner: p.share.owner,
		Command: st.command, At: now, Files: files, NetNS: p.whose.netNS,
		GPUs: fabric.UnknownFact[[]string](gpus.Reason, gpus.Source, now),
	}
	if list, ok := gpus.Get(); ok {
		c.GPUs = fabric.AbsentFact[[]string](gpus.Source, now)
		if uuids := list[pid]; len(uuids) > 0 {
			c.GPUs = fabric.Known(uuids, gpus.Source, now)
		}
	}
	if p.details != nil { // else its facts are what they are before they are read
		p.details.fill(&c)
	} else if now.Sub(p.born) > late {
		r.exceeds(p.share, pid, "time", fabric.ReasonNotRead)
	}
	return c, nil
}

var errGone = errors.New("another process has this PID")
