// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"time"
)

// The protocol between a probe and the process of one rank: a Request and its Reply, both JSON. Exactly one field of a
// Request is set. The ranks of a communicator get each step at the same time, and the next one when all have answered;
// so a rank never waits for another without a deadline of its own, and how many iterations fit is decided once for
// all.

// IDSize is that of an ncclUniqueId in bytes.
const IDSize = 128

// Request is a step for a rank.
type Request struct {
	Open    *OpenRequest    `json:"open,omitempty"`
	NewID   *struct{}       `json:"new_id,omitempty"` // rank 0 makes the id of a communicator
	Connect *ConnectRequest `json:"connect,omitempty"`
	Measure *MeasureRequest `json:"measure,omitempty"`
	Close   *struct{}       `json:"close,omitempty"` // ends the communicator and releases the GPU
}

// OpenRequest loads the libraries and says which they are. Without a GPU that is all.
type OpenRequest struct {
	NCCL string `json:"nccl"` // path or name of libnccl.so.2
	CUDA string `json:"cuda"` // path or name of libcuda.so.1
	GPU  string `json:"gpu"`  // PCI address, "0000:1b:00.0"; empty: none is touched
}

// ConnectRequest makes a communicator.
type ConnectRequest struct {
	ID      []byte        `json:"id"` // IDSize bytes
	Rank    int           `json:"rank"`
	Ranks   int           `json:"ranks"`
	MaxCTAs int           `json:"max_ctas"` // channels; 0: as NCCL chooses
	Timeout time.Duration `json:"timeout"`  // after which the communicator is aborted
}

// MeasureRequest runs an operation. Every iteration moves the same message; the result of the last is verified.
type MeasureRequest struct {
	Op         Op            `json:"op"`
	Type       DType         `json:"type"`
	Bytes      uint64        `json:"bytes"` // rounded down to whole elements of each rank
	Iterations int           `json:"iterations"`
	Warmups    int           `json:"warmups,omitempty"` // iterations before the timed ones, in which ranks wait for each other
	Each       bool          `json:"each,omitempty"`    // each iteration is timed by itself, too
	Timeout    time.Duration `json:"timeout"`
}

// Reply answers a Request. Failure says that the step failed, and the rank is good for Close only.
type Reply struct {
	Failure Failure `json:"failure,omitempty"` // one of Failures
	Error   string  `json:"error,omitempty"`   // function, NCCL's or CUDA's words, what was expected

	Open    *OpenReply    `json:"open,omitempty"`
	ID      []byte        `json:"id,omitempty"`
	Connect *ConnectReply `json:"connect,omitempty"`
	Measure *MeasureReply `json:"measure,omitempty"`
}

// OpenReply says what was loaded.
type OpenReply struct {
	NCCLPath string `json:"nccl_path"` // of the file that the loader chose
	NCCL     int    `json:"nccl"`      // ncclGetVersion: 22703
	CUDA     int    `json:"cuda"`      // cuDriverGetVersion: 13000; 0 without a driver
	GPU      string `json:"gpu"`       // UUID, "GPU-..."
	Memory   uint64 `json:"memory"`    // free bytes of the GPU
}

// ConnectReply says how long it took.
type ConnectReply struct {
	Took time.Duration `json:"took"`
}

// MeasureReply is what one rank measured.
type MeasureReply struct {
	Bytes      uint64        `json:"bytes"`       // of the message, as it was rounded
	Time       time.Duration `json:"time"`        // of all iterations, by the clock of the host
	DeviceTime time.Duration `json:"device_time"` // by CUDA events; 0 if not known
	// Each is the time of each iteration by CUDA events; empty if it was not wanted, or is not known.
	Each  []time.Duration `json:"each,omitempty"`
	Wrong uint64          `json:"wrong"` // elements
}

// StartRank starts the process of a rank: on this node by internal/worker, with the environment of the rank, or on its
// node. It is ended when ctx ends, if it was not before.
type StartRank func(ctx context.Context, r Rank) (RankProcess, error)

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

// Name is the step that a request is for, for people.
func (q *Request) Name() string {
	switch {
	case q.Open != nil:
		return "open"
	case q.NewID != nil:
		return "new id"
	case q.Connect != nil:
		return "connect"
	case q.Measure != nil:
		return "measure " + string(q.Measure.Op)
	}
	return "close"
}

// Rank is one rank of a Plan.
type Rank struct {
	Node    string // where it runs; empty: this node
	UUID    string // of the GPU
	Address string // of its PCI function
	Env     []string
}
