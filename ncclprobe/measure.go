// SPDX-License-Identifier: Apache-2.0

package ncclprobe

// #include "library.h"
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"gpufabric_exporter/probes"
)

// Values of enumerations in nccl.h.
const (
	ncclInt32    = 2
	ncclFloat16  = 6
	ncclFloat32  = 7
	ncclBfloat16 = 9
	ncclSum      = 0
)

const (
	// chunkSize is how much is copied between host and GPU at a time: what a rank needs of the host's memory.
	chunkSize = 4 << 20
	// spareMemory is how much of the GPU's memory stays free beside the buffers, for NCCL itself and for a job
	// that starts.
	spareMemory = 2 << 30
	// poison is what the buffer is full of before something is received: neither number of bfloat16 and float16 in it is
	// one that is sent, nor is it as float32 or int32.
	poison = 0x7fc0dead
)

// A buffer is memory of the GPU.
type buffer struct {
	address C.uint64_t
	size    uint64 // 0: none
}

// A filling is what the first bytes of the buffer to send are.
type filling struct {
	dtype probes.DType
	bytes uint64
}

// measure runs an operation out of place, as the first column of nccl-tests. The operands are there before the time
// counts, and the result is looked at after it.
func (r *rank) measure(q *probes.MeasureRequest, deadline time.Time) (*probes.MeasureReply, error) {
	l := layoutOf(q, r.ranks)
	if l.count == 0 {
		return nil, badRequest("%s of %d bytes has no %s for each of %d ranks", q.Op, q.Bytes, q.Type, r.ranks)
	}
	if most(q.Type, r.ranks) < 2 {
		return nil, badRequest("%d ranks of %s, expected at most %d: sums would not be exact", r.ranks, q.Type,
			exact(q.Type)/2)
	}
	if err := r.prepare(q, l, deadline); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s of %d bytes", q.Op, l.message)
	launch := r.launcher(q, l)
	if err := r.repeat(q.Warmups, launch, what, deadline); err != nil {
		return nil, err
	}
	if q.Warmups > 0 {
		if err := r.idle(what, r.stream, deadline); err != nil {
			return nil, err
		}
	}
	parts := 1
	if q.Each {
		parts = q.Iterations
	}
	if err := r.mark(parts + 1); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := r.record(0); err != nil {
		return nil, err
	}
	for i := range parts {
		if err := r.repeat(q.Iterations/parts, launch, what, deadline); err != nil {
			return nil, err
		}
		if err := r.record(i + 1); err != nil {
			return nil, err
		}
	}
	if err := r.idle(what, r.stream, deadline); err != nil {
		return nil, err
	}
	reply := &probes.MeasureReply{Bytes: l.message, Time: time.Since(begin), DeviceTime: r.between(0, parts)}
	for i := 0; q.Each && reply.DeviceTime > 0 && i < parts; i++ {
		reply.Each = append(reply.Each, r.between(i, i+1))
	}
	var err error
	reply.Wrong, err = r.verify(q, l, deadline)
	return reply, err
}

// repeat enqueues an operation so many times.
func (r *rank) repeat(times int, launch func() error, what string, deadline time.Time) error {
	for range times {
		if err := launch(); err != nil {
			return err
		}
		if err := r.await(what, deadline); err != nil {
			return err
		}
	}
	return nil
}

// mark has so many events.
func (r *rank) mark(events int) error {
	for len(r.events) < events {
		var e unsafe.Pointer
		if err := r.cu("cuEventCreate", func(t *C.struct_cuda) C.int { return C.call_cuEventCreate(t, &e, 0) }); err != nil {
			return err
		}
		r.events = append(r.events, e)
	}
	return nil
}

func (r *rank) record(event int) error {
	return r.cu("cuEventRecord", func(t *C.struct_cuda) C.int { return C.call_cuEventRecord(t, r.events[event], r.stream) })
}

// between is the time between two events; 0 if CUDA does not know.
func (r *rank) between(start, stop int) time.Duration {
	var ms C.float
	if r.cu("cuEventElapsedTime", func(t *C.struct_cuda) C.int {
		return C.call_cuEventElapsedTime(t, &ms, r.events[start], r.events[stop])
	}) != nil {
		return 0
	}
	return milliseconds(float64(ms))
}

// launcher returns what enqueues one iteration.
func (r *rank) launcher(q *probes.MeasureRequest, l layout) func() error {
	var (
		send, recv, stream = r.send.address, r.recv.address, r.stream
		comm               = C.current(r.communicator)
		count              = C.size_t(l.count)
		next, last         = C.int(after(r.rank, r.ranks)), C.int(before(r.rank, r.ranks))
		t                  C.int
	)
	switch q.Type {
	case probes.Float32:
		t = ncclFloat32
	case probes.Float16:
		t = ncclFloat16
	case probes.BFloat16:
		t = ncclBfloat16
	default:
		t = ncclInt32
	}
	var function string
	var call func(n *C.struct_nccl) C.int
	switch q.Op {
	case probes.AllReduce:
		function = "ncclAllReduce"
		call = func(n *C.struct_nccl) C.int {
			return C.call_ncclAllReduce(n, send, recv, count, t, ncclSum, comm, stream)
		}
	case probes.Broadcast:
		function = "ncclBroadcast"
		call = func(n *C.struct_nccl) C.int { return C.call_ncclBroadcast(n, send, recv, count, t, root, comm, stream) }
	case probes.Reduce:
		function = "ncclReduce"
		call = func(n *C.struct_nccl) C.int {
			return C.call_ncclReduce(n, send, recv, count, t, ncclSum, root, comm, stream)
		}
	case probes.AllGather:
		function = "ncclAllGather"
		call = func(n *C.struct_nccl) C.int { return C.call_ncclAllGather(n, send, recv, count, t, comm, stream) }
	case probes.ReduceScatter:
		function = "ncclReduceScatter"
		call = func(n *C.struct_nccl) C.int {
			return C.call_ncclReduceScatter(n, send, recv, count, t, ncclSum, comm, stream)
		}
	default:
		function = "ncclGroupStart, ncclSend, ncclRecv or ncclGroupEnd"
		parts := C.int(1)
		if q.Op == probes.AllToAll {
			next, last, parts = 0, 0, C.int(r.ranks)
		}
		size := C.size_t(l.count * uint64(q.Type.Size()))
		call = func(n *C.struct_nccl) C.int {
			return C.nccl_group_exchange(n, send, next, recv, last, parts, size, count, t, comm, stream)
		}
	}
	return func() error { return r.nc(function, call) }
}

// prepare has the buffers, what is sent in one of them, and nothing that could be right in the other.
func (r *rank) prepare(q *probes.MeasureRequest, l layout, deadline time.Time) error {
	if err := r.allocate(l); err != nil {
		return err
	}
	if r.filled.dtype != q.Type || r.filled.bytes < l.send {
		r.filled = filling{}
		if err := r.upload(input(q.Type, r.ranks, r.rank), l.send, deadline); err != nil {
			return err
		}
		r.filled = filling{q.Type, l.send}
	}
	if err := r.cu("cuMemsetD32_v2", func(t *C.struct_cuda) C.int {
		return C.call_cuMemsetD32_v2(t, r.recv.address, poison, C.size_t((l.recv+3)/4))
	}); err != nil {
		return err
	}
	// Copies and memset may still be under way in the default stream, which r.stream does not wait for.
	return r.idle("filling the buffers", nil, deadline)
}

// allocate has buffers that are large enough. They only grow.
func (r *rank) allocate(l layout) error {
	for _, b := range []struct {
		buffer *buffer
		size   uint64
	}{{&r.send, l.send}, {&r.recv, l.recv}} {
		if b.size <= b.buffer.size {
			continue
		}
		if err := r.grow(b.buffer, b.size); err != nil {
			return err
		}
	}
	return nil
}

func (r *rank) grow(b *buffer, size uint64) error {
	const granularity = 4096 // memset writes whole words
	size = (size + granularity - 1) / granularity * granularity
	if b == &r.send {
		r.filled = filling{}
	}
	if old := b.address; b.size > 0 {
		b.size = 0
		if err := r.cu("cuMemFree_v2", func(t *C.struct_cuda) C.int { return C.call_cuMemFree_v2(t, old) }); err != nil {
			return err
		}
	}
	free, err := r.free()
	if err != nil {
		return err
	}
	if size+spareMemory > free {
		return failed(probes.FailureCUDA, "a buffer of %d bytes, but only %d are free, of which %d are to stay so", size,
			free, uint64(spareMemory))
	}
	if err := r.cu("cuMemAlloc_v2", func(t *C.struct_cuda) C.int {
		return C.call_cuMemAlloc_v2(t, &b.address,
			C.size_t(size))
	}); err != nil {
		return err
	}
	b.size = size
	return nil
}

// upload writes a pattern to the buffer to send.
func (r *rank) upload(p pattern, size uint64, deadline time.Time) error {
	elements := uint64(p.size)
	return r.chunks("writing what is sent", size, deadline, func(at uint64, chunk []byte) error {
		p.fill(chunk, at/elements)
		return r.cu("cuMemcpyHtoD_v2", func(t *C.struct_cuda) C.int {
			return C.call_cuMemcpyHtoD_v2(t, r.send.address+C.uint64_t(at), unsafe.Pointer(&chunk[0]), C.size_t(len(chunk)))
		})
	})
}

// verify counts the elements that were received and are not what they must be.
func (r *rank) verify(q *probes.MeasureRequest, l layout, deadline time.Time) (uint64, error) {
	var wrong uint64
	err := expected(q, l, r.rank, r.ranks, func(p part) error {
		return r.chunks("reading what was received", p.size, deadline, func(at uint64, chunk []byte) error {
			if err := r.cu("cuMemcpyDtoH_v2", func(t *C.struct_cuda) C.int {
				return C.call_cuMemcpyDtoH_v2(t, unsafe.Pointer(&chunk[0]), r.recv.address+C.uint64_t(p.offset+at),
					C.size_t(len(chunk)))
			}); err != nil {
				return err
			}
			wrong += p.want.wrong(chunk, p.start+at/uint64(p.want.size))
			return nil
		})
	})
	return wrong, err
}

// chunks calls do for each chunk of a buffer, with the memory of the host for it.
func (r *rank) chunks(what string, size uint64, deadline time.Time, do func(at uint64, chunk []byte) error) error {
	if r.chunk == nil {
		r.chunk = make([]byte, chunkSize)
	}
	for at := uint64(0); at < size; at += chunkSize {
		if time.Now().After(deadline) {
			return failed(probes.FailureHang, "%s: %d of %d bytes are done at the end of the time that was given", what, at,
				size)
		}
		if err := do(at, r.chunk[:min(chunkSize, size-at)]); err != nil {
			return err
		}
	}
	return nil
}
