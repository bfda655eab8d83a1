// SPDX-License-Identifier: Apache-2.0
//
// Versions, and what each makes of an ncclConfig_t (parseCommConfig of NCCL's init.cc).
#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0xcafebeef, UNDEFINED = INT_MIN };

int version_of(const char *text)
{
	int a = 0, b = 0, c = 0;
	sscanf(text, "%d.%d.%d", &a, &b, &c);
	return a <= 2 && b <= 8 ? a * 1000 + b * 100 + c : a * 10000 + b * 100 + c;
}

int version_code(int rank)
{
	char text[64];
	machine_text("version", rank, standin_version, text, sizeof text);
	return version_of(text);
}

// size is sizeof(ncclConfig_t) of a version.
static size_t size(int version)
{
	static const struct { int since; size_t size; } sizes[] = {{23000, 96}, {22900, 88}, {22800, 80}, {22700, 72}, {21800, 48}, {21700, 40}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (version >= sizes[i].since)
			return sizes[i].size;
	return 24;
}

static const struct config undefined = {
	.blocking = UNDEFINED, .cga = UNDEFINED, .min_ctas = UNDEFINED, .max_ctas = UNDEFINED, .split_share = UNDEFINED,
	.traffic_class = UNDEFINED, .collnet = UNDEFINED, .policy = UNDEFINED, .shrink_share = UNDEFINED, .nvls_ctas = UNDEFINED,
	.net_channels = UNDEFINED, .nvlink_sched = UNDEFINED, .graph_mode = UNDEFINED, .rma_contexts = UNDEFINED,
	.p2p_peers = UNDEFINED, .graph_ordering = UNDEFINED,
};

// outdate takes back the fields that the caller's version does not have. A library knows the thresholds up to its own.
static void outdate(struct config *c, int library)
{
	unsigned v = c->version;
	if (v < 21400)
		c->blocking = UNDEFINED;
	if (v < 21700)
		c->cga = c->min_ctas = c->max_ctas = UNDEFINED, c->net = NULL;
	if (v < 22500)
		c->traffic_class = UNDEFINED;
	if (v < 22700)
		c->collnet = c->policy = c->shrink_share = c->nvls_ctas = UNDEFINED;
	if (v < 22800)
		c->net_channels = c->nvlink_sched = UNDEFINED;
	if (v < 22900)
		c->graph_mode = c->rma_contexts = UNDEFINED;
	if (v < 23000)
		c->p2p_peers = UNDEFINED;
	if (v < 23005 || library < 23005)
		c->graph_ordering = UNDEFINED;
}

// range complains about a value outside of [low, high] that is not undefined.
static int range(const struct ncclComm *c, const char *name, int value, int low, int high)
{
	if (value == UNDEFINED || (value >= low && value <= high))
		return SUCCESS;
	log_warn(c->device, "init.cc:1669", "Invalid config %s attribute value %d", name, value);
	return INVALID_ARGUMENT;
}

static int check(const struct ncclComm *c, const struct config *g)
{
	int channels = c->version >= 22500 ? 64 : 32;
	int bad = range(c, "blocking", g->blocking, 0, 1) + range(c, "cgaClusterSize", g->cga, 0, INT_MAX);
	if ((g->min_ctas != UNDEFINED && g->min_ctas <= 0) || (g->max_ctas != UNDEFINED && g->max_ctas <= 0) || g->min_ctas > g->max_ctas) {
		log_warn(c->device, "init.cc:1681", "Invalid config min/max channels attribute value %d/%d", g->min_ctas, g->max_ctas);
		bad++;
	}
	bad += range(c, "splitShare", g->split_share, 0, 1) + range(c, "collnetEnable", g->collnet, 0, 1) + range(c, "policy", g->policy, 0, 3)
		+ range(c, "shrinkShare", g->shrink_share, 0, 1) + range(c, "nvlsCTAs", g->nvls_ctas, 1, INT_MAX)
		+ range(c, "nChannelsPerNetPeer", g->net_channels, 1, channels) + range(c, "nvlinkCentricSched", g->nvlink_sched, 0, 1)
		+ range(c, "graphUsageMode", g->graph_mode, 0, 2) + range(c, "numRmaCtx", g->rma_contexts, 0, INT_MAX)
		+ range(c, "maxP2pPeers", g->p2p_peers, 1, INT_MAX) + range(c, "graphStreamOrdering", g->graph_ordering, 0, 1);
	return bad ? INVALID_ARGUMENT : SUCCESS;
}

static void environment(const char *name, int *value, int low)
{
	const char *text = getenv(name);
	if (text && *text && atoi(text) >= low)
		*value = atoi(text);
}

int config_parse(ncclComm_t c, const void *given)
{
	struct config g = undefined;
	if (given) {
		size_t have = *(const size_t *)given, own = size(c->version);
		memcpy(&g, given, have < own ? have : own);
		if (have < 16 || g.magic != MAGIC) {
			log_warn(c->device, "init.cc:1638", "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
			return INVALID_ARGUMENT;
		}
		outdate(&g, c->version);
	}
	int bad = check(c, &g);
	if (bad)
		return bad;
	environment("NCCL_COMM_BLOCKING", &g.blocking, 0);
	environment("NCCL_MIN_CTAS", &g.min_ctas, 1);
	environment("NCCL_MAX_CTAS", &g.max_ctas, 1);
	if (g.blocking == UNDEFINED)
		g.blocking = 1;
	const char *net = getenv("NCCL_NET");
	snprintf(c->net, sizeof c->net, "%s", net && *net ? net : g.net ? g.net : "");
	g.net = c->net;
	c->config = g;
	return SUCCESS;
}

_Static_assert(sizeof(struct config) == 96, "ncclConfig_t of 2.30");
_Static_assert(offsetof(struct config, net) == 32 && offsetof(struct config, name) == 48, "its pointers");
_Static_assert(offsetof(struct config, graph_ordering) == 92, "its last field");
