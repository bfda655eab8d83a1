// SPDX-License-Identifier: Apache-2.0

package ncclprobe

/*
#include <stdlib.h>
#include "library.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"gpufabric_exporter/probes"
)

// From cuda.h: a context whose thread sleeps when it waits, a stream that does not wait for the default one, and the
// attribute that says who may have a context.
const (
	schedBlockingSync = 4
	streamNonBlocking = 1
	computeMode       = 20
)

// open loads the libraries, and takes hold of the GPU.
func (r *rank) open(q *probes.OpenRequest) (*probes.OpenReply, error) {
	if r.opened {
		return nil, badRequest("opened before")
	}
	r.opened = true
	reply := &probes.OpenReply{}
	// CUDA comes first, so that NCCL gets the same one: it asks the loader for the name that this one has.
	if err := r.openCUDA(cmp.Or(q.CUDA, defaultCUDA), reply); err != nil && q.GPU != "" {
		return nil, err
	}
	if err := r.openNCCL(cmp.Or(q.NCCL, defaultNCCL), reply); err != nil {
		return nil, err
	}
	if q.GPU != "" {
		if err := r.openGPU(q.GPU, reply); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

func (r *rank) openCUDA(path string, reply *probes.OpenReply) error {
	library, err := r.load(path)
	if err != nil {
		return failed(probes.FailureLibrary, "no driver: %v", err)
	}
	r.cudaPath = file(library, path)
	table := new(C.struct_cuda)
	if missing := C.cuda_find(library, table); missing != nil {
		return failed(probes.FailureLibrary, "%s has no %s", r.cudaPath, C.GoString(missing))
	}
	r.cuda = table
	var version C.int
	if err := r.cu("cuDriverGetVersion", func(t *C.struct_cuda) C.int {
		return C.call_cuDriverGetVersion(t,
			&version)
	}); err != nil {
		return err
	}
	reply.CUDA = int(version)
	return nil
}

func (r *rank) openNCCL(path string, reply *probes.OpenReply) error {
	library, err := r.load(path)
	if err != nil {
		return failed(probes.FailureLibrary, "no NCCL: %v", err)
	}
	r.ncclPath = file(library, path)
	reply.NCCLPath = r.ncclPath
	r.nccl = new(C.struct_nccl)
	missing := C.nccl_find(library, r.nccl)
	var version C.int
	if err := r.nc("ncclGetVersion", func(t *C.struct_nccl) C.int {
		return C.call_ncclGetVersion(t,
			&version)
	}); err != nil {
		return err
	}
	reply.NCCL = int(version)
	if version < minVersion {
		return failed(probes.FailureLibrary,
			"%s is version %d, expected %d at least: the communicators of older ones block, "+
				"and nothing ends one that hangs", r.ncclPath, version, minVersion)
	}
	if missing != nil {
		return failed(probes.FailureLibrary, "%s has no %s", r.ncclPath, C.GoString(missing))
	}
	return nil
}

// openGPU makes a context and a stream whose kernels come last.
func (r *rank) openGPU(address string, reply *probes.OpenReply) error {
	caddress := C.CString(address)
	defer C.free(unsafe.Pointer(caddress))
	var mode, least, greatest C.int
	var uuid [16]byte
	if err := r.cuAll(
		cudaCall{"cuInit", func(t *C.struct_cuda) C.int { return C.call_cuInit(t, 0) }},
		cudaCall{"cuDeviceGetByPCIBusId", func(t *C.struct_cuda) C.int {
			return C.call_cuDeviceGetByPCIBusId(t, &r.device,
				caddress)
		}},
		cudaCall{"cuDeviceGetAttribute", func(t *C.struct_cuda) C.int {
			return C.call_cuDeviceGetAttribute(t, &mode,
				computeMode, r.device)
		}},
		cudaCall{"cuDeviceGetUuid_v2", func(t *C.struct_cuda) C.int {
			return C.call_cuDeviceGetUuid_v2(t,
				unsafe.Pointer(&uuid[0]), r.device)
		}},
	); err != nil {
		return fmt.Errorf("GPU %s: %w", address, err)
	}
	if mode != 0 {
		// In the exclusive mode, a job that starts while the probe has the GPU would not get it.
		return failed(probes.FailureCUDA, "GPU %s: compute mode %d, expected 0 (default)", address, mode)
	}
	reply.GPU = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	var context unsafe.Pointer
	var err error
	if err = r.cuAll(
		cudaCall{"cuDevicePrimaryCtxSetFlags_v2", func(t *C.struct_cuda) C.int {
			return C.call_cuDevicePrimaryCtxSetFlags_v2(t, r.device, schedBlockingSync)
		}},
		cudaCall{"cuDevicePrimaryCtxRetain", func(t *C.struct_cuda) C.int {
			return C.call_cuDevicePrimaryCtxRetain(t,
				&context, r.device)
		}},
	); err != nil {
		return fmt.Errorf("GPU %s: %w", address, err)
	}
	r.hasGPU = true
	if err = r.cuAll(
		cudaCall{"cuCtxSetCurrent", func(t *C.struct_cuda) C.int { return C.call_cuCtxSetCurrent(t, context) }},
		cudaCall{"cuCtxGetStreamPriorityRange", func(t *C.struct_cuda) C.int {
			return C.call_cuCtxGetStreamPriorityRange(t,
				&least, &greatest)
		}},
		cudaCall{"cuStreamCreateWithPriority", func(t *C.struct_cuda) C.int {
			return C.call_cuStreamCreateWithPriority(t, &r.stream, streamNonBlocking, least)
		}},
	); err != nil {
		return fmt.Errorf("GPU %s: %w", address, err)
	}
	reply.Memory, err = r.free()
	return err
}

// free returns how many bytes of the GPU are free.
func (r *rank) free() (uint64, error) {
	var free, total C.size_t
	err := r.cu("cuMemGetInfo_v2", func(t *C.struct_cuda) C.int { return C.call_cuMemGetInfo_v2(t, &free, &total) })
	return uint64(free), err
}
