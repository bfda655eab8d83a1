// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/probes"
)

// Limits of requests. Larger values are mistakes.
const (
	maxRequest    = 64 << 10 // bytes
	maxPath       = 4096
	maxMessage    = 64 << 30 // bytes that an operation moves; less where the GPU has no memory for it
	maxRanks      = 4096     // of 512 nodes; types that hold smaller numbers have fewer (pattern.go)
	maxChannels   = 64       // NCCL's MAXCHANNELS
	maxIterations = 100_000
	maxEach       = 64 // iterations that are timed one by one
	maxTimeout    = 10 * time.Minute
)

// errRequest is the error of a request that cannot be understood or comes at the wrong time.
var errRequest = errors.New("ncclprobe: bad request")

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRequest, fmt.Sprintf(format, args...))
}

// decode reads a request and checks its limits.
func decode(raw []byte) (probes.Request, error) {
	var q probes.Request
	if len(raw) > maxRequest {
		return q, badRequest("%d bytes, expected at most %d", len(raw), maxRequest)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return q, badRequest("%.200v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, badRequest("something follows the request")
	}
	steps := 0
	for _, set := range []bool{
		q.Open != nil, q.NewID != nil, q.Connect != nil, q.Measure != nil, q.Close != nil,
	} {
		if set {
			steps++
		}
	}
	if steps != 1 {
		return q, badRequest("%d steps, expected one", steps)
	}
	return q, check(q)
}

func check(q probes.Request) error {
	switch {
	case q.Open != nil:
		return checkOpen(q.Open)
	case q.Connect != nil:
		return checkConnect(q.Connect)
	case q.Measure != nil:
		return checkMeasure(q.Measure)
	}
	return nil
}

func checkOpen(q *probes.OpenRequest) error {
	for _, path := range []string{q.NCCL, q.CUDA} {
		if len(path) > maxPath || strings.ContainsRune(path, 0) {
			return badRequest("%.100q is no path", path)
		}
	}
	if q.GPU != "" && !isPCIAddress(q.GPU) {
		return badRequest("GPU %.40q, expected a PCI address as 0000:1b:00.0", q.GPU)
	}
	return nil
}

// isPCIAddress reports whether s is a domain of four or eight digits, bus, device and function.
func isPCIAddress(s string) bool {
	var template string
	switch len(s) {
	case len("0000:00:00.0"):
		template = "xxxx:xx:xx.7"
	case len("00000000:00:00.0"):
		template = "xxxxxxxx:xx:xx.7"
	default:
		return false
	}
	for i := range len(s) {
		switch c := s[i]; template[i] {
		case 'x':
			if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
				return false
			}
		case '7':
			if c < '0' || c > '7' {
				return false
			}
		default:
			if c != template[i] {
				return false
			}
		}
	}
	return true
}

func checkConnect(q *probes.ConnectRequest) error {
	switch {
	case len(q.ID) != probes.IDSize:
		return badRequest("an id of %d bytes, expected %d", len(q.ID), probes.IDSize)
	case q.Ranks < 1 || q.Ranks > maxRanks:
		return badRequest("%d ranks, expected 1 to %d", q.Ranks, maxRanks)
	case q.Rank < 0 || q.Rank >= q.Ranks:
		return badRequest("rank %d of %d", q.Rank, q.Ranks)
	case q.MaxCTAs < 0 || q.MaxCTAs > maxChannels:
		return badRequest("%d channels, expected 0 to %d", q.MaxCTAs, maxChannels)
	}
	return checkTimeout(q.Timeout)
}

func checkMeasure(q *probes.MeasureRequest) error {
	switch {
	case !slices.Contains(probes.Ops(), q.Op):
		return badRequest("operation %.40q", q.Op)
	case q.Type.Size() == 0:
		return badRequest("type %.40q", q.Type)
	case q.Bytes == 0 || q.Bytes > maxMessage:
		return badRequest("%d bytes, expected 1 to %d", q.Bytes, uint64(maxMessage))
	case q.Iterations < 1 || q.Iterations > maxIterations:
		return badRequest("%d iterations, expected 1 to %d", q.Iterations, maxIterations)
	case q.Warmups < 0 || q.Warmups > maxIterations:
		return badRequest("%d iterations before, expected 0 to %d", q.Warmups, maxIterations)
	case q.Each && q.Iterations > maxEach:
		return badRequest("%d iterations that are timed one by one, expected at most %d", q.Iterations, maxEach)
	}
	return checkTimeout(q.Timeout)
}

func checkTimeout(d time.Duration) error {
	if d <= 0 || d > maxTimeout {
		return badRequest("a timeout of %v, expected at most %v", d, maxTimeout)
	}
	return nil
}

// A layout is what a message is for one operation, as nccl-tests counts it.
type layout struct {
	count      uint64 // elements, as the function wants them: of all ranks, or of each one
	send, recv uint64 // bytes of the buffers
	message    uint64 // bytes, as it was rounded
}

// layoutOf rounds a message down to whole elements of each rank, of which there may be none.
func layoutOf(q *probes.MeasureRequest, ranks int) layout {
	size, n := uint64(q.Type.Size()), uint64(1)
	if q.Op.Divided() {
		n = uint64(ranks)
	}
	count := q.Bytes / size / n
	l := layout{count: count, send: count * size, recv: count * size, message: count * size * n}
	switch q.Op {
	case probes.AllGather:
		l.recv = l.message
	case probes.ReduceScatter:
		l.send = l.message
	case probes.AllToAll:
		l.send, l.recv = l.message, l.message
	}
	return l
}

// milliseconds makes a duration of what a library says in milliseconds; 0 if that is none.
func milliseconds(ms float64) time.Duration {
	if !(ms > 0) || ms > float64(math.MaxInt64/time.Millisecond) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
