// SPDX-License-Identifier: Apache-2.0
//
// The algorithms: rings for what all ranks get, chains around the ring for Broadcast and Reduce. They run in the thread of
// the stream, like a kernel, and end early only when the communicator is aborted.
#define _GNU_SOURCE
#include "nccl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SLICE = 256 << 10 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// first is the flow that is next with that peer, or NULL: flows with one peer go one after the other.
static struct flow *first(struct flow *flows, int n, int peer)
{
	for (int i = 0; i < n; i++)
		if (flows[i].peer == peer && flows[i].done < flows[i].size)
			return &flows[i];
	return NULL;
}

// lost is what a rank makes of a peer that left: a network says so, memory that is shared never changes again.
static int lost(ncclComm_t c, int peer)
{
	if (network_way(c, c->rank, peer) == NET) {
		log_warn(c->device, "misc/socket.cc:49", "socketProgress: Connection closed by remote peer localhost<%d>", ntohs(c->peers[peer].at.sin_port));
		comm_fail(c, REMOTE);
	}
	comm_wait(c, -1);
	return -1;
}

// step moves what can be moved without waiting, and returns how many bytes, or -1 if the peer left.
static ssize_t step(int fd, struct flow *out, struct flow *in)
{
	ssize_t moved = 0;
	if (out) {
		ssize_t n = send(fd, out->data + out->done, out->size - out->done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n > 0)
			out->done += (size_t)n, moved += n;
	}
	if (in) {
		ssize_t n = recv(fd, in->data + in->done, in->size - in->done, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		if (n > 0)
			in->done += (size_t)n, moved += n;
	}
	return moved;
}

// own copies what a rank sends itself.
static void own(const struct ncclComm *c, struct flow *sends, int n_sends, struct flow *recvs, int n_recvs)
{
	struct flow *out, *in;
	while ((out = first(sends, n_sends, c->rank)) && (in = first(recvs, n_recvs, c->rank))) {
		size_t n = out->size < in->size ? out->size : in->size;
		memmove(in->data, out->data, n);
		out->done = out->size, in->done = in->size;
	}
}

int flows_run(ncclComm_t c, struct flow *sends, int n_sends, struct flow *recvs, int n_recvs)
{
	own(c, sends, n_sends, recvs, n_recvs);
	for (;;) {
		struct pollfd fds[MAX_RANKS + 1] = {{.fd = c->wake, .events = POLLIN}};
		int n = 1;
		ssize_t moved = 0;
		for (int p = 0; p < c->ranks; p++) {
			struct flow *out = first(sends, n_sends, p), *in = first(recvs, n_recvs, p);
			if (!out && !in)
				continue;
			if (p == c->rank) { // nothing to match it: it hangs like the real one
				fds[n++].fd = -1;
				continue;
			}
			ssize_t m = step(c->sockets[p], out, in);
			if (m < 0)
				return lost(c, p);
			moved += m;
			fds[n++] = (struct pollfd){.fd = c->sockets[p], .events = (short)((out ? POLLOUT : 0) | (in ? POLLIN : 0))};
		}
		if (c->aborted)
			return -1;
		if (n == 1)
			return 0;
		if (!moved)
			poll(fds, (nfds_t)n, -1);
	}
}

static int exchange(struct job *j, char *out, size_t out_size, char *in, size_t in_size)
{
	int n = j->comm->ranks, r = j->comm->rank;
	struct flow send = {(r + 1) % n, out, out_size, 0}, recv = {(r + n - 1) % n, in, in_size, 0};
	return flows_run(j->comm, &send, 1, &recv, 1);
}

// A part of a buffer that is dealt out to the ranks.
struct part { size_t at, n; };

static struct part part(size_t count, int n, int i)
{
	i = (i % n + n) % n;
	size_t begin = count / (size_t)n * (size_t)i + (size_t)i * (count % (size_t)n) / (size_t)n;
	size_t end = count / (size_t)n * (size_t)(i + 1) + (size_t)(i + 1) * (count % (size_t)n) / (size_t)n;
	return (struct part){begin, end - begin};
}

// reduce_parts leaves in data the reduced part that the rank is to end with.
static int reduce_parts(struct job *j, char *data, size_t count, int mine)
{
	int n = j->comm->ranks;
	size_t size = type_size(j->type);
	char *scratch = malloc((count / (size_t)n + 1) * size + 1);
	int ret = scratch ? 0 : -1;
	for (int s = 1; s < n && !ret; s++) {
		struct part out = part(count, n, mine - s), in = part(count, n, mine - s - 1);
		ret = exchange(j, data + out.at * size, out.n * size, scratch, in.n * size);
		if (!ret)
			reduce(j->type, j->op, data + in.at * size, scratch, in.n);
	}
	free(scratch);
	struct part p = part(count, n, mine);
	if (!ret && j->op == AVG)
		divide(j->type, data + p.at * size, p.n, n);
	return ret;
}

// gather_parts sends the rank's own part around, and takes those of the others.
static int gather_parts(struct job *j, char *data, size_t count, int mine)
{
	int n = j->comm->ranks;
	size_t size = type_size(j->type);
	for (int s = 0; s < n - 1; s++) {
		struct part out = part(count, n, mine - s), in = part(count, n, mine - s - 1);
		if (exchange(j, data + out.at * size, out.n * size, data + in.at * size, in.n * size))
			return -1;
	}
	return 0;
}

static int all_reduce(struct job *j)
{
	if (j->send != j->recv)
		memcpy(j->recv, j->send, j->count * type_size(j->type));
	return reduce_parts(j, j->recv, j->count, j->comm->rank) || gather_parts(j, j->recv, j->count, j->comm->rank) ? -1 : 0;
}

static int all_gather(struct job *j)
{
	size_t size = j->count * type_size(j->type);
	char *mine = j->recv + size * (size_t)j->comm->rank;
	if (j->send != mine)
		memcpy(mine, j->send, size);
	return gather_parts(j, j->recv, j->count * (size_t)j->comm->ranks, j->comm->rank);
}

static int reduce_scatter(struct job *j)
{
	size_t size = j->count * type_size(j->type), n = (size_t)j->comm->ranks;
	char *work = malloc(size * n + 1);
	if (!work)
		return -1;
	memcpy(work, j->send, size * n);
	int ret = reduce_parts(j, work, j->count * n, j->comm->rank);
	if (!ret)
		memcpy(j->recv, work + size * (size_t)j->comm->rank, size);
	free(work);
	return ret;
}

// broadcast: a slice is passed on while the next one comes in.
static int broadcast(struct job *j)
{
	ncclComm_t c = j->comm;
	size_t size = j->count * type_size(j->type), before = 0;
	int head = c->rank == j->root, tail = (c->rank + 1) % c->ranks == j->root;
	if (head && j->send != j->recv)
		memcpy(j->recv, j->send, size);
	for (size_t at = 0; at < size; at += before) {
		size_t n = size - at < SLICE ? size - at : SLICE;
		if (!head && exchange(j, j->recv + at - before, tail ? 0 : before, j->recv + at, n))
			return -1;
		if (head && !tail && exchange(j, j->recv + at, n, NULL, 0))
			return -1;
		before = n;
	}
	return head || tail ? 0 : exchange(j, j->recv + size - before, before, NULL, 0);
}

// reduce_chain starts behind the root and goes around to it.
static int reduce_chain(struct job *j)
{
	ncclComm_t c = j->comm;
	size_t size = type_size(j->type), slice = SLICE / size;
	int tail = c->rank == j->root, head = (c->rank + c->ranks - 1) % c->ranks == j->root;
	char *sum = malloc(SLICE), *other = malloc(SLICE);
	int ret = sum && other ? 0 : -1;
	for (size_t at = 0, n; at < j->count && !ret; at += n) {
		n = j->count - at < slice ? j->count - at : slice;
		memcpy(sum, j->send + at * size, n * size);
		if (!head) {
			if ((ret = exchange(j, NULL, 0, other, n * size)))
				break;
			reduce(j->type, j->op, sum, other, n);
		}
		if (!tail) {
			ret = exchange(j, sum, n * size, NULL, 0);
			continue;
		}
		if (j->op == AVG)
			divide(j->type, sum, n, c->ranks);
		memcpy(j->recv + at * size, sum, n * size);
	}
	free(sum);
	free(other);
	return ret;
}

static int move(struct job *j)
{
	switch (j->kind) {
	case ALL_REDUCE: return all_reduce(j);
	case BROADCAST: return broadcast(j);
	case REDUCE: return reduce_chain(j);
	case ALL_GATHER: return all_gather(j);
	case REDUCE_SCATTER: return reduce_scatter(j);
	case SEND_RECV: return flows_run(j->comm, j->sends, j->n_sends, j->recvs, j->n_recvs);
	}
	return -1;
}

// duration is what nccl-tests' formulas make of the machine's bus bandwidth.
static double duration(const struct job *j)
{
	double n = j->comm->ranks, bytes = (double)j->count * (j->kind == SEND_RECV ? 1 : (double)type_size(j->type));
	double factor[] = {[ALL_REDUCE] = 2 * (n - 1) / n, [BROADCAST] = 1, [REDUCE] = 1, [ALL_GATHER] = n - 1, [REDUCE_SCATTER] = n - 1,
		[SEND_RECV] = 1};
	double busbw = machine_number("busbw", j->comm->rank, 0), latency = machine_number("latency", j->comm->rank, 0);
	return latency + (busbw > 0 ? bytes * factor[j->kind] / busbw : 0);
}

// corrupt changes one element in the middle of what this rank got.
static void corrupt(const struct job *j)
{
	size_t size = j->kind == SEND_RECV ? 1 : type_size(j->type), count = j->count;
	char *data = j->recv;
	if (j->kind == SEND_RECV) {
		if (!j->n_recvs)
			return;
		data = j->recvs[0].data, count = j->recvs[0].size;
	} else if (j->kind == ALL_GATHER) {
		count *= (size_t)j->comm->ranks;
	}
	if (count && data)
		data[(count / 2 + 1) * size - 1] ^= 0x40;
}

static void perform(struct job *j)
{
	ncclComm_t c = j->comm;
	double begin = now();
	long code = 0;
	if (j->fault) {
		cuda()->fault(j->fault);
		return;
	}
	if (machine_fault("hang", "collective", c->rank, NULL)) {
		comm_wait(c, -1);
		return;
	}
	if (machine_fault("error", "collective", c->rank, &code)) {
		comm_fail(c, (int)code); // and the kernel waits for the proxy
		comm_wait(c, -1);
		return;
	}
	if (machine_fault("fault", "collective", c->rank, &code)) {
		cuda()->fault((int)code);
		return;
	}
	machine_enter("collective", c->rank);
	if (move(j))
		return;
	if (machine_fault("lie", "sum", c->rank, NULL))
		corrupt(j);
	double took = now() - begin, take = duration(j);
	double rest = (take > took ? take : took) * machine_number("slow", c->rank, 1) - took;
	if (rest > 0)
		comm_wait(c, rest);
}

void job_run(void *argument)
{
	struct job *j = argument;
	ncclComm_t c = j->comm;
	pthread_mutex_lock(&c->mutex);
	while (c->turn != j->turn)
		pthread_cond_wait(&c->changed, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
	if (!c->aborted && !cuda()->fault(0))
		perform(j);
	free(j);
	pthread_mutex_lock(&c->mutex);
	c->turn++;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->mutex);
}
