// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

// dlerror belongs to the thread, so it is asked here.
void *open_library(const char *path, char *why, size_t size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		const char *error = dlerror();
		snprintf(why, size, "%s", error == NULL ? "dlopen failed" : error);
	}
	return library;
}

const char *path_of_library(void *library) {
	struct link_map *map = NULL;
	return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL ? map->l_name : NULL;
}

struct function {
	int needed;
	const char *name, *older;
	size_t offset;
};

static const char *find(void *library, void *table, const struct function *f, size_t count) {
	const char *missing = NULL;
	for (size_t i = 0; i < count; i++) {
		void *symbol = dlsym(library, f[i].name);
		if (symbol == NULL && f[i].older[0] != '\0')
			symbol = dlsym(library, f[i].older);
		if (symbol == NULL && f[i].needed && missing == NULL)
			missing = f[i].name;
		*(void **)((char *)table + f[i].offset) = symbol;
	}
	return missing;
}

#define CUDA_FUNCTION(needed, name, older, parameters, arguments) {needed, #name, older, offsetof(struct cuda, name)},
#define NCCL_FUNCTION(needed, name, older, parameters, arguments) {needed, #name, older, offsetof(struct nccl, name)},

const char *cuda_find(void *library, struct cuda *table) {
	static const struct function functions[] = {CUDA_FUNCTIONS(CUDA_FUNCTION)};
	return find(library, table, functions, sizeof functions / sizeof *functions);
}

const char *nccl_find(void *library, struct nccl *table) {
	static const struct function functions[] = {
		NCCL_FUNCTIONS(NCCL_FUNCTION)
		{0, "ncclGroupStart", "", offsetof(struct nccl, ncclGroupStart)},
		{0, "ncclGroupEnd", "", offsetof(struct nccl, ncclGroupEnd)},
		{0, "ncclGetErrorString", "", offsetof(struct nccl, ncclGetErrorString)},
		{0, "ncclGetLastError", "", offsetof(struct nccl, ncclGetLastError)},
	};
	return find(library, table, functions, sizeof functions / sizeof *functions);
}

void cuda_text(const struct cuda *table, int result, char *to, size_t size) {
	const char *name = NULL, *text = NULL;
	if (table->cuGetErrorName != NULL)
		table->cuGetErrorName(result, &name);
	if (table->cuGetErrorString != NULL)
		table->cuGetErrorString(result, &text);
	snprintf(to, size, "%.60s (%d)%s%.200s", name == NULL ? "CUDA error" : name, result, text == NULL ? "" : ": ",
	         text == NULL ? "" : text);
}

void nccl_text(const struct nccl *table, int result, char *to, size_t size) {
	const char *text = table->ncclGetErrorString == NULL ? NULL : table->ncclGetErrorString(result);
	const char *last = table->ncclGetLastError == NULL ? NULL : table->ncclGetLastError(NULL);
	if (last != NULL && last[0] == '\0')
		last = NULL;
	snprintf(to, size, "%.120s (%d)%s%.250s", text == NULL ? "NCCL error" : text, result, last == NULL ? "" : ": ",
	         last == NULL ? "" : last);
}

enum { SUCCESS = 0, IN_PROGRESS = 7 };

int nccl_group_exchange(const struct nccl *table, uint64_t send, int to, uint64_t recv, int from, int parts, size_t bytes,
                        size_t count, int type, void *comm, void *stream) {
	if (table->ncclGroupStart == NULL || table->ncclGroupEnd == NULL || table->ncclSend == NULL || table->ncclRecv == NULL)
		return MISSING;
	int result = table->ncclGroupStart();
	if (result != SUCCESS)
		return result;
	for (int i = 0; i < parts && (result == SUCCESS || result == IN_PROGRESS); i++) {
		result = table->ncclSend(send + (size_t)i * bytes, count, type, to + i, comm, stream);
		if (result == SUCCESS || result == IN_PROGRESS)
			result = table->ncclRecv(recv + (size_t)i * bytes, count, type, from + i, comm, stream);
	}
	int end = table->ncclGroupEnd();
	return result == SUCCESS || result == IN_PROGRESS ? end : result;
}

struct communicator *new_communicator(int channels) {
	struct communicator *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	// Every int from cgaClusterSize on is left to NCCL, but for those that are set below. INT_MIN means undefined.
	c->config = (struct config){
		.size = sizeof c->config,
		.magic = 0xcafebeef,
		.version = 23007, // of the layout, not of the library
		.blocking = 0,
		.cgaClusterSize = INT_MIN,
		.minCTAs = INT_MIN,
		.maxCTAs = INT_MIN,
		.splitShare = INT_MIN,
		.trafficClass = INT_MIN, // 0 would be a class
		.collnetEnable = INT_MIN,
		.CTAPolicy = INT_MIN,
		.shrinkShare = INT_MIN,
		.nvlsCTAs = INT_MIN,
		.nChannelsPerNetPeer = INT_MIN,
		.nvlinkCentricSched = INT_MIN,
		.graphUsageMode = INT_MIN,
		.numRmaCtx = INT_MIN,
		.maxP2pPeers = INT_MIN,
		.graphStreamOrdering = INT_MIN,
	};
	if (channels > 0) { // NCCL refuses one of both alone
		c->config.cgaClusterSize = 0;
		c->config.minCTAs = 1;
		c->config.maxCTAs = channels;
	}
	return c;
}
