// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"time"
)

// LogReading is what logs of jobs showed since the exporter began to follow them. Jobs write the logs: a user
// can have them say anything.
type LogReading struct {
	Failures Failures
	Files    []LogFile // that are followed
	// Refused counts the files that are not followed, by the reason.
	Refused map[Refusal]int
	Skipped uint64 // bytes that were not read, because a file grew faster than it is read
	// Shortage is what the last look left out; failures in it are not in Failures.
	Shortage Shortage
	Unread   error // why a folder that the site names could not be read; nil: none
}

// KernelReading is what the messages of the kernel showed. Only the kernel and its drivers write them.
type KernelReading struct {
	Failures Failures
	Lost     uint64 // times that the kernel overwrote messages before they were read
}

// Failures are the failures that lines showed.
type Failures []FailureLines

// FailureLines are the lines with the signature of one failure.
type FailureLines struct {
	ID    string    // of the signature in docs/SIGNATURES.md
	Count uint64    // since the exporter began to read
	Last  time.Time // of a log when it was read, of the kernel when it was written
}

// Add notes one more line, which counts or is of the past.
func (f *Failures) Add(id string, at time.Time, counts bool) {
	i := slices.IndexFunc(*f, func(l FailureLines) bool { return l.ID == id })
	if i < 0 {
		i = len(*f)
		*f = append(*f, FailureLines{ID: id})
	}
	lines := &(*f)[i]
	if counts {
		lines.Count++
	}
	if at.After(lines.Last) {
		lines.Last = at
	}
}

// Merge adds the lines that another reading counted.
func (f *Failures) Merge(more Failures) {
	for _, l := range more {
		i := slices.IndexFunc(*f, func(known FailureLines) bool { return known.ID == l.ID })
		if i < 0 {
			*f = append(*f, l)
			continue
		}
		known := &(*f)[i]
		known.Count += l.Count
		if l.Last.After(known.Last) {
			known.Last = l.Last
		}
	}
}

// Of returns the lines of a signature; zero: none was seen.
func (f Failures) Of(id string) FailureLines {
	for _, l := range f {
		if l.ID == id {
			return l
		}
	}
	return FailureLines{}
}

// LogFile is what the log of a job shows of how NCCL is set up, in whatever release wrote it.
type LogFile struct {
	Owner     uint32 // user ID that owns the file
	Transport LogTransport
	Offloads  Offloads
	Setup     time.Duration // of the communicator and rank that took longest; 0: the log does not say
}

// LogTransport is how NCCL moves data between nodes, as it logs it. The words are stable: they are label values.
type LogTransport string

// Transports of logs.
const (
	LogUnknown LogTransport = "unknown" // the log does not say, or not yet
	LogRDMA    LogTransport = "rdma"    // verbs, without GPUDirect RDMA or not known with
	LogGDR     LogTransport = "gdr"     // verbs with GPUDirect RDMA
	LogTCP     LogTransport = "tcp"     // sockets
	LogOther   LogTransport = "other"   // EFA, TCPX, UCX and other plugins
)

// LogTransports returns every transport.
func LogTransports() []LogTransport {
	return []LogTransport{LogUnknown, LogRDMA, LogGDR, LogTCP, LogOther}
}

// Offloads are what takes work off the GPUs, as logs show it.
type Offloads struct {
	// NVLS is about sums in NVSwitches, SHARP about those in switches of InfiniBand, PXN about NICs of other
	// GPUs over NVLink.
	NVLS, SHARP, PXN Offload
}

// Offload is whether something is used that could be.
type Offload string

// Offloads; the zero value: the log does not say.
const (
	OffloadUsed   Offload = "used"
	OffloadUnused Offload = "unused" // it could be used or was asked for, and is not
	OffloadOff    Offload = "off"    // a setting of the job switches it off
)
