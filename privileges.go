// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(c) (UINT64_C(1) << (c))

// What a process of root keeps: docs/PRIVILEGES.md says for what.
static const uint64_t needed =
	BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) |
	BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_RESOURCE) |
	BIT(CAP_SYSLOG);

// Capabilities are attributes of threads, and Go cannot change them for all threads of a program with cgo
// (syscall.AllThreadsSyscall). Before Go's runtime begins there is one thread, from which all others inherit. A kernel that refuses
// leaves what there was: the bounding set of a process without CAP_SETPCAP, which it can gain nothing from.
__attribute__((constructor)) static void drop_capabilities(int argc, char **argv) {
	if (argc > 1 && strncmp(argv[1], "-test.", 6) == 0) {
		return; // this is go test, and not the program: there is no such flag
	}
	for (unsigned long c = 0; c < 64; c++) {
		if (!(needed & BIT(c)) && prctl(PR_CAPBSET_READ, c, 0UL, 0UL, 0UL) == 1) {
			prctl(PR_CAPBSET_DROP, c, 0UL, 0UL, 0UL);
		}
	}
	struct __user_cap_header_struct self = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2];
	if (syscall(SYS_capget, &self, sets) != 0) {
		return;
	}
	int less = 0;
	for (int i = 0; i < 2; i++) {
		uint32_t keep = (uint32_t)(needed >> (32 * i));
		less |= ((sets[i].permitted | sets[i].inheritable) & ~keep) != 0;
		sets[i].effective &= keep;
		sets[i].permitted &= keep;
		sets[i].inheritable &= keep; // and with them the ambient ones
	}
	if (less) {
		syscall(SYS_capset, &self, sets);
	}
}
*/
import "C"
