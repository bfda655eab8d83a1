// SPDX-License-Identifier: Apache-2.0
//
// What the stand-ins answer to calls that are wrong: misuse DIRECTORY VERSION driver|no-driver. It prints what is not as expected.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique;
struct config { size_t size; unsigned magic, version; int blocking, cga, min, max; const char *net; int rest[14]; };

static void *cuda, *nccl;
static int failed;

static void *symbol(void *library, const char *name)
{
	void *s = dlsym(library, name);
	if (!s) {
		printf("no symbol %s\n", name);
		exit(3);
	}
	return s;
}

#define CUDA(name, ...) ((int (*)())symbol(cuda, #name))(__VA_ARGS__)
#define NCCL(name, ...) ((int (*)())symbol(nccl, #name))(__VA_ARGS__)
#define EXPECT(want, call) expect(want, call, #call, __LINE__)

static void expect(int want, int got, const char *call, int line)
{
	if (got == want)
		return;
	printf("%d: %s: %d, want %d\n", line, call, got, want);
	failed = 1;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_for_gate(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void *without_context(void *argument)
{
	EXPECT(201, CUDA(cuMemFree_v2, *(uint64_t *)argument));
	return NULL;
}

static void contexts(void **context, void **other)
{
	int device, n;
	EXPECT(3, CUDA(cuDeviceGet, &device, 0));
	EXPECT(1, CUDA(cuInit, 1));
	EXPECT(0, CUDA(cuInit, 0));
	EXPECT(0, CUDA(cuDeviceGetCount, &n));
	EXPECT(8, n);
	EXPECT(101, CUDA(cuDeviceGet, &device, 8));
	EXPECT(101, CUDA(cuDevicePrimaryCtxRetain, context, 8));
	EXPECT(201, CUDA(cuCtxGetDevice, &device));
	EXPECT(201, CUDA(cuCtxSetCurrent, cuda));
	EXPECT(0, CUDA(cuDevicePrimaryCtxRetain, context, 2));
	EXPECT(0, CUDA(cuDevicePrimaryCtxRetain, other, 3));
	EXPECT(0, CUDA(cuCtxSetCurrent, *context));
	EXPECT(0, CUDA(cuCtxGetDevice, &device));
	EXPECT(2, device);
	char id[32];
	EXPECT(0, CUDA(cuDeviceGetPCIBusId, id, 32, 2));
	EXPECT(0, strcmp(id, "0000:1D:00.0"));
	EXPECT(1, CUDA(cuDeviceGetPCIBusId, id, 5, 2));
	EXPECT(0, CUDA(cuDeviceGetByPCIBusId, &device, "0000:1d:00.0"));
	EXPECT(2, device);
	EXPECT(101, CUDA(cuDeviceGetByPCIBusId, &device, "0000:7d:00.0"));
	int value = -1;
	EXPECT(0, CUDA(cuDeviceGetAttribute, &value, 124, 2));
	EXPECT(1, value);
	EXPECT(1, CUDA(cuDeviceGetAttribute, &value, 9999, 2));
	const char *name;
	EXPECT(0, CUDA(cuGetErrorName, 600, &name));
	EXPECT(0, strcmp(name, "CUDA_ERROR_NOT_READY"));
	EXPECT(1, CUDA(cuGetErrorName, 12345, &name));
}

static void memory(void *context, void *other)
{
	uint64_t p;
	size_t before, after, total;
	char host[64] = "";
	EXPECT(1, CUDA(cuMemAlloc_v2, &p, (size_t)0));
	EXPECT(2, CUDA(cuMemAlloc_v2, &p, (size_t)1 << 40));
	EXPECT(0, CUDA(cuMemGetInfo_v2, &before, &total));
	EXPECT(0, CUDA(cuMemAlloc_v2, &p, (size_t)4096));
	EXPECT(0, CUDA(cuMemGetInfo_v2, &after, &total));
	EXPECT(4096, (int)(before - after));
	EXPECT(1, CUDA(cuMemcpyHtoD_v2, (uint64_t)(uintptr_t)host, host, sizeof host));
	EXPECT(1, CUDA(cuMemcpyDtoH_v2, host, p + 4090, sizeof host));
	EXPECT(1, CUDA(cuMemFree_v2, p + 1));
	EXPECT(0, CUDA(cuCtxSetCurrent, other));
	EXPECT(1, CUDA(cuMemcpyDtoH_v2, host, p, sizeof host));
	EXPECT(1, CUDA(cuMemFree_v2, p));
	EXPECT(0, CUDA(cuCtxSetCurrent, context));
	pthread_t thread;
	pthread_create(&thread, NULL, without_context, &p);
	pthread_join(thread, NULL);
	EXPECT(0, CUDA(cuMemFree_v2, p));
	EXPECT(1, CUDA(cuMemFree_v2, p));
}

static void streams(void *context, void *other)
{
	void *s, *a, *b, *untimed;
	float ms;
	EXPECT(0, CUDA(cuStreamCreateWithPriority, &s, 1, 0));
	EXPECT(0, CUDA(cuEventCreate, &a, 0));
	EXPECT(0, CUDA(cuEventCreate, &b, 0));
	EXPECT(0, CUDA(cuEventCreate, &untimed, 2));
	EXPECT(400, CUDA(cuEventElapsedTime, &ms, a, b));
	EXPECT(0, CUDA(cuEventRecord, a, s));
	EXPECT(0, CUDA(cuEventSynchronize, a));
	pthread_mutex_lock(&gate);
	EXPECT(0, CUDA(cuLaunchHostFunc, s, wait_for_gate, NULL));
	EXPECT(0, CUDA(cuEventRecord, b, s));
	EXPECT(600, CUDA(cuStreamQuery, s));
	EXPECT(600, CUDA(cuEventQuery, b));
	EXPECT(600, CUDA(cuEventElapsedTime, &ms, a, b));
	EXPECT(0, CUDA(cuCtxSetCurrent, other));
	EXPECT(400, CUDA(cuStreamQuery, s));
	EXPECT(400, CUDA(cuEventQuery, b));
	EXPECT(0, CUDA(cuCtxSetCurrent, context));
	usleep(2000);
	pthread_mutex_unlock(&gate);
	EXPECT(0, CUDA(cuStreamSynchronize, s));
	EXPECT(0, CUDA(cuStreamQuery, s));
	EXPECT(0, CUDA(cuEventElapsedTime, &ms, a, b));
	EXPECT(1, ms >= 2);
	EXPECT(0, CUDA(cuEventRecord, untimed, s));
	EXPECT(0, CUDA(cuEventSynchronize, untimed));
	EXPECT(400, CUDA(cuEventElapsedTime, &ms, a, untimed));
	EXPECT(0, CUDA(cuEventDestroy_v2, a));
	EXPECT(400, CUDA(cuEventDestroy_v2, a));
	EXPECT(0, CUDA(cuStreamDestroy_v2, s));
	EXPECT(400, CUDA(cuStreamQuery, s));
}

static int init(void **comm, struct config *config)
{
	unique id;
	EXPECT(0, NCCL(ncclGetUniqueId, &id));
	int (*call)(void **, int, unique, int, void *) = symbol(nccl, "ncclCommInitRankConfig");
	return call(comm, 1, id, 0, config);
}

static int settle(void *comm)
{
	int state = 7, polls = 0;
	while (state == 7 && !NCCL(ncclCommGetAsyncError, comm, &state))
		usleep(100), polls++;
	EXPECT(1, polls > 1);
	return state;
}

static struct config initial(void)
{
	struct config c = {.size = 96, .magic = 0xcafebeef, .version = 23007, .min = INT_MIN, .max = INT_MIN, .cga = INT_MIN};
	for (int i = 0; i < 14; i++)
		c.rest[i] = INT_MIN;
	c.rest[2] = c.rest[3] = 0; // a pointer
	return c;
}

// configure tries a config, and puts the communicator away if there is one.
static void configure(int want, struct config c, int line)
{
	void *comm = NULL;
	expect(want, init(&comm, &c), "ncclCommInitRankConfig", line);
	if (!comm)
		return;
	if (want == 7)
		EXPECT(0, settle(comm));
	EXPECT(0, NCCL(ncclCommAbort, comm));
}

static void configs(int minor)
{
	struct config c = initial();
	configure(7, c, __LINE__);
	c.blocking = INT_MIN;
	configure(0, c, __LINE__);
	c.blocking = 2;
	configure(4, c, __LINE__);
	c.version = 21300; // that field is newer
	configure(0, c, __LINE__);
	c = initial(), c.magic = 0;
	configure(4, c, __LINE__);
	c = initial(), c.size = 8;
	configure(4, c, __LINE__);
	c = initial(), c.min = 1;
	configure(minor >= 17 ? 4 : 7, c, __LINE__); // above the undefined maximum
	c.version = 21600;
	configure(7, c, __LINE__);
	c = initial(), c.min = 2, c.max = 1;
	configure(minor >= 17 ? 4 : 7, c, __LINE__);
	c = initial(), c.max = 2;
	configure(7, c, __LINE__);
	c = initial(), c.rest[0] = 3; // splitShare
	configure(minor >= 18 ? 4 : 7, c, __LINE__);
	c = initial(), c.rest[7] = 0; // nvlsCTAs
	configure(minor >= 27 ? 4 : 7, c, __LINE__);
	c.version = 22600;
	configure(7, c, __LINE__);
	c = initial(), c.size = 200, c.version = 29999; // of a release to come
	configure(7, c, __LINE__);
}

static void calls(void)
{
	void *comm = NULL, *s;
	uint64_t p;
	char host[64];
	int n, state;
	struct config c = initial();
	EXPECT(0, CUDA(cuStreamCreateWithPriority, &s, 1, 0));
	EXPECT(0, CUDA(cuMemAlloc_v2, &p, (size_t)4096));
	EXPECT(7, init(&comm, &c));
	EXPECT(4, NCCL(ncclAllReduce, p, p, (size_t)1, 7, 0, comm, s)); // not polled yet
	EXPECT(0, settle(comm));
	EXPECT(0, NCCL(ncclCommCuDevice, comm, &n));
	EXPECT(2, n);
	EXPECT(0, NCCL(ncclCommCount, comm, &n));
	EXPECT(1, n);
	EXPECT(4, NCCL(ncclAllReduce, p, p, (size_t)1, 99, 0, comm, s));
	EXPECT(4, NCCL(ncclAllReduce, p, p, (size_t)1, 7, 5, comm, s));
	EXPECT(4, NCCL(ncclBroadcast, p, p, (size_t)1, 7, 1, comm, s));
	EXPECT(4, NCCL(ncclAllReduce, p, p, (size_t)1, 7, 0, NULL, s));
	EXPECT(5, NCCL(ncclGroupEnd));
	EXPECT(7, NCCL(ncclAllReduce, p, p, (size_t)1024, 7, 0, comm, s));
	EXPECT(4, NCCL(ncclAllReduce, p, p, (size_t)1, 7, 0, comm, s));
	EXPECT(0, settle(comm));
	EXPECT(0, CUDA(cuStreamSynchronize, s));
	EXPECT(0, NCCL(ncclGroupStart));
	EXPECT(0, NCCL(ncclAllReduce, p, p, (size_t)1, 7, 0, comm, s));
	EXPECT(0, NCCL(ncclAllReduce, p, p, (size_t)1, 7, 0, comm, s));
	EXPECT(7, NCCL(ncclGroupEnd));
	EXPECT(0, settle(comm));
	EXPECT(7, NCCL(ncclCommFinalize, comm));
	EXPECT(0, settle(comm));
	EXPECT(4, NCCL(ncclCommFinalize, comm));
	EXPECT(0, NCCL(ncclCommDestroy, comm));
	EXPECT(4, NCCL(ncclCommGetAsyncError, comm, &state));
	EXPECT(7, init(&comm, &c));
	EXPECT(0, settle(comm));
	pthread_mutex_lock(&gate);
	EXPECT(0, CUDA(cuLaunchHostFunc, s, wait_for_gate, NULL));
	EXPECT(7, NCCL(ncclAllReduce, p, host, (size_t)16, 7, 0, comm, s)); // no check: the kernel faults
	EXPECT(0, settle(comm));
	EXPECT(7, NCCL(ncclAllReduce, p, p, (size_t)16, 7, 0, comm, s)); // what is queued behind it does not keep abort
	EXPECT(0, settle(comm));
	pthread_mutex_unlock(&gate);
	EXPECT(700, CUDA(cuStreamSynchronize, s));
	EXPECT(700, CUDA(cuMemFree_v2, p));
	EXPECT(0, NCCL(ncclCommAbort, comm));
}

// pair runs two ranks in this process, which only groups can do.
static void pair(void *context, void *other)
{
	void *contexts[] = {context, other}, *comms[2], *s[2];
	uint64_t p[2];
	unique id;
	EXPECT(0, NCCL(ncclGetUniqueId, &id));
	int (*call)(void **, int, unique, int) = symbol(nccl, "ncclCommInitRank");
	EXPECT(0, NCCL(ncclGroupStart));
	for (int i = 0; i < 2; i++) {
		int value = 5 + i;
		EXPECT(0, CUDA(cuCtxSetCurrent, contexts[i]));
		EXPECT(0, CUDA(cuStreamCreateWithPriority, &s[i], 1, 0));
		EXPECT(0, CUDA(cuMemAlloc_v2, &p[i], (size_t)4));
		EXPECT(0, CUDA(cuMemcpyHtoD_v2, p[i], &value, (size_t)4));
		EXPECT(0, call(&comms[i], 2, id, i));
	}
	EXPECT(0, NCCL(ncclGroupEnd));
	EXPECT(0, NCCL(ncclGroupStart));
	for (int i = 0; i < 2; i++) {
		EXPECT(0, CUDA(cuCtxSetCurrent, contexts[i]));
		EXPECT(0, NCCL(ncclAllReduce, p[i], p[i], (size_t)1, 2, 0, comms[i], s[i]));
	}
	EXPECT(0, NCCL(ncclGroupEnd));
	for (int i = 0; i < 2; i++) {
		int value = 0;
		EXPECT(0, CUDA(cuCtxSetCurrent, contexts[i]));
		EXPECT(0, CUDA(cuStreamSynchronize, s[i]));
		EXPECT(0, CUDA(cuMemcpyDtoH_v2, &value, p[i], (size_t)4));
		EXPECT(11, value);
		EXPECT(0, NCCL(ncclCommDestroy, comms[i]));
		EXPECT(0, CUDA(cuMemFree_v2, p[i]));
	}
	EXPECT(0, CUDA(cuCtxSetCurrent, context));
}

int main(int argc, char **argv)
{
	char path[4096];
	int a, b, c, version;
	void *context, *other;
	if (argc != 4 || sscanf(argv[2], "%d.%d.%d", &a, &b, &c) != 3)
		return 2;
	alarm(60); // a hang fails too
	snprintf(path, sizeof path, "%s/libnccl.so.2", argv[1]);
	nccl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (nccl && !strcmp(argv[3], "no-driver")) {
		struct config config = initial();
		void *comm = NULL;
		EXPECT(1, init(&comm, &config));
		EXPECT(1, comm == NULL);
		return failed;
	}
	snprintf(path, sizeof path, "%s/libcuda.so.1", argv[1]);
	cuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cuda || !nccl) {
		printf("%s\n", dlerror());
		return 3;
	}
	contexts(&context, &other);
	memory(context, other);
	streams(context, other);
	EXPECT(0, NCCL(ncclGetVersion, &version));
	EXPECT(a * 10000 + b * 100 + c, version);
	configs(b);
	pair(context, other);
	calls();
	EXPECT(700, CUDA(cuCtxSynchronize));
	EXPECT(0, CUDA(cuDevicePrimaryCtxRelease_v2, 2));
	EXPECT(201, CUDA(cuDevicePrimaryCtxRelease_v2, 2));
	EXPECT(709, CUDA(cuCtxSynchronize));
	return failed;
}
