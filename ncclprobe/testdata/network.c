// SPDX-License-Identifier: Apache-2.0
//
// Which way data would go, by the description and the environment, and what the log says of that. Data itself always goes
// over sockets of the loopback interface.
#include "nccl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_HCAS = 32 }; // as in NCCL

static int on(const char *name)
{
	const char *v = getenv(name);
	return v && strtol(v, NULL, 0) == 1;
}

// best is the best way between two GPUs of a host: 0 P2P, 1 SHM, 2 a network, 3 a network without HCAs.
static int best(int rank)
{
	static const char *const names[] = {"P2P", "SHM", "IB", "Socket"};
	char name[16];
	machine_text("transport", rank, "P2P", name, sizeof name);
	for (int i = 0; i < 4; i++)
		if (!strcasecmp(name, names[i]))
			return i;
	return 0;
}

// network_host is the same for ranks that can share memory (getHostHash of NCCL's utils.cc).
uint64_t network_host(void)
{
	char text[512] = "";
	const char *id = getenv("NCCL_HOSTID");
	if (id && *id) {
		snprintf(text, sizeof text, "%s", id);
	} else {
		gethostname(text, 256);
		size_t n = strlen(text);
		FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
		if (f) {
			if (!fgets(text + n, (int)(sizeof text - n), f))
				text[n] = 0;
			fclose(f);
		}
	}
	uint64_t hash = 5381;
	for (const char *c = text; *c; c++)
		hash = hash * 33 ^ (unsigned char)*c;
	return hash;
}

// wanted reports whether NCCL_IB_HCA lets port 1 of mlx5_i be used.
static int wanted(int i)
{
	const char *filter = getenv("NCCL_IB_HCA");
	if (!filter || !*filter)
		return 1;
	int invert = *filter == '^';
	filter += invert;
	int exact = *filter == '=', found = 0;
	filter += exact;
	char device[16];
	size_t n = (size_t)snprintf(device, sizeof device, "mlx5_%d", i);
	char *copy = strdup(filter), *rest = copy;
	for (char *word; (word = strsep(&rest, ","));) {
		size_t name = strcspn(word, ":");
		int port = word[name] ? atoi(word + name + 1) : 1;
		found |= *word && port == 1 && (exact ? name == n : name <= n) && !strncmp(word, device, name);
	}
	free(copy);
	return found != invert;
}

// hcas finds the HCAs that NCCL would use: which[0] to which[n-1].
static int hcas(const struct ncclComm *c, int which[MAX_HCAS])
{
	int n = 0, all = best(c->rank) == 3 ? 0 : (int)machine_number("hcas", c->rank, 8);
	const char *disabled = getenv("NCCL_IB_DISABLE");
	if (disabled && strtol(disabled, NULL, 0))
		return 0;
	for (int i = 0; i < all && i < MAX_HCAS; i++)
		if (wanted(i))
			which[n++] = i;
	return n;
}

void network_hcas(const struct ncclComm *c, char *to, size_t size)
{
	int which[MAX_HCAS], n = hcas(c, which);
	snprintf(to, size, " ");
	for (int i = 0; i < n; i++)
		snprintf(to + strlen(to), size - strlen(to), "mlx5_%d ", which[i]);
}

void network_address(char *to, size_t size)
{
	char name[IF_NAMESIZE] = "lo";
	struct sockaddr_in at = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	bootstrap_interface(name, &at);
	snprintf(to, size, "%s:%s<0>", name, inet_ntoa(at.sin_addr));
}

static void log_hcas(const struct ncclComm *c, const int *which, int n)
{
	char list[40 * MAX_HCAS] = "", link[16], where[64];
	network_address(where, sizeof where);
	machine_text("link", c->rank, "RoCE", link, sizeof link);
	if (getenv("NCCL_IB_HCA"))
		log_info(c->device, LOG_INIT | LOG_ENV, "NCCL_IB_HCA set to %s", getenv("NCCL_IB_HCA"));
	if (!n)
		log_info(c->device, LOG_INIT | LOG_NET, "NET/IB : No device found.");
	for (int i = 0; i < n; i++)
		snprintf(list + strlen(list), 40, " [%d]mlx5_%d:1/%s", i, which[i], link);
	if (n)
		log_info(c->device, LOG_INIT | LOG_NET, "NET/IB : Using%s [RO]; OOB %s", list, where);
	for (int i = 0; i < n; i++)
		log_info(c->device, LOG_NET, "NET/IB : GPU Direct RDMA %s for HCA %d 'mlx5_%d'",
			machine_number("gdr", c->rank, 1) != 0 ? "Enabled" : "Disabled", i, which[i]);
}

// choose looks at one network after the other, and takes the first that has devices and the name that is asked for.
static int choose(ncclComm_t c, struct peer *self)
{
	int which[MAX_HCAS];
	if (!*c->net || !strcasecmp(c->net, "IB")) {
		c->hcas = hcas(c, which);
		log_hcas(c, which, c->hcas);
	}
	self->ib = c->hcas > 0;
	if (self->ib)
		return SUCCESS;
	if (*c->net && strcasecmp(c->net, "Socket"))
		return INVALID_USAGE;
	char where[64];
	network_address(where, sizeof where);
	log_info(c->device, LOG_INIT | LOG_NET, "NET/Socket : Using [0]%s", where);
	return SUCCESS;
}

int network_choose(ncclComm_t c, struct peer *self)
{
	int v = c->version;
	if (v < 22100)
		log_info(c->device, LOG_INIT | LOG_NET, "NET/Plugin : No plugin found, using internal implementation");
	else if (v < 22600)
		log_info(c->device, LOG_INIT | LOG_NET, "NET/Plugin: Using internal network plugin.");
	int err = choose(c, self);
	if (err && v >= 22703)
		log_warn(c->device, "plugin/net.cc:301", "Failed to initialize any NET plugin");
	else if (err)
		log_warn(c->device, "net.cc:98", "Error: network %s not found.", c->net);
	if (err)
		return err;
	const char *level = getenv("NCCL_NET_GDR_LEVEL");
	self->gdr = self->ib && machine_number("gdr", c->rank, 1) != 0 && (!level || (strcmp(level, "LOC") && strcmp(level, "0")));
	const char *name = self->ib ? "IB" : "Socket";
	if (v >= 22703)
		log_info(c->device, LOG_INIT | LOG_NET, "Initialized NET plugin %s", name);
	log_info(c->device, LOG_INIT, "Using network %s", name);
	if (self->gdr && machine_number("dmabuf", c->rank, 1) != 0)
		log_info(c->device, LOG_INIT, "DMA-BUF is available on GPU device %d", c->device);
	return SUCCESS;
}

enum way network_way(const struct ncclComm *c, int a, int b)
{
	int way = best(c->rank);
	if (c->peers[a].host != c->peers[b].host)
		return NET;
	if (way == 0 && !on("NCCL_P2P_DISABLE"))
		return P2P;
	return way <= 1 && !on("NCCL_SHM_DISABLE") ? SHM : NET;
}

// log_way is a line of a connection; until 2.18.1 it has bus ids in brackets.
static void log_way(const struct ncclComm *c, int channel, int a, int b)
{
	const struct peer *from = &c->peers[a], *to = &c->peers[b], *self = &c->peers[c->rank];
	int v = c->version, net = self->ib ? c->device % c->hcas : 0;
	char ends[96];
	if (v <= 21801)
		snprintf(ends, sizeof ends, "%d[%lx] -> %d[%lx]", a, (unsigned long)from->bus, b, (unsigned long)to->bus);
	else
		snprintf(ends, sizeof ends, "%d[%d] -> %d[%d]", a, from->device, b, to->device);
	switch (network_way(c, a, b)) {
	case P2P:
		if (a == c->rank)
			log_info(c->device, LOG_INIT | LOG_P2P, "Channel %02d/%01d : %s via P2P/%s", channel, 0, ends, v >= 21803 ? "CUMEM" : "IPC");
		break;
	case SHM:
		if (a == c->rank)
			log_info(c->device, LOG_INIT | LOG_SHM, "Channel %02d : %s via SHM/direct%s", channel, ends, v >= 23005 ? "" : "/direct");
		break;
	case NET:
		log_info(c->device, LOG_INIT | LOG_NET, "Channel %02d/%d : %s [%s] via NET/%s/%d%s", channel, 0, ends, a == c->rank ? "send" : "receive",
			self->ib ? "IB" : "Socket", net, self->gdr ? "/GDRDMA" : "");
		break;
	}
}

static int channels(const struct ncclComm *c)
{
	int n = (int)machine_number("channels", c->rank, 2);
	if (c->config.min_ctas != INT_MIN && n < c->config.min_ctas)
		n = c->config.min_ctas;
	return c->config.max_ctas != INT_MIN && n > c->config.max_ctas ? c->config.max_ctas : n;
}

// log_extras logs what switches do: SHARP on the network, NVLS on NVLink.
static void log_extras(const struct ncclComm *c, int n)
{
	const struct peer *self = &c->peers[c->rank];
	int nvls = machine_number("nvls", c->rank, 0) != 0 ? 16 : 0, v = c->version;
	int collnet = self->ib && machine_number("collnet", c->rank, 0) != 0 ? n : 0;
	for (int i = 0; i < 2 * collnet; i++)
		log_info(c->device, LOG_INIT | LOG_NET, "CollNet %02d/%1d : %d [%s] via COLLNET/SHARP/%d%s",
			i / 2, i % 2, c->rank, i % 2 ? "receive" : "send", c->device % c->hcas, self->gdr ? "/GDRDMA" : "");
	if (collnet)
		log_info(c->device, LOG_INIT, "Connected CollNet");
	if (nvls && v >= 21803 && v < 22703)
		log_info(c->device, LOG_INIT, "Connected NVLS tree");
	if (v >= 22105)
		log_info(c->device, LOG_INIT, "%d coll channels, %d collnet channels, %d nvls channels, %d p2p channels, 2 p2p channels per peer",
			n, collnet, nvls, n);
}

void network_connect(const struct ncclComm *c)
{
	int next = (c->rank + 1) % c->ranks, before = (c->rank + c->ranks - 1) % c->ranks, gdr = 1, n = channels(c);
	char ring[16 * MAX_RANKS] = "";
	for (int r = 0; r < c->ranks; r++)
		snprintf(ring + strlen(ring), 16, " %4d", r);
	for (int i = 0; i < n && c->rank == 0; i++)
		log_info(c->device, LOG_INIT, "Channel %02d/%02d :%s", i, n, ring); // the order of ranks, no connection
	for (int i = 0; i < n && c->ranks > 1; i++) {
		log_way(c, i, before, c->rank);
		log_way(c, i, c->rank, next);
	}
	for (int i = 0; i < c->ranks; i++)
		if (network_way(c, i, (i + 1) % c->ranks) == NET)
			gdr &= c->peers[i].gdr && c->peers[(i + 1) % c->ranks].gdr;
	if (c->ranks > 1 && network_way(c, c->rank, next) == NET && !c->peers[c->rank].ib)
		log_info(c->device, LOG_INIT, "NET/Socket: Using 1 threads and 4 sockets per thread");
	if (c->version >= 22403)
		log_info(c->device, LOG_INIT, "Connected all rings, use ring PXN 0 GDR %d", gdr);
	else
		log_info(c->device, LOG_INIT, "Connected all rings");
	if (c->version < 22703)
		log_info(c->device, LOG_INIT, "Connected all trees");
	log_extras(c, n);
}
