// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/joblog"
	"gpufabric_exporter/internal/library"
)

// NCCLFiles says where the site keeps NCCL configuration beside /etc/nccl.conf, a library, and what jobs and
// the kernel write.
type NCCLFiles struct {
	Environment string       // KEY=value file that jobs get as environment; empty: none
	Home        string       // folder whose .nccl.conf counts; empty: none
	Inspector   string       // folder that Inspector of jobs writes to; empty: none
	Logs        []LogPattern // logs of jobs; empty: none is followed
	Kernel      string       // messages of the kernel, /dev/kmsg; empty: not read
	Library     string       // path of the NCCL library that probes use; empty: what the loader finds
}

// LogPattern says which files are logs of jobs.
type LogPattern = joblog.Pattern

// ParseLogPattern parses an absolute path with wildcards. Errors say what was expected.
func ParseLogPattern(s string) (LogPattern, error) { return joblog.ParsePattern(s) }

// NCCL reads the NCCL configuration of the host.
type NCCL interface {
	Read(now time.Time) (fabric.NCCLConfig, error)
}

// wantNCCLFiles is for what NCCL's configuration is read: the roles of devices follow it too.
const wantNCCLFiles = fabric.WantNCCL | fabric.WantHCA

// libraryAge is how old the facts of a library may be. To find one costs about a hundred system calls.
const libraryAge = 10 * time.Minute

func (l *look) startNCCL() {
	l.nccl.startIfStale(since[fabric.NCCLConfig](l.now, l.o.SlowInterval), nil)
}

func (l *look) awaitNCCL() {
	l.nccl.refresh(l.ctx, since[fabric.NCCLConfig](l.now, l.o.SlowInterval), nil)
}

func (l *look) assembleNCCL() {
	l.n.NCCL, _ = sourced(l, l.nccl, fabric.SourceNCCL, since[fabric.NCCLConfig](l.now, l.o.SlowInterval))
}

// ncclOf returns the read of a configuration, and of the libraries of the host and of probes.
func (ob *Observer) ncclOf(conf NCCL, ofProbes string) func(fabric.NCCLConfig, time.Time) (fabric.NCCLConfig, error) {
	return func(last fabric.NCCLConfig, now time.Time) (fabric.NCCLConfig, error) {
		c, err := conf.Read(now)
		c.Library, c.ProbeLibrary = last.Library, last.ProbeLibrary
		if last.Library.At.IsZero() || now.Sub(last.Library.At) >= libraryAge {
			c.Library, c.ProbeLibrary = ob.libraries(ofProbes, now)
		}
		return c, err
	}
}

// libraries looks for the NCCL libraries of the host and of probes. What a capture lacks is not known.
func (ob *Observer) libraries(ofProbes string, now time.Time) (host, probes fabric.Fact[fabric.Library]) {
	const source = library.NCCL
	if ob.o.Netlink != "" {
		unread := fabric.UnknownFact[fabric.Library](fabric.ReasonNotRead, source, now)
		return unread, unread
	}
	host, probes = fabric.AbsentFact[fabric.Library](source, now), fabric.AbsentFact[fabric.Library](source, now)
	if found, ok := library.FindNCCL(ob.o.Rootfs, ob.o.LibraryPath); ok {
		host = fabric.Known(fabric.Library(found), source, now)
	}
	if found, ok := library.NCCLAt(ob.o.Rootfs, ofProbes); ok {
		probes = fabric.Known(fabric.Library(found), source, now)
	}
	return host, probes
}
