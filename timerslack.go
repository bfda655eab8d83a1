// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <string.h>
#include <sys/prctl.h>

// While the exporter runs, Go's monitor looks after system calls that block, every 20 us, and takes their
// processor away. To wake it 20 times costs a seventh of a scrape; the kernel may wake it up to 1 ms later,
// together with other timers. It is the first thread that Go starts, and threads inherit the slack: it must
// be set before Go's runtime begins. Vendor libraries in worker processes get what Linux gives by default.
__attribute__((constructor)) static void set_timer_slack(int argc, char **argv) {
	const char *command = argc > 1 ? argv[1] : "";
	int vendor = strcmp(command, "gpu-worker") == 0 || strcmp(command, "probe-rank") == 0 ||
	             strcmp(command, "ping-worker") == 0;
	prctl(PR_SET_TIMERSLACK, vendor ? 50000UL : 1000000UL, 0UL, 0UL, 0UL); // ns; a kernel that refuses costs CPU time only
}
*/
import "C"
