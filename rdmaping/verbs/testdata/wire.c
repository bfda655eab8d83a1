// SPDX-License-Identifier: Apache-2.0

// How messages of the stand-in move, and when: what a driver does.

#include "standin.h"

#include <poll.h>

// ticks is the clock of a device.
static uint64_t ticks(struct ibv_device *d) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double fast = said("fast", d->address);
	double ns = (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
	return (uint64_t)(ns * said("clock", d->address) / 1e6 * (fast > 0 ? fast : 1)) & (UINT64_MAX >> 1);
}

static void complete(struct ibv_cq *cq, struct ibv_wc wc, uint64_t at) {
	static unsigned garbage;
	if (cq->device->layer == LINK_ETHERNET) // as of drivers that leave what was there
		wc.slid = (uint16_t)__atomic_add_fetch(&garbage, 77, __ATOMIC_RELAXED);
	pthread_mutex_lock(&cq->lock);
	if (cq->count < 256) {
		cq->at[cq->count] = at;
		cq->done[cq->count++] = wc;
	}
	if (cq->armed) {
		cq->armed = 0;
		uint64_t one = 1;
		(void)!write(cq->channel->fd, &one, sizeof one);
	}
	pthread_mutex_unlock(&cq->lock);
}

// taken removes the first completions. The lock is held.
static void taken(struct ibv_cq *cq, int n) {
	cq->count -= n;
	memmove(cq->done, cq->done + n, (size_t)cq->count * sizeof *cq->done);
	memmove(cq->at, cq->at + n, (size_t)cq->count * sizeof *cq->at);
}

int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc) {
	if (cq->ex.start_poll != NULL)
		return -EINVAL; // it is polled otherwise
	int error = fails("ibv_poll_cq");
	if (error != 0)
		return -error;
	pthread_mutex_lock(&cq->lock);
	int n = cq->count < most ? cq->count : most;
	memcpy(wc, cq->done, (size_t)n * sizeof *wc);
	taken(cq, n);
	pthread_mutex_unlock(&cq->lock);
	if (n == 0)
		rest(said("empty", cq->device->address));
	return n;
}

static int start_poll(struct ibv_cq_ex *ex, void *attributes) {
	(void)attributes;
	struct ibv_cq *cq = (struct ibv_cq *)ex;
	pthread_mutex_lock(&cq->lock);
	int some = cq->count > 0;
	ex->status = cq->done[0].status;
	ex->wr_id = cq->done[0].wr_id;
	pthread_mutex_unlock(&cq->lock);
	return some ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex) {
	struct ibv_cq *cq = (struct ibv_cq *)ex;
	pthread_mutex_lock(&cq->lock);
	taken(cq, 1);
	pthread_mutex_unlock(&cq->lock);
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return ((struct ibv_cq *)ex)->done[0].byte_len; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return ((struct ibv_cq *)ex)->done[0].src_qp; }
static unsigned read_wc_flags(struct ibv_cq_ex *ex) { return ((struct ibv_cq *)ex)->done[0].wc_flags; }
static uint32_t read_slid(struct ibv_cq_ex *ex) { return ((struct ibv_cq *)ex)->done[0].slid; }
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return ((struct ibv_cq *)ex)->at[0]; }

int req_notify_cq(struct ibv_cq *cq, int solicited) {
	(void)solicited;
	pthread_mutex_lock(&cq->lock);
	cq->armed = 1;
	pthread_mutex_unlock(&cq->lock);
	return 0;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *w, struct ibv_recv_wr **bad) {
	(void)bad;
	struct queue_pair *q = (struct queue_pair *)qp;
	pthread_mutex_lock(&q->lock);
	int error = q->count == 64 ? ENOMEM : 0;
	int storm = error == 0 && said("storm", q->device->address) > 0;
	if (error == 0 && !storm) {
		q->wanted[q->count] = *w;
		q->where[q->count++] = *w->sg_list;
	}
	pthread_mutex_unlock(&q->lock);
	if (storm)
		complete(q->cq, (struct ibv_wc){.wr_id = w->wr_id, .opcode = WC_RECV, .byte_len = 104, .wc_flags = WC_GRH}, 0);
	return error;
}

// passes reports whether the network takes a message to an address: not if it has another service level or class than
// what is planted for the address, or a flow label of a path that is dead.
static int passes(const char *to, const struct ibv_ah_attr *a) {
	double level = said("sl", to), class = said("class", to), flow = said("flow", to);
	return (level == 0 || level == a->sl) && (class == 0 || class == a->grh.traffic_class) &&
	       (flow == 0 || (int)flow % 8 != (int)(a->grh.flow_label % 8));
}

// A datagram is a head and the message.
int post_send(struct ibv_qp *qp, struct ibv_send_wr *w, struct ibv_send_wr **bad) {
	(void)bad;
	struct queue_pair *q = (struct queue_pair *)qp;
	int error = fails("ibv_post_send");
	if (error != 0)
		return error;
	if (said("stuck", q->device->address) > 0)
		return 0;
	char datagram[HEAD + LARGEST] = {0}, address[16];
	const struct ibv_ah_attr *a = &w->ah->attributes;
	struct head head = {.qkey = w->remote_qkey, .qpn = qp->qp_num, .pkey = q->pkey, .service_level = a->sl,
	                    .traffic_class = a->grh.traffic_class, .routed = a->is_global};
	memcpy(datagram, &head, sizeof head);
	memcpy(datagram + HEAD, (void *)(uintptr_t)w->sg_list->addr, w->sg_list->length);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w->remote_qpn), .sin_addr = w->ah->to};
	inet_ntop(AF_INET, &to.sin_addr, address, sizeof address);
	struct ibv_wc wc = {.wr_id = w->wr_id, .opcode = WC_SEND, .qp_num = qp->qp_num};
	uint64_t left = ticks(q->device);
	if (w->sg_list->length <= (128u << q->device->mtu) && passes(address, a)) // what is too long is gone
		sendto(q->socket, datagram, HEAD + w->sg_list->length, 0, (struct sockaddr *)&to, sizeof to);
	complete(q->cq, wc, left);
	return 0;
}

int query_device_ex(struct ibv_context *c, const void *input, struct ibv_device_attr_ex *a, size_t size) {
	(void)input;
	int error = fails(__func__);
	if (error != 0)
		return error;
	memset(a, 0, size);
	a->hca_core_clock = (uint64_t)said("clock", c->device->address);
	a->completion_timestamp_mask = a->hca_core_clock == 0 ? 0 : UINT64_MAX >> 1;
	return 0;
}

struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a) {
	if (fails(__func__))
		return NULL;
	struct ibv_cq *cq = ibv_create_cq(c, (int)a->cqe, NULL, a->channel, 0);
	if (cq == NULL)
		return NULL;
	cq->ex.start_poll = start_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_wc_flags = read_wc_flags;
	// as in providers: what was not asked for is not there
	cq->ex.read_byte_len = a->wc_flags & WC_EX_BYTE_LEN ? read_byte_len : NULL;
	cq->ex.read_src_qp = a->wc_flags & WC_EX_SRC_QP ? read_src_qp : NULL;
	cq->ex.read_slid = a->wc_flags & WC_EX_SLID ? read_slid : NULL;
	cq->ex.read_completion_ts = a->wc_flags & WC_EX_TIMESTAMP ? read_completion_ts : NULL;
	return &cq->ex;
}
// route writes what comes before a message: a GRH, or an IPv4 header in the second half of 40 bytes.
static void route(uint8_t *to, struct in_addr from, uint8_t traffic_class, int layer) {
	if (layer == LINK_INFINIBAND) {
		char address[16];
		inet_ntop(AF_INET, &from, address, sizeof address);
		union ibv_gid source = gid_of(address, layer);
		memset(to, 0, 40);
		to[0] = 0x60;
		memcpy(to + 8, source.raw, sizeof source);
		return;
	}
	memset(to, 0x66, 20); // as of drivers that leave what was there, an IPv6 header too
	memset(to + 20, 0, 20);
	to[20] = 0x45;
	to[21] = traffic_class;
	to[29] = 17;
	memcpy(to + 32, &from, 4);
	uint32_t sum = 0;
	for (int i = 20; i < 40; i += 2)
		sum += (uint32_t)(to[i] << 8 | to[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	uint16_t check = htons((uint16_t)~((sum & 0xffff) + (sum >> 16)));
	memcpy(to + 30, &check, 2);
}

// admits reports whether a queue pair takes a datagram: Q_Key, partition, and a GRH as the port wants it.
static int admits(struct queue_pair *q, const struct head *h) {
	const uint16_t full = 0x8000;
	if (h->qkey != q->qkey)
		return 0;
	if (q->device->layer != LINK_INFINIBAND)
		return 1;
	double grh = said("grh", q->device->address);
	return ((h->pkey ^ q->pkey) & ~full) == 0 && ((h->pkey | q->pkey) & full) != 0 && (grh == 0 || h->routed == (grh == 1));
}

// deliver fills the first buffer that waits, if any.
static void deliver(struct queue_pair *q, struct in_addr from, const char *datagram, uint32_t size) {
	struct head head;
	memcpy(&head, datagram, sizeof head);
	if (!admits(q, &head))
		return;
	uint64_t at = ticks(q->device);
	rest(said("late", q->device->address));
	pthread_mutex_lock(&q->lock);
	if (q->count > 0) {
		struct ibv_wc wc = {.wr_id = q->wanted[0].wr_id, .opcode = WC_RECV, .byte_len = 40 + size - HEAD,
		                    .qp_num = q->qp.qp_num, .src_qp = head.qpn, .wc_flags = WC_GRH};
		if (q->device->layer == LINK_INFINIBAND) {
			wc.wc_flags = head.routed ? WC_GRH : 0;
			wc.slid = (uint16_t)(1 + (ntohl(from.s_addr) & 0xff));
			char address[16];
			inet_ntop(AF_INET, &from, address, sizeof address);
			uint16_t flid = (uint16_t)said("flid", address);
			if (flid != 0 && said("subnet", address) != said("subnet", q->device->address))
				wc.slid = flid;
		}
		uint8_t *to = (uint8_t *)(uintptr_t)q->where[0].addr;
		route(to, from, head.traffic_class, q->device->layer);
		memcpy(to + 40, datagram + HEAD, size - HEAD);
		q->count--;
		memmove(q->wanted, q->wanted + 1, (size_t)q->count * sizeof *q->wanted);
		memmove(q->where, q->where + 1, (size_t)q->count * sizeof *q->where);
		complete(q->cq, wc, at);
	}
	pthread_mutex_unlock(&q->lock);
}

void *receive(void *argument) {
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
		rest(said("delay", q->device->address));
		deliver(q, from.sin_addr, datagram, (uint32_t)n);
		if (said("twice", q->device->address) > 0)
			deliver(q, from.sin_addr, datagram, (uint32_t)n);
	}
	return NULL;
}
