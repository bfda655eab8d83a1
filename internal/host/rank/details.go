// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
)

// details is what is read of a candidate once.
type details struct {
	user     uint32
	command  string // the first that was seen: a process can change it with each scrape
	workload fabric.Fact[fabric.Workload]
	maps     fabric.Fact[fabric.MappedFiles]
	settings fabric.Fact[[]fabric.NCCLVariable]
	conf     fabric.Fact[[]fabric.NCCLVariable]
	log      fabric.Fact[fabric.NCCLLog]
	limits   fabric.Fact[fabric.ProcessLimits]
	devices  fabric.Fact[fabric.ProcessDevices]
	netNS    fabric.Fact[uint64]
	cgroup   uint64 // ID of the control group of version 2 if a scheduler made it for the job, 0: not known
}

// early reports whether the process may not have loaded all of its libraries or made its connections yet, or that not all could be read.
func (d *details) early() bool {
	m, ok := d.maps.Get()
	silent := d.log.Reason == fabric.ReasonMissing || d.log.State == fabric.OK && d.log.Value == (fabric.NCCLLog{})
	return !ok || m.NCCL == "" && !m.Torch && m.Segments == 0 || d.devices.Reason == fabric.ReasonStuck || silent
}

func (d *details) fill(c *fabric.RankCandidate) {
	c.User, c.Workload, c.Maps, c.Settings, c.Conf, c.Log = d.user, d.workload, d.maps, d.settings, d.conf, d.log
	c.Limits, c.Devices, c.NetNS = d.limits, d.devices, d.netNS
	if w, ok := c.Workload.Get(); ok && w.Job == "" {
		w.Job = d.command
		c.Workload.Value = w
	}
}

// What is waited for, and how many reads may be left behind.
const (
	patience = time.Second
	maxStuck = 4
	// maxStuckOfJob leaves the others something if files of one job, or of one user without a scheduler, hang.
	maxStuckOfJob = 2
)

// gate bounds the reads that were left behind.
type gate struct {
	mu sync.Mutex
	n  int
	of map[string]int // by job
}

func (g *gate) enter(job string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == maxStuck || g.of[job] == maxStuckOfJob {
		return false
	}
	if g.of == nil {
		g.of = map[string]int{}
	}
	g.n++
	g.of[job]++
	return true
}

func (g *gate) leave(job string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.of[job]--; g.of[job] == 0 {
		delete(g.of, job)
	}
}

func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n > 0
}

// attempt reads what may hang: memory of a process needs a lock that a process in uninterruptible sleep may hold, and its
// file system may be that of a server that is gone.
func attempt[T any](ctx context.Context, g *gate, job, source string, now time.Time, read func() (T, error)) fabric.Fact[T] {
	if !g.enter(job) {
		return fabric.UnknownFact[T](fabric.ReasonStuck, source, now)
	}
	v, err := new(errand.Errand[T]).Run(ctx, patience, func() (T, error) {
		defer g.leave(job)
		return read()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fabric.UnknownFact[T](fabric.ReasonStuck, source, now)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fabric.UnknownFact[T](fabric.ReasonTimeout, source, now)
	case err != nil:
		return fabric.UnknownFact[T](reasonOf(err), source, now)
	}
	return fabric.Known(v, source, now)
}

// read reads the details of a process.
func (r *Reader) read(ctx context.Context, pid int, now time.Time) *details {
	dir := strconv.Itoa(pid)
	d := &details{netNS: fabric.UnknownFact[uint64](fabric.ReasonMalformed, dir+"/ns/net", now)}
	if link, err := r.readlink(dir + "/ns/net"); err != nil {
		d.netNS.Reason = reasonOf(err)
	} else if n, ok := parseNamespace(link); ok {
		d.netNS = fabric.Known(n, dir+"/ns/net", now)
	}
	d.limits = fabric.UnknownFact[fabric.ProcessLimits](fabric.ReasonMalformed, dir+"/limits", now)
	if b, err := r.file(dir+"/limits", 4<<10); err != nil {
		d.limits.Reason = reasonOf(err)
	} else if memlock, ok := parseMemlock(b); ok {
		if b, err = r.file(dir+"/status", 16<<10); err != nil {
			d.limits.Reason = reasonOf(err)
		} else if user, cpus, ok := parseStatus(b); ok {
			d.user = user
			limits := fabric.ProcessLimits{Memlock: memlock, CPUs: cpus}
			if r.sources.Distances != nil {
				limits.Distances = r.sources.Distances(cpus)
			}
			d.limits = fabric.Known(limits, dir+"/limits", now)
		}
	}
	var w fabric.Workload
	b, err := r.file(dir+"/cgroup", 16<<10)
	if err == nil {
		w = parseCgroup(b)
		if path := unifiedCgroup(b); path != "" && w.Scheduler != "none" && r.sources.Cgroup != nil {
			d.cgroup, _ = r.sources.Cgroup(path) // not known where this process cannot see it
		}
	}
	job := fmt.Sprint(w.Scheduler, "/", w.Job, "/", d.user)
	d.maps = attempt(ctx, r.stuck, job, dir+"/maps", now, func() (fabric.MappedFiles, error) {
		return open(r, dir+"/maps", parseMaps)
	})
	environment := attempt(ctx, r.stuck, job, dir+"/environ", now, func() (environment, error) {
		return open(r, dir+"/environ", func(f io.Reader) (environment, error) { return scan(f, r.sources.Variable) })
	})
	d.settings = fabric.Fact[[]fabric.NCCLVariable]{Value: environment.Value.settings, State: environment.State, Reason: environment.Reason, Source: environment.Source, At: now}
	if err != nil {
		d.workload = fabric.UnknownFact[fabric.Workload](reasonOf(err), dir+"/cgroup", now)
	} else {
		d.workload = fabric.Known(environment.Value.complete(w), dir+"/cgroup", now)
	}
	switch {
	case environment.State != fabric.OK:
		d.log = fabric.UnknownFact[fabric.NCCLLog](environment.Reason, environment.Source, now)
	case environment.Value.log == "":
		d.log = fabric.AbsentFact[fabric.NCCLLog](environment.Source, now)
	default:
		d.log = r.log(ctx, dir, job, environment.Value.log, now)
	}
	d.devices = attempt(ctx, r.stuck, job, dir+"/root/dev", now, func() (fabric.ProcessDevices, error) { return r.devices(dir) })
	d.conf = attempt(ctx, r.stuck, job, dir+"/root"+confFile, now, func() ([]fabric.NCCLVariable, error) { return r.conf(dir) })
	return d
}

// open opens a file of procfs for a parser that reads it by parts.
func open[T any](r *Reader, name string, parse func(io.Reader) (T, error)) (T, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(r.at(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		var none T
		return none, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return parse(f)
}
