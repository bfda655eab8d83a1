// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

// However much is wrong, what is said of it is bounded.
func TestComplain(t *testing.T) {
	var all []error
	for range 1000 {
		all = append(all, errors.New(strings.Repeat("x\n\x1b", 10_000)))
	}
	var w bytes.Buffer
	complain(&w, errors.Join(all...))
	if n := strings.Count(w.String(), "\n"); n != maxFailures+1 || w.Len() > 64<<10 || strings.Contains(w.String(), "\x1b") {
		t.Errorf("%d lines of %d bytes", n, w.Len())
	}
	var wrapped bytes.Buffer
	complain(&wrapped, fmt.Errorf("%w: %w", errors.New("settings of probes"), net.ErrClosed))
	if want := "gpufabric_exporter: error: settings of probes: use of closed network connection\n"; wrapped.String() != want {
		t.Errorf("got %q, want %q", wrapped.String(), want)
	}
	for _, want := range []string{"gpufabric_exporter: error: x;  x", "and 980 more"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
}
