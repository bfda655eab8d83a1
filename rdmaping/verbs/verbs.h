// SPDX-License-Identifier: Apache-2.0

// What this package calls of libibverbs.so.1, through pointers that dlsym found: neither headers nor libraries are
// there when this is built. Declarations are those of infiniband/verbs.h, as far as they are used. Its layout has not
// changed since IBVERBS_1.1 (2006), and the assertions hold it.

#ifndef GPUFABRIC_RDMAPING_VERBS_H
#define GPUFABRIC_RDMAPING_VERBS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_device;
struct ibv_cq;
struct ibv_cq_ex;
struct ibv_cq_init_attr_ex;
struct ibv_device_attr_ex;
struct ibv_qp;
struct ibv_send_wr;
struct ibv_recv_wr;
struct ibv_wc;

struct ibv_context {
	struct ibv_device *device;
	void *before_poll[11];
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*req_notify_cq)(struct ibv_cq *, int);
	void *before_send[12];
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	void *after_receive[5];
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat; // EXTENDED: it is the end of a verbs_context
};
_Static_assert(offsetof(struct ibv_context, poll_cq) == 96, "ibv_context");
_Static_assert(offsetof(struct ibv_context, post_send) == 208, "ibv_context");
_Static_assert(offsetof(struct ibv_context, post_recv) == 216, "ibv_context");
_Static_assert(offsetof(struct ibv_context, async_fd) == 268, "ibv_context");

#define EXTENDED ((void *)UINTPTR_MAX)

// It grows at its beginning; sz is how many bytes of it there are.
struct verbs_context {
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	void *priv;
	int (*query_device_ex)(struct ibv_context *, const void *input, struct ibv_device_attr_ex *, size_t size);
	void *before_size[11];
	size_t sz;
	struct ibv_context context;
};
_Static_assert(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, create_cq_ex) == 120,
               "verbs_context");

enum {
	EVENT_CQ_ERR = 0,
	EVENT_QP_FATAL = 1,
	EVENT_DEVICE_FATAL = 8,
	EVENT_PORT_ACTIVE = 9,
	EVENT_PORT_ERR = 10,
	EVENT_LID_CHANGE = 11,
	EVENT_PKEY_CHANGE = 12,
	EVENT_GID_CHANGE = 18,
};

struct ibv_async_event {
	union {
		void *object;
		int port_num;
	} element;
	int event_type;
};
_Static_assert(offsetof(struct ibv_async_event, event_type) == 8, "ibv_async_event");

union ibv_gid {
	uint8_t raw[16];
	uint64_t words[2];
};

enum { PORT_ACTIVE = 4, LINK_INFINIBAND = 1, LINK_ETHERNET = 2, GRH_REQUIRED = 1 };

struct ibv_port_attr {
	int state;
	int max_mtu;
	int active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer;
	uint8_t flags;
	uint16_t port_cap_flags2;
	uint8_t room[16]; // newer libraries write more
};
_Static_assert(offsetof(struct ibv_port_attr, lid) == 34, "ibv_port_attr");
_Static_assert(offsetof(struct ibv_port_attr, link_layer) == 46, "ibv_port_attr");

struct ibv_pd;
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};
_Static_assert(offsetof(struct ibv_mr, lkey) == 36, "ibv_mr");

struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;
	int refcnt;
};

struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	void *srq;
	uint32_t handle;
	uint32_t qp_num;
	// more follows
};
_Static_assert(offsetof(struct ibv_qp, qp_num) == 52, "ibv_qp");

struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

enum { QP_TYPE_UD = 4 };

struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	void *srq;
	struct ibv_qp_cap cap;
	int qp_type;
	int sq_sig_all;
};
_Static_assert(sizeof(struct ibv_qp_init_attr) == 64, "ibv_qp_init_attr");

struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
};

struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
};
_Static_assert(sizeof(struct ibv_ah_attr) == 32, "ibv_ah_attr");
_Static_assert(offsetof(struct ibv_ah_attr, port_num) == 30, "ibv_ah_attr");

enum { QPS_INIT = 1, QPS_RTR = 2, QPS_RTS = 3 };
enum { QP_STATE = 1 << 0, QP_PKEY_INDEX = 1 << 4, QP_PORT = 1 << 5, QP_QKEY = 1 << 6, QP_SQ_PSN = 1 << 16 };

struct ibv_qp_attr {
	int qp_state;
	int cur_qp_state;
	int path_mtu;
	int path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
};
_Static_assert(offsetof(struct ibv_qp_attr, pkey_index) == 120, "ibv_qp_attr");
_Static_assert(offsetof(struct ibv_qp_attr, port_num) == 129, "ibv_qp_attr");
_Static_assert(sizeof(struct ibv_qp_attr) == 144, "ibv_qp_attr");

struct ibv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct ibv_ah;
enum { WR_SEND = 2, SEND_SIGNALED = 2 };

struct ibv_send_wr {
	uint64_t wr_id;
	struct ibv_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	int opcode;
	unsigned send_flags;
	uint32_t imm_data;
	struct ibv_ah *ah; // of a union
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint8_t room[72];
};
_Static_assert(offsetof(struct ibv_send_wr, ah) == 40, "ibv_send_wr");
_Static_assert(sizeof(struct ibv_send_wr) == 128, "ibv_send_wr");

struct ibv_recv_wr {
	uint64_t wr_id;
	struct ibv_recv_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
};

enum { WC_SUCCESS = 0, WC_SEND = 0, WC_RECV = 1 << 7, WC_GRH = 1 };

struct ibv_wc {
	uint64_t wr_id;
	int status;
	int opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_data;
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};
_Static_assert(offsetof(struct ibv_wc, src_qp) == 32, "ibv_wc");
_Static_assert(sizeof(struct ibv_wc) == 48, "ibv_wc");

enum { WC_EX_BYTE_LEN = 1 << 0, WC_EX_SRC_QP = 1 << 3, WC_EX_SLID = 1 << 4, WC_EX_TIMESTAMP = 1 << 7 };

// A completion queue whose completions have a time; it is an ibv_cq, too.
struct ibv_cq_ex {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	uint32_t comp_mask;
	int status;
	uint64_t wr_id;
	int (*start_poll)(struct ibv_cq_ex *, void *attributes);
	void *next_poll;
	void (*end_poll)(struct ibv_cq_ex *);
	void *read_opcode;
	void *read_vendor_err;
	uint32_t (*read_byte_len)(struct ibv_cq_ex *);
	void *read_imm_data;
	void *read_qp_num;
	uint32_t (*read_src_qp)(struct ibv_cq_ex *);
	unsigned (*read_wc_flags)(struct ibv_cq_ex *);
	uint32_t (*read_slid)(struct ibv_cq_ex *);
	void *read_sl;
	void *read_dlid_path_bits;
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *);
	// more follows
};

struct ibv_cq_init_attr_ex {
	uint32_t cqe;
	void *cq_context;
	struct ibv_comp_channel *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask;
	uint32_t flags;
	void *parent_domain;
};

struct ibv_poll_cq_attr {
	uint32_t comp_mask;
};

// As long as in the first release that had it; libraries write no more than the size that they are given.
struct ibv_device_attr_ex {
	uint64_t before_mask[33];
	uint64_t completion_timestamp_mask;
	uint64_t hca_core_clock; // kHz
};

enum { ACCESS_LOCAL_WRITE = 1 };

// The functions: result, name, parameters.
#define P(...) __VA_ARGS__
#define VERBS_FUNCTIONS(X)                                                                                \
	X(struct ibv_device **, ibv_get_device_list, P(int *count))                                          \
	X(void, ibv_free_device_list, P(struct ibv_device **))                                               \
	X(const char *, ibv_get_device_name, P(struct ibv_device *))                                         \
	X(struct ibv_context *, ibv_open_device, P(struct ibv_device *))                                     \
	X(int, ibv_close_device, P(struct ibv_context *))                                                    \
	X(int, ibv_query_port, P(struct ibv_context *, uint8_t port, struct ibv_port_attr *))                \
	X(int, ibv_query_gid, P(struct ibv_context *, uint8_t port, int index, union ibv_gid *))             \
	X(int, ibv_query_pkey, P(struct ibv_context *, uint8_t port, int index, uint16_t *big_endian))       \
	X(int, ibv_get_async_event, P(struct ibv_context *, struct ibv_async_event *))                       \
	X(void, ibv_ack_async_event, P(struct ibv_async_event *))                                            \
	X(struct ibv_pd *, ibv_alloc_pd, P(struct ibv_context *))                                            \
	X(int, ibv_dealloc_pd, P(struct ibv_pd *))                                                           \
	X(struct ibv_mr *, ibv_reg_mr, P(struct ibv_pd *, void *, size_t, int access))                       \
	X(int, ibv_dereg_mr, P(struct ibv_mr *))                                                             \
	X(struct ibv_comp_channel *, ibv_create_comp_channel, P(struct ibv_context *))                       \
	X(int, ibv_destroy_comp_channel, P(struct ibv_comp_channel *))                                       \
	X(struct ibv_cq *, ibv_create_cq,                                                                    \
	  P(struct ibv_context *, int entries, void *context, struct ibv_comp_channel *, int vector))        \
	X(int, ibv_destroy_cq, P(struct ibv_cq *))                                                           \
	X(int, ibv_get_cq_event, P(struct ibv_comp_channel *, struct ibv_cq **, void **context))             \
	X(void, ibv_ack_cq_events, P(struct ibv_cq *, unsigned count))                                       \
	X(struct ibv_qp *, ibv_create_qp, P(struct ibv_pd *, struct ibv_qp_init_attr *))                     \
	X(int, ibv_modify_qp, P(struct ibv_qp *, struct ibv_qp_attr *, int mask))                            \
	X(int, ibv_destroy_qp, P(struct ibv_qp *))                                                           \
	X(struct ibv_ah *, ibv_create_ah, P(struct ibv_pd *, struct ibv_ah_attr *))                          \
	X(int, ibv_destroy_ah, P(struct ibv_ah *))

#define FIELD(result, name, parameters) result (*name)(parameters);
struct verbs {
	VERBS_FUNCTIONS(FIELD)
};

// verbs_load fills the table; it returns 0, or -1 and says why. The library stays until the process ends.
int verbs_load(const char *path, struct verbs *table, char *why, size_t size);

#endif
