// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes/cluster/wire"
)

// comer is a node that comes to a leader of three.
var comer = wire.Hello{Rank: 1, Size: 3, Node: "cn1", Skipped: "a test"}

// at is where somebody listens and serves connections, one by one.
func at(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	attend(t, l, serve)
	return l.Addr().String()
}

func attend(t *testing.T, l net.Listener, serve func(net.Conn)) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
}

// A node finds its leader behind others that have its addresses, and when its connections are closed at first.
func TestMeet(t *testing.T) {
	closed := 0
	leader := func(conn net.Conn) { _, _, _ = wire.Accept(conn, secret, 3) }
	http := func(conn net.Conn) {
		fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		conn.Close()
	}
	for name, tt := range map[string]struct {
		addresses []string
		secret    string
		says      string
	}{
		"behind others": {[]string{at(t, http), at(t, http), at(t, http), at(t, leader)}, string(secret), ""},
		"crowded": {[]string{at(t, func(conn net.Conn) {
			if closed++; closed < 3 {
				conn.Close()
				return
			}
			leader(conn)
		})}, string(secret), ""},
		"another leader": {[]string{at(t, leader)}, "0123456789abcdeF", "the leader refuses this node: secret"},
		"escapes": {[]string{at(t, func(conn net.Conn) {
			for _, frame := range []string{`{"protocol":1,"nonce":"` + strings.Repeat("A", 43) + `="}`, `{"refused":"\u001b[2J"}`} {
				fmt.Fprintf(conn, "\x00\x00\x00%c%s", len(frame), frame)
			}
		})}, string(secret), "the leader does not have the secret"},
	} {
		conn, err := Meet(t.Context(), tt.addresses, []byte(tt.secret), comer)
		switch {
		case tt.says == "" && err != nil, tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, expected %q", name, err, tt.says)
		case err == nil:
			conn.Close()
		}
	}
}

// A name may have an address of somebody else.
func TestMeetByName(t *testing.T) {
	leader, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	attend(t, leader, func(conn net.Conn) { _, _, _ = wire.Accept(conn, secret, 3) })
	_, port, _ := net.SplitHostPort(leader.Addr().String())
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	attend(t, other, func(conn net.Conn) {
		fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.2p1\r\n")
		conn.Close()
	})
	m := &meeting{addresses: []string{net.JoinHostPort("leader", port)}, secret: secret}
	m.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.2", "127.0.0.1"}, nil }
	for range 10 { // whichever answers first
		conn, err := m.meet(t.Context(), comer)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestMeetEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Meet(ctx, []string{"127.0.0.1:1"}, secret, comer); err == nil {
		t.Error("met nobody")
	}
}
