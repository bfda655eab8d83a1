// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bind a child from before its first request, besides what binds each of them: it is the first one that the
// kernel kills when memory is short (oom_score_adj 1000), and leaves no core file. They are set by the child itself,
// because Go's runtime changes limits and starts threads while a process begins. A limit that is lower already stays.
type Limits struct {
	Niceness     int           // how far it stands back when processors are scarce, 0 to 19
	OpenFiles    uint64        // RLIMIT_NOFILE; 0: as inherited
	AddressSpace uint64        // RLIMIT_AS in bytes; 0: as inherited. CUDA reserves far more than it uses
	CPU          time.Duration // RLIMIT_CPU, rounded up to seconds: of all threads, then SIGKILL; 0: as inherited
	Private      bool          // no other process of its user gets at its memory and descriptors; see Undumpable
}

// apply sets the limits of this process as far as it can, and says what it could not.
func (l Limits) apply() error {
	var errs []error
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(1000)), 0); err != nil {
		errs = append(errs, err)
	}
	// Of the group: PRIO_PROCESS is one thread on Linux.
	if reached, err := unix.Getpriority(unix.PRIO_PGRP, 0); err != nil { // 20 less the niceness
		errs = append(errs, fmt.Errorf("getpriority: %w", err))
	} else if err := unix.Setpriority(unix.PRIO_PGRP, 0, max(l.Niceness, 20-reached)); err != nil {
		errs = append(errs, fmt.Errorf("niceness %d: %w", l.Niceness, err))
	}
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	for _, r := range []struct {
		name     string
		resource int
		set      bool
		limit    uint64
	}{
		{"RLIMIT_CORE", unix.RLIMIT_CORE, true, 0},
		{"RLIMIT_NOFILE", unix.RLIMIT_NOFILE, l.OpenFiles > 0, l.OpenFiles},
		{"RLIMIT_AS", unix.RLIMIT_AS, l.AddressSpace > 0, l.AddressSpace},
		{"RLIMIT_CPU", unix.RLIMIT_CPU, l.CPU > 0, seconds},
	} {
		if !r.set {
			continue
		}
		var old unix.Rlimit
		err := unix.Getrlimit(r.resource, &old)
		if err == nil {
			limit := min(r.limit, old.Max) // at once the hard one: Go ignores SIGXCPU, and NCCL raises the soft one
			err = unix.Setrlimit(r.resource, &unix.Rlimit{Cur: limit, Max: limit})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %d: %w", r.name, r.limit, err))
		}
	}
	return errors.Join(errs...)
}
