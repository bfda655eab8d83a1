// SPDX-License-Identifier: Apache-2.0

package ncclprobe

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <sched.h>
#include <stdlib.h>
#include "library.h"
*/
import "C"

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"gpufabric_exporter/probes"
)

// Names by which the loader knows the libraries.
const (
	defaultNCCL = "libnccl.so.2"
	defaultCUDA = "libcuda.so.1"
)

// minVersion is the first NCCL whose communicators need not block. One that blocks cannot be aborted while it is made.
const minVersion = 21400

// Results that mean something here: of nccl.h, and CUDA_ERROR_NOT_READY.
const (
	ncclUnhandledCudaError = 1
	ncclInternalError      = 3
	ncclInProgress         = 7
	cudaNotReady           = 600
)

// A rank has the state of the libraries. All of it belongs to one thread.
type rank struct {
	inside *atomic.Pointer[string]

	opened   bool
	ncclPath string
	cudaPath string
	nccl     *C.struct_nccl
	cuda     *C.struct_cuda // nil: there is none, and no GPU was asked for

	hasGPU bool // its context is retained
	device C.int
	stream unsafe.Pointer
	events []unsafe.Pointer // at the start, and after iterations

	communicator *C.struct_communicator // nil: none
	rank, ranks  int

	send, recv buffer
	filled     filling
	chunk      []byte // on the way between host and GPU
}

// do makes a step. Its error is a *failure, or errRequest.
func (r *rank) do(q probes.Request, deadline time.Time) (probes.Reply, error) {
	var reply probes.Reply
	var err error
	switch {
	case q.Open != nil:
		reply.Open, err = r.open(q.Open)
	case q.Close != nil:
		err = r.close(deadline)
	case !r.opened:
		err = badRequest("nothing is opened")
	case q.NewID != nil:
		reply.ID, err = r.newID()
	case !r.hasGPU:
		err = badRequest("no GPU is opened")
	case q.Connect != nil:
		reply.Connect, err = r.connect(q.Connect, deadline)
	case r.communicator == nil:
		err = badRequest("nothing is connected")
	default:
		reply.Measure, err = r.measure(q.Measure, deadline)
	}
	return reply, err
}

// enter notes for Server.ask which function is called, and returns what to do after it.
func (r *rank) enter(function string) func() {
	r.inside.Store(&function)
	return func() { r.inside.Store(nil) }
}

// cu calls a function of CUDA.
func (r *rank) cu(function string, call func(*C.struct_cuda) C.int) error {
	result := r.cuResult(function, call)
	switch result {
	case 0:
		return nil
	case C.MISSING:
		return failed(probes.FailureLibrary, "%s has no %s", r.cudaPath, function)
	}
	var text [maxError]C.char
	C.cuda_text(r.cuda, result, &text[0], C.size_t(len(text)))
	return failed(probes.FailureCUDA, "%s: %s", function, C.GoString(&text[0]))
}

func (r *rank) cuResult(function string, call func(*C.struct_cuda) C.int) C.int {
	defer r.enter(function)()
	return call(r.cuda)
}

// A cudaCall is a function and how to call it.
type cudaCall struct {
	function string
	call     func(*C.struct_cuda) C.int
}

// cuAll calls one function after the other, up to the first that fails.
func (r *rank) cuAll(calls ...cudaCall) error {
	for _, c := range calls {
		if err := r.cu(c.function, c.call); err != nil {
			return err
		}
	}
	return nil
}

// nc calls a function of NCCL. That it will be done later is no error.
func (r *rank) nc(function string, call func(*C.struct_nccl) C.int) error {
	leave := r.enter(function)
	result := call(r.nccl)
	leave()
	if result == 0 || result == ncclInProgress {
		return nil
	}
	return r.ncclFailure(function, result)
}

func (r *rank) ncclFailure(function string, result C.int) error {
	if result == C.MISSING {
		return failed(probes.FailureLibrary, "%s has no %s", r.ncclPath, function)
	}
	var text [maxError]C.char
	C.nccl_text(r.nccl, result, &text[0], C.size_t(len(text)))
	why := probes.FailureNCCL
	if result == ncclUnhandledCudaError {
		why = probes.FailureCUDA
	}
	return failed(why, "%s: %s", function, C.GoString(&text[0]))
}

// settled reports whether NCCL has finished the call of function.
func (r *rank) settled(function string) (bool, error) {
	comm := C.current(r.communicator)
	if comm == nil {
		return false, r.ncclFailure(function, ncclInternalError) // the last error says more
	}
	var state C.int
	if err := r.nc("ncclCommGetAsyncError", func(t *C.struct_nccl) C.int {
		return C.call_ncclCommGetAsyncError(t, comm,
			&state)
	}); err != nil {
		return false, err
	}
	if state != 0 && state != ncclInProgress {
		return false, r.ncclFailure(function, state)
	}
	return state == 0, nil
}

// await waits until NCCL has finished the call.
func (r *rank) await(function string, deadline time.Time) error {
	return wait(function, deadline, func() (bool, error) { return r.settled(function) })
}

// idle waits until all is done that was enqueued in a stream, and NCCL has found nothing wrong.
func (r *rank) idle(what string, stream unsafe.Pointer, deadline time.Time) error {
	return wait(what, deadline, func() (bool, error) {
		if r.communicator != nil {
			if ok, err := r.settled(what); !ok {
				return false, err
			}
		}
		query := func(t *C.struct_cuda) C.int { return C.call_cuStreamQuery(t, stream) }
		switch r.cuResult("cuStreamQuery", query) {
		case 0:
			return true, nil
		case cudaNotReady:
			return false, nil
		}
		return false, r.cu("cuStreamQuery", query)
	})
}

// spin is how long wait does not sleep. Waking up takes a tenth of a millisecond, which must not show in what
// is measured.
const spin = 10 * time.Millisecond

// wait asks again and again until it is done, or the deadline has passed. After a while it sleeps in between, for a
// hundredth of what it has waited, so that this is the error of a measurement at most.
func wait(what string, deadline time.Time, done func() (bool, error)) error {
	for begin := time.Now(); ; {
		if ok, err := done(); ok || err != nil {
			return err
		}
		now := time.Now()
		switch waited := now.Sub(begin); {
		case now.After(deadline):
			return failed(probes.FailureHang, "%s is not done after %v", what, waited.Round(time.Millisecond))
		case waited < spin:
			C.sched_yield()
		default:
			time.Sleep(min(waited/100, time.Millisecond))
		}
	}
}

// load opens a library.
func (r *rank) load(path string) (unsafe.Pointer, error) {
	defer r.enter("loading " + path)()
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var why [maxError]C.char
	library := C.open_library(cpath, &why[0], C.size_t(len(why)))
	if library == nil {
		return nil, errors.New(C.GoString(&why[0]))
	}
	return library, nil
}

// file is what the loader found, without symbolic links.
func file(library unsafe.Pointer, path string) string {
	if p := C.path_of_library(library); p != nil && C.GoString(p) != "" {
		path = C.GoString(p)
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
