// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestRefusedName has one text of a name server that refuses, whatever port it was asked from: each other one would be
// logged.
func TestRefusedName(t *testing.T) {
	port := 40000
	s := Source{Names: []string{"nodes:1"}, Lookup: func(_ context.Context, host string) ([]string, error) {
		port++
		text := fmt.Sprintf("read udp 10.0.0.1:%d->10.0.0.2:53: read: connection refused", port)
		return nil, &net.DNSError{Err: text, Name: host, Server: "10.0.0.2:53"}
	}}
	_, first := s.Targets(t.Context())
	_, again := s.Targets(t.Context())
	if a, b := fmt.Sprint(first), fmt.Sprint(again); a != b || !strings.Contains(a, "10.0.0.2:53: read: connection refused") {
		t.Errorf("%s, and then %s", a, b)
	}
}
