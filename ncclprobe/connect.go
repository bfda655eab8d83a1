// SPDX-License-Identifier: Apache-2.0

package ncclprobe

// #include "library.h"
import "C"

import (
	"errors"
	"time"
	"unsafe"

	"gpufabric_exporter/probes"
)

// finalizeTimeout is how long NCCL may take to finish what is under way when a communicator is closed.
const finalizeTimeout = 2 * time.Second

// newID makes the id of a communicator. NCCL listens for its ranks in this process from then on.
func (r *rank) newID() ([]byte, error) {
	var id C.struct_uniqueID
	if err := r.nc("ncclGetUniqueId", func(t *C.struct_nccl) C.int { return C.call_ncclGetUniqueId(t, &id) }); err != nil {
		return nil, initFailure(err)
	}
	return C.GoBytes(unsafe.Pointer(&id), C.int(unsafe.Sizeof(id))), nil
}

// connect makes the communicator, together with the other ranks.
func (r *rank) connect(q *probes.ConnectRequest, deadline time.Time) (*probes.ConnectReply, error) {
	if r.communicator != nil {
		return nil, badRequest("connected before")
	}
	const function = "ncclCommInitRankConfig"
	c := C.new_communicator(C.int(q.MaxCTAs))
	if c == nil {
		return nil, failed(probes.FailureInit, "no memory for a communicator")
	}
	r.communicator, r.rank, r.ranks = c, q.Rank, q.Ranks
	r.filled = filling{} // what a rank sends depends on both
	var id C.struct_uniqueID
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&id)), unsafe.Sizeof(id)), q.ID)
	begin := time.Now()
	err := r.nc(function, func(t *C.struct_nccl) C.int {
		return C.call_ncclCommInitRankConfig(t, &c.comm, C.int(q.Ranks), id, C.int(q.Rank), &c.config)
	})
	if err == nil {
		err = r.await(function, deadline)
	}
	if err != nil {
		return nil, initFailure(err)
	}
	return &probes.ConnectReply{Took: time.Since(begin)}, nil
}

// initFailure is what an error of NCCL means as long as there is no communicator.
func initFailure(err error) error {
	if f, ok := errors.AsType[*failure](err); ok && (f.why == probes.FailureNCCL || f.why == probes.FailureCUDA) {
		return &failure{probes.FailureInit, f.text}
	}
	return err
}

// abort frees the communicator, whatever state it is in. A failure has no effect on the run.
func (r *rank) abort() {
	if r.communicator == nil {
		return
	}
	if comm := C.current(r.communicator); comm != nil {
		_ = r.nc("ncclCommAbort", func(t *C.struct_nccl) C.int { return C.call_ncclCommAbort(t, comm) })
	}
	r.communicator = nil // its memory stays: NCCL may still write to it
}

// close ends the communicator and releases the GPU. The libraries stay: they cannot be unloaded safely.
func (r *rank) close(deadline time.Time) error {
	err := r.disconnect(deadline)
	if err != nil {
		r.abort()
	}
	if !r.hasGPU {
		return err
	}
	r.hasGPU = false
	calls := []cudaCall{}
	for _, b := range []buffer{r.send, r.recv} {
		if b.size > 0 {
			calls = append(calls, cudaCall{"cuMemFree_v2", func(t *C.struct_cuda) C.int { return C.call_cuMemFree_v2(t, b.address) }})
		}
	}
	for _, e := range r.events {
		calls = append(calls, cudaCall{"cuEventDestroy_v2", func(t *C.struct_cuda) C.int { return C.call_cuEventDestroy_v2(t, e) }})
	}
	if r.stream != nil {
		calls = append(calls, cudaCall{"cuStreamDestroy_v2", func(t *C.struct_cuda) C.int { return C.call_cuStreamDestroy_v2(t, r.stream) }})
	}
	calls = append(calls, cudaCall{"cuDevicePrimaryCtxRelease_v2", func(t *C.struct_cuda) C.int {
		return C.call_cuDevicePrimaryCtxRelease_v2(t, r.device)
	}})
	for _, c := range calls {
		if failure := r.cu(c.function, c.call); err == nil {
			err = failure
		}
	}
	return err
}

// disconnect ends the communicator in order.
func (r *rank) disconnect(deadline time.Time) error {
	if r.communicator == nil {
		return nil
	}
	comm := C.current(r.communicator)
	if at := time.Now().Add(finalizeTimeout); at.Before(deadline) {
		deadline = at
	}
	if err := r.nc("ncclCommFinalize", func(t *C.struct_nccl) C.int {
		return C.call_ncclCommFinalize(t,
			comm)
	}); err != nil {
		return err
	}
	if err := r.await("ncclCommFinalize", deadline); err != nil {
		return err
	}
	r.communicator = nil
	return r.nc("ncclCommDestroy", func(t *C.struct_nccl) C.int { return C.call_ncclCommDestroy(t, comm) })
}
