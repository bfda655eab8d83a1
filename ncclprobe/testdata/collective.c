// SPDX-License-Identifier: Apache-2.0
//
// The calls that move data, and groups of them.
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

// What a thread has collected between GroupStart and GroupEnd.
static _Thread_local int depth;
static _Thread_local struct job *first, **end;
static _Thread_local ncclComm_t inits[MAX_RANKS];
static _Thread_local int n_inits;

int group_depth(void) { return depth; }

void group_add_init(ncclComm_t c)
{
	if (n_inits < MAX_RANKS)
		inits[n_inits++] = c;
}

// host finds the memory behind a pointer of the device. The real library does not check that: its kernel faults.
static char *host(struct job *j, const void *pointer, size_t size)
{
	void *address = NULL;
	uint64_t base = 0, at = (uintptr_t)pointer;
	size_t have = 0;
	if (!size)
		return NULL;
	if (cuda()->attribute(&address, 4, at) || cuda()->range(&base, &have, at) || size > have - (at - base))
		j->fault = 700;
	return address;
}

int job_launch(struct job *j)
{
	ncclComm_t c = j->comm;
	if (!c->connected && c->version >= 22200)
		network_connect(c);
	c->connected = 1;
	j->turn = c->issued;
	void *before = NULL;
	cuda()->current(&before);
	cuda()->set(j->context);
	int err = cuda()->launch(j->stream, job_run, j);
	cuda()->set(before);
	if (err) {
		log_warn(c->device, "enqueue.cc:1452", "Cuda failure %d 'invalid resource handle'", err);
		free(j);
		return UNHANDLED_CUDA;
	}
	c->issued++;
	return SUCCESS;
}

// submit launches at once, or with a communicator that does not block, when it was polled often enough.
static int submit(struct job *j)
{
	ncclComm_t c = j->comm;
	int ret = SUCCESS;
	pthread_mutex_lock(&c->mutex);
	if (c->config.blocking) {
		ret = job_launch(j);
	} else {
		struct job **at = &c->waiting;
		while (*at)
			at = &(*at)->next;
		*at = j;
		c->polls = (int)machine_number("polls", c->rank, 2);
		ret = IN_PROGRESS;
	}
	pthread_mutex_unlock(&c->mutex);
	return ret;
}

// merge makes one job of all Send and Recv of a communicator in a group.
static int merge(struct job *j)
{
	for (struct job *i = first; i && j->kind == SEND_RECV; i = i->next) {
		if (i->comm != j->comm || i->kind != SEND_RECV || i->n_sends + j->n_sends > MAX_RANKS || i->n_recvs + j->n_recvs > MAX_RANKS)
			continue;
		memcpy(i->sends + i->n_sends, j->sends, sizeof *j->sends * (size_t)j->n_sends);
		memcpy(i->recvs + i->n_recvs, j->recvs, sizeof *j->recvs * (size_t)j->n_recvs);
		i->n_sends += j->n_sends, i->n_recvs += j->n_recvs;
		i->count += j->count, i->fault |= j->fault;
		free(j);
		return 1;
	}
	return 0;
}

static int collect(struct job *j)
{
	if (!depth)
		return submit(j);
	if (merge(j))
		return SUCCESS;
	if (!first)
		end = &first;
	*end = j, end = &j->next;
	return SUCCESS;
}

static int refuse(const struct ncclComm *c, const char *what, const char *name, int value)
{
	log_warn(c->device, "misc/argcheck.cc:52", "%s : invalid %s %d", name, what, value);
	return INVALID_ARGUMENT;
}

struct call { const char *name; enum kind kind; const void *send; void *recv; size_t count; int type, op, root; };

// sizes are how many times count elements the two buffers have on this rank; 0: not used.
static void sizes(const struct ncclComm *c, const struct call *k, size_t *send, size_t *recv)
{
	*send = k->kind == REDUCE_SCATTER ? (size_t)c->ranks : k->kind != BROADCAST || c->rank == k->root;
	*recv = k->kind == ALL_GATHER ? (size_t)c->ranks : k->kind != REDUCE || c->rank == k->root;
}

static int check(const struct call *k, ncclComm_t c)
{
	if (!comm_known(c)) {
		log_warn(0, "misc/argcheck.cc:34", "%s : comm argument is NULL", k->name);
		return INVALID_ARGUMENT;
	}
	int err = machine_enter(k->name, c->rank);
	if (!err)
		err = comm_ready(c);
	if (err)
		return err;
	if (k->root < 0 || k->root >= c->ranks)
		return refuse(c, "root", k->name, k->root);
	if (k->type < 0 || k->type >= TYPES)
		return refuse(c, "type", k->name, k->type);
	if (k->op < 0 || k->op >= OPS)
		return refuse(c, "reduction operation", k->name, k->op);
	return SUCCESS;
}

static struct job *make(ncclComm_t c, const struct call *k, void *stream)
{
	struct job *j = calloc(1, sizeof *j);
	if (!j)
		return NULL;
	*j = (struct job){.comm = c, .stream = stream, .kind = k->kind, .count = k->count, .type = k->type, .op = k->op, .root = k->root};
	cuda()->current(&j->context);
	return j;
}

static int collective(const struct call *k, ncclComm_t c, void *stream)
{
	int err = check(k, c);
	if (err || !k->count)
		return err; // nothing to do, and no kernel for it
	size_t send, recv, bytes = k->count * type_size(k->type);
	struct job *j = make(c, k, stream);
	if (!j)
		return SYSTEM;
	sizes(c, k, &send, &recv);
	j->send = host(j, k->send, send * bytes);
	j->recv = host(j, k->recv, recv * bytes);
	return collect(j);
}

int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, ncclComm_t c, void *stream)
{
	return collective(&(struct call){"ncclAllReduce", ALL_REDUCE, send, recv, count, type, op, 0}, c, stream);
}

int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, ncclComm_t c, void *stream)
{
	return collective(&(struct call){"ncclBroadcast", BROADCAST, send, recv, count, type, SUM, root}, c, stream);
}

int ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root, ncclComm_t c, void *stream)
{
	return collective(&(struct call){"ncclReduce", REDUCE, send, recv, count, type, op, root}, c, stream);
}

int ncclAllGather(const void *send, void *recv, size_t count, int type, ncclComm_t c, void *stream)
{
	return collective(&(struct call){"ncclAllGather", ALL_GATHER, send, recv, count, type, SUM, 0}, c, stream);
}

int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, ncclComm_t c, void *stream)
{
	return collective(&(struct call){"ncclReduceScatter", REDUCE_SCATTER, send, recv, count, type, op, 0}, c, stream);
}

// pair is Send or Recv: a job with one flow.
static int pair(const struct call *k, ncclComm_t c, void *stream)
{
	int err = check(k, c);
	if (err)
		return err;
	struct job *j = make(c, k, stream);
	if (!j)
		return SYSTEM;
	size_t bytes = k->count * type_size(k->type);
	if (k->send)
		j->sends[j->n_sends++] = (struct flow){k->root, host(j, k->send, bytes), bytes, 0};
	else
		j->recvs[j->n_recvs++] = (struct flow){k->root, host(j, k->recv, bytes), bytes, 0};
	j->count = k->send ? bytes : 0; // what nccl-tests counts
	return collect(j);
}

int ncclSend(const void *send, size_t count, int type, int peer, ncclComm_t c, void *stream)
{
	return pair(&(struct call){"ncclSend", SEND_RECV, send, NULL, count, type, SUM, peer}, c, stream);
}

int ncclRecv(void *recv, size_t count, int type, int peer, ncclComm_t c, void *stream)
{
	return pair(&(struct call){"ncclRecv", SEND_RECV, NULL, recv, count, type, SUM, peer}, c, stream);
}

int ncclGroupStart(void)
{
	int err = machine_enter(__func__, ANYONE);
	if (!err)
		depth++;
	return err;
}

int ncclGroupEnd(void)
{
	int ret = machine_enter(__func__, ANYONE);
	if (ret)
		return ret;
	if (!depth) {
		log_warn(0, "group.cc:77", "ncclGroupEnd: not in a group call.");
		return INVALID_USAGE;
	}
	if (--depth)
		return SUCCESS;
	for (int i = 0; i < n_inits; i++) {
		ncclComm_t c = inits[i];
		pthread_mutex_lock(&c->mutex);
		while (c->config.blocking && c->result == IN_PROGRESS)
			pthread_cond_wait(&c->changed, &c->mutex);
		if (c->result)
			ret = c->result;
		pthread_mutex_unlock(&c->mutex);
	}
	n_inits = 0;
	for (struct job *j = first, *next; j; j = next) {
		next = j->next;
		j->next = NULL;
		int err = submit(j);
		ret = ret && ret != IN_PROGRESS ? ret : err ? err : ret;
	}
	first = NULL;
	return ret;
}
