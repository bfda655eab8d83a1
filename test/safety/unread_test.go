// SPDX-License-Identifier: Apache-2.0

//go:build load && linux && amd64

package safety

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/command/commandtest"
)

const (
	greedy  = 300              // clients, more than may be connected
	streams = 250              // requests on each connection of HTTP/2
	lasting = 10 * time.Second // how long they are there
)

// other is where the scraper is another client: of loopback, each address of IPv4 is the same one.
const other = "[::1]:0"

// greed is clients that ask for answers and read none.
type greed struct {
	name, path string
	http2      bool
	flood      bool // they read the first byte of an answer, and ask again at once
}

// TestUnreadAnswers has more clients than may be connected ask over TLS for the largest answers there are,
// and read none. What waits to be sent is bounded, and a scraper among them gets each of its answers.
func TestUnreadAnswers(t *testing.T) {
	n := layOutScenario(t, "healthy-128-ports")
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	n.trusted = a.Pool
	web := a.Config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key")
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "clients\tpath\tconnections\trequests\tscrapes\tlongest\t503\tfailed\tRSS MiB before\tmost")
	for _, g := range []greed{
		{name: "HTTP/1.1", path: "/metrics"},
		{name: "HTTP/1.1", path: "/"},
		{name: "HTTP/1.1, again and again", path: "/", flood: true},
		{name: "HTTP/1.1, again and again", path: "/metrics", flood: true},
		{name: "HTTP/2, window of 0", path: "/metrics", http2: true},
	} {
		s := serve(t, n, web, "--web.listen-address="+other)
		g.against(s, w)
		_ = syscall.Kill(s.pid, syscall.SIGTERM)
	}
	_ = w.Flush()
	t.Log("\n" + table.String())
}

// against runs the clients, and a scraper.
func (g *greed) against(s *serving, w io.Writer) {
	before := s.size().memory
	addresses := regexp.MustCompile(`msg=listening address=(\[::1\]:\d+)`).FindStringSubmatch(read(s.t, s.log))
	if addresses == nil {
		s.t.Fatal(read(s.t, s.log))
	}
	scraped := *s
	scraped.url = "https://" + addresses[1]
	stop := make(chan struct{})
	var asked, connected atomic.Int64
	var all sync.WaitGroup
	for range greedy {
		all.Go(func() {
			for {
				g.ask(s, &connected, &asked, stop)
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	var scrapes, refused, failed int
	var longest time.Duration
	var why error
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			begin := time.Now()
			status, _, err := scraped.scrape(s.client)
			switch scrapes++; {
			case err == nil && status == http.StatusOK:
				longest = max(longest, time.Since(begin))
			case err == nil && status == http.StatusServiceUnavailable:
				refused++
				why = errors.New("503")
			default:
				failed++
				why = fmt.Errorf("status %d, %w", status, err)
			}
		}
	})
	most := 0
	for end := time.Now().Add(lasting); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		most = max(most, s.size().memory)
	}
	close(stop)
	all.Wait()
	mib := func(bytes int) float64 { return float64(bytes) / (1 << 20) }
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%.1f\t%.1f\n", g.name, g.path, connected.Load(), asked.Load(), scrapes, longest.Round(time.Millisecond), refused, failed, mib(before), mib(most))
	if most > mostMemory*3/4 {
		s.t.Errorf("%s %s: RSS %.1f MiB, expected at most three quarters of what the unit allows", g.name, g.path, mib(most))
	}
	if failed+refused > 0 {
		s.t.Errorf("%s %s: %d scrapes failed and %d were refused, the last one with %v", g.name, g.path, failed, refused, why)
	}
}

// ask connects, and holds what it is given until its connection ends.
func (g *greed) ask(s *serving, connected, asked *atomic.Int64, stop <-chan struct{}) {
	narrow := net.Dialer{Timeout: eventually, Control: func(_, _ string, c syscall.RawConn) (err error) {
		// As over a network: with the segments of loopback, the kernel itself would hold whole answers.
		controlled := c.Control(func(fd uintptr) {
			if err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536); err == nil {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
			}
		})
		if controlled != nil {
			return controlled
		}
		return err
	}}
	protocols := []string{"http/1.1"}
	if g.http2 {
		protocols = []string{"h2", "http/1.1"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := tls.Dialer{NetDialer: &narrow, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}}
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(s.url, "https://"))
	if err != nil {
		return
	}
	defer c.Close()
	connected.Add(1)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-stop:
			c.Close()
		case <-ended:
		}
	}()
	if c.(*tls.Conn).ConnectionState().NegotiatedProtocol == "h2" {
		g.askStreams(c, asked)
		return
	}
	request := "GET " + g.path + " HTTP/1.1\r\nHost: a\r\n\r\n"
	if _, err := io.WriteString(c, request); err != nil {
		return
	}
	asked.Add(1)
	if g.flood {
		g.again(c, request, asked)
		return
	}
	wait(c)
}

// wait waits until the connection ends, and reads nothing of it.
func wait(c net.Conn) {
	for {
		time.Sleep(time.Second)
		if _, err := c.Write(nil); err != nil || ended(c) {
			return
		}
	}
}

// ended reports whether the other side closed the connection.
func ended(c net.Conn) bool {
	raw, err := c.(*tls.Conn).NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	state := byte(0)
	err = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			state = info.State
		}
	})
	const established = 1
	return err != nil || state != established
}

// again reads each answer and asks for the next one.
func (g *greed) again(c net.Conn, request string, asked *atomic.Int64) {
	r := bufio.NewReader(c)
	for {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return
		}
		if _, err := io.WriteString(c, request); err != nil {
			return
		}
		asked.Add(1)
	}
}

// askStreams asks on each stream of HTTP/2, accepts no byte of an answer, and reads what else is said.
func (g *greed) askStreams(c net.Conn, asked *atomic.Int64) {
	const settings, headers = 4, 1
	frame := func(kind, flags byte, stream uint32, payload string) error {
		head := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(head[5:], stream)
		_, err := c.Write(append(head, payload...))
		return err
	}
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_ = frame(settings, 0, 0, "\x00\x04\x00\x00\x00\x00")
	go func() { _, _ = io.Copy(io.Discard, c) }()
	for i := range uint32(streams) {
		if frame(headers, 0x5, 2*i+1, "\x82\x87\x04"+string(rune(len(g.path)))+g.path+"\x01\x01a") != nil {
			return
		}
		asked.Add(1)
	}
	wait(c)
}
