// SPDX-License-Identifier: Apache-2.0

// What this package calls of CUDA's driver API and of NCCL, through pointers that dlsym found: neither headers nor
// libraries are there when this is built. Declarations are those of cuda.h and nccl.h, with addresses of a GPU's memory
// as integers.

#ifndef GPUFABRIC_NCCLPROBE_LIBRARY_H
#define GPUFABRIC_NCCLPROBE_LIBRARY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

// MISSING is what a call returns to a function that the library does not have. No result of theirs is negative.
enum { MISSING = -1 };

// A uniqueID is ncclUniqueId. It is passed by value.
struct uniqueID {
	char bytes[128];
};

// A config is ncclConfig_t as NCCL 2.30.5 knows it. Older libraries read as much of it as they know.
struct config {
	size_t size;
	uint32_t magic;
	uint32_t version;
	int blocking;         // 2.14
	int cgaClusterSize;   // 2.17
	int minCTAs;          // 2.17
	int maxCTAs;          // 2.17
	const char *netName;  // 2.17
	int splitShare;       // 2.18
	int trafficClass;     // 2.26
	const char *commName; // 2.27
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer; // 2.28
	int nvlinkCentricSched;
	int graphUsageMode; // 2.29
	int numRmaCtx;
	int maxP2pPeers;         // 2.30.3
	int graphStreamOrdering; // 2.30.5
};

_Static_assert(offsetof(struct config, blocking) == 16, "ncclConfig_t");
_Static_assert(offsetof(struct config, maxCTAs) == 28, "ncclConfig_t");
_Static_assert(offsetof(struct config, netName) == 32, "ncclConfig_t");
_Static_assert(offsetof(struct config, splitShare) == 40, "ncclConfig_t");
_Static_assert(offsetof(struct config, commName) == 48, "ncclConfig_t");
_Static_assert(offsetof(struct config, nvlsCTAs) == 68, "ncclConfig_t");
_Static_assert(offsetof(struct config, nvlinkCentricSched) == 76, "ncclConfig_t");
_Static_assert(offsetof(struct config, numRmaCtx) == 84, "ncclConfig_t");
_Static_assert(offsetof(struct config, graphStreamOrdering) == 92, "ncclConfig_t");
_Static_assert(sizeof(struct config) == 96, "ncclConfig_t");

// A communicator is what NCCL writes to in threads of its own, after the call that made it has returned. So it never
// moves, and is not freed before the process ends.
struct communicator {
	void *comm; // ncclComm_t; NCCL up to 2.17 takes it back when that fails
	struct config config;
};

// Functions: whether this package cannot do without it, the name, its name in older libraries or "", parameters, arguments.
#define P(...) __VA_ARGS__
#define CUDA_FUNCTIONS(X)                                                                                              \
	X(1, cuInit, "", P(unsigned flags), P(flags))                                                                      \
	X(1, cuDriverGetVersion, "", P(int *version), P(version))                                                          \
	X(1, cuDeviceGetByPCIBusId, "", P(int *device, const char *address), P(device, address))                           \
	X(1, cuDeviceGetUuid_v2, "cuDeviceGetUuid", P(void *uuid, int device), P(uuid, device))                            \
	X(1, cuDeviceGetAttribute, "", P(int *value, int attribute, int device), P(value, attribute, device))              \
	X(1, cuDevicePrimaryCtxSetFlags_v2, "cuDevicePrimaryCtxSetFlags", P(int device, unsigned flags), P(device, flags)) \
	X(1, cuDevicePrimaryCtxRetain, "", P(void **context, int device), P(context, device))                              \
	X(1, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", P(int device), P(device))                          \
	X(1, cuCtxSetCurrent, "", P(void *context), P(context))                                                            \
	X(1, cuCtxGetStreamPriorityRange, "", P(int *least, int *greatest), P(least, greatest))                            \
	X(1, cuStreamCreateWithPriority, "", P(void **stream, unsigned flags, int priority), P(stream, flags, priority))   \
	X(1, cuStreamQuery, "", P(void *stream), P(stream))                                                                \
	X(1, cuStreamDestroy_v2, "", P(void *stream), P(stream))                                                           \
	X(1, cuEventCreate, "", P(void **event, unsigned flags), P(event, flags))                                          \
	X(1, cuEventRecord, "", P(void *event, void *stream), P(event, stream))                                            \
	X(1, cuEventElapsedTime, "", P(float *milliseconds, void *start, void *end), P(milliseconds, start, end))          \
	X(1, cuEventDestroy_v2, "", P(void *event), P(event))                                                              \
	X(1, cuMemGetInfo_v2, "", P(size_t *free, size_t *total), P(free, total))                                          \
	X(1, cuMemAlloc_v2, "", P(uint64_t *address, size_t size), P(address, size))                                       \
	X(1, cuMemFree_v2, "", P(uint64_t address), P(address))                                                            \
	X(1, cuMemcpyHtoD_v2, "", P(uint64_t to, const void *from, size_t size), P(to, from, size))                        \
	X(1, cuMemcpyDtoH_v2, "", P(void *to, uint64_t from, size_t size), P(to, from, size))                              \
	X(1, cuMemsetD32_v2, "", P(uint64_t address, unsigned value, size_t count), P(address, value, count))                   \
	X(0, cuGetErrorName, "", P(int code, const char **name), P(code, name))                                            \
	X(0, cuGetErrorString, "", P(int code, const char **text), P(code, text))

#define NCCL_FUNCTIONS(X)                                                                                                 \
	X(1, ncclGetVersion, "", P(int *version), P(version))                                                                 \
	X(1, ncclGetUniqueId, "", P(struct uniqueID *id), P(id))                                                              \
	X(1, ncclCommInitRankConfig, "", P(void **comm, int ranks, struct uniqueID id, int rank, struct config *config),      \
	  P(comm, ranks, id, rank, config))                                                                                   \
	X(1, ncclCommGetAsyncError, "", P(void *comm, int *result), P(comm, result))                                          \
	X(1, ncclCommAbort, "", P(void *comm), P(comm))                                                                       \
	X(0, ncclCommFinalize, "", P(void *comm), P(comm))                                                                    \
	X(0, ncclCommDestroy, "", P(void *comm), P(comm))                                                                     \
	X(0, ncclAllReduce, "", P(uint64_t send, uint64_t recv, size_t count, int type, int op, void *comm, void *stream),    \
	  P(send, recv, count, type, op, comm, stream))                                                                       \
	X(0, ncclBroadcast, "", P(uint64_t send, uint64_t recv, size_t count, int type, int root, void *comm, void *stream),  \
	  P(send, recv, count, type, root, comm, stream))                                                                     \
	X(0, ncclReduce, "",                                                                                                  \
	  P(uint64_t send, uint64_t recv, size_t count, int type, int op, int root, void *comm, void *stream),                \
	  P(send, recv, count, type, op, root, comm, stream))                                                                 \
	X(0, ncclAllGather, "", P(uint64_t send, uint64_t recv, size_t count, int type, void *comm, void *stream),            \
	  P(send, recv, count, type, comm, stream))                                                                           \
	X(0, ncclReduceScatter, "", P(uint64_t send, uint64_t recv, size_t count, int type, int op, void *comm, void *stream), \
	  P(send, recv, count, type, op, comm, stream))                                                                       \
	X(0, ncclSend, "", P(uint64_t send, size_t count, int type, int peer, void *comm, void *stream),                      \
	  P(send, count, type, peer, comm, stream))                                                                           \
	X(0, ncclRecv, "", P(uint64_t recv, size_t count, int type, int peer, void *comm, void *stream),                      \
	  P(recv, count, type, peer, comm, stream))

// The tables: a pointer for each function, NULL where the library has none.
#define FIELD(needed, name, older, parameters, arguments) int (*name)(parameters);
struct cuda {
	CUDA_FUNCTIONS(FIELD)
};
struct nccl {
	NCCL_FUNCTIONS(FIELD)
	int (*ncclGroupStart)(void); // these two are not needed for collectives
	int (*ncclGroupEnd)(void);
	const char *(*ncclGetErrorString)(int);
	const char *(*ncclGetLastError)(void *); // of this process, whichever communicator is named; 2.13
};

// Calls by way of a table, in the name of the function: call_cuInit(table, flags).
#define CUDA_CALL(needed, name, older, parameters, arguments)              \
	static inline int call_##name(const struct cuda *table, parameters) { \
		return table->name == NULL ? MISSING : table->name(arguments);    \
	}
#define NCCL_CALL(needed, name, older, parameters, arguments)              \
	static inline int call_##name(const struct nccl *table, parameters) { \
		return table->name == NULL ? MISSING : table->name(arguments);    \
	}
CUDA_FUNCTIONS(CUDA_CALL)
NCCL_FUNCTIONS(NCCL_CALL)

// open_library loads a library without showing its symbols to others. It returns NULL and says why.
void *open_library(const char *path, char *why, size_t size);
// path_of_library returns where the loader found it; NULL if it does not say.
const char *path_of_library(void *library);

// cuda_find and nccl_find fill a table and return the name of the first function that is needed and missing, or NULL.
const char *cuda_find(void *library, struct cuda *table);
const char *nccl_find(void *library, struct nccl *table);

// cuda_text and nccl_text write what the library says of a result; for NCCL with the last error of its own.
void cuda_text(const struct cuda *table, int result, char *to, size_t size);
void nccl_text(const struct nccl *table, int result, char *to, size_t size);

// nccl_group_exchange sends parts of a buffer, of so many bytes each, to one rank after the other, and receives as many, all
// at the same time. It ends the group in any case, and returns the first result that is neither success nor "in progress",
// else that of the end.
int nccl_group_exchange(const struct nccl *table, uint64_t send, int to, uint64_t recv, int from, int parts, size_t bytes,
                        size_t count, int type, void *comm, void *stream);

// new_communicator returns memory for one that does not block and uses so many channels at most, 0 as many as NCCL
// wants; NULL without memory.
struct communicator *new_communicator(int channels);
// current returns what NCCL has written last.
static inline void *current(struct communicator *c) { return __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE); }

#endif
