// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener is a listener whose connections stay within a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
	err   error // what Accept returns at once; nil: it waits
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	if l.err != nil {
		return nil, l.err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// request sends a request and returns the connection.
func (l *pipeListener) request() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	return client
}

func TestShutdownGrace(t *testing.T) {
	for name, test := range map[string]struct {
		needs, took time.Duration
		answered    bool
	}{
		"quick":  {500 * time.Millisecond, 500 * time.Millisecond, true},
		"hangs":  {time.Hour, shutdownGrace, false},
		"nobody": {0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				l := newPipeListener()
				ended := make(chan error, 1)
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(test.needs):
						io.WriteString(w, "done")
					case <-r.Context().Done():
					}
				})
				go func() {
					ended <- serveListeners(ctx, []net.Listener{l}, h, "", slog.New(slog.DiscardHandler), slog.DiscardHandler)
				}()
				client := l.request()
				defer client.Close()
				answer := make(chan string, 1)
				go func() {
					line, _ := bufio.NewReader(client).ReadString('\n')
					answer <- line
				}()
				synctest.Wait()
				begin := time.Now()
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				// Shutdown looks now and then whether all connections are idle.
				if took := time.Since(begin); took < test.took || took > test.took+600*time.Millisecond || took > shutdownGrace {
					t.Errorf("took %s", took)
				}
				client.Close()
				if got := <-answer; strings.HasPrefix(got, "HTTP/1.1 200") != test.answered {
					t.Errorf("answer %q", got)
				}
			})
		})
	}
}

func TestListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := newPipeListener(), newPipeListener()
		bad.err = errors.New("no more")
		err := serveListeners(t.Context(), []net.Listener{good, bad}, http.NotFoundHandler(), "", slog.New(slog.DiscardHandler), slog.DiscardHandler)
		if err == nil || !strings.Contains(err.Error(), "no more") {
			t.Errorf("error %v", err)
		}
		select {
		case <-good.done:
		default:
			t.Error("the other listener is still open")
		}
	})
}

func TestSystemdSockets(t *testing.T) {
	if _, err := listen(nil, true); err == nil || !strings.Contains(err.Error(), "--web.systemd-socket: systemd passed no socket on") {
		t.Errorf("error %v", err)
	}
}
