// SPDX-License-Identifier: Apache-2.0

// The functions of the stand-in that libibverbs exports.

#include "standin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

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
double said(const char *word, const char *argument) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct stat known;
	static char text[1 << 14], path[4096];
	pthread_mutex_lock(&lock);
	if (path[0] == '\0')
		folder(path, sizeof path, "devices");
	struct stat now = {0};
	if (stat(path, &now) != 0 || now.st_ino != known.st_ino || now.st_mtim.tv_nsec != known.st_mtim.tv_nsec) {
		FILE *f = fopen(path, "re");
		text[f == NULL ? 0 : fread(text, 1, sizeof text - 1, f)] = '\0';
		if (f != NULL)
			fclose(f);
		known = now;
	}
	double value = 0;
	for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n'), line += line != NULL) {
		char w[32] = "", a[64] = "";
		double v = 1;
		// the number only of the same line
		int n = sscanf(line, "%31s %63s%*[ ]%lf", w, a, &v);
		if (n >= 2 && strcmp(w, word) == 0 && (strcmp(a, argument) == 0 || strcmp(a, "all") == 0))
			value = v;
	}
	pthread_mutex_unlock(&lock);
	return value;
}

void rest(double seconds) {
	if (seconds <= 0)
		return;
	struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&t, NULL);
}

// fails does what is planted in a function.
int fails(const char *function) {
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
struct ibv_context *ibv_open_device(struct ibv_device *d) {
	if (fails(__func__))
		return NULL;
	struct context *c = calloc(1, sizeof *c);
	c->device = *d;
	c->base = (struct verbs_context){
		.sz = sizeof c->base, .create_cq_ex = create_cq_ex, .query_device_ex = query_device_ex,
		.context = {.device = &c->device, .poll_cq = poll_cq, .req_notify_cq = req_notify_cq,
		            .post_send = post_send, .post_recv = post_recv, .abi_compat = EXTENDED},
	};
	char path[4096], name[64];
	snprintf(name, sizeof name, "events.%s", d->address);
	folder(path, sizeof path, name);
	mkfifo(path, 0600);
	c->base.context.async_fd = open(path, O_RDWR | O_CLOEXEC);
	if (said("old", d->address) > 0)
		c->base.sz -= 8; // without create_cq_ex
	return &c->base.context;
}

int ibv_close_device(struct ibv_context *c) {
	close(c->async_fd);
	free((char *)c - offsetof(struct context, base.context));
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
	if (said("lid", c->device->address) > 0)
		a->lid = (uint16_t)said("lid", c->device->address);
	a->flags = said("grh", c->device->address) == 1 ? GRH_REQUIRED : 0;
	return 0;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *e) {
	int32_t event[2];
	if (read(c->async_fd, event, sizeof event) != sizeof event)
		return -1;
	e->element.port_num = event[0];
	e->event_type = event[1];
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *e) { (void)e; }

// gid_of is the GID of an address: of InfiniBand with its subnet, and the FLID by which other subnets reach it.
union ibv_gid gid_of(const char *address, int layer) {
	union ibv_gid gid = {0};
	struct in_addr a;
	inet_pton(AF_INET, address, &a);
	memcpy(gid.raw + 12, &a, 4);
	gid.raw[10] = gid.raw[11] = 0xff;
	if (layer == LINK_INFINIBAND) {
		uint16_t flid = htons((uint16_t)said("flid", address)), subnet = htons((uint16_t)said("subnet", address));
		gid.raw[0] = 0xfe;
		gid.raw[1] = 0x80;
		memcpy(gid.raw + 4, &flid, 2);
		memcpy(gid.raw + 6, &subnet, 2);
	}
	return gid;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid) {
	(void)port;
	memset(gid, 0, sizeof *gid);
	if (fails(__func__))
		return -1;
	if (index <= 3 && said("nogid", c->device->address) <= 0)
		*gid = gid_of(c->device->address, c->device->layer);
	return 0;
}

// pkey_of is an entry of the table of P_Keys; 0: it is empty.
static uint16_t pkey_of(struct ibv_device *d, int index) {
	char word[16] = "pkey";
	if (index > 0)
		snprintf(word, sizeof word, "pkey%d", index);
	double own = said(word, d->address);
	return own > 0 ? (uint16_t)own : index == 0 ? 0xffff : 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, uint16_t *pkey) {
	(void)port;
	*pkey = htons(pkey_of(c->device, index));
	if (index < 16)
		return fails(__func__) ? -1 : 0;
	errno = EINVAL; // it has 16
	return -1;
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
	(void)entries, (void)context, (void)vector;
	if (fails(__func__))
		return NULL;
	struct ibv_cq *cq = calloc(1, sizeof *cq);
	pthread_mutex_init(&cq->lock, NULL);
	cq->channel = channel;
	cq->device = c->device;
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
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a) {
	if (fails(__func__) || (a->send_cq->ex.start_poll != NULL && fails("timed_qp")))
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
	if (mask & QP_PKEY_INDEX)
		q->pkey = pkey_of(q->device, a->pkey_index);
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

// tell writes how many address handles of a device there are.
static void tell(struct ibv_device *d, int more) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct {
		char address[16];
		int count;
	} of[MOST];
	char path[4096], name[64], text[16];
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < MOST - 1 && of[i].address[0] != '\0' && strcmp(of[i].address, d->address) != 0)
		i++;
	memcpy(of[i].address, d->address, sizeof d->address);
	int size = snprintf(text, sizeof text, "%10d", of[i].count += more);
	snprintf(name, sizeof name, "handles.%s", d->address);
	folder(path, sizeof path, name);
	int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)!pwrite(file, text, (size_t)size, 0);
	close(file);
	pthread_mutex_unlock(&lock);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a) {
	if (fails(__func__))
		return NULL;
	struct ibv_ah *ah = calloc(1, sizeof *ah);
	ah->attributes = *a;
	ah->device = pd->context->device;
	int infiniband = pd->context->device->layer == LINK_INFINIBAND;
	memcpy(&ah->to, a->grh.dgid.raw + 12, 4);
	if (infiniband && !a->is_global)
		ah->to.s_addr = htonl(0x7f000000u + a->dlid - 1u);
	union ibv_gid own = gid_of(pd->context->device->address, pd->context->device->layer);
	uint16_t flid = htons(a->dlid), none = 0;
	if (infiniband && memcmp(a->grh.dgid.raw + 6, own.raw + 6, 2) != 0 && // of another subnet
	    memcmp(a->grh.dgid.raw + 4, &none, 2) != 0 && memcmp(a->grh.dgid.raw + 4, &flid, 2) != 0)
		ah->to.s_addr = 0; // nobody routes there
	char address[16];
	inet_ntop(AF_INET, &ah->to, address, sizeof address);
	double neighbour = said("nobody", address);
	if (neighbour > 0) {
		rest(neighbour);
		free(ah);
		errno = ETIMEDOUT;
		return NULL;
	}
	tell(ah->device, 1);
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah) {
	tell(ah->device, -1);
	free(ah);
	return 0;
}
