// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
)

// Ranks starts the processes of ranks. It is implemented over internal/worker.
type Ranks interface {
	// Start starts a process with that environment. It is killed when ctx ends, if it was not before.
	Start(ctx context.Context, env []string) (RankProcess, error)
}

// RankProcess is the process of one rank. Its methods may be called from any goroutine.
type RankProcess interface {
	// Call sends a Request and returns the Reply, both as JSON. Errors may wrap those below; any other one means that
	// the process ended, and says how.
	Call(ctx context.Context, request []byte) ([]byte, error)
	// Kill kills the process and does not wait.
	Kill()
	// Close ends the process and waits until it is gone, for a bounded time; an error means that the kernel holds it.
	Close() error
	// Log returns the beginning and the end of what NCCL logged, and how many bytes between them were dropped. With
	// nothing dropped, tail continues head.
	Log() (head, tail []byte, dropped int64)
	PID() int
}

// What Call can say beside that the process ended. The end of its context counts as ErrRankHung.
var (
	ErrRankHung    = errors.New("rank does not answer")
	ErrRankRefused = errors.New("rank answers with an error") // no Reply: its handler failed
)

// Guard looks who uses the GPUs of a run.
type Guard interface {
	// Intruder names a process on the GPUs that is not one of own, which are PIDs as this process sees them; empty if
	// there is none.
	Intruder(ctx context.Context, own []int) (string, error)
}

// Intrusion is what happened when somebody else came to the GPUs of a run. Times count from when the sample was asked
// for that showed the intruder.
type Intrusion struct {
	Who    string
	Killed time.Duration // until SIGKILL was sent to all ranks
	Gone   time.Duration // until all ranks were reaped, and with them their memory freed
}

// maxText is the length in bytes of errors and other words in a Result.
const maxText = 512

// printable makes foreign text fit for a page, a log and the state file: at most n bytes that can be printed.
func printable(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if s = strings.TrimSpace(s); len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
