// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// How many daemons are looked for, and when.
const (
	maxDaemons = 16
	// searchEvery is how often all processes are looked at: some 20 us for each of them. Those that were found
	// are looked at each time, and one that is gone has all of them looked at again.
	searchEvery = time.Hour
)

// startsJobs reports whether a daemon of that name starts jobs or containers.
func startsJobs(name string) bool {
	switch name {
	case "slurmd", "pbs_mom", "containerd", "crio", "dockerd":
		return true
	}
	return false
}

// Daemons finds the daemons that start jobs, and remembers where they were. It is used by one goroutine at a time.
type Daemons struct {
	fs       *FS
	pids     []int
	searched time.Time
}

// Daemons returns a finder that has found nothing yet.
func (f *FS) Daemons() *Daemons { return &Daemons{fs: f} }

// Read returns the daemons that are there, sorted by name and PID, with what they may lock. The processes are
// those of the PID namespace that procfs was mounted in: in a container that has its own there are none.
// Users may call their processes what they like, so that only those of root count, and root of a container
// its own, so that those in a PID namespace below do not.
func (d *Daemons) Read(now time.Time) fabric.Fact[[]fabric.Daemon] {
	const source, first = "<pid>/comm", "1/comm"
	if _, err := d.fs.readStart(first, maxComm); err != nil { // hidden from this user (hidepid), and all others with it
		why := fabric.ReasonOf(err)
		if d.fs.isKernel() { // hidepid=invisible denies that there is such a process
			why = fabric.ReasonPrivilege
		}
		return fabric.UnknownFact[[]fabric.Daemon](why, first, now)
	}
	list := d.at(d.pids, now)
	if len(list) < len(d.pids) || d.searched.IsZero() || now.Sub(d.searched) >= searchEvery {
		pids, err := d.fs.processes()
		if err != nil {
			return fabric.UnknownFact[[]fabric.Daemon](fabric.ReasonOf(err), source, now)
		}
		list, d.searched = d.at(pids, now), now
	}
	d.pids = d.pids[:0]
	for _, l := range list {
		d.pids = append(d.pids, l.PID)
	}
	slices.SortFunc(list, func(a, b fabric.Daemon) int { return cmp.Or(strings.Compare(a.Name, b.Name), a.PID-b.PID) })
	return fabric.Known(list, source, now)
}

// at returns those of the processes that are daemons which start jobs.
func (d *Daemons) at(pids []int, now time.Time) []fabric.Daemon {
	list := []fabric.Daemon{}
	for _, pid := range pids {
		dir := strconv.Itoa(pid)
		b, err := d.fs.readStart(dir+"/comm", maxComm)
		name := strings.TrimSuffix(string(b), "\n")
		if err != nil || !startsJobs(name) || len(list) == maxDaemons {
			continue
		}
		// The owner of the directory says nothing: it is root for each process that is not dumpable.
		if b, err = d.fs.read(dir + "/status"); err != nil || !ofRoot(b) || !ofNode(b) {
			continue
		}
		list = append(list, fabric.Daemon{Name: name, PID: pid, Memlock: readFact(d.fs, dir+"/limits", now, parseMemlock)})
	}
	return list
}

// maxComm is more than the name of any process takes: 16 bytes, and those of threads of the kernel a few more.
const maxComm = 128

// processes returns the PIDs of all processes, sorted.
func (f *FS) processes() ([]int, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(maxProcesses + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(names) > maxProcesses:
		return nil, fmt.Errorf("%w: more than %d entries", errMalformed, maxProcesses)
	}
	var pids []int
	for _, name := range names {
		if pid, ok := parsePID(name); ok {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 { // this process at least is there
		return nil, fmt.Errorf("%w: no process", errMalformed)
	}
	slices.Sort(pids)
	return pids, nil
}

// ofRoot reads the real user of a process in its status (proc_pid_status of fs/proc/array.c).
func ofRoot(b []byte) bool {
	for line := range bytes.Lines(b) {
		if ids, ok := bytes.CutPrefix(line, []byte("Uid:\t")); ok {
			return bytes.HasPrefix(ids, []byte("0\t"))
		}
	}
	return false
}

// ofNode reports whether a process is in the PID namespace of procfs: it has one PID (NSpid of its status).
// Linux before 4.1 does not say.
func ofNode(b []byte) bool {
	for line := range bytes.Lines(b) {
		if pids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			return len(bytes.Fields(pids)) == 1
		}
	}
	return true
}

// parseMemlock finds the row of RLIMIT_MEMLOCK in limits (proc_pid_limits of fs/proc/base.c).
func parseMemlock(b []byte) (fabric.Memlock, bool) {
	for line := range bytes.Lines(b) {
		row, ok := bytes.CutPrefix(line, []byte("Max locked memory "))
		if !ok {
			continue
		}
		f := strings.Fields(string(row))
		if len(f) != 3 || f[2] != "bytes" {
			return fabric.Memlock{}, false
		}
		soft, ok := parseLimit(f[0])
		hard, also := parseLimit(f[1])
		if !ok || !also || soft > hard {
			return fabric.Memlock{}, false
		}
		return fabric.Memlock{Soft: soft, Hard: hard}, true
	}
	return fabric.Memlock{}, false
}

func parseLimit(s string) (uint64, bool) {
	if s == "unlimited" {
		return fabric.NoLimit, true
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n < fabric.NoLimit
}
