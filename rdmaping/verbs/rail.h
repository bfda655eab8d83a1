// SPDX-License-Identifier: Apache-2.0

// One UD queue pair on one port. All functions are for one thread at a time, except rail_wake and
// rail_reach.

#ifndef GPUFABRIC_RDMAPING_RAIL_H
#define GPUFABRIC_RDMAPING_RAIL_H

#include "verbs.h"

enum {
	RECEIVES = 48,      // buffers that wait for messages
	SENDS = 16,         // messages that are under way to the NIC
	ROUTE = 40,         // the header before each message that comes: GRH, or IPv4 in its second half
	LONGEST = 4096,     // message
	BUFFER = ROUTE + LONGEST + 24, // a multiple of 64: no cache line is shared
	MEMORY = (RECEIVES + SENDS) * BUFFER,
};
// Clocks of NICs that are used: up to so many kHz, and at least so many seconds until they begin again.
enum { MAX_KHZ = 100000000, LEAST_WRAP = 10 };
enum { ECN = 3, ECT0 = 2 }; // of a traffic class
_Static_assert(BUFFER % 64 == 0, "buffers are aligned");
_Static_assert(8 * MEMORY <= 4 << 20, "eight rails have 4 MiB at most");

struct rail {
	const struct verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *timed; // cq, where its completions have times of the NIC
	struct ibv_qp *qp;
	uint8_t *memory;
	int wake; // eventfd
	const char *ended; // what the driver reports that ends the rail; NULL: nothing
	int gids_changed;  // since it was last set to 0
	int error; // errno of the step that failed; 0: it has none

	uint32_t qkey;
	uint8_t port, gid_index, traffic_class, service_level;
	uint16_t pkey_index;

	// what is found
	union ibv_gid gid;
	uint16_t lid, pkey;
	uint8_t link_layer;
	int state;
	int mtu; // in bytes
	uint32_t qpn;
	int routed; // the port wants a GRH always
	uint64_t clock_mask, clock_khz; // of the NIC, where completions have its time
};

// An arrival is a completion.
struct arrival {
	int received; // 0: slot was sent
	int status;   // of enum ibv_wc_status
	int slot;
	uint32_t size; // of the message, without the route
	uint32_t source_qpn;
	uint16_t source_lid;
	int routed; // the 40 bytes before the message are valid
	uint64_t ticks; // when it was, by the clock of the NIC
};

// rail_open makes the queue pair ready. It returns NULL, or the step that failed.
const char *rail_open(struct rail *r, const struct verbs *verbs, const char *device);
// rail_quit destroys the queue pair, and rail_close all. Address handles are destroyed in between.
void rail_quit(struct rail *r);
void rail_close(struct rail *r);

// rail_reach makes an address handle; NULL: errno says why.
struct ibv_ah *rail_reach(struct rail *r, const uint8_t gid[16], uint16_t lid, uint32_t flow_label);
void rail_forget(struct rail *r, struct ibv_ah *ah);

// rail_send sends what is in a buffer for sending. It returns an errno.
int rail_send(struct rail *r, int slot, uint32_t size, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
// rail_receive gives a buffer back for receiving. It returns an errno.
int rail_receive(struct rail *r, int slot);
// rail_poll returns how many completions it has written; negative: an error.
int rail_poll(struct rail *r, struct arrival *to, int most);
// rail_wait waits for completions, rail_wake, what the driver reports (ended, gids_changed), or the end of so many
// milliseconds. It returns an errno.
int rail_wait(struct rail *r, int milliseconds);
void rail_wake(struct rail *r);

#endif
