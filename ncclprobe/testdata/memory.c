// SPDX-License-Identifier: Apache-2.0
//
// Memory of the stand-in for libcuda.so.1: memory of the process, at an address that is none. Who takes a device's pointer for
// one of the host crashes, as with a real GPU.
#define _GNU_SOURCE
#include "cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICE_ADDRESS (1ull << 62) // between an address of the host and that of the device

struct allocation { struct context *context; char *host; size_t size; struct allocation *next; };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;

static void release(struct allocation **at)
{
	struct allocation *a = *at;
	*at = a->next;
	munmap(a->host, a->size);
	free(a);
}

void memory_forget(const struct context *c)
{
	pthread_mutex_lock(&mutex);
	for (struct allocation **at = &allocations; *at;)
		if ((*at)->context == c)
			release(at);
		else
			at = &(*at)->next;
	pthread_mutex_unlock(&mutex);
}

static size_t total(int device) { return (size_t)(machine_number("memory", device, 81559) * 1048576); }

// used counts what this process has, its context and what the description says that others have.
static size_t used(const struct context *c)
{
	size_t sum = (size_t)(machine_number("used", c->device, 600) * 1048576);
	for (const struct allocation *a = allocations; a; a = a->next)
		if (a->context == c)
			sum += a->size;
	return sum;
}

int cuMemGetInfo_v2(size_t *unused, size_t *all)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	size_t taken = used(current), have = total(current->device);
	pthread_mutex_unlock(&mutex);
	*unused = taken < have ? have - taken : 0;
	*all = have;
	return OK;
}

int cuMemAlloc_v2(uint64_t *to, size_t size)
{
	ENTER(CONTEXT);
	if (!to || !size)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	size_t taken = used(current), have = total(current->device);
	void *host = taken > have || size > have - taken ? MAP_FAILED
		: mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct allocation *a = host == MAP_FAILED ? NULL : malloc(sizeof *a);
	if (a) {
		*a = (struct allocation){current, host, size, allocations};
		allocations = a;
		*to = (uintptr_t)host | DEVICE_ADDRESS;
	}
	pthread_mutex_unlock(&mutex);
	return a ? OK : OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t pointer)
{
	ENTER(CONTEXT);
	if (!pointer)
		return OK;
	streams_wait(current); // the driver does: memory under a kernel that hangs cannot be freed
	int ret = INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	struct allocation **at = &allocations;
	while (*at && (((uintptr_t)(*at)->host | DEVICE_ADDRESS) != pointer || (*at)->context != current))
		at = &(*at)->next;
	if (*at) {
		release(at);
		ret = OK;
	}
	pthread_mutex_unlock(&mutex);
	return ret;
}

// within finds the memory of the current context that has size bytes at pointer.
static int within(uint64_t pointer, size_t size, struct allocation *to)
{
	int found = 0;
	pthread_mutex_lock(&mutex);
	for (const struct allocation *a = allocations; a && !found; a = a->next) {
		uint64_t begin = (uintptr_t)a->host | DEVICE_ADDRESS;
		if (a->context == current && pointer >= begin && pointer - begin <= a->size && size <= a->size - (pointer - begin))
			*to = *a, found = pointer - begin < a->size;
	}
	pthread_mutex_unlock(&mutex);
	return found;
}

static char *host(uint64_t pointer) { return (char *)(uintptr_t)(pointer & ~DEVICE_ADDRESS); }

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
	struct allocation a;
	ENTER(CONTEXT);
	if (size && (!from || !within(to, size, &a)))
		return INVALID_VALUE;
	memcpy(host(to), from, size);
	return OK;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
	struct allocation a;
	ENTER(CONTEXT);
	if (size && (!to || !within(from, size, &a)))
		return INVALID_VALUE;
	memcpy(to, host(from), size);
	return OK;
}

int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count)
{
	struct allocation a;
	ENTER(CONTEXT);
	if (count && !within(to, count, &a))
		return INVALID_VALUE;
	memset(host(to), value, count);
	return OK;
}

int cuMemsetD32_v2(uint64_t to, unsigned value, size_t count)
{
	struct allocation a;
	ENTER(CONTEXT);
	if (to % 4 || count > SIZE_MAX / 4 || (count && !within(to, count * 4, &a)))
		return INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		memcpy(host(to) + 4 * i, &value, 4);
	return OK;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t pointer)
{
	struct allocation a;
	ENTER(CONTEXT);
	if (!within(pointer, 1, &a))
		return INVALID_VALUE;
	if (base)
		*base = (uintptr_t)a.host | DEVICE_ADDRESS;
	if (size)
		*size = a.size;
	return OK;
}

int cuPointerGetAttribute(void *to, int attribute, uint64_t pointer)
{
	struct allocation a;
	ENTER(CONTEXT);
	if (!within(pointer, 1, &a))
		return INVALID_VALUE;
	switch (attribute) {
	case 4: *(void **)to = host(pointer); return OK; // CU_POINTER_ATTRIBUTE_HOST_POINTER
	case 9: *(int *)to = a.context->device; return OK; // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
	}
	return INVALID_VALUE;
}
