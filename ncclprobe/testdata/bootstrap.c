// SPDX-License-Identifier: Apache-2.0
//
// How ranks meet: who made the unique id listens at the address inside, in a thread that lives as long as the process; every
// rank sends it its identity, and receives those of the others once all are there. Waiting for a peer has no deadline, as in
// the real library. Then every rank connects to those before it. The interface is that of NCCL_SOCKET_IFNAME, else loopback.
#define _GNU_SOURCE
#include "nccl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const char where[] = "bootstrap.cc:335";

struct root { int listener; uint64_t magic; };

// bootstrap_interface finds the first IPv4 address of an interface whose name begins as NCCL_SOCKET_IFNAME says.
int bootstrap_interface(char name[IF_NAMESIZE], struct sockaddr_in *at)
{
	const char *wanted = getenv("NCCL_SOCKET_IFNAME");
	if (!wanted || !*wanted)
		wanted = "lo";
	wanted += *wanted == '=';
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all))
		return SYSTEM;
	int ret = INVALID_USAGE;
	for (const struct ifaddrs *i = all; i && ret; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || strncmp(i->ifa_name, wanted, strlen(wanted)))
			continue;
		memcpy(at, i->ifa_addr, sizeof *at);
		at->sin_port = 0;
		strncpy(name, i->ifa_name, IF_NAMESIZE - 1);
		name[IF_NAMESIZE - 1] = 0;
		ret = SUCCESS;
	}
	freeifaddrs(all);
	if (ret)
		log_warn(0, "bootstrap.cc:126", "Bootstrap : no socket interface found");
	return ret;
}

static int listen_here(struct sockaddr_in *at)
{
	char name[IF_NAMESIZE];
	socklen_t size = sizeof *at;
	if (bootstrap_interface(name, at))
		return -1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)at, size) && !listen(fd, MAX_RANKS) && !getsockname(fd, (struct sockaddr *)at, &size))
		return fd;
	close(fd);
	return -1;
}

static int all(int fd, void *data, size_t size, int writing)
{
	for (char *p = data; size;) {
		ssize_t n = writing ? send(fd, p, size, MSG_NOSIGNAL) : recv(fd, p, size, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n, size -= (size_t)n;
	}
	return 0;
}

// collect takes ranks until all are there. Who does not belong to them is sent away.
static int collect(const struct root *r, struct peer *peers, int *fds)
{
	int n = 0, ranks = 1;
	while (n < ranks) {
		struct peer p;
		int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		struct timeval patience = {.tv_sec = 5}; // who connects speaks at once
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		if (all(fd, &p, sizeof p, 0) || p.magic != r->magic || p.ranks < 1 || p.ranks > MAX_RANKS || p.rank < 0 || p.rank >= p.ranks) {
			close(fd);
			continue;
		}
		if (n && p.ranks != ranks) {
			log_warn(p.device, where, "Bootstrap Root : mismatch in rank count from procs %d : %d", p.ranks, ranks);
			close(fd);
			return -1;
		}
		if (fds[p.rank] >= 0) {
			log_warn(p.device, where, "Bootstrap Root : rank %d of %d ranks has already checked in", p.rank, ranks);
			close(fd);
			return -1;
		}
		ranks = p.ranks, peers[p.rank] = p, fds[p.rank] = fd;
		n++;
	}
	return ranks;
}

static void *serve(void *argument)
{
	struct root *r = argument;
	struct peer peers[MAX_RANKS];
	int fds[MAX_RANKS];
	memset(fds, -1, sizeof fds);
	int ranks = collect(r, peers, fds);
	for (int i = 0; i < MAX_RANKS; i++) {
		if (fds[i] < 0)
			continue;
		if (ranks > 0)
			all(fds[i], peers, sizeof *peers * (size_t)ranks, 1);
		close(fds[i]);
	}
	close(r->listener);
	free(r);
	return NULL;
}

int bootstrap_root(struct address *to)
{
	struct root *r = malloc(sizeof *r);
	if (!r)
		return SYSTEM;
	r->listener = listen_here(&to->at);
	if (r->listener < 0 || getrandom(&r->magic, sizeof r->magic, 0) != sizeof r->magic) {
		free(r);
		return SYSTEM;
	}
	to->magic = r->magic;
	return thread_start(serve, r) ? SYSTEM : SUCCESS;
}

// transfer reads or writes everything, and answers IN_PROGRESS if the communicator is aborted meanwhile.
static int transfer(ncclComm_t c, int fd, void *data, size_t size, int writing)
{
	for (char *p = data; size;) {
		ssize_t n = writing ? send(fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, p, size, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			log_warn(c->device, "misc/socket.cc:49", "socketProgress: Connection closed by remote peer localhost<%d>", ntohs(c->root.at.sin_port));
			return REMOTE;
		}
		if (n > 0) {
			p += n, size -= (size_t)n;
			continue;
		}
		struct pollfd fds[] = {{.fd = c->wake, .events = POLLIN}, {.fd = fd, .events = writing ? POLLOUT : POLLIN}};
		poll(fds, 2, -1);
		if (c->aborted)
			return IN_PROGRESS;
	}
	return SUCCESS;
}

// dial connects, again and again for as long as that version does where no process listens.
static int dial(ncclComm_t c, const struct sockaddr_in *at, int *to)
{
	if (at->sin_family != AF_INET) { // a damaged id
		log_warn(c->device, "misc/socket.cc:700", "ncclSocketInit: connecting to address with family %d is neither AF_INET(2) nor AF_INET6(10)",
			at->sin_family);
		return INTERNAL;
	}
	int tries = c->version >= 22400 ? 34 : 200; // 20000 of 1 ms until 2.23
	for (int i = 1; i <= tries; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
		if (fd < 0)
			return SYSTEM;
		if (!connect(fd, (const struct sockaddr *)at, sizeof *at)) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
			*to = fd;
			return SUCCESS;
		}
		close(fd);
		if (comm_wait(c, 0.1 * (c->version >= 22400 ? i : 1)))
			return IN_PROGRESS;
	}
	log_warn(c->device, "misc/socket.cc:488", "socketStartConnect: exceeded retries (%d)", tries);
	return c->version >= 22400 ? REMOTE : SYSTEM;
}

static int answer(ncclComm_t c)
{
	struct pollfd fds[] = {{.fd = c->wake, .events = POLLIN}, {.fd = c->listener, .events = POLLIN}};
	poll(fds, 2, -1);
	if (c->aborted)
		return IN_PROGRESS;
	uint64_t hello[2];
	int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC), yes = 1;
	if (fd < 0)
		return SYSTEM;
	int ret = transfer(c, fd, hello, sizeof hello, 0);
	if (!ret && (hello[0] != c->root.magic || hello[1] >= (uint64_t)c->ranks || c->sockets[hello[1]] >= 0))
		ret = INTERNAL;
	if (ret) {
		close(fd);
		return ret;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	c->sockets[hello[1]] = fd;
	return SUCCESS;
}

// mesh connects this rank to those before it, and waits for those behind it.
static int mesh(ncclComm_t c)
{
	int ret = SUCCESS;
	for (int p = 0; p < c->rank && !ret; p++) {
		struct sockaddr_in at = c->peers[p].at;
		uint64_t hello[2] = {c->root.magic, (uint64_t)c->rank};
		ret = dial(c, &at, &c->sockets[p]);
		if (!ret)
			ret = transfer(c, c->sockets[p], hello, sizeof hello, 1);
	}
	for (int p = c->rank + 1; p < c->ranks && !ret; p++)
		ret = answer(c);
	return ret;
}

int bootstrap_meet(ncclComm_t c, const struct peer *who)
{
	struct peer self = *who;
	struct sockaddr_in at;
	int fd;
	c->listener = listen_here(&at);
	if (c->listener < 0)
		return SYSTEM;
	self.at = at;
	int ret = dial(c, &c->root.at, &fd);
	if (ret)
		return ret;
	ret = transfer(c, fd, &self, sizeof self, 1);
	if (!ret)
		ret = transfer(c, fd, c->peers, sizeof *c->peers * (size_t)c->ranks, 0);
	close(fd);
	return ret ? ret : mesh(c);
}
