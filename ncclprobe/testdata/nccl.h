// SPDX-License-Identifier: Apache-2.0
//
// Inside of the stand-in for libnccl.so.2.
#pragma once
#include "machine.h"

#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

// ncclResult_t
enum { SUCCESS, UNHANDLED_CUDA, SYSTEM, INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, REMOTE, IN_PROGRESS };

// ncclDataType_t, ncclRedOp_t
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
enum { SUM, PROD, MAX, MIN, AVG, OPS };

enum { MAX_RANKS = 256 };

typedef struct { char internal[128]; } ncclUniqueId;

// What is in the 128 bytes.
struct address { uint64_t magic; struct sockaddr_in at; };

// What ranks tell each other at init.
struct peer { uint64_t magic, host, bus; int rank, ranks, version, device, ib, gdr, pid; struct sockaddr_in at; char name[48]; };

// A config as 2.30.7 has it, with the defaults of the library filled in.
struct config {
	size_t size;
	unsigned magic, version;
	int blocking, cga, min_ctas, max_ctas;
	const char *net;
	int split_share, traffic_class;
	const char *name;
	int collnet, policy, shrink_share, nvls_ctas, net_channels, nvlink_sched, graph_mode, rma_contexts, p2p_peers, graph_ordering;
};

typedef struct ncclComm {
	int rank, ranks, device, version;
	struct config config;
	char net[32]; // config.net points here
	int hcas;     // how many it uses
	const char *function; // that made it
	struct address root;
	void *context;

	struct peer *peers;
	int *sockets; // one for each peer, -1 for this rank
	int listener;
	int wake;     // an eventfd that stays readable from the abort on

	pthread_mutex_t mutex; // for what follows
	pthread_cond_t changed;
	int result;            // ncclResult_t; IN_PROGRESS while the thread of init runs
	int starting;          // that thread runs
	int polls;             // how often GetAsyncError answers IN_PROGRESS before anything else
	int issued, turn;      // collectives run in the order of their calls, whatever their streams
	int connected, finalized;
	struct job *waiting;   // launched when GetAsyncError was polled often enough
	atomic_int aborted;
	struct ncclComm *next;
} *ncclComm_t;

// One piece of data to or from a peer.
struct flow { int peer; char *data; size_t size, done; };

enum kind { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND_RECV };

struct job {
	struct ncclComm *comm;
	void *stream, *context;
	enum kind kind;
	const char *send;
	char *recv;
	size_t count;
	int type, op, root, turn, fault;
	struct flow sends[MAX_RANKS], recvs[MAX_RANKS]; // of SEND_RECV
	int n_sends, n_recvs;
	struct job *next;
};

// log.c. The bits are those of NCCL_DEBUG_SUBSYS.
enum {
	LOG_INIT = 1, LOG_COLL = 2, LOG_P2P = 4, LOG_SHM = 8, LOG_NET = 16, LOG_GRAPH = 32, LOG_ENV = 128, LOG_BOOTSTRAP = 4096,
	LOG_PROFILE = 16384, LOG_ALL = ~0,
};
void log_info(int device, int subsystem, const char *format, ...) __attribute__((format(printf, 3, 4)));
void log_warn(int device, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
void log_version(int device, int rank);
void log_bootstrap(int device, int version); // once for each process
void log_flood(double bytes);
const char *log_last(void);

// config.c
extern const char standin_version[];                // what the library was built as: holds without the word version
int version_code(int rank);                         // 22703; before 2.9, 2708
int version_of(const char *text);                   // of "2.27.3"
int config_parse(ncclComm_t c, const void *given);  // ncclResult_t

// network.c
enum way { P2P, SHM, NET };
int network_choose(ncclComm_t c, struct peer *self); // fills ib and gdr in, ncclResult_t
enum way network_way(const struct ncclComm *c, int a, int b);
void network_address(char *to, size_t size); // of the interface, as the log has it: "eth0:10.0.0.1<0>"
void network_hcas(const struct ncclComm *c, char *to, size_t size); // names of those that it uses, a space around each
void network_connect(const struct ncclComm *c);      // says which ways the rings go
uint64_t network_host(void);

// bootstrap.c
int bootstrap_root(struct address *to);                     // ncclResult_t
int bootstrap_meet(ncclComm_t c, const struct peer *self);  // ncclResult_t; IN_PROGRESS: aborted

// bootstrap_interface is the interface on which ranks listen, and its address, without a port.
int bootstrap_interface(char name[IF_NAMESIZE], struct sockaddr_in *at); // ncclResult_t

// comm_wait returns 1 when the communicator is aborted, or 0 after that many seconds; never with fewer than 0.
int comm_wait(const struct ncclComm *c, double seconds);

// comm_fail is what GetAsyncError answers from now on.
void comm_fail(ncclComm_t c, int result);

// ring.c
void job_run(void *job);

// flows_run moves everything at once, and returns 0 when that is done or -1 when it never will be.
int flows_run(ncclComm_t c, struct flow *sends, int n_sends, struct flow *recvs, int n_recvs);

// reduce.c
size_t type_size(int type);
void reduce(int type, int op, char *to, const char *from, size_t count); // to = to op from; AVG adds
void divide(int type, char *data, size_t count, int by);

// collective.c. job_launch hands a job to its stream and answers an ncclResult_t. Callers hold the communicator's mutex.
int job_launch(struct job *j);
int group_depth(void);
void group_add_init(ncclComm_t c); // GroupEnd waits for it

// init.c
void *comm_init(void *c); // the thread

// nccl.c: what is used of libcuda.so.1
struct cuda {
	int (*init)(unsigned), (*current)(void **), (*set)(void *), (*device)(int *), (*retain)(void **, int), (*bus)(char *, int, int),
		(*attribute)(void *, int, uint64_t), (*range)(uint64_t *, size_t *, uint64_t), (*version)(int *),
		(*launch)(void *, void (*)(void *), void *);
	int (*fault)(int);
};
const struct cuda *cuda(void); // NULL without the library
int comm_ready(ncclComm_t c);  // ncclResult_t
int comm_known(const struct ncclComm *c);

// host.c: files of this rank in /dev/shm, as many bytes as the line "shm" says, and a network plugin.
int host_share(int rank);
void host_plugin(void);
