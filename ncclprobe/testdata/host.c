// SPDX-License-Identifier: Apache-2.0
//
// What a communicator takes of its host: files in /dev/shm, and the library of a plugin (ncclShmOpen of misc/shmutils.cc,
// openPluginLib of plugin/plugin_open.cc, 2.30.7).
#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

int host_share(int rank)
{
	char path[] = "/dev/shm/nccl-XXXXXX";
	size_t size = (size_t)machine_number("shm", rank, 0);
	if (size == 0)
		return SUCCESS;
	int fd = mkstemp(path);
	if (fd < 0 || ftruncate(fd, (off_t)size))
		return SYSTEM;
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? SYSTEM : SUCCESS; // until the end
}

void host_plugin(void)
{
	const char *name = getenv("NCCL_NET_PLUGIN");
	char library[256];
	if (name && !strcasecmp(name, "none"))
		return;
	if (dlopen(name && *name ? name : "libnccl-net.so", RTLD_NOW | RTLD_LOCAL) || !name || strchr(name, '/'))
		return;
	snprintf(library, sizeof library, "libnccl-net-%s.so", name);
	dlopen(library, RTLD_NOW | RTLD_LOCAL);
}
