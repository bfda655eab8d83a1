// SPDX-License-Identifier: Apache-2.0
//
// What the thread does that makes a communicator: it meets the other ranks, refuses what the version refuses, and writes the
// log of that version.
#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// compare refuses what a communicator must not have: other versions, and two ranks on one GPU of a host.
static int compare(const struct ncclComm *c)
{
	for (int i = 0; i < c->ranks; i++) {
		const struct peer *p = &c->peers[i], *self = &c->peers[c->rank];
		if (p->version != c->version) {
			if (c->version < 22304) { // it has no such check
				comm_wait(c, -1);
				return IN_PROGRESS;
			}
			log_warn(c->device, "init.cc:729", "Mismatched NCCL version detected : rank %d version %d rank %d version %d",
				i, p->version, c->rank, self->version);
			return INVALID_USAGE;
		}
		if (i == c->rank || p->host != self->host || p->bus != self->bus)
			continue;
		if (c->version < 23000)
			log_warn(c->device, "init.cc:737", "Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx",
				c->rank, i, (unsigned long)p->bus);
		else if (getenv("NCCL_MULTI_RANK_GPU_ENABLE") && atoi(getenv("NCCL_MULTI_RANK_GPU_ENABLE")))
			continue;
		else
			log_warn(c->device, "init.cc:1057", "Multiple Ranks are using the same GPU/Partition. "
				"Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this mode.");
		return INVALID_USAGE;
	}
	for (int i = 0; i < c->ranks; i++) // who has another network than its neighbour waits for ever
		if (network_way(c, i, (i + 1) % c->ranks) == NET && c->peers[i].ib != c->peers[(i + 1) % c->ranks].ib) {
			log_warn(c->device, "misc/socket.cc:332", "socketFinalizeAccept: wrong type 4 != 3");
			comm_wait(c, -1);
			return IN_PROGRESS;
		}
	return SUCCESS;
}

static void log_shape(const struct ncclComm *c)
{
	int nodes = 0, local = 0, ranks = 0;
	for (int i = 0; i < c->ranks; i++) {
		int seen = 0;
		for (int k = 0; k < i; k++)
			seen |= c->peers[k].host == c->peers[i].host;
		nodes += !seen;
		ranks += c->peers[i].host == c->peers[c->rank].host;
		local += c->peers[i].host == c->peers[c->rank].host && i < c->rank;
	}
	if (c->version >= 22003)
		log_info(c->device, LOG_INIT, "comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d MNNVL 0",
			(const void *)c, c->rank, c->ranks, nodes, ranks, local);
	log_info(c->device, LOG_INIT, "Trees [0] %d/-1/-1->%d->%d", c->rank + 1 < c->ranks ? c->rank + 1 : -1, c->rank, c->rank - 1);
}

static void log_multicast(const struct ncclComm *c)
{
	const char *available = machine_number("nvls", c->rank, 0) != 0 ? "" : "not ";
	if (c->version >= 22700 && c->version < 23000)
		log_info(c->device, LOG_INIT, "NVLS multicast support is %savailable on dev %d (NVLS_NCHANNELS %d)",
			available, c->device, *available ? 0 : 16);
	else if (c->version >= 21700)
		log_info(c->device, LOG_INIT, "NVLS multicast support is %savailable on dev %d", available, c->device);
}

// log_environment names the variables that count here and are set.
static void log_environment(const struct ncclComm *c)
{
	static const char *const numbers[] = {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_RAS_ENABLE"},
		*const texts[] = {"NCCL_NET", "NCCL_NET_GDR_LEVEL", "NCCL_HOSTID"};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (getenv(numbers[i]))
			log_info(c->device, LOG_ENV, "%s set by environment to %ld.", numbers[i], strtol(getenv(numbers[i]), NULL, 0));
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (getenv(texts[i]))
			log_info(c->device, LOG_ENV, "%s set by environment to %s", texts[i], getenv(texts[i]));
}

static void log_state(const struct ncclComm *c, const char *state)
{
	int v = c->version;
	char start[64] = "", nvml[32] = "", id[48] = "";
	const struct peer *self = &c->peers[c->rank];
	if (v >= 22105)
		snprintf(start, sizeof start, "%s ", v < 22304 ? "ncclCommInitRank" : c->function);
	if (v >= 21803)
		snprintf(nvml, sizeof nvml, " nvmlDev %d", c->device);
	if (v >= 21602)
		snprintf(id, sizeof id, " commId 0x%llx", (unsigned long long)c->root.magic);
	if (v >= 22902 && !strcmp(state, "START"))
		snprintf(start, sizeof start, "[Rank %d] %s ", c->rank, c->function);
	log_info(c->device, LOG_INIT, "%scomm %p rank %d nranks %d cudaDev %d%s busId %lx%s - Init %s",
		start, (const void *)c, c->rank, c->ranks, c->device, nvml, (unsigned long)self->bus, id, state);
}

// place tells the description which hosts this communicator has.
static void place(const struct ncclComm *c)
{
	char peers[4096] = " ", hcas[1024];
	for (int i = 0; i < c->ranks; i++)
		snprintf(peers + strlen(peers), sizeof peers - strlen(peers), "%s ", c->peers[i].name);
	network_hcas(c, hcas, sizeof hcas);
	machine_place(peers, hcas);
}

static int establish(ncclComm_t c)
{
	char id[32] = "";
	unsigned bus = 0;
	int err;
	struct peer self = {.magic = c->root.magic, .host = network_host(), .rank = c->rank, .ranks = c->ranks, .version = c->version,
		.device = c->device, .pid = (int)getpid()};
	if (cuda()->bus(id, sizeof id, c->device) || sscanf(id, "%*x:%x:", &bus) != 1)
		return UNHANDLED_CUDA;
	self.bus = (uint64_t)bus << 12;
	gethostname(self.name, sizeof self.name - 1);
	c->peers[c->rank] = self;
	log_bootstrap(c->device, c->version);
	log_environment(c);
	host_plugin();
	if ((err = host_share(c->rank)) || (err = network_choose(c, &self)))
		return err;
	c->peers[c->rank] = self;
	if (c->version >= 21803)
		log_state(c, "START");
	log_flood(machine_number("log", c->rank, 0));
	if (machine_fault("hang", "init", c->rank, NULL)) {
		comm_wait(c, -1);
		return IN_PROGRESS;
	}
	if ((err = machine_enter("init", c->rank)))
		return err;
	if (comm_wait(c, machine_number("init", c->rank, 0)))
		return IN_PROGRESS;
	if ((err = bootstrap_meet(c, &self)))
		return err;
	place(c);
	if ((err = compare(c)))
		return err;
	log_multicast(c);
	log_shape(c);
	if (c->version < 22200)
		network_connect(c);
	log_state(c, "COMPLETE");
	if (c->version >= 22304)
		log_info(c->device, LOG_INIT | LOG_PROFILE, "Init timings - %s: rank %d nranks %d total 0.10 (kernels 0.02, alloc 0.01, bootstrap 0.03, "
			"allgathers 0.01, topo 0.01, graphs 0.00, connections 0.01, rest 0.01)", c->function, c->rank, c->ranks);
	return SUCCESS;
}

void *comm_init(void *argument)
{
	ncclComm_t c = argument;
	int result = establish(c);
	pthread_mutex_lock(&c->mutex);
	c->result = result == IN_PROGRESS ? INTERNAL : result; // aborted: no caller sees it
	c->starting = 0;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->mutex);
	return NULL;
}
