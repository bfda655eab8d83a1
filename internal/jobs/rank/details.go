// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

// details is what is read of a candidate once.
type details struct {
	command  string                       // the first that was seen: a process can change it with each scrape
	workload fabric.Fact[fabric.Workload] // as its control groups say
	maps     fabric.Fact[fabric.MappedFiles]
	environ  fabric.Fact[environment]
	conf     fabric.Fact[[]fabric.NCCLVariable]
	log      fabric.Fact[fabric.NCCLLog]
	limits   fabric.Fact[fabric.ProcessLimits]
	devices  fabric.Fact[fabric.ProcessDevices]
	netNS    fabric.Fact[uint64]
	cgroup   uint64 // ID of the control group of version 2 if a scheduler made it for the job, 0: not known
}

// early reports whether the process may not have loaded all of its libraries or made its connections yet, or
// that something took too long to be read.
func (d *details) early() bool {
	m, ok := d.maps.Get()
	silent := d.log.Reason == fabric.ReasonMissing || d.log.State == fabric.OK && d.log.Value == (fabric.NCCLLog{})
	return !ok || m.NCCL == "" && !m.Torch && m.Segments == 0 || silent ||
		slow(d.environ) || slow(d.conf) || slow(d.log) || slow(d.devices)
}

// slow reports whether a fact took too long to be read: a machine that is busy may be why.
func slow[T any](f fabric.Fact[T]) bool {
	return f.Reason == fabric.ReasonStuck || f.Reason == fabric.ReasonTimeout
}

func (d *details) fill(c *fabric.RankCandidate) {
	e := d.environ
	c.Workload, c.Maps, c.Conf, c.Log = d.workload, d.maps, d.conf, d.log
	c.Limits, c.Devices, c.NetNS = d.limits, d.devices, d.netNS
	c.Settings = fabric.Fact[[]fabric.NCCLVariable]{
		Value: e.Value.settings, State: e.State, Reason: e.Reason, Source: e.Source, At: e.At,
	}
	if w, ok := d.workload.Get(); ok {
		w = e.Value.complete(w)
		w.Job = cmp.Or(w.Job, d.command)
		c.Workload.Value = w
	}
}

// What is waited for, and how many reads may be left behind. A user who is alone has one owner, or as many
// jobs, pods and containers as he has GPUs; half of the places are for processes that NVML lists.
const (
	patience     = time.Second     // for all files of an owner in one look
	lookPatience = 2 * time.Second // for all owners: after it, none is begun
	maxStuck     = 64
)

// gate bounds the reads that were left behind: one of an owner.
type gate struct {
	mu   sync.Mutex
	of   map[fabric.Owner]bool
	left io.Closer // what the last of them closes
}

func (g *gate) enter(owner fabric.Owner, listed bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.of); g.of[owner] || n >= maxStuck || n >= maxStuck/2 && !listed {
		return false
	}
	if g.of == nil {
		g.of = map[fabric.Owner]bool{}
	}
	g.of[owner] = true
	return true
}

func (g *gate) leave(owner fabric.Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.of, owner); len(g.of) == 0 && g.left != nil {
		g.left.Close()
	}
}

// close closes what reads need, or has the last of those do so that were left behind.
func (g *gate) close(c io.Closer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.of) > 0 {
		g.left = c
		return nil
	}
	return c.Close()
}

func (g *gate) holds(owner fabric.Owner) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[owner]
}

// visit is one read of the details of a process.
type visit struct {
	r      *Reader
	ctx    context.Context // ends with the patience of its owner and of the look
	owner  fabric.Owner
	listed bool
	closed bool // the files of the owner are not asked for now
	dir    string
	now    time.Time
}

// attempt reads what may hang: memory of a process needs a lock that a process in uninterruptible sleep may
// hold, and its file system may be that of a server that is gone.
func attempt[T any](v *visit, name string, read func() (T, error)) fabric.Fact[T] {
	source := v.dir + name
	if v.closed || !v.r.stuck.enter(v.owner, v.listed) {
		return fabric.UnknownFact[T](fabric.ReasonStuck, source, v.now)
	}
	value, err := new(errand.Errand[T]).Run(v.ctx, patience, func() (T, error) {
		defer v.r.stuck.leave(v.owner)
		return read()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fabric.UnknownFact[T](fabric.ReasonStuck, source, v.now)
	case errors.Is(err, context.Canceled):
		return fabric.UnknownFact[T](fabric.ReasonTimeout, source, v.now)
	case err != nil:
		return fabric.UnknownFact[T](reasonOf(err), source, v.now)
	}
	return fabric.Known(value, source, v.now)
}

// readOnce reads the details of a process, unless this look, or its owner, has used up what it has. What an
// earlier read brought is kept where this one hangs.
func (r *Reader) readOnce(ctx context.Context, pid int, p *process, command string, now time.Time, listed bool) {
	s := p.share
	closed := now.Before(s.until) || r.stuck.holds(s.owner)
	switch {
	case closed:
		r.exceeds(s, pid, "files that hang", fabric.ReasonStuck)
		if p.details != nil {
			return
		}
	case r.reads >= maxRead || s.spent >= timeEach || r.spent >= lookPatience:
		return
	}
	r.reads++
	if p.details == nil { // it is read again as often as if it had begun now
		p.born = now
	}
	p.again(now)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	d := (&visit{r, within, s.owner, listed, closed, strconv.Itoa(pid), now}).read()
	spent := time.Since(began)
	s.spent, r.spent = s.spent+spent, r.spent+spent
	if within.Err() != nil && ctx.Err() == nil {
		s.strike(now)
		r.exceeds(s, pid, "files that hang", fabric.ReasonStuck)
	} else if !closed {
		s.strikes = 0
	}
	d.command, p.whose = command, r.whoseIs(strconv.Itoa(pid), now)
	if p.details != nil {
		d.keep(p.details)
	}
	p.details = d
}

// keep takes from an earlier read what this one waited for in vain.
func (d *details) keep(last *details) {
	d.command = last.command
	d.maps, d.environ, d.conf = kept(d.maps, last.maps), kept(d.environ, last.environ), kept(d.conf, last.conf)
	d.log, d.devices = kept(d.log, last.log), kept(d.devices, last.devices)
}

func kept[T any](f, last fabric.Fact[T]) fabric.Fact[T] {
	if slow(f) && last.State != fabric.Unknown {
		return last
	}
	return f
}

// read reads the details of a process.
func (v *visit) read() *details {
	r, dir, now := v.r, v.dir, v.now
	d := &details{netNS: r.netNS(dir, now)}
	v.limits(d)
	var w fabric.Workload
	b, err := r.file(dir+"/cgroup", maxCgroup)
	if err == nil {
		w, _ = parseCgroup(b)
		if path := unifiedCgroup(b); path != "" && w.Scheduler != "none" && r.sources.Cgroup != nil {
			d.cgroup, _ = r.sources.Cgroup(path) // not known where this process cannot see it
		}
	}
	d.maps = attempt(v, "/maps", func() (fabric.MappedFiles, error) { return parsed(r, dir+"/maps", parseMaps) })
	d.environ = attempt(v, "/environ", func() (environment, error) {
		return parsed(r, dir+"/environ", func(f io.Reader) (environment, error) { return scan(f, r.sources.Variable) })
	})
	if err != nil {
		d.workload = fabric.UnknownFact[fabric.Workload](reasonOf(err), dir+"/cgroup", now)
	} else {
		d.workload = fabric.Known(w, dir+"/cgroup", now)
	}
	switch e := d.environ; {
	case e.State != fabric.OK:
		d.log = fabric.UnknownFact[fabric.NCCLLog](e.Reason, e.Source, now)
	case e.Value.log == "":
		d.log = fabric.AbsentFact[fabric.NCCLLog](e.Source, now)
	default:
		d.log = v.log(e.Value.log)
	}
	d.devices = attempt(v, "/root/dev", func() (fabric.ProcessDevices, error) { return r.devices(dir) })
	d.conf = attempt(v, "/root"+confFile, func() ([]fabric.NCCLVariable, error) { return r.conf(dir) })
	return d
}

// limits reads the limits and the user of a process.
func (v *visit) limits(d *details) {
	r, dir, now := v.r, v.dir, v.now
	d.limits = fabric.UnknownFact[fabric.ProcessLimits](fabric.ReasonMalformed, dir+"/limits", now)
	b, err := r.file(dir+"/limits", 4<<10)
	if err != nil {
		d.limits.Reason = reasonOf(err)
		return
	}
	memlock, ok := parseMemlock(b)
	if !ok {
		return
	}
	if b, err = r.file(dir+"/status", maxStatus); err != nil {
		d.limits.Reason = reasonOf(err)
	} else if _, cpus, ok := parseStatus(b); ok {
		limits := fabric.ProcessLimits{Memlock: memlock, CPUs: cpus}
		if r.sources.Distances != nil {
			limits.Distances = r.sources.Distances(cpus)
		}
		d.limits = fabric.Known(limits, dir+"/limits", now)
	}
}

// fileTime is the processor time that one file of procfs may cost. The kernel writes them anew for each
// reader, and some are as long as a user wants: 65,000 mappings of a file with a long path took 0.7 seconds
// of each look.
const fileTime = 40 * time.Millisecond

// metered is a file that ends with an error when reading it has taken too much.
type metered struct {
	io.Reader
	name  string
	until time.Duration // of the processor time of this thread
}

func (m *metered) Read(b []byte) (int, error) {
	if owned.Spent() > m.until {
		return 0, fabric.Because(fabric.ReasonTimeout, m.name+" takes more processor time than one file may")
	}
	return m.Reader.Read(b)
}

// parsed reads a file of procfs with a parser that reads it by parts.
func parsed[T any](r *Reader, name string, parse func(io.Reader) (T, error)) (T, error) {
	fd, err := r.open(name, asFile)
	if err != nil {
		return *new(T), err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	runtime.LockOSThread() // whose processor time counts
	defer runtime.UnlockOSThread()
	return parse(&metered{f, name, owned.Spent() + fileTime})
}
