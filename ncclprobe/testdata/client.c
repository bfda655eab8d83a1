// SPDX-License-Identifier: Apache-2.0
//
// One rank of a test of the stand-ins: client DIRECTORY RANK RANKS GPU ID OP TYPE REDUCTION COUNT [TIMEOUT]. ID is a file that
// rank 0 writes. It prints one line, "ok MICROSECONDS" or what was wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { char internal[128]; } id_t_;
struct config { size_t size; unsigned magic, version; int blocking, cga, min, max; const char *net; int rest[14]; };

static void *cuda, *nccl;
static double deadline;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

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
#define CHECK(call) do { int e_ = (call); if (e_) { printf("%s: %d %s\n", #call, e_, last()); fflush(stdout); _exit(4); } } while (0)

static const char *last(void) { return nccl ? ((const char *(*)(void *))symbol(nccl, "ncclGetLastError"))(NULL) : ""; }

// settle polls a communicator until it is not in progress.
static int settle(void *comm, int got)
{
	int state = got;
	while (state == 7) {
		int err = NCCL(ncclCommGetAsyncError, comm, &state);
		if (err)
			return err;
		if (state == 7 && now() > deadline) {
			int e = NCCL(ncclCommAbort, comm);
			printf("timeout, abort %d\n", e);
			fflush(stdout);
			_exit(5);
		}
		if (state == 7)
			usleep(200);
	}
	return state;
}

static void wait_stream(void *comm, void *stream)
{
	int q, state = 0;
	while ((q = CUDA(cuStreamQuery, stream)) == 600) {
		NCCL(ncclCommGetAsyncError, comm, &state);
		if (state || now() > deadline) {
			int e = NCCL(ncclCommAbort, comm);
			printf("%s %d, abort %d, stream %d\n", state ? "async" : "timeout", state, e, CUDA(cuStreamSynchronize, stream));
			fflush(stdout);
			_exit(5);
		}
		usleep(50);
	}
	CHECK(q);
}

static size_t size_of(int type)
{
	static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return sizes[type];
}

static double get(const char *p, int type, size_t i)
{
	switch (type) {
	case 2: return ((const int32_t *)p)[i];
	case 6: return (double)((const _Float16 *)p)[i];
	case 7: return ((const float *)p)[i];
	case 8: return ((const double *)p)[i];
	}
	uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static void set(char *p, int type, size_t i, double v)
{
	float f = (float)v;
	uint32_t bits;
	memcpy(&bits, &f, 4);
	switch (type) {
	case 2: ((int32_t *)p)[i] = (int32_t)v; return;
	case 6: ((_Float16 *)p)[i] = (_Float16)v; return;
	case 7: ((float *)p)[i] = f; return;
	case 8: ((double *)p)[i] = v; return;
	}
	((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
}

// value is what a rank has at a place: small enough for exact sums in every type.
static double value(int rank, size_t i) { return rank + 1 + (double)(i % 3); }

static double reduced(int op, int ranks, size_t i)
{
	double v = value(0, i);
	for (int r = 1; r < ranks; r++) {
		double x = value(r, i);
		v = op == 1 ? v * x : op == 2 ? (x > v ? x : v) : op == 3 ? (x < v ? x : v) : v + x;
	}
	return op == 4 ? v / ranks : v;
}

static int run(const char *name, uint64_t in, uint64_t out, size_t count, int type, int op, int rank, int ranks, void *comm, void *stream)
{
	int root = ranks - 1, ret = 0;
	if (!strcmp(name, "allreduce"))
		return NCCL(ncclAllReduce, in, out, count, type, op, comm, stream);
	if (!strcmp(name, "inplace"))
		return NCCL(ncclAllReduce, in, in, count, type, op, comm, stream);
	if (!strcmp(name, "broadcast"))
		return NCCL(ncclBroadcast, in, out, count, type, root, comm, stream);
	if (!strcmp(name, "reduce"))
		return NCCL(ncclReduce, in, out, count, type, op, root, comm, stream);
	if (!strcmp(name, "allgather"))
		return NCCL(ncclAllGather, in, out, count, type, comm, stream);
	if (!strcmp(name, "reducescatter"))
		return NCCL(ncclReduceScatter, in, out, count, type, op, comm, stream);
	CHECK(NCCL(ncclGroupStart));
	ret |= NCCL(ncclSend, in, count, type, (rank + 1) % ranks, comm, stream);
	ret |= NCCL(ncclRecv, out, count, type, (rank + ranks - 1) % ranks, comm, stream);
	return ret ? ret : NCCL(ncclGroupEnd);
}

static double expected(const char *name, int op, int rank, int ranks, size_t count, size_t i)
{
	if (!strcmp(name, "allreduce") || !strcmp(name, "inplace") || !strcmp(name, "reduce"))
		return reduced(op, ranks, i);
	if (!strcmp(name, "broadcast"))
		return value(ranks - 1, i);
	if (!strcmp(name, "allgather"))
		return value((int)(i / count), i % count);
	if (!strcmp(name, "reducescatter"))
		return reduced(op, ranks, (size_t)rank * count + i);
	return value((rank + ranks - 1) % ranks, i);
}

static void load(const char *dir)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/libcuda.so.1", dir);
	cuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, sizeof path, "%s/libnccl.so.2", dir);
	nccl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cuda || !nccl) {
		printf("%s\n", dlerror());
		exit(3);
	}
}

static id_t_ exchange_id(const char *file, int rank)
{
	id_t_ id;
	char part[4096];
	snprintf(part, sizeof part, "%s.part", file);
	if (rank == 0) {
		CHECK(NCCL(ncclGetUniqueId, &id));
		FILE *f = fopen(part, "w");
		if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(part, file))
			exit(3);
		return id;
	}
	for (FILE *f; now() < deadline; usleep(1000))
		if ((f = fopen(file, "r"))) {
			if (fread(&id, sizeof id, 1, f) != 1)
				exit(3);
			fclose(f);
			return id;
		}
	printf("no id\n");
	exit(3);
}

int main(int argc, char **argv)
{
	if (argc < 10)
		return 2;
	int rank = atoi(argv[2]), ranks = atoi(argv[3]), gpu = atoi(argv[4]), type = atoi(argv[7]), op = atoi(argv[8]);
	const char *name = argv[6];
	size_t count = strtoul(argv[9], NULL, 0), size = size_of(type);
	deadline = now() + (argc > 10 ? atof(argv[10]) : 30);
	load(argv[1]);
	int device;
	void *context, *stream, *a, *b, *comm = NULL;
	CHECK(CUDA(cuInit, 0));
	CHECK(CUDA(cuDeviceGet, &device, gpu));
	CHECK(CUDA(cuDevicePrimaryCtxSetFlags_v2, device, 4));
	CHECK(CUDA(cuDevicePrimaryCtxRetain, &context, device));
	CHECK(CUDA(cuCtxSetCurrent, context));
	CHECK(CUDA(cuStreamCreateWithPriority, &stream, 1, 0));
	CHECK(CUDA(cuEventCreate, &a, 0));
	CHECK(CUDA(cuEventCreate, &b, 0));
	size_t n_in = !strcmp(name, "reducescatter") ? count * (size_t)ranks : count, n_out = !strcmp(name, "allgather") ? count * (size_t)ranks : count;
	uint64_t in, out;
	CHECK(CUDA(cuMemAlloc_v2, &in, n_in * size + 1));
	CHECK(CUDA(cuMemAlloc_v2, &out, n_out * size + 1));
	char *host = malloc((n_in + n_out) * size + 1);
	for (size_t i = 0; i < n_in; i++)
		set(host, type, i, value(rank, i));
	CHECK(CUDA(cuMemcpyHtoD_v2, in, host, n_in * size));

	id_t_ id = exchange_id(argv[5], rank);
	struct config config = {.size = 96, .magic = 0xcafebeef, .version = 23007, .blocking = 0, .cga = 0, .min = 1, .max = 2};
	for (int i = 0; i < 14; i++)
		config.rest[i] = INT_MIN;
	config.rest[2] = config.rest[3] = 0; // the pointer at 48
	int (*init)(void **, int, id_t_, int, void *) = symbol(nccl, "ncclCommInitRankConfig");
	int started = init(&comm, ranks, id, rank, &config);
	CHECK(settle(comm, started));
	double took = 0;
	for (int i = 0; i < 2; i++) { // the first one warms up
		if (!strcmp(name, "inplace"))
			CHECK(CUDA(cuMemcpyHtoD_v2, in, host, n_in * size));
		CHECK(CUDA(cuEventRecord, a, stream));
		CHECK(settle(comm, run(name, in, out, count, type, op, rank, ranks, comm, stream)));
		CHECK(CUDA(cuEventRecord, b, stream));
		wait_stream(comm, stream);
		float ms;
		CHECK(CUDA(cuEventElapsedTime, &ms, a, b));
		took = ms * 1e3;
	}
	int to_check = strcmp(name, "reduce") || rank == ranks - 1;
	CHECK(CUDA(cuMemcpyDtoH_v2, host, strcmp(name, "inplace") ? out : in, n_out * size));
	size_t wrong = 0;
	for (size_t i = 0; i < n_out && to_check; i++)
		wrong += get(host, type, i) != expected(name, op, rank, ranks, count, i);
	CHECK(settle(comm, NCCL(ncclCommFinalize, comm)));
	CHECK(NCCL(ncclCommDestroy, comm));
	CHECK(CUDA(cuMemFree_v2, in));
	CHECK(CUDA(cuMemFree_v2, out));
	CHECK(CUDA(cuEventDestroy_v2, a));
	CHECK(CUDA(cuEventDestroy_v2, b));
	CHECK(CUDA(cuStreamDestroy_v2, stream));
	CHECK(CUDA(cuDevicePrimaryCtxRelease_v2, device));
	wrong ? printf("wrong %zu\n", wrong) : printf("ok %.0f\n", took);
	return wrong != 0;
}
