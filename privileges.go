// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(c) (UINT64_C(1) << (c))

// What a process of root keeps: docs/SECURITY.md says for what.
static const uint64_t needed =
	BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) |
	BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_ADMIN) |
	BIT(CAP_SYS_RESOURCE) | BIT(CAP_SYSLOG);

// What the kernel refused: the error, and the capabilities that stay for it.
static int refused;
static uint64_t stays;

// Capabilities are attributes of threads, and Go cannot change them for all threads of a program with cgo
// (syscall.AllThreadsSyscall). Before Go's runtime begins there is one thread, from which all others inherit.
// A kernel that refuses leaves what there was: the bounding set of a process without CAP_SETPCAP, which it
// can gain nothing from.
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
		refused = errno;
		return;
	}
	int less = 0;
	uint64_t beyond = 0;
	for (int i = 0; i < 2; i++) {
		uint32_t keep = (uint32_t)(needed >> (32 * i));
		less |= ((sets[i].permitted | sets[i].inheritable) & ~keep) != 0;
		beyond |= (uint64_t)(sets[i].permitted & ~keep) << (32 * i);
		sets[i].effective &= keep;
		sets[i].permitted &= keep;
		sets[i].inheritable &= keep; // and with them the ambient ones
	}
	if (less && syscall(SYS_capset, &self, sets) != 0) {
		refused = errno;
		stays = beyond;
	}
}

static int capabilities_refused(void) { return refused; }
static uint64_t capabilities_that_stay(void) { return stays; }
*/
import "C"

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"syscall"
)

// capabilitiesKept returns which capabilities this process has although nothing needs them, and why; nil: none.
func capabilitiesKept() error {
	errno := C.capabilities_refused()
	if errno == 0 {
		return nil
	}
	which := "it is not known which stay"
	if stays := uint64(C.capabilities_that_stay()); stays != 0 {
		which = namesOf(stays) + " stay"
	}
	return fmt.Errorf("the kernel or a filter of system calls refused to drop capabilities: %w: %s; start the exporter without them (docs/SECURITY.md)", syscall.Errno(errno), which)
}

// namesOf names capabilities as capabilities(7) does, those that nothing here needs; a newer one is its number.
func namesOf(set uint64) string {
	var names []string
	for ; set != 0; set &= set - 1 {
		c := bits.TrailingZeros64(set)
		name := fmt.Sprintf("capability %d", c)
		if c < len(capabilityNames) {
			name = "CAP_" + capabilityNames[c]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// capabilityNames are the capabilities of linux/capability.h by number.
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
	SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
	SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)
