// SPDX-License-Identifier: Apache-2.0

// A stand-in for libibverbs.so.1: devices are addresses of 127.0.0.0/8, queue pairs are UDP sockets, and messages
// really move between processes. What there is and what goes wrong is in the file "devices" beside the library,
// which is read again with each call; see package verbstest.

#define _GNU_SOURCE
#include "../verbs.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, HEAD = 16, LARGEST = 40 + 4096 };

struct ibv_device {
	char name[32];
	char address[16];
	int state, mtu, layer;
};

struct ibv_pd {
	struct ibv_context *context;
};

struct ibv_ah {
	struct in_addr to;
	struct ibv_ah_attr attributes;
};

struct ibv_cq {
	pthread_mutex_t lock;
	struct ibv_comp_channel *channel;
	struct ibv_wc done[256];
	int count, armed;
};

struct queue_pair {
	struct ibv_qp qp;
	struct ibv_device *device;
	struct ibv_cq *cq;
	int socket, stop;
	uint32_t qkey;
	pthread_t thread;
	pthread_mutex_t lock;
	struct ibv_recv_wr wanted[64];
	struct ibv_sge where[64];
	int count;
};

struct context {
	struct ibv_context base;
	struct ibv_device device;
};

static void folder(char *to, size_t size, const char *name) {
	Dl_info info;
	to[0] = '\0';
	if (dladdr((void *)folder, &info) == 0)
		return;
	snprintf(to, size, "%s", info.dli_fname);
	char *slash = strrchr(to, '/');
	if (slash != NULL)
		snprintf(slash + 1, size - (size_t)(slash + 1 - to), "%s", name);
}

// said returns the value of the last line with a word and an argument; 0: there is none.
static double said(const char *word, const char *argument) {
	char path[4096], text[256];
	folder(path, sizeof path, "devices");
	FILE *f = fopen(path, "re");
	double value = 0;
	while (f != NULL && fgets(text, sizeof text, f) != NULL) {
		char w[32] = "", a[64] = "";
		double v = 1;
		if (sscanf(text, "%31s %63s %lf", w, a, &v) >= 2 && strcmp(w, word) == 0 &&
		    (strcmp(a, argument) == 0 || strcmp(a, "all") == 0))
			value = v;
	}
	if (f != NULL)
		fclose(f);
	return value;
}

// fails does what is planted in a function.
static int fails(const char *function) {
	if (said("hang", function) > 0)
		for (;;)
			pause();
	int error = (int)said("error", function);
	errno = error;
	return error;
}

struct ibv_device **ibv_get_device_list(int *count) {
	if (fails(__func__))
		return NULL;
	struct ibv_device **list = calloc(MOST + 1, sizeof *list);
	char path[4096], text[256];
	folder(path, sizeof path, "devices");
	FILE *f = fopen(path, "re");
	*count = 0;
	while (f != NULL && *count < MOST && fgets(text, sizeof text, f) != NULL) {
		struct ibv_device d = {.state = PORT_ACTIVE, .mtu = 5, .layer = LINK_ETHERNET};
		if (sscanf(text, "device %31s %15s %d %d %d", d.name, d.address, &d.state, &d.mtu, &d.layer) < 2)
			continue;
		list[*count] = malloc(sizeof d);
		*list[(*count)++] = d;
	}
	if (f != NULL)
		fclose(f);
	return list;
}

void ibv_free_device_list(struct ibv_device **list) {
	for (int i = 0; list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

static void complete(struct ibv_cq *cq, struct ibv_wc wc) {
	pthread_mutex_lock(&cq->lock);
	if (cq->count < 256)
		cq->done[cq->count++] = wc;
	if (cq->armed) {
		cq->armed = 0;
		uint64_t one = 1;
		(void)!write(cq->channel->fd, &one, sizeof one);
	}
	pthread_mutex_unlock(&cq->lock);
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc) {
	pthread_mutex_lock(&cq->lock);
	int n = cq->count < most ? cq->count : most;
	memcpy(wc, cq->done, (size_t)n * sizeof *wc);
	memmove(cq->done, cq->done + n, (size_t)(cq->count - n) * sizeof *wc);
	cq->count -= n;
	pthread_mutex_unlock(&cq->lock);
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited) {
	(void)solicited;
	pthread_mutex_lock(&cq->lock);
	cq->armed = 1;
	pthread_mutex_unlock(&cq->lock);
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *w, struct ibv_recv_wr **bad) {
	(void)bad;
	struct queue_pair *q = (struct queue_pair *)qp;
	pthread_mutex_lock(&q->lock);
	int error = q->count == 64 ? ENOMEM : 0;
	if (error == 0) {
		q->wanted[q->count] = *w;
		q->where[q->count++] = *w->sg_list;
	}
	pthread_mutex_unlock(&q->lock);
	return error;
}

// A datagram is the Q_Key (4), the number of the sender's queue pair (4), its traffic class (1), and the message.
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *w, struct ibv_send_wr **bad) {
	(void)bad;
	struct queue_pair *q = (struct queue_pair *)qp;
	int error = fails("ibv_post_send");
	if (error != 0)
		return error;
	char datagram[HEAD + LARGEST] = {0};
	uint32_t head[2] = {w->remote_qkey, qp->qp_num};
	memcpy(datagram, head, sizeof head);
	datagram[8] = (char)w->ah->attributes.grh.traffic_class;
	memcpy(datagram + HEAD, (void *)(uintptr_t)w->sg_list->addr, w->sg_list->length);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w->remote_qpn), .sin_addr = w->ah->to};
	if (w->sg_list->length <= (128u << q->device->mtu)) // what is too long is gone
		sendto(q->socket, datagram, HEAD + w->sg_list->length, 0, (struct sockaddr *)&to, sizeof to);
	complete(q->cq, (struct ibv_wc){.wr_id = w->wr_id, .opcode = WC_SEND, .qp_num = qp->qp_num});
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *d) {
	if (fails(__func__))
		return NULL;
	struct context *c = calloc(1, sizeof *c);
	c->device = *d;
	c->base = (struct ibv_context){.device = &c->device, .poll_cq = poll_cq, .req_notify_cq = req_notify_cq,
	                               .post_send = post_send, .post_recv = post_recv};
	return &c->base;
}

int ibv_close_device(struct ibv_context *c) {
	free(c);
	return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a) {
	int error = fails(__func__);
	if (error != 0 || port != 1)
		return error != 0 ? error : EINVAL;
	a->state = c->device->state;
	a->active_mtu = c->device->mtu;
	a->link_layer = (uint8_t)c->device->layer;
	a->lid = (uint16_t)(1 + atoi(strrchr(c->device->address, '.') + 1));
	return 0;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid) {
	(void)port;
	memset(gid, 0, sizeof *gid);
	if (fails(__func__))
		return -1;
	if (index > 3)
		return 0;
	gid->raw[10] = gid->raw[11] = 0xff;
	struct in_addr a;
	inet_pton(AF_INET, c->device->address, &a);
	memcpy(gid->raw + 12, &a, 4);
	return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, uint16_t *pkey) {
	(void)port;
	double own = said("pkey", c->device->address);
	*pkey = htons(own > 0 ? (uint16_t)own : 0xffff);
	return fails(__func__) || index > 0 ? -1 : 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) {
	if (fails(__func__))
		return NULL;
	struct ibv_pd *pd = malloc(sizeof *pd);
	pd->context = c;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t size, int access) {
	(void)access;
	if (fails(__func__))
		return NULL;
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	*mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = at, .length = size, .lkey = 7};
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr) {
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c) {
	if (fails(__func__))
		return NULL;
	struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
	channel->context = c;
	channel->fd = eventfd(0, EFD_CLOEXEC);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c) {
	close(c->fd);
	free(c);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int entries, void *context, struct ibv_comp_channel *channel,
                             int vector) {
	(void)c, (void)entries, (void)context, (void)vector;
	if (fails(__func__))
		return NULL;
	struct ibv_cq *cq = calloc(1, sizeof *cq);
	pthread_mutex_init(&cq->lock, NULL);
	cq->channel = channel;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **cq, void **context) {
	(void)cq, (void)context;
	uint64_t events;
	return read(c->fd, &events, sizeof events) < 0 ? -1 : 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count) { (void)cq, (void)count; }

// route writes what comes before a message: an IPv4 header in the second half of 40 bytes.
static void route(uint8_t *to, struct in_addr from, char traffic_class) {
	memset(to, 0xee, 20);
	memset(to + 20, 0, 20);
	to[20] = 0x45;
	to[21] = (uint8_t)traffic_class;
	to[29] = 17;
	memcpy(to + 32, &from, 4);
}

// deliver fills the first buffer that waits, if any.
static void deliver(struct queue_pair *q, struct in_addr from, const char *datagram, uint32_t size) {
	uint32_t head[2];
	memcpy(head, datagram, sizeof head);
	if (head[0] != q->qkey)
		return;
	pthread_mutex_lock(&q->lock);
	if (q->count > 0) {
		struct ibv_wc wc = {.wr_id = q->wanted[0].wr_id, .opcode = WC_RECV, .byte_len = 40 + size - HEAD,
		                    .qp_num = q->qp.qp_num, .src_qp = head[1], .wc_flags = WC_GRH};
		if (q->device->layer == LINK_INFINIBAND) {
			wc.wc_flags = 0;
			wc.slid = (uint16_t)(1 + (ntohl(from.s_addr) & 0xff));
		}
		uint8_t *to = (uint8_t *)(uintptr_t)q->where[0].addr;
		route(to, from, datagram[8]);
		memcpy(to + 40, datagram + HEAD, size - HEAD);
		q->count--;
		memmove(q->wanted, q->wanted + 1, (size_t)q->count * sizeof *q->wanted);
		memmove(q->where, q->where + 1, (size_t)q->count * sizeof *q->where);
		complete(q->cq, wc);
	}
	pthread_mutex_unlock(&q->lock);
}

static void *receive(void *argument) {
	struct queue_pair *q = argument;
	unsigned seed = q->qp.qp_num;
	char datagram[HEAD + LARGEST];
	while (!__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd p = {.fd = q->socket, .events = POLLIN};
		if (poll(&p, 1, 20) <= 0)
			continue;
		struct sockaddr_in from;
		socklen_t length = sizeof from;
		ssize_t n = recvfrom(q->socket, datagram, sizeof datagram, 0, (struct sockaddr *)&from, &length);
		if (n < HEAD)
			continue;
		double lost = said("lose", q->device->address), longest = said("longest", q->device->address);
		if ((double)rand_r(&seed) / RAND_MAX < lost || (longest > 0 && n - HEAD > longest))
			continue;
		double wait = said("delay", q->device->address);
		struct timespec t = {.tv_nsec = (long)(wait * 1e9)};
		if (wait > 0)
			nanosleep(&t, NULL);
		deliver(q, from.sin_addr, datagram, (uint32_t)n);
		if (said("twice", q->device->address) > 0)
			deliver(q, from.sin_addr, datagram, (uint32_t)n);
	}
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a) {
	if (fails(__func__))
		return NULL;
	struct queue_pair *q = calloc(1, sizeof *q);
	pthread_mutex_init(&q->lock, NULL);
	q->device = pd->context->device;
	q->cq = a->recv_cq;
	q->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t size = sizeof at;
	inet_pton(AF_INET, q->device->address, &at.sin_addr);
	if (bind(q->socket, (struct sockaddr *)&at, size) != 0 || getsockname(q->socket, (struct sockaddr *)&at, &size) != 0)
		return NULL;
	q->qp.qp_num = ntohs(at.sin_port);
	return &q->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask) {
	struct queue_pair *q = (struct queue_pair *)qp;
	int error = fails(__func__);
	if (error != 0)
		return error;
	if (mask & QP_QKEY)
		q->qkey = a->qkey;
	if (a->qp_state == QPS_RTR)
		return pthread_create(&q->thread, NULL, receive, q);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
	struct queue_pair *q = (struct queue_pair *)qp;
	__atomic_store_n(&q->stop, 1, __ATOMIC_RELEASE);
	if (q->thread != 0)
		pthread_join(q->thread, NULL);
	close(q->socket);
	free(q);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a) {
	if (fails(__func__))
		return NULL;
	struct ibv_ah *ah = calloc(1, sizeof *ah);
	ah->attributes = *a;
	if (pd->context->device->layer == LINK_INFINIBAND && !a->is_global)
		ah->to.s_addr = htonl(0x7f000000u + a->dlid - 1u);
	else
		memcpy(&ah->to, a->grh.dgid.raw + 12, 4);
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah) {
	free(ah);
	return 0;
}
