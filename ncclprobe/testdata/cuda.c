// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for NVIDIA's libcuda.so.1: devices and contexts. Memory is in memory.c, streams and events are in stream.c. The
// words it knows, and what holds without them, are in ncclprobetest.
#define _GNU_SOURCE
#include "cuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_GPUS = 64 };

const char machine_scope[] = "gpu";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[MAX_GPUS];
static atomic_int initialised;
_Thread_local struct context *current;

int cuda_enter(const char *function, enum need need, int gpu)
{
	int err = machine_enter(function, gpu == ANYONE && current ? current->device : gpu);
	if (err)
		return err;
	if (need >= DRIVER && !initialised)
		return NOT_INITIALIZED;
	if (need < CONTEXT)
		return OK;
	if (!current)
		return INVALID_CONTEXT;
	return current->retained ? current->poison : CONTEXT_IS_DESTROYED;
}

static int gpus(void)
{
	int n = (int)machine_number("gpus", ANYONE, 8);
	return n < MAX_GPUS ? n : MAX_GPUS;
}

static int known(int device) { return device >= 0 && device < gpus(); }

int cuInit(unsigned flags)
{
	ENTER(NOTHING);
	if (flags)
		return INVALID_VALUE;
	if (!gpus())
		return NO_DEVICE;
	if (machine_number("jit", ANYONE, 0) && mmap(NULL, 1, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		return OPERATING_SYSTEM;
	initialised = 1;
	return OK;
}

int cuDriverGetVersion(int *version)
{
	ENTER(NOTHING);
	if (!version)
		return INVALID_VALUE;
	*version = (int)machine_number("cuda", ANYONE, 13000);
	return OK;
}

int cuDeviceGetCount(int *n)
{
	ENTER(DRIVER);
	if (!n)
		return INVALID_VALUE;
	*n = gpus();
	return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
	ENTER(DRIVER);
	if (!device || ordinal < 0 || ordinal >= gpus())
		return INVALID_DEVICE;
	*device = ordinal;
	return OK;
}

int cuDeviceGetPCIBusId(char *to, int size, int device)
{
	ENTER_GPU(device);
	if (!to || size < (int)sizeof "0000:00:00.0")
		return INVALID_VALUE;
	snprintf(to, (size_t)size, "0000:%02X:00.0", 0x1b + device);
	return OK;
}

int cuDeviceGetByPCIBusId(int *device, const char *id)
{
	ENTER(DRIVER);
	unsigned domain, bus, slot, function = 0;
	if (!device || !id || sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		return INVALID_VALUE;
	if (domain || slot || function || bus < 0x1b || !known((int)bus - 0x1b))
		return INVALID_DEVICE;
	*device = (int)bus - 0x1b;
	return OK;
}

// The UUID is the one that the stand-in for NVML gives that GPU.
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	ENTER_GPU(device);
	static const unsigned char rest[12] = {0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44};
	for (int i = 0; i < 4; i++)
		uuid[i] = (unsigned char)((unsigned)device >> (24 - 8 * i));
	memcpy(uuid + 4, rest, sizeof rest);
	return OK;
}

int cuDeviceGetName(char *to, int size, int device)
{
	ENTER_GPU(device);
	if (!to || size < 1)
		return INVALID_VALUE;
	snprintf(to, (size_t)size, "NVIDIA H100 80GB HBM3");
	return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	ENTER_GPU(device);
	if (!value)
		return INVALID_VALUE;
	switch (attribute) {
	case 20: *value = (int)machine_number("mode", device, 0); return OK;
	case 75: *value = 9; return OK; // compute capability
	case 76: *value = 0; return OK;
	case 116: *value = (int)machine_number("gdr_gpu", device, 1); return OK;
	case 124: *value = (int)machine_number("dmabuf", device, 1); return OK;
	}
	return INVALID_VALUE;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
	ENTER_GPU(device);
	if (flags > 0xff)
		return INVALID_VALUE;
	contexts[device].flags = flags;
	return OK;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	ENTER_GPU(device);
	*flags = contexts[device].flags, *active = contexts[device].retained > 0;
	return OK;
}

// exclusive takes the GPU for this process, as compute mode 3 demands: a lock on a file that ends with the process.
static int exclusive(int device)
{
	char path[4096];
	machine_path("gpu", path, sizeof path - 16);
	snprintf(path + strlen(path), 16, "%d.lock", device);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	close(fd);
	return -1;
}

int cuDevicePrimaryCtxRetain(struct context **to, int device)
{
	ENTER_GPU(device);
	if (!to)
		return INVALID_VALUE;
	int mode = (int)machine_number("mode", device, 0);
	if (mode == 2) // prohibited
		return DEVICE_UNAVAILABLE;
	pthread_mutex_lock(&mutex);
	struct context *c = &contexts[device];
	if (!c->retained) {
		c->device = device;
		c->poison = 0;
		c->lock = mode == 3 ? exclusive(device) : -1;
		if (mode == 3 && c->lock < 0) {
			pthread_mutex_unlock(&mutex);
			return DEVICE_UNAVAILABLE;
		}
	}
	c->retained++;
	pthread_mutex_unlock(&mutex);
	*to = c;
	return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	ENTER_GPU(device);
	struct context *c = &contexts[device];
	if (!c->retained)
		return INVALID_CONTEXT;
	if (c->retained == 1) {
		if (!c->poison)
			streams_wait(c);
		streams_forget(c);
		memory_forget(c);
	}
	pthread_mutex_lock(&mutex);
	if (!--c->retained && c->lock >= 0)
		close(c->lock);
	pthread_mutex_unlock(&mutex);
	return OK;
}

int cuCtxSetCurrent(struct context *c)
{
	ENTER(DRIVER);
	if (c && (c < contexts || c >= contexts + MAX_GPUS || !c->retained))
		return INVALID_CONTEXT;
	current = c;
	return OK;
}

int cuCtxGetCurrent(struct context **to)
{
	ENTER(DRIVER);
	*to = current;
	return OK;
}

int cuCtxGetDevice(int *device)
{
	ENTER(CONTEXT);
	*device = current->device;
	return OK;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	ENTER(CONTEXT);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return OK;
}

int cuCtxSynchronize(void)
{
	ENTER(CONTEXT);
	streams_wait(current);
	return current->poison;
}

static const struct { int code; const char *name, *text; } errors[] = {
	{OK, "CUDA_SUCCESS", "no error"},
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
	{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

int cuGetErrorName(int code, const char **to)
{
	*to = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code)
			*to = errors[i].name;
	return *to ? OK : INVALID_VALUE;
}

int cuGetErrorString(int code, const char **to)
{
	*to = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code)
			*to = errors[i].text;
	return *to ? OK : INVALID_VALUE;
}
