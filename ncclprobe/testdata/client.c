// SPDX-License-Identifier: Apache-2.0
//
// One rank of a test of the stand-ins: client DIRECTORY RANK RANKS GPU ID OPERATIONS TYPES REDUCTIONS COUNTS
// SECONDS INIT. Operations to counts are lists with commas, and it runs everything with everything. The last two are for how
// long it waits for a collective and for init before it aborts. ID is a file that rank 0 writes. It prints one line: "ok"
// and how many microseconds the last collective took, or what was wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique;
struct config { size_t size; unsigned magic, version; int blocking, cga, min, max; const char *net; int rest[14]; };

struct rank { int rank, ranks; double patience; void *comm, *stream, *a, *b; };

static void *cuda, *nccl;

// quit says what there is to say, and leaves whatever hangs behind.
__attribute__((noreturn, format(printf, 2, 3))) static void quit(int code, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
	_exit(code);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *symbol(void *library, const char *name)
{
	void *s = dlsym(library, name);
	if (!s)
		quit(3, "no symbol %s", name);
	return s;
}

#define CUDA(name, ...) ((int (*)())symbol(cuda, #name))(__VA_ARGS__)
#define NCCL(name, ...) ((int (*)())symbol(nccl, #name))(__VA_ARGS__)
#define CHECK(call) do { int e_ = (call); if (e_) quit(4, "%s: %d %s", #call, e_, last()); } while (0)

static const char *last(void) { return nccl ? ((const char *(*)(void *))symbol(nccl, "ncclGetLastError"))(NULL) : ""; }

// settle polls a communicator until it is not in progress, and aborts it when that takes too long.
static int settle(void *comm, int got, double patience)
{
	int state = got;
	double deadline = now() + patience;
	while (state == 7) {
		int err = NCCL(ncclCommGetAsyncError, comm, &state);
		if (err)
			return err;
		if (state == 7 && now() > deadline)
			quit(5, "timeout, abort %d", NCCL(ncclCommAbort, comm));
		if (state == 7)
			usleep(200);
	}
	return state;
}

static void wait_stream(void *comm, void *stream, double patience)
{
	int q, state = 0;
	double deadline = now() + patience;
	while ((q = CUDA(cuStreamQuery, stream)) == 600) {
		NCCL(ncclCommGetAsyncError, comm, &state);
		if (state || now() > deadline) {
			int aborted = NCCL(ncclCommAbort, comm);
			quit(5, "%s %d, abort %d, stream %d", state ? "async" : "timeout", state, aborted, CUDA(cuStreamSynchronize, stream));
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

static int run(const struct rank *k, const char *name, uint64_t in, uint64_t out, size_t count, int type, int op)
{
	int root = k->ranks - 1, ret = 0;
	void *comm = k->comm, *stream = k->stream;
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
	ret |= NCCL(ncclSend, in, count, type, (k->rank + 1) % k->ranks, comm, stream);
	ret |= NCCL(ncclRecv, out, count, type, (k->rank + k->ranks - 1) % k->ranks, comm, stream);
	return ret ? ret : NCCL(ncclGroupEnd);
}

static double expected(const char *name, int type, int op, const struct rank *k, size_t count, size_t i)
{
	double v = value((k->rank + k->ranks - 1) % k->ranks, i); // of sendrecv
	if (!strcmp(name, "broadcast"))
		v = value(k->ranks - 1, i);
	else if (!strcmp(name, "allgather"))
		v = value((int)(i / count), i % count);
	else if (!strcmp(name, "reducescatter"))
		v = reduced(op, k->ranks, (size_t)k->rank * count + i);
	else if (strcmp(name, "sendrecv"))
		v = reduced(op, k->ranks, i);
	return type == 2 ? (double)(int)v : v;
}

static void load(const char *dir)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/libcuda.so.1", dir);
	cuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, sizeof path, "%s/libnccl.so.2", dir);
	nccl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cuda || !nccl)
		quit(3, "%s", dlerror());
}

static unique exchange_id(const char *file, int rank)
{
	unique id;
	char part[4096];
	snprintf(part, sizeof part, "%s.part", file);
	if (rank == 0) {
		CHECK(NCCL(ncclGetUniqueId, &id));
		FILE *f = fopen(part, "w");
		if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(part, file))
			quit(3, "cannot use %s", file);
		return id;
	}
	FILE *f;
	while (!(f = fopen(file, "r"))) // the parent has a deadline
		usleep(1000);
	if (fread(&id, sizeof id, 1, f) != 1)
		quit(3, "cannot use %s", file);
	fclose(f);
	return id;
}

// one runs a collective twice, and returns how long the second one took. It ends the process when the result is wrong.
static double one(const struct rank *k, const char *name, int type, int op, size_t count)
{
	size_t size = size_of(type), n_in = count, n_out = count;
	if (!strcmp(name, "reducescatter"))
		n_in *= (size_t)k->ranks;
	if (!strcmp(name, "allgather"))
		n_out *= (size_t)k->ranks;
	int in_place = !strcmp(name, "inplace"), root = strcmp(name, "reduce") || k->rank == k->ranks - 1;
	char *host = malloc((n_in + n_out + 1) * size);
	uint64_t in, out;
	float ms = 0;
	for (size_t i = 0; i < n_in; i++)
		set(host, type, i, value(k->rank, i));
	CHECK(CUDA(cuMemAlloc_v2, &in, (n_in + 1) * size));
	CHECK(CUDA(cuMemAlloc_v2, &out, (n_out + 1) * size));
	CHECK(CUDA(cuMemsetD32_v2, out, 0x7fc07fc0, n_out * size / 4)); // not a number
	for (int i = 0; i < 2; i++) {
		CHECK(CUDA(cuMemcpyHtoD_v2, in, host, n_in * size));
		CHECK(CUDA(cuEventRecord, k->a, k->stream));
		CHECK(settle(k->comm, run(k, name, in, out, count, type, op), k->patience));
		CHECK(CUDA(cuEventRecord, k->b, k->stream));
		wait_stream(k->comm, k->stream, k->patience);
		CHECK(CUDA(cuEventElapsedTime, &ms, k->a, k->b));
	}
	CHECK(CUDA(cuMemcpyDtoH_v2, host, in_place ? in : out, n_out * size));
	size_t wrong = 0;
	for (size_t i = 0; i < n_out && root; i++)
		wrong += get(host, type, i) != expected(name, type, op, k, count, i);
	CHECK(CUDA(cuMemFree_v2, in));
	CHECK(CUDA(cuMemFree_v2, out));
	free(host);
	if (wrong)
		quit(6, "wrong %zu of %zu: %s type %d op %d", wrong, n_out, name, type, op);
	return ms * 1e3;
}

// next takes the first word of a list, or returns NULL.
static const char *next(const char **list)
{
	static char word[64];
	size_t n = strcspn(*list, ",");
	if (!n)
		return NULL;
	snprintf(word, sizeof word, "%.*s", (int)n, *list);
	*list += n + ((*list)[n] == ',');
	return word;
}

static double everything(const struct rank *k, char **argv)
{
	double took = 0;
	char op[64];
	const char *w;
	for (const char *ops = argv[6]; (w = next(&ops));) {
		snprintf(op, sizeof op, "%s", w);
		for (const char *types = argv[7]; (w = next(&types));) {
			int type = atoi(w);
			for (const char *reductions = argv[8]; (w = next(&reductions));) {
				int reduction = atoi(w);
				for (const char *counts = argv[9]; (w = next(&counts));)
					took = one(k, op, type, reduction, strtoul(w, NULL, 0));
			}
		}
	}
	return took;
}

int main(int argc, char **argv)
{
	if (argc != 12)
		return 2;
	struct rank k = {.rank = atoi(argv[2]), .ranks = atoi(argv[3]), .patience = atof(argv[10])};
	load(argv[1]);
	int device;
	void *context;
	CHECK(CUDA(cuInit, 0));
	CHECK(CUDA(cuDeviceGet, &device, atoi(argv[4])));
	CHECK(CUDA(cuDevicePrimaryCtxSetFlags_v2, device, 4));
	CHECK(CUDA(cuDevicePrimaryCtxRetain, &context, device));
	CHECK(CUDA(cuCtxSetCurrent, context));
	CHECK(CUDA(cuStreamCreateWithPriority, &k.stream, 1, 0));
	CHECK(CUDA(cuEventCreate, &k.a, 0));
	CHECK(CUDA(cuEventCreate, &k.b, 0));
	unique id = exchange_id(argv[5], k.rank);
	struct config config = {.size = 96, .magic = 0xcafebeef, .version = 23007, .min = 1, .max = 2};
	for (int i = 0; i < 14; i++)
		config.rest[i] = INT_MIN;
	config.rest[2] = config.rest[3] = 0; // a pointer
	int (*init)(void **, int, unique, int, void *) = symbol(nccl, "ncclCommInitRankConfig");
	int started = init(&k.comm, k.ranks, id, k.rank, &config);
	CHECK(settle(k.comm, started, atof(argv[11])));
	double took = everything(&k, argv);
	CHECK(settle(k.comm, NCCL(ncclCommFinalize, k.comm), k.patience));
	CHECK(NCCL(ncclCommDestroy, k.comm));
	CHECK(CUDA(cuEventDestroy_v2, k.a));
	CHECK(CUDA(cuEventDestroy_v2, k.b));
	CHECK(CUDA(cuStreamDestroy_v2, k.stream));
	CHECK(CUDA(cuDevicePrimaryCtxRelease_v2, device));
	quit(0, "ok %.0f", took);
}
