// SPDX-License-Identifier: Apache-2.0

// A stand-in for libibverbs.so.1: devices are addresses of 127.0.0.0/8, queue pairs are UDP sockets, and messages
// really move between processes. What there is and what goes wrong is in the file "devices" beside the library; see
// package verbstest.

#define _GNU_SOURCE
#include "../verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	struct ibv_device *device;
	struct in_addr to;
	struct ibv_ah_attr attributes;
};

struct ibv_cq {
	struct ibv_cq_ex ex;
	pthread_mutex_t lock;
	struct ibv_comp_channel *channel;
	struct ibv_device *device;
	struct ibv_wc done[256];
	uint64_t at[256]; // ticks
	int count, armed;
};

struct queue_pair {
	struct ibv_qp qp;
	struct ibv_device *device;
	struct ibv_cq *cq;
	int socket, stop;
	uint32_t qkey;
	uint16_t pkey;
	pthread_t thread;
	pthread_mutex_t lock;
	struct ibv_recv_wr wanted[64];
	struct ibv_sge where[64];
	int count;
};

struct context {
	struct verbs_context base;
	struct ibv_device device;
};

// head is what is before a message in a datagram.
struct head {
	uint32_t qkey, qpn;
	uint16_t pkey;
	uint8_t traffic_class, service_level, routed, room[3];
};
_Static_assert(sizeof(struct head) == HEAD, "head");

#define OURS __attribute__((visibility("hidden")))

// verbs.c: what is said of an address, and what is planted in a function.
OURS double said(const char *word, const char *argument);
OURS int fails(const char *function);
OURS void rest(double seconds);
OURS union ibv_gid gid_of(const char *address, int layer);

// wire.c: what drivers do.
OURS int poll_cq(struct ibv_cq *, int most, struct ibv_wc *);
OURS int req_notify_cq(struct ibv_cq *, int solicited);
OURS int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **bad);
OURS int post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **bad);
OURS int query_device_ex(struct ibv_context *, const void *input, struct ibv_device_attr_ex *, size_t size);
OURS struct ibv_cq_ex *create_cq_ex(struct ibv_context *, struct ibv_cq_init_attr_ex *);
OURS void *receive(void *queue_pair);

struct ibv_cq *ibv_create_cq(struct ibv_context *, int entries, void *context, struct ibv_comp_channel *, int vector);
