// SPDX-License-Identifier: Apache-2.0

// Package nvml reads what NVIDIA's driver reports about itself and its GPUs, through the vendor's library
// libnvidia-ml.so.1 (NVML) and NVIDIA's binding go-nvml.
//
// The library runs in a process of its own. Server is that process's side: it loads the library, asks it, and answers
// requests. Client is the exporter's side: it sends requests through a Caller, which knows about processes, and checks
// every byte of the answers, because a vendor library may corrupt the memory of its process. Both sides
// walk the same layout (layout.go), so that they cannot drift apart.
//
// There are three tiers. Fast facts change with every job: processes, utilisation, memory, clocks, PCIe link, states of
// NVLinks. Slow ones are errors and modes. The rest (names, capabilities, what NVLinks lead to, peer-to-peer) changes
// with the driver or with the set of GPUs only; it is read when either does, and the client keeps it from answer to
// answer. A number, the epoch, says whether what the client has kept still belongs to what the server reads.
//
// go-nvml leaves the symbols of the library unresolved in the binary. A call to one that the installed
// library lacks, or to any before the library is loaded, ends the process ("symbol lookup error"). So nothing
// is called before nvmlInit has succeeded, and each symbol is looked up first: a missing one makes its facts
// unknown(missing). Nor is go-nvml's text of a Return ever asked for, which calls into the library too. For
// the same reason the binary must be linked lazily: where the compiler has -z now for a default (Ubuntu),
// -ldflags '-extldflags=-Wl,-z,lazy' takes it back, or it does not start.
//
// What NVML answers becomes a fact like this:
//
//   - NVML_SUCCESS is known, unless the value is none that the ABI allows: unknown(malformed).
//   - NVML_ERROR_NOT_SUPPORTED is absent for what the GPU then does not have: MIG, NVLinks, a fabric, memory that is a
//     NUMA node. For everything else it is unknown(unsupported).
//   - NVML_ERROR_NO_PERMISSION is unknown(privilege), NVML_ERROR_FUNCTION_NOT_FOUND unknown(missing),
//     NVML_ERROR_INVALID_ARGUMENT unknown(unsupported), every other error unknown(io_error).
//   - NVML_ERROR_GPU_IS_LOST makes the GPU lost, and all else of it unknown(gone). UUID and address stay where
//     they were known before.
//   - With NVML_ERROR_DRIVER_NOT_LOADED, GPUDriver.Loaded is known false, without the library unknown(missing): no
//     error.
//   - NVML_ERROR_LIB_RM_VERSION_MISMATCH (the library was updated and the kernel module was not, or the other way
//     round) is an error: there is a driver (Loaded is true), and no program can use it.
//
// Server and Client are for one goroutine at a time. Calls into the library cannot be interrupted: the owner
// of the process kills it when one does not return.
package nvml

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Largest accepted numbers. NVML's own limits are 36 NVLinks and as many processes as there are.
const (
	maxGPUs      = 64
	maxLinks     = 36 // NVML_NVLINK_MAX_LINKS
	maxProcesses = 4096
	maxText      = 128 // bytes of a name
	maxMessage   = 256
	maxReply     = 8 << 20
)

// tier is how much is read.
type tier byte

const (
	fast tier = iota
	slow
	all
	running // the processes and nothing else, for callers that ask ten times a second; it is no tier above the others
)

// version is the first byte of requests and replies. Both sides are the same binary; it differs when that was replaced
// on disk while the exporter ran.
const version = 3

// status is how a reply goes on.
type status byte

const (
	answered  status = iota // with facts
	noLibrary               // there is no libnvidia-ml.so.1
	noDriver                // NVML_ERROR_DRIVER_NOT_LOADED
	mismatch                // NVML_ERROR_LIB_RM_VERSION_MISMATCH
	failed                  // with a reason and a text
)

// request is what the client asks.
type request struct {
	tier  tier
	epoch uint64 // of what the client has kept; 0: nothing
}

// reply is what the server answers. It is walked in both directions.
type reply struct {
	status status
	tier   tier
	epoch  uint64
	reason fabric.Reason
	text   string
	driver fabric.GPUDriver
}

func (q *request) walk(w *wire) {
	w.version()
	w.byte((*byte)(&q.tier))
	w.uint(&q.epoch)
}

// walk goes over a reply. When it decodes, p.driver has what is kept from the last one.
func (p *reply) walk(w *wire) {
	w.version()
	w.byte((*byte)(&p.status))
	switch {
	case p.status == answered:
		w.byte((*byte)(&p.tier))
		w.uint(&p.epoch)
		if p.tier > running {
			w.fail("tier %d", p.tier)
			return
		}
		w.tier = p.tier
		if p.tier == running {
			w.running(&p.driver)
		} else {
			w.driver(&p.driver)
		}
	case p.status == failed:
		w.reason(&p.reason)
		if !w.text(&p.text, maxMessage) {
			p.text = "it does not say why"
		}
	case p.status > failed:
		w.fail("status %d", p.status)
	}
	if w.decode && w.err == nil && w.at != len(w.buf) {
		w.fail("%d bytes too many", len(w.buf)-w.at)
	}
}

func encode(buf []byte, walk func(*wire)) []byte {
	w := wire{buf: buf[:0]}
	walk(&w)
	return w.buf
}

func decode(buf []byte, now time.Time, walk func(*wire)) error {
	w := wire{buf: buf, decode: true, now: now}
	walk(&w)
	return w.err
}
