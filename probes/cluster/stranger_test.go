// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Strangers who connect and say nothing, or anything, keep no node out, and do not fill the log. Nobody can connect
// when all are there.
func TestStrangers(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	var mu sync.Mutex
	told := 0
	l := &Leader{Listener: listener, Secret: secret, Size: 2, Options: Options{Wait: 20 * time.Second, Bound: time.Minute, RailBytes: 1 << 20, AllBytes: 1 << 20}}
	l.Progress = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(fmt.Sprintf(format, args...), "refused") {
			told++
		}
	}
	connect := func() (net.Conn, error) { return new(net.Dialer).DialContext(t.Context(), "tcp", address) }
	w := &world{members: map[string][]string{}}
	go func() {
		for i := range 2 * strangersMost {
			if conn, err := connect(); err == nil && i%8 == 0 {
				fmt.Fprint(conn, "GET / HTTP/1.1\r\n\r\n")
			}
		}
		for rank := range 2 {
			a := w.agent(fmt.Sprint("n", rank))
			a.Hello.Rank, a.Hello.Size = rank, 2
			conn, err := Meet(t.Context(), []string{address}, secret, a.Hello)
			if err != nil {
				t.Error(err)
				return
			}
			go func() { _, _ = a.Run(t.Context(), conn) }()
		}
	}()
	began := time.Now()
	r, err := l.Run(t.Context())
	if err != nil || len(r.Nodes) != 2 || time.Since(began) > 5*time.Second {
		t.Errorf("%v; %d nodes after %s", err, len(r.Nodes), time.Since(began))
	}
	if told > 2*refusedTold || len(r.Refused) == 0 {
		t.Errorf("refused %v, told %d", r.Refused, told)
	}
	if _, err := connect(); err == nil {
		t.Error("the leader still listens")
	}
}

// Who connects and leaves without a word is not refused: nodes try all addresses of a leader, and keep one connection.
func TestLeavesAtOnce(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	l := &Leader{Listener: listener, Secret: secret, Size: 2, Options: Options{Wait: 300 * time.Millisecond}}
	if r, err := l.Run(t.Context()); err == nil || len(r.Refused) > 0 {
		t.Errorf("%v, refused %v", err, r.Refused)
	}
}
