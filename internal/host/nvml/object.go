// SPDX-License-Identifier: Apache-2.0

package nvml

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// dlerror belongs to the thread, so both calls are made in one.
static void *object_open(const char *path, char *why, size_t size) {
	void *object = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	if (object == NULL) {
		const char *error = dlerror();
		snprintf(why, size, "%s", error == NULL ? "dlopen failed" : error);
	}
	return object;
}

static int call_handle(void *f, unsigned int index, void **device) {
	return ((int (*)(unsigned int, void **))f)(index, device);
}

static int call_processes(void *f, void *device, unsigned int *count, void *infos) {
	return ((int (*)(void *, unsigned int *, void *))f)(device, count, infos);
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// object is the library as it was loaded. It is never unloaded: go-nvml's symbols stay bound to it for good.
//
// It is opened here before go-nvml does so, because go-nvml calls a broken library "not found", and calls
// nvmlInit without looking whether there is one. And it lists processes itself, because go-nvml doubles its
// buffer as long as the library calls it too small, and accepts any length that comes back.
type object struct {
	handle  unsafe.Pointer
	known   map[string]unsafe.Pointer // symbols that were looked up; nil: missing
	scratch []uint64                  // for the lists of processes
}

func openObject(path string) (*object, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var why [maxMessage]C.char
	h := C.object_open(cpath, &why[0], C.size_t(len(why)))
	if h != nil {
		return &object{handle: h, known: map[string]unsafe.Pointer{}}, nil
	}
	text := C.GoString(&why[0])
	if strings.HasSuffix(text, "cannot open shared object file: No such file or directory") {
		return nil, fs.ErrNotExist
	}
	if cause, denied := strings.CutSuffix(text, ": Permission denied"); denied { // by its mode, SELinux or AppArmor
		return nil, fmt.Errorf("%s: %w", cause, fs.ErrPermission)
	}
	return nil, errors.New(text)
}

func (o *object) symbol(name string) unsafe.Pointer {
	p, ok := o.known[name]
	if !ok {
		cname := C.CString(name)
		defer C.free(unsafe.Pointer(cname))
		p = C.dlsym(o.handle, cname)
		o.known[name] = p
	}
	return p
}

// has reports whether the library has one of these symbols, which are versions of one function.
func (o *object) has(names ...string) bool {
	for _, n := range names {
		if o.symbol(n) != nil {
			return true
		}
	}
	return false
}

// device returns NVML's handle of a GPU; nil if it has none.
func (o *object) device(index int) unsafe.Pointer {
	for _, name := range []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"} {
		if f := o.symbol(name); f != nil {
			var device unsafe.Pointer
			if C.call_handle(f, C.uint(index), &device) != C.int(nvml.SUCCESS) {
				return nil
			}
			return device
		}
	}
	return nil
}

// processLists are the functions for each kind of process, and the size of what they list: nvmlProcessInfo_v2_t, which
// _v3 kept, and nvmlProcessInfo_v1_t.
var processLists = []struct {
	kind  fabric.GPUProcessKind
	names []string // the newest first
}{
	{fabric.GPUCompute, []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"}},
	{fabric.GPUGraphics, []string{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses"}},
	{fabric.GPUMPS, []string{"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses"}},
}

// errLie is the error of a library that says more than can be.
var errLie = fabric.Because(fabric.ReasonMalformed, "a list of processes that is longer than its buffer")

// processes appends the processes of one kind, those of all parts of a GPU in MIG mode. It asks three times
// at most, and for maxProcesses at most.
func (o *object) processes(device unsafe.Pointer, kind fabric.GPUProcessKind, names []string, parts map[instance]string,
	to []fabric.GPUProcess,
) ([]fabric.GPUProcess, nvml.Return, error) {
	var f unsafe.Pointer
	words := 3
	for _, n := range names {
		if f = o.symbol(n); f != nil {
			if !strings.Contains(n, "_v") {
				words = 2
			}
			break
		}
	}
	if f == nil {
		return to, nvml.ERROR_FUNCTION_NOT_FOUND, nil
	}
	room := 64
	for range 3 {
		if len(o.scratch) < 3*room {
			o.scratch = make([]uint64, 3*room)
		}
		room = len(o.scratch) / 3
		count := C.uint(room)
		ret := nvml.Return(C.call_processes(f, device, &count, unsafe.Pointer(&o.scratch[0])))
		switch {
		case ret == nvml.SUCCESS && int(count) <= room:
			for i := range int(count) {
				to = appendProcess(to, o.scratch[i*words:(i+1)*words], kind, parts)
			}
			return to, ret, nil
		case ret == nvml.SUCCESS:
			return to, ret, errLie
		case ret != nvml.ERROR_INSUFFICIENT_SIZE:
			return to, ret, nil
		case int(count) > maxProcesses:
			return to, ret, errLie
		}
		room = max(2*room, 2*int(count)) // more may start meanwhile
	}
	return to, nvml.ERROR_INSUFFICIENT_SIZE, nil
}

// appendProcess appends what both versions of nvmlProcessInfo_t begin with: a PID, padding, and bytes of
// memory. The second one goes on with the numbers of the GPU instance and of the compute instance. A process
// that runs in several MIG instances is listed for each of them: it is one, of which the instance is not
// known.
func appendProcess(to []fabric.GPUProcess, info []uint64, kind fabric.GPUProcessKind,
	parts map[instance]string,
) []fabric.GPUProcess {
	var raw [8]byte
	binary.NativeEndian.PutUint64(raw[:], info[0])
	p := fabric.GPUProcess{PID: int(binary.NativeEndian.Uint32(raw[:])), Kind: kind}
	if info[1] == math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
		p.Memory.Reason = fabric.ReasonUnsupported
	} else {
		p.Memory = fabric.Fact[uint64]{State: fabric.OK, Value: info[1]}
	}
	if len(info) > 2 {
		binary.NativeEndian.PutUint64(raw[:], info[2])
		p.Instance = parts[instance{binary.NativeEndian.Uint32(raw[:]), binary.NativeEndian.Uint32(raw[4:])}]
	}
	for i := range to {
		if o := &to[i]; o.PID == p.PID && o.Kind == kind && p.PID != 0 {
			if o.Instance != p.Instance {
				o.Instance = ""
			}
			if o.Memory.State != fabric.OK || p.Memory.State != fabric.OK {
				o.Memory = fabric.Fact[uint64]{Reason: fabric.ReasonUnsupported}
			} else {
				o.Memory.Value += p.Memory.Value
			}
			return to
		}
	}
	return append(to, p)
}
