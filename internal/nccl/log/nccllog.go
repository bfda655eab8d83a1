// SPDX-License-Identifier: Apache-2.0

// Package log reads what NCCL 2.12 to 2.30 logs with NCCL_DEBUG=INFO: which version and network, how each connection
// goes, whether GPUDirect RDMA is used, which settings were in effect and what went wrong.
//
// A log is not trusted: the user of the job writes it. Parse takes any bytes and has no errors; what
// it keeps is bounded and can be printed, and what the log does not say is a zero value that says so. The functions are
// pure and may be called from any goroutine.
package log

import (
	"bytes"
	"iter"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Limits of what is kept of a log.
const (
	MaxLine     = 4096 // bytes; the rest of a line is dropped
	MaxText     = 256  // bytes of a name, a value or a warning
	maxLinks    = 128
	maxDevices  = 64
	maxSettings = 128
	maxWarnings = 16
)

// Log is what a log says about the communicator of one rank, or of several in the order of their lines.
type Log struct {
	Version string // "2.27.3"; empty if not known
	CUDA    string // that NCCL was built with, "12.9"; empty if not known
	// Network is the one that NCCL chose, in its words: "IB", "Socket", "AWS Libfabric"; empty if not known.
	Network   string
	Fallback  bool     // a communicator has the network Socket, which NCCL falls back to
	Nodes     int      // most hosts of a communicator, as NCCL 2.20.3 and later count them; 0 if not known
	MNNVL     bool     // a communicator can use NVLink between hosts
	NoMNNVL   bool     // a communicator of several hosts cannot
	Clique    bool     // a GPU is registered in an NVLink domain of several hosts
	Local     int      // most ranks of a communicator on one host; 0 if not known
	Driver    int      // version of CUDA that the driver supports, 12020 for 12.2; 0 if not known
	RCCL      bool     // it is AMD's
	Repeated  bool     // Ray left out lines that are alike
	Bootstrap string   // interface that ranks found each other over, "eth0:10.0.0.1<0>"
	Devices   []Device // that NCCL's own verbs network uses
	NoDevices bool     // it said that there are none
	NoPlugin  bool     // there is no network plugin
	// Unloadable is a library that a network plugin needs and the loader does not find; empty: none is known.
	Unloadable string
	// Misbuilt: the library, or the plugin itself, is there, and is built for another machine.
	Misbuilt bool
	Sockets  []string // interfaces of the socket network, "eth0:10.0.0.1<0>"
	HCAs     []HCA    // of the network, with what can be done with them
	Links    []Link   // connections, those that are alike counted together; sorted by when the first was made
	Complete bool     // a communicator was made
	Setup    *Timings // of the communicator and rank that took longest; nil if the log does not say
	DMABuf   bool     // GPUDirect RDMA can go by DMA-BUF

	// Channels and what follows are counts; Unknown if the log does not say.
	Channels, NVLSChannels int
	RingsGPUDirect         Tristate // whether all ring connections over a network use GPUDirect; true without any
	NVLSMulticast          Tristate // whether the GPU could take part in sums in NVSwitches
	CollNet                bool     // collectives in the network (SHARP) were connected
	PXN                    bool     // a connection goes over the NIC of another GPU

	Settings []Setting // that were in effect, from wherever
	Given
	Warnings []string // first ones, as they were printed after "NCCL WARN"
	Failed   string   // where the first call failed, "init.cc:1785 -> 1", in NCCL's words
}

// Unknown is a count that the log does not show.
const Unknown = -1

// Tristate is a yes or no that may not be known.
type Tristate int8

// Values of Tristate. NotSaid is the zero value.
const (
	NotSaid Tristate = iota
	No
	Yes
)

func tristate(yes bool) Tristate {
	if yes {
		return Yes
	}
	return No
}

// Device is a port of an RDMA device.
type Device struct {
	Name      string // "mlx5_0"
	Port      int
	LinkLayer string // "IB" or "RoCE"
}

// HCA reports whether GPUDirect RDMA is possible with a device of a network; not, whether it is near enough to a GPU.
type HCA struct {
	Network   string // "IB"
	Index     int
	Name      string // "mlx5_0"
	GPUDirect bool
}

// Via is the kind of a connection.
type Via string

// Kinds of connections.
const (
	P2P     Via = "P2P"
	SHM     Via = "SHM"
	Net     Via = "NET"
	CollNet Via = "COLLNET"
)

// Link is a kind of connection that was made.
type Link struct {
	Via       Via
	Name      string // network, or how it is done: "IB", "CUMEM", "IPC", "direct"
	Device    int    // of the network; Unknown elsewhere
	GPUDirect bool   // over a network
	Count     int
}

// Setting is a variable that was in effect.
type Setting struct{ Name, Value string }

// Parse reads the beginning and the end of a log, between which some bytes were dropped. If none were, tail continues
// head.
func Parse(head, tail []byte, dropped int64) Log {
	l := New()
	for line := range lines(head, tail, dropped > 0) {
		l.Add(line)
	}
	return *l
}

// New returns a log without lines.
func New() *Log { return &Log{Channels: Unknown, NVLSChannels: Unknown} }

// lines yields whole lines, without those that were cut where bytes were dropped.
func lines(head, tail []byte, cut bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		parts := [][]byte{head, tail}
		if cut {
			parts[0] = head[:bytes.LastIndexByte(head, '\n')+1]
			parts[1] = tail[bytes.IndexByte(tail, '\n')+1:]
		} else if len(tail) > 0 {
			parts = [][]byte{append(append(make([]byte, 0, len(head)+len(tail)), head...), tail...)}
		}
		for _, part := range parts {
			for line := range bytes.Lines(part) {
				line = line[:min(len(line), MaxLine)]
				if !yield(strings.TrimRight(string(line), "\r\n")) {
					return
				}
			}
		}
	}
}

// Add reads one more line. It reports what NCCL wrote, and whether it wrote the line; launchers put their own
// words before.
func (l *Log) Add(line string) (Entry, bool) {
	e, found := parseEntry(line)
	l.Repeated = l.Repeated || strings.HasSuffix(line, acrossCluster)
	switch e.Level {
	case Info:
		l.info(e.Message)
	case Warn:
		l.warn(e.Message)
	case Version:
		l.version(e.Message)
	}
	return e, found
}

func (l *Log) warn(message string) {
	if len(l.Warnings) < maxWarnings && message != "" {
		l.Warnings = append(l.Warnings, Text(message))
	}
}

// version keeps the first one.
func (l *Log) version(s string) {
	if version, cuda, ok := ParseVersion(s); ok && l.Version == "" {
		l.Version, l.CUDA = version, cuda
	}
}

// ParseVersion parses "2.27.3+cuda12.9".
func ParseVersion(s string) (version, cuda string, ok bool) {
	version, cuda, _ = strings.Cut(s, "+cuda")
	if version == "" || version[0] < '0' || version[0] > '9' {
		return "", "", false
	}
	return Text(word(version)), Text(word(cuda)), true
}

// word is what comes before the first blank.
func word(s string) string {
	s, _, _ = strings.Cut(s, " ")
	return s
}

// Text bounds what is kept of foreign text, and makes it fit to be printed.
func Text(s string) string {
	return fabric.Printable(s[:min(len(s), MaxText)], MaxText)
}
