// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
)

// One client that asks for more than there is leaves places for others.
func TestOneClientDoesNotTakeAllPlaces(t *testing.T) {
	p := newPlaces(8)
	hold := make(chan struct{})
	in := make(chan struct{})
	h := p.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		in <- struct{}{}
		<-hold
		io.WriteString(w, "answer")
	}), nil)
	codes := make(chan int, 16)
	ask := func(from string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		h.ServeHTTP(w, r)
		return w.Code
	}
	begin := func(from string) {
		go func() { codes <- ask(from) }()
		<-in
	}
	for range 7 {
		begin("10.0.0.1:1")
	}
	if code := ask("10.0.0.1:2"); code != http.StatusServiceUnavailable {
		t.Errorf("the same client again: %d", code)
	}
	begin("10.0.0.2:1")
	if code := ask("10.0.0.3:1"); code != http.StatusServiceUnavailable {
		t.Errorf("more than there are: %d", code)
	}
	close(hold)
	for range 8 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	if len(p.taken) != 0 {
		t.Errorf("%d places are still taken", len(p.taken))
	}
}

// status requests a path.
func status(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// An exporter whose answers are not made is not healthy, whatever they wait for, and systemd is not told that it is.
func TestHealthTellsWhetherScrapesAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob := &fakeObserver{node: healthy, hold: make(chan struct{})}
		h := newHandlerOf(t, ob, 0)
		done := make(chan int)
		go func() {
			code, _ := status(h, "/metrics")
			done <- code
		}()
		time.Sleep(defaultScrapeTimeout + overdue)
		if code, body := status(h, "/-/healthy"); code != http.StatusOK {
			t.Errorf("when it is late: %d %s", code, body)
		}
		time.Sleep(time.Second)
		if code, body := status(h, "/-/healthy"); code != http.StatusServiceUnavailable || !strings.Contains(body, "has not been made") {
			t.Errorf("when it is stuck: %d %s", code, body)
		}
		close(ob.hold)
		if code := <-done; code != http.StatusOK {
			t.Errorf("the answer: %d", code)
		}
		if code, body := status(h, "/-/healthy"); code != http.StatusOK {
			t.Errorf("afterwards: %d %s", code, body)
		}
	})
}

// What comes after the end is refused, and what is in flight is waited for before the observer is closed.
func TestScrapeAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob := &fakeObserver{node: healthy, hold: make(chan struct{}), asked: make(chan context.Context, 16)}
		h := newHandlerOf(t, ob, 0)
		done := make(chan int)
		go func() {
			code, _ := status(h, "/metrics")
			done <- code
		}()
		<-ob.asked
		closed := make(chan struct{})
		go func() {
			h.places.close()
			close(closed)
		}()
		synctest.Wait()
		for _, r := range h.routes() {
			if method, path := r.request(); method == http.MethodPost || !strings.HasPrefix(path, "/-/") {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
				if code, body := w.Code, w.Body.String(); code != http.StatusServiceUnavailable || body != "the exporter is stopping\n" {
					t.Errorf("%s: %d %q", path, code, body)
				}
			}
		}
		h.places.run(func() { t.Error("observed after the end") })
		select {
		case <-ob.asked:
			t.Error("observed after the end")
		case <-closed:
			t.Error("not waited for what is in flight")
		default:
		}
		close(ob.hold)
		<-closed
		if code := <-done; code != http.StatusOK {
			t.Errorf("what was in flight: %d", code)
		}
	})
}

// complaining is an observer that logs with each observation, as of sources that fail.
type complaining struct {
	fakeObserver
	log *slog.Logger
}

func (c *complaining) Observe(ctx context.Context, want fabric.Want) *fabric.Node {
	for range 100 {
		c.log.Warn("source failed", "err", strings.Repeat("long ", 200))
	}
	return c.fakeObserver.Observe(ctx, want)
}

// Nobody reads the log. Everything is answered nevertheless, the lines that are missing are counted, and the
// process ends in time.
func TestLogThatNobodyReads(t *testing.T) {
	unread, stderr := io.Pipe()
	defer unread.Close()
	listening := make(chan []net.Addr, 1)
	ctx, cancel := context.WithCancel(t.Context())
	exited := make(chan int, 1)
	go func() {
		exited <- run(ctx, []string{"--web.listen-address=127.0.0.1:0"}, options{
			Stdout: io.Discard, Stderr: stderr, OnListen: func(a []net.Addr) { listening <- a },
			site: site.Site{NewObserver: func(o observer.Options) (site.Observer, error) {
				return &complaining{fakeObserver{node: fabrictest.Healthy}, o.Log}, nil
			}},
		})
	}()
	var url string
	select {
	case a := <-listening:
		url = "http://" + a[0].String()
	case <-time.After(time.Minute):
		t.Fatal("does not listen")
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	for i, path := range []string{"/metrics", "/metrics", "/metrics", "/", "/-/healthy", "/metrics"} {
		answer, err := client.Get(url + path)
		if err != nil {
			t.Fatal(path, err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", path, answer.Status, err)
		}
		if i == 5 && strings.Contains(string(body), "gpufabric_exporter_log_lines_dropped_total 0\n") {
			t.Error("no line was dropped")
		}
	}
	cancel()
	begin := time.Now()
	select {
	case code := <-exited:
		if took := time.Since(begin); code != command.OK || took > 10*time.Second { // 2 s are promised; a loaded machine takes longer
			t.Errorf("exit code %d after %s", code, took)
		}
	case <-time.After(time.Minute):
		t.Fatal("does not end")
	}
}
