// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"net/netip"
)

// ErrRASEnded means that the connection to the RAS subsystem of NCCL ended before the answer was complete.
// The process that was asked may have crashed of it: it must not be asked again.
var ErrRASEnded = errors.New("the connection ended before the answer was complete")

// RASAnswer is what the RAS subsystem of NCCL reports about a job, on all of its nodes.
type RASAnswer struct {
	Version       string // of the NCCL that answered, "2.30.7"; empty: not reported
	Communicators []RASCommunicator
	Timeouts      int // connections between processes on which no data came in time
	// DeadProcesses and SilentProcesses are in a text report only.
	DeadProcesses, SilentProcesses int
}

// RASCommunicator is a communicator as RAS describes it.
type RASCommunicator struct {
	// hexadecimal hash, with the secondary hash in JSON; empty: a text report names only those that have a problem
	ID   string
	Size int // ranks, those that are missing included
	// Ranks are those that answered. Of a text report, they are those that it names.
	Ranks    []RASRank
	Complete bool // Ranks has each rank that answered, with its number of operations
	// Missing are ranks without data of this communicator. A text report may have their number only.
	Missing      []RASMissing
	MissingCount int
	FailedCount  int // ranks with an error of initialisation or an asynchronous one
	Spread       RASSpread
}

// RASRank is a rank of a communicator that answered.
type RASRank struct {
	RASPlace
	InitState  int    // ncclResult_t: 0 when initialised, 7 in progress
	AsyncError int    // ncclResult_t: 0 or 7 without an error
	Ending     bool   // ncclCommFinalize, ncclCommDestroy or ncclCommAbort was called
	Operations uint64 // collectives launched since initialisation, of all kinds
	Counted    bool   // Operations is known
}

// Failed reports whether the rank has an error.
func (r *RASRank) Failed() bool { return failed(r.InitState) || failed(r.AsyncError) }

// Initialised reports whether the rank has its communicator.
func (r *RASRank) Initialised() bool { return r.InitState == 0 }

// failed reports whether a ncclResult_t is neither ncclSuccess nor ncclInProgress.
func failed(result int) bool { return result != 0 && result != 7 }

// RASMissing is a rank without data of its communicator. If it is neither unresponsive nor dead, its process
// answered and does not have the communicator, as after ncclCommDestroy.
type RASMissing struct {
	RASPlace
	Unresponsive bool // its process did not answer
	Dead         bool // RAS cannot reach its process and has given up, after 60 s
}

// RASPlace is where a rank runs.
type RASPlace struct {
	Rank int
	Host netip.Addr // invalid: not reported
	PID  int        // in its PID namespace; 0: not reported
	GPU  int        // index of CUDA; -1: not reported
}

// RASSpread is how far the numbers of operations of the ranks of a communicator are apart.
type RASSpread struct {
	Least, Most uint64
	Known       bool
}

// Add takes the number of operations of one more rank.
func (s *RASSpread) Add(operations uint64) {
	if !s.Known {
		*s = RASSpread{operations, operations, true}
		return
	}
	s.Least, s.Most = min(s.Least, operations), max(s.Most, operations)
}
