// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strconv"
	"strings"

	"gpufabric_exporter/internal/nccl/failure"
	"gpufabric_exporter/internal/nccl/log"
)

// errors of the system that NCCL, its plugins and PyTorch name.
var errnos = []struct {
	text   string
	number int
}{
	{"Operation not permitted", 1},
	{"No such file or directory", 2},
	{"Resource temporarily unavailable", 11},
	{"Cannot allocate memory", 12},
	{"Permission denied", 13},
	{"Bad address", 14},
	{"File exists", 17},
	{"No such device or address", 6},
	{"No such device", 19},
	{"Too many open files in system", 23},
	{"Broken pipe", 32},
	{"Function not implemented", 38},
	{"Invalid argument", 22},
	{"Too many open files", 24},
	{"No space left on device", 28},
	{"Protocol not supported", 93},
	{"Address family not supported", 97},
	{"Operation not supported", 95},
	{"Address already in use", 98},
	{"address already in use", 98},
	{"Cannot assign requested address", 99},
	{"Network is unreachable", 101},
	{"connection abort", 103},
	{"Connection reset by peer", 104},
	{"Connection timed out", 110},
	{"Connection refused", 111},
	{"No route to host", 113},
}

// Errno is the error of the system that a line names by its text or its number; 0: it names none.
func Errno(line string) int {
	// "returned 113(No route to host) errno 115(Operation now in progress)": the first is the reason
	for _, before := range []string{" returned ", " failed with ", " errno ", "errno: ", "RC: -"} {
		if _, rest, found := strings.Cut(line, before); found {
			end := 0
			for end < len(rest) && end < 4 && rest[end] >= '0' && rest[end] <= '9' {
				end++
			}
			if strings.HasSuffix(line[:len(line)-len(rest)], "poll() returned ") { // how many sockets are ready
				continue
			}
			if n, err := strconv.Atoi(rest[:end]); err == nil && n > 0 {
				return n
			}
		}
	}
	for _, e := range errnos {
		if strings.Contains(line, e.text) {
			return e.number
		}
	}
	return 0
}

// call is a warning that names an error of the system.
type call struct {
	process
	thread int
	line   int64
	text   string
}

// join gives a warning without an error of the system that of the call which its thread warned of right before.
func (r *reading) join(f *failure.Failure, one *Finding) {
	const near = 3
	if f.Level != log.Warn || one.Host == "" {
		return
	}
	c := call{one.process, f.Thread, f.Line, one.raw}
	switch b := &r.called; {
	case Errno(one.raw) != 0:
		c.text = strings.Clone(one.raw)
		r.called = c
	case b.process == c.process && b.thread == c.thread && c.line-b.line <= near && b.line > 0:
		one.raw += "; " + b.text
	}
}
