// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for NVIDIA's libnccl.so.2: versions, unique ids and the life of communicators. What moves data is in collective.c
// (calls), ring.c (algorithms) and reduce.c; bootstrap.c has the sockets, network.c the transports that the log names.
// ncclprobetest builds it and has the list of words that the description of the machine knows.
//
// Of the driver it uses what libcuda.so.1 exports, and one symbol that only the stand-in has.
#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char machine_scope[] = "rank";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ncclComm_t comms;

const struct cuda *cuda(void)
{
	static struct cuda table;
	static int loaded;
	pthread_mutex_lock(&mutex);
	void *l = loaded ? NULL : dlopen("libcuda.so.1", RTLD_NOW);
	if (l) {
#define SYMBOL(field, name) *(void **)&table.field = dlsym(l, name)
		SYMBOL(init, "cuInit");
		SYMBOL(current, "cuCtxGetCurrent");
		SYMBOL(set, "cuCtxSetCurrent");
		SYMBOL(device, "cuCtxGetDevice");
		SYMBOL(retain, "cuDevicePrimaryCtxRetain");
		SYMBOL(bus, "cuDeviceGetPCIBusId");
		SYMBOL(attribute, "cuPointerGetAttribute");
		SYMBOL(range, "cuMemGetAddressRange_v2");
		SYMBOL(version, "cuDriverGetVersion");
		SYMBOL(launch, "cuLaunchHostFunc");
		SYMBOL(fault, "standinFault");
		loaded = table.launch && table.fault;
	}
	pthread_mutex_unlock(&mutex);
	return loaded ? &table : NULL;
}

int comm_known(const struct ncclComm *c)
{
	pthread_mutex_lock(&mutex);
	const struct ncclComm *i = comms;
	while (i && i != c)
		i = i->next;
	pthread_mutex_unlock(&mutex);
	return i != NULL;
}

int comm_wait(const struct ncclComm *c, double seconds)
{
	struct pollfd fd = {.fd = c->wake, .events = POLLIN};
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	while (!c->aborted && ppoll(&fd, 1, seconds < 0 ? NULL : &t, NULL) < 0)
		; // interrupted
	return c->aborted;
}

void comm_fail(ncclComm_t c, int result)
{
	pthread_mutex_lock(&c->mutex);
	c->result = result;
	pthread_mutex_unlock(&c->mutex);
}

int ncclGetVersion(int *version)
{
	int err = machine_enter(__func__, ANYONE);
	if (err)
		return err;
	if (!version)
		return INVALID_ARGUMENT;
	*version = version_code(ANYONE);
	return SUCCESS;
}

int ncclGetUniqueId(ncclUniqueId *id)
{
	int err = machine_enter(__func__, ANYONE);
	if (err)
		return err;
	if (!id) {
		log_warn(0, "misc/argcheck.cc:34", "GetUniqueId : out argument is NULL");
		return INVALID_ARGUMENT;
	}
	struct address a = {0};
	log_bootstrap(0, version_code(ANYONE));
	err = bootstrap_root(&a);
	memset(id, 0, sizeof *id);
	memcpy(id, &a, sizeof a);
	return err;
}

static void put_away(ncclComm_t c)
{
	pthread_mutex_lock(&mutex);
	for (ncclComm_t *at = &comms; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < c->ranks; i++)
		if (c->sockets && c->sockets[i] >= 0)
			close(c->sockets[i]);
	if (c->listener >= 0)
		close(c->listener);
	close(c->wake);
	for (struct job *j = c->waiting, *next; j; j = next)
		next = j->next, free(j);
	free(c->sockets);
	free(c->peers);
	free(c);
}

static ncclComm_t make(int ranks, int rank, const ncclUniqueId *id, const char *function)
{
	ncclComm_t c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	*c = (struct ncclComm){.rank = rank, .ranks = ranks, .version = version_code(rank), .function = function, .listener = -1,
		.result = IN_PROGRESS, .starting = 1, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,
		.peers = calloc((size_t)ranks, sizeof *c->peers), .sockets = malloc((size_t)ranks * sizeof *c->sockets),
		.wake = eventfd(0, EFD_CLOEXEC)};
	memcpy(&c->root, id, sizeof c->root);
	for (int i = 0; i < ranks && c->sockets; i++)
		c->sockets[i] = -1;
	pthread_mutex_lock(&mutex);
	c->next = comms, comms = c;
	pthread_mutex_unlock(&mutex);
	return c;
}

// take_device is the device of the thread: that of its context, or like in the CUDA runtime the first one.
static int take_device(ncclComm_t c)
{
	const struct cuda *d = cuda();
	if (!d || d->init(0)) {
		log_warn(0, "init.cc:1785", "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'");
		return UNHANDLED_CUDA;
	}
	d->current(&c->context);
	int err = c->context ? 0 : d->retain(&c->context, 0);
	if (!err)
		err = d->set(c->context);
	if (!err)
		err = d->device(&c->device);
	if (!err)
		return SUCCESS;
	log_warn(0, "init.cc:1785", "Cuda failure %d", err);
	return UNHANDLED_CUDA;
}

static int create(ncclComm_t *to, int ranks, const ncclUniqueId *id, int rank, const void *config, const char *function)
{
	int err = machine_enter(function, rank);
	if (err)
		return err;
	if (!to) {
		log_warn(0, "misc/argcheck.cc:34", "CommInitRank : newcomm argument is NULL");
		return INVALID_ARGUMENT;
	}
	*to = NULL;
	if (ranks < 1 || ranks > MAX_RANKS || rank < 0 || rank >= ranks) {
		log_warn(0, "init.cc:1785", "Invalid rank requested : %d/%d", rank, ranks);
		return INVALID_ARGUMENT;
	}
	ncclComm_t c = make(ranks, rank, id, function);
	if (!c || !c->peers || !c->sockets || c->wake < 0)
		return SYSTEM;
	err = take_device(c);
	log_version(c->device, rank);
	if (!err)
		err = config_parse(c, config);
	if (!err && thread_start(comm_init, c))
		err = SYSTEM;
	if (err) {
		put_away(c);
		return err;
	}
	*to = c;
	pthread_mutex_lock(&c->mutex);
	c->polls = c->config.blocking ? 0 : (int)machine_number("polls", rank, 2);
	int grouped = group_depth() > 0;
	if (grouped)
		group_add_init(c);
	while (!grouped && c->config.blocking && c->starting)
		pthread_cond_wait(&c->changed, &c->mutex);
	err = !c->config.blocking ? IN_PROGRESS : grouped ? SUCCESS : c->result;
	pthread_mutex_unlock(&c->mutex);
	if (err && err != IN_PROGRESS) {
		put_away(c);
		*to = NULL;
	}
	return err;
}

int ncclCommInitRank(ncclComm_t *to, int ranks, ncclUniqueId id, int rank) { return create(to, ranks, &id, rank, NULL, __func__); }

int ncclCommInitRankConfig(ncclComm_t *to, int ranks, ncclUniqueId id, int rank, const void *config)
{
	return create(to, ranks, &id, rank, config, __func__);
}

int ncclCommInitRankScalable(ncclComm_t *to, int ranks, int rank, int ids, const ncclUniqueId *id, const void *config)
{
	if (ids < 1 || ids > ranks || !id) {
		log_warn(0, "init.cc:1785", "improper usage of ncclCommInitRank: nId = %d, nranks=%d", ids, ranks);
		return INVALID_ARGUMENT;
	}
	return create(to, ranks, id, rank, config, __func__);
}

// state is what GetAsyncError answers. Callers hold the communicator's mutex.
static int state(const struct ncclComm *c)
{
	if (c->result)
		return c->result;
	return c->polls > 0 || c->waiting || (c->finalized && c->turn != c->issued) ? IN_PROGRESS : SUCCESS;
}

int ncclCommGetAsyncError(ncclComm_t c, int *result)
{
	if (!comm_known(c) || !result)
		return INVALID_ARGUMENT;
	int err = machine_enter(__func__, c->rank);
	if (err)
		return err;
	pthread_mutex_lock(&c->mutex);
	if (!c->result && c->polls > 0) {
		c->polls--;
	} else if (!c->result) {
		for (struct job *j; (j = c->waiting) && !c->result;) {
			c->waiting = j->next;
			c->result = job_launch(j);
		}
		*result = state(c);
		pthread_mutex_unlock(&c->mutex);
		return SUCCESS;
	}
	*result = c->result ? c->result : IN_PROGRESS;
	pthread_mutex_unlock(&c->mutex);
	return SUCCESS;
}

int comm_ready(ncclComm_t c)
{
	pthread_mutex_lock(&c->mutex);
	int ret = state(c);
	pthread_mutex_unlock(&c->mutex);
	if (ret != IN_PROGRESS)
		return ret;
	log_warn(c->device, "init.cc:320", "Attempt to use communicator before the previous operation returned ncclSuccess");
	return INVALID_ARGUMENT;
}

// finish waits until nothing of the communicator runs any more.
static void finish(ncclComm_t c)
{
	pthread_mutex_lock(&c->mutex);
	while (c->starting || c->turn != c->issued)
		pthread_cond_wait(&c->changed, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
}

int ncclCommFinalize(ncclComm_t c)
{
	if (!comm_known(c))
		return INVALID_ARGUMENT;
	int err = machine_enter(__func__, c->rank);
	if (!err)
		err = comm_ready(c);
	if (err)
		return err;
	if (c->finalized)
		return INVALID_ARGUMENT;
	pthread_mutex_lock(&c->mutex);
	c->finalized = 1;
	c->polls = c->config.blocking ? 0 : (int)machine_number("polls", c->rank, 2);
	pthread_mutex_unlock(&c->mutex);
	if (!c->config.blocking)
		return IN_PROGRESS;
	finish(c);
	return SUCCESS;
}

int ncclCommDestroy(ncclComm_t c)
{
	if (!c)
		return SUCCESS;
	if (!comm_known(c))
		return INVALID_ARGUMENT;
	int err = machine_enter(__func__, c->rank);
	if (err)
		return err;
	finish(c);
	put_away(c);
	return SUCCESS;
}

int ncclCommAbort(ncclComm_t c)
{
	if (!c)
		return SUCCESS;
	if (!comm_known(c))
		return INVALID_ARGUMENT;
	int err = machine_enter(__func__, c->rank);
	if (err)
		return err;
	uint64_t one = 1;
	c->aborted = 1;
	if (write(c->wake, &one, sizeof one) != sizeof one)
		return SYSTEM;
	finish(c);
	put_away(c);
	return SUCCESS;
}

#define ASK(name, field) \
	int name(ncclComm_t c, int *to) \
	{ \
		int err = comm_known(c) && to ? machine_enter(#name, c->rank) : INVALID_ARGUMENT; \
		if (!err) \
			err = comm_ready(c); \
		if (!err) \
			*to = c->field; \
		return err; \
	}

ASK(ncclCommCount, ranks)
ASK(ncclCommCuDevice, device)
ASK(ncclCommUserRank, rank)

const char *ncclGetErrorString(int code)
{
	static const char *const texts[] = {"no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)", "internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)", "invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error", "NCCL operation in progress"};
	return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t c)
{
	(void)c;
	return log_last();
}

_Static_assert(sizeof(struct address) <= sizeof(ncclUniqueId), "ncclUniqueId");
