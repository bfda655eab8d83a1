// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "rail.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

int verbs_load(const char *path, struct verbs *table, char *why, size_t size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		const char *error = dlerror();
		snprintf(why, size, "%s", error == NULL ? "dlopen failed" : error);
		return -1;
	}
#define FIND(result, name, parameters) {#name, offsetof(struct verbs, name)},
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {VERBS_FUNCTIONS(FIND)};
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		// where there is a 1.1, 1.0 has another layout; the functions for channels have 1.0 only
		void *symbol = dlvsym(library, functions[i].name, "IBVERBS_1.1");
		if (symbol == NULL)
			symbol = dlvsym(library, functions[i].name, "IBVERBS_1.0");
		if (symbol == NULL) {
			snprintf(why, size, "%s has no %s of IBVERBS_1.1", path, functions[i].name);
			return -1;
		}
		*(void **)((char *)table + functions[i].offset) = symbol;
	}
	return 0;
}

static struct ibv_context *open_device(const struct verbs *v, const char *name) {
	int count = 0;
	struct ibv_device **list = v->ibv_get_device_list(&count);
	if (list == NULL)
		return NULL;
	struct ibv_context *context = NULL;
	int error = ENODEV;
	for (int i = 0; i < count && list[i] != NULL; i++) {
		const char *found = v->ibv_get_device_name(list[i]);
		if (found != NULL && strcmp(found, name) == 0) {
			errno = 0;
			context = v->ibv_open_device(list[i]);
			error = errno;
			break;
		}
	}
	v->ibv_free_device_list(list);
	errno = error;
	return context;
}

// step_failed notes the errno of a step, which a function that returns a pointer leaves in errno.
static const char *step_failed(struct rail *r, int error, const char *step) {
	r->error = error;
	return step;
}

static const char *look(struct rail *r) {
	struct ibv_port_attr port;
	memset(&port, 0, sizeof port);
	int error = r->verbs->ibv_query_port(r->context, r->port, &port);
	if (error != 0)
		return step_failed(r, error, "ibv_query_port");
	r->state = port.state;
	r->link_layer = port.link_layer;
	r->lid = r->link_layer == LINK_INFINIBAND ? port.lid : 0;
	if (r->link_layer != LINK_INFINIBAND && r->link_layer != LINK_ETHERNET)
		return step_failed(r, EPROTONOSUPPORT, "the port is neither InfiniBand nor RoCE");
	r->routed = r->link_layer == LINK_ETHERNET || (port.flags & GRH_REQUIRED);
	r->mtu = port.active_mtu >= 1 && port.active_mtu <= 5 ? 128 << port.active_mtu : 256;
	if (port.state != PORT_ACTIVE)
		return step_failed(r, ENETDOWN, "the port is not active");
	if (r->verbs->ibv_query_gid(r->context, r->port, r->gid_index, &r->gid) != 0)
		return step_failed(r, errno, "ibv_query_gid");
	uint16_t pkey = 0;
	if (r->verbs->ibv_query_pkey(r->context, r->port, r->pkey_index, &pkey) != 0)
		return step_failed(r, errno, "ibv_query_pkey");
	r->pkey = be16toh(pkey);
	if ((r->pkey & 0x7fff) == 0)
		return step_failed(r, ENOENT, "the P_Key is empty");
	if (r->link_layer == LINK_ETHERNET && r->gid.words[0] == 0 && r->gid.words[1] == 0)
		return step_failed(r, ENOENT, "the GID is empty");
	return NULL;
}

static const char *pair(struct rail *r) {
	struct ibv_qp_init_attr attributes = {
		.send_cq = r->cq, .recv_cq = r->cq, .qp_type = QP_TYPE_UD, .sq_sig_all = 1,
		.cap = {.max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	if ((r->qp = r->verbs->ibv_create_qp(r->pd, &attributes)) == NULL)
		return step_failed(r, errno, "ibv_create_qp");
	r->qpn = r->qp->qp_num;
	return NULL;
}

// extended returns what a newer library has before a context; NULL: it has less than size bytes of it.
static struct verbs_context *extended(struct ibv_context *c, size_t size) {
	if (c->abi_compat != EXTENDED)
		return NULL;
	struct verbs_context *v = (struct verbs_context *)((char *)c - offsetof(struct verbs_context, context));
	return v->sz < size ? NULL : v;
}

// queues_with_times makes the queues so that completions have times of the NIC. It returns -1 where that cannot be.
static int queues_with_times(struct rail *r) {
	struct verbs_context *v = extended(r->context, sizeof *v);
	if (v == NULL || v->query_device_ex == NULL || v->create_cq_ex == NULL)
		return -1;
	struct {
		struct ibv_device_attr_ex known;
		uint8_t room[512]; // for a library that writes more than it may
	} device;
	memset(&device, 0, sizeof device);
	if (v->query_device_ex(r->context, NULL, &device.known, sizeof device.known) != 0)
		return -1;
	uint64_t mask = device.known.completion_timestamp_mask, khz = device.known.hca_core_clock;
	if (khz == 0 || khz > MAX_KHZ || (mask & (mask + 1)) != 0 || mask / 1000 / khz < LEAST_WRAP)
		return -1;
	struct ibv_cq_init_attr_ex a = {
		.cqe = RECEIVES + SENDS, .channel = r->channel,
		.wc_flags = WC_EX_BYTE_LEN | WC_EX_SRC_QP | WC_EX_SLID | WC_EX_TIMESTAMP,
	};
	if ((r->timed = v->create_cq_ex(r->context, &a)) == NULL)
		return -1;
	r->cq = (struct ibv_cq *)r->timed;
	if (pair(r) == NULL) {
		r->clock_mask = mask;
		r->clock_khz = khz;
		return 0;
	}
	r->verbs->ibv_destroy_cq(r->cq);
	r->cq = NULL;
	r->timed = NULL;
	return -1;
}

static const char *make(struct rail *r) {
	const struct verbs *v = r->verbs;
	if ((r->pd = v->ibv_alloc_pd(r->context)) == NULL)
		return step_failed(r, errno, "ibv_alloc_pd");
	void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return step_failed(r, errno, "mmap");
	r->memory = memory;
	if ((r->mr = v->ibv_reg_mr(r->pd, memory, MEMORY, ACCESS_LOCAL_WRITE)) == NULL)
		return step_failed(r, errno, "ibv_reg_mr");
	if ((r->channel = v->ibv_create_comp_channel(r->context)) == NULL)
		return step_failed(r, errno, "ibv_create_comp_channel");
	if (fcntl(r->channel->fd, F_SETFL, fcntl(r->channel->fd, F_GETFL) | O_NONBLOCK) != 0)
		return step_failed(r, errno, "fcntl");
	if (queues_with_times(r) == 0)
		return NULL;
	if ((r->cq = v->ibv_create_cq(r->context, RECEIVES + SENDS, NULL, r->channel, 0)) == NULL)
		return step_failed(r, errno, "ibv_create_cq");
	return pair(r);
}

static const char *ready(struct rail *r) {
	static const struct {
		int state, mask;
		const char *step;
	} steps[] = {
		{QPS_INIT, QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_QKEY, "ibv_modify_qp to INIT"},
		{QPS_RTR, QP_STATE, "ibv_modify_qp to RTR"},
		{QPS_RTS, QP_STATE | QP_SQ_PSN, "ibv_modify_qp to RTS"},
	};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		struct ibv_qp_attr a;
		memset(&a, 0, sizeof a);
		a.qp_state = steps[i].state;
		a.pkey_index = r->pkey_index;
		a.port_num = r->port;
		a.qkey = r->qkey;
		int error = r->verbs->ibv_modify_qp(r->qp, &a, steps[i].mask);
		if (error != 0)
			return step_failed(r, error, steps[i].step);
	}
	for (int slot = 0; slot < RECEIVES; slot++) {
		int error = rail_receive(r, slot);
		if (error != 0)
			return step_failed(r, error, "ibv_post_recv");
	}
	int error = r->context->req_notify_cq(r->cq, 0);
	return error == 0 ? NULL : step_failed(r, error, "ibv_req_notify_cq");
}

const char *rail_open(struct rail *r, const struct verbs *verbs, const char *device) {
	r->verbs = verbs;
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake < 0)
		return step_failed(r, errno, "eventfd");
	if ((r->context = open_device(verbs, device)) == NULL)
		return step_failed(r, errno, "ibv_open_device");
	int events = r->context->async_fd;
	if (events >= 0 && fcntl(events, F_SETFL, fcntl(events, F_GETFL) | O_NONBLOCK) != 0)
		return step_failed(r, errno, "fcntl");
	const char *failed = look(r);
	if (failed == NULL)
		failed = make(r);
	return failed == NULL ? ready(r) : failed;
}

void rail_quit(struct rail *r) {
	if (r->qp != NULL)
		r->verbs->ibv_destroy_qp(r->qp);
	r->qp = NULL;
}

void rail_close(struct rail *r) {
	const struct verbs *v = r->verbs;
	rail_quit(r);
	if (r->cq != NULL)
		v->ibv_destroy_cq(r->cq);
	if (r->channel != NULL)
		v->ibv_destroy_comp_channel(r->channel);
	if (r->mr != NULL)
		v->ibv_dereg_mr(r->mr);
	if (r->memory != NULL)
		munmap(r->memory, MEMORY);
	if (r->pd != NULL)
		v->ibv_dealloc_pd(r->pd);
	if (r->context != NULL)
		v->ibv_close_device(r->context);
	if (r->wake >= 0)
		close(r->wake);
	memset(r, 0, sizeof *r);
	r->wake = -1;
}

struct ibv_ah *rail_reach(struct rail *r, const uint8_t gid[16], uint16_t lid, uint32_t flow_label) {
	struct ibv_ah_attr a;
	memset(&a, 0, sizeof a);
	a.port_num = r->port;
	a.sl = r->service_level;
	a.dlid = lid;
	a.is_global = r->routed || memcmp(gid + 6, r->gid.raw + 6, 2) != 0; // another subnet, as NCCL compares them
	memcpy(a.grh.dgid.raw, gid, 16);
	a.grh.sgid_index = r->gid_index;
	a.grh.hop_limit = 255;
	a.grh.traffic_class = r->traffic_class;
	if (r->link_layer == LINK_ETHERNET && (r->traffic_class & ECN) == 0)
		a.grh.traffic_class |= ECT0; // as the packets of connections have: switches would drop where they mark those
	a.grh.flow_label = flow_label & 0xfffff;
	errno = 0;
	return r->verbs->ibv_create_ah(r->pd, &a);
}

void rail_forget(struct rail *r, struct ibv_ah *ah) { r->verbs->ibv_destroy_ah(ah); }

static struct ibv_sge piece(struct rail *r, int slot, size_t skip, uint32_t size) {
	return (struct ibv_sge){
		.addr = (uintptr_t)(r->memory + (size_t)slot * BUFFER + skip), .length = size, .lkey = r->mr->lkey};
}

int rail_send(struct rail *r, int slot, uint32_t size, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey) {
	struct ibv_sge s = piece(r, slot, ROUTE, size);
	struct ibv_send_wr w, *bad = NULL;
	memset(&w, 0, sizeof w);
	w.wr_id = (uint64_t)slot;
	w.sg_list = &s;
	w.num_sge = 1;
	w.opcode = WR_SEND;
	w.send_flags = SEND_SIGNALED;
	w.ah = ah;
	w.remote_qpn = qpn;
	w.remote_qkey = qkey;
	return r->context->post_send(r->qp, &w, &bad);
}

int rail_receive(struct rail *r, int slot) {
	struct ibv_sge s = piece(r, slot, 0, ROUTE + LONGEST);
	struct ibv_recv_wr w = {.wr_id = (uint64_t)slot, .sg_list = &s, .num_sge = 1}, *bad = NULL;
	return r->context->post_recv(r->qp, &w, &bad);
}

// poll_timed is rail_poll where completions have times. It does without next_poll: at the end of the queue, that of some
// providers skips a completion that has not come yet (rxe before rdma-core 55).
static int poll_timed(struct rail *r, struct arrival *to, int most) {
	struct ibv_cq_ex *q = r->timed;
	struct ibv_poll_cq_attr none = {0};
	int n = 0, error = 0;
	while (n < most && (error = q->start_poll(q, &none)) == 0) {
		int slot = (int)q->wr_id;
		struct arrival a = {.received = slot < RECEIVES, .status = q->status, .slot = slot};
		if (a.status == 0)
			a.ticks = q->read_completion_ts(q);
		if (a.status == 0 && a.received) {
			uint32_t size = q->read_byte_len(q);
			a.size = size < ROUTE ? 0 : size - ROUTE;
			a.source_qpn = q->read_src_qp(q);
			a.source_lid = r->link_layer == LINK_INFINIBAND ? (uint16_t)q->read_slid(q) : 0; // else it is undefined
			a.routed = (q->read_wc_flags(q) & WC_GRH) != 0;
		}
		to[n++] = a;
		q->end_poll(q);
	}
	return error == 0 || error == ENOENT ? n : -error;
}

int rail_poll(struct rail *r, struct arrival *to, int most) {
	if (r->timed != NULL)
		return poll_timed(r, to, most);
	struct ibv_wc done[16] = {0}; // not all drivers write all of it
	int n = r->context->poll_cq(r->cq, most < 16 ? most : 16, done);
	for (int i = 0; i < n; i++) {
		int slot = (int)done[i].wr_id;
		to[i] = (struct arrival){
			// the opcode of what failed is not valid
			.received = slot < RECEIVES,
			.status = done[i].status,
			.slot = slot,
			.size = done[i].byte_len < ROUTE ? 0 : done[i].byte_len - ROUTE,
			.source_qpn = done[i].src_qp,
			.source_lid = r->link_layer == LINK_INFINIBAND ? done[i].slid : 0, // else it is undefined
			.routed = (done[i].wc_flags & WC_GRH) != 0,
		};
	}
	return n;
}

// reports takes what the driver reports of the device and its ports. A new subnet manager is none of a rail's business:
// it asks none.
static void reports(struct rail *r) {
	static const struct {
		int type, of_port;
		const char *ended;
	} ends[] = {
		{EVENT_CQ_ERR, 0, "the completion queue failed"},     {EVENT_QP_FATAL, 0, "the queue pair failed"},
		{EVENT_DEVICE_FATAL, 0, "the device failed"},         {EVENT_PORT_ERR, 1, "the port went down"},
		{EVENT_PORT_ACTIVE, 1, "the port came up"},           {EVENT_LID_CHANGE, 1, "the LID changed"},
		{EVENT_PKEY_CHANGE, 1, "the table of P_Keys changed"},
	};
	struct ibv_async_event e;
	for (int n = 0; n < 64 && r->verbs->ibv_get_async_event(r->context, &e) == 0; n++) {
		int own = e.element.port_num == r->port;
		if (e.event_type == EVENT_GID_CHANGE && own) {
			union ibv_gid now;
			r->gids_changed = 1;
			if (r->ended == NULL &&
			    (r->verbs->ibv_query_gid(r->context, r->port, r->gid_index, &now) != 0 || memcmp(&now, &r->gid, sizeof now) != 0))
				r->ended = "the GID changed";
		}
		for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
			if (r->ended == NULL && e.event_type == ends[i].type && (own || !ends[i].of_port))
				r->ended = ends[i].ended;
		r->verbs->ibv_ack_async_event(&e);
	}
}

int rail_wait(struct rail *r, int milliseconds) {
	struct pollfd fds[] = {{.fd = r->channel->fd, .events = POLLIN}, {.fd = r->wake, .events = POLLIN},
	                       {.fd = r->context->async_fd, .events = POLLIN}};
	if (poll(fds, 3, milliseconds) < 0)
		return errno == EINTR ? 0 : errno;
	if ((fds[0].revents | fds[2].revents) & (POLLERR | POLLHUP | POLLNVAL))
		return EIO;
	if (fds[2].revents != 0)
		reports(r);
	uint64_t wakes;
	if (fds[1].revents != 0 && read(r->wake, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
		return errno;
	if (fds[0].revents == 0)
		return 0;
	struct ibv_cq *cq;
	void *context;
	unsigned events = 0;
	while (events < RECEIVES + SENDS && r->verbs->ibv_get_cq_event(r->channel, &cq, &context) == 0)
		events++;
	if (events > 0)
		r->verbs->ibv_ack_cq_events(r->cq, events);
	return r->context->req_notify_cq(r->cq, 0); // before the queue is emptied: what comes later is an event
}

void rail_wake(struct rail *r) {
	uint64_t one = 1;
	if (write(r->wake, &one, sizeof one) < 0) {
		// it is awake
	}
}
