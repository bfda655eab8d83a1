// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes/plan"
)

// The configuration is on a file system that does not answer.
func TestReloadOfAFileThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		var reads atomic.Int32
		s := Node{Config: func() (config.Config, error) {
			reads.Add(1)
			<-answers
			return config.File{}.Read()
		}}
		ob := &fakeObserver{node: healthy}
		r := newReloader(s, config.Config{}, ob, (*hostProber)(nil), nil, nil, slog.New(slog.DiscardHandler))
		post := func() int {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
			return w.Code
		}
		first := make(chan int)
		begin := time.Now()
		go func() { first <- post() }()
		synctest.Wait()
		if code := post(); code != http.StatusConflict {
			t.Errorf("status %d beside another reload, expected 409", code)
		}
		if code := <-first; code != http.StatusInternalServerError || time.Since(begin) != patience {
			t.Errorf("status %d after %s", code, time.Since(begin))
		}
		if r.current().Err == nil {
			t.Error("a reload that failed counts as none")
		}
		for range 1500 {
			if code := post(); code != http.StatusConflict {
				t.Fatalf("status %d while the file hangs, expected 409", code)
			}
		}
		if n := reads.Load(); n != 1 {
			t.Errorf("%d reads of a file that hangs, expected one", n)
		}
		close(answers)
		synctest.Wait()
		if code := post(); code != http.StatusOK || r.current().Err != nil {
			t.Errorf("status %d and %v when the file answers again", code, r.current().Err)
		}
	})
}

// Very many requests for reloads use neither much CPU time nor much of the log, and SIGHUP still works.
func TestReloadFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := Node{Config: func() (config.Config, error) { reads++; return config.Config{}, nil }}
		r := newReloader(s, config.Config{}, &fakeObserver{node: healthy}, (*hostProber)(nil), nil, nil, slog.New(slog.DiscardHandler))
		post := func() (code int, body string) {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
			return w.Code, w.Body.String()
		}
		if code, _ := post(); code != http.StatusOK {
			t.Errorf("status %d at first", code)
		}
		last, body := 0, ""
		for range 1000 {
			last, body = post()
		}
		if last != http.StatusTooManyRequests || !strings.Contains(body, "too many reloads, try again in a second") || reads > 20 {
			t.Errorf("status %d after %d reads in no time: %s", last, reads, body)
		}
		before := reads
		if err := r.reload(t.Context(), false); err != nil || reads != before+1 {
			t.Errorf("SIGHUP: %v", err)
		}
		time.Sleep(2 * time.Second)
		if code, _ := post(); code != http.StatusOK {
			t.Errorf("status %d two seconds later", code)
		}
	})
}

// Whatever hangs, the end of the process waits for it no longer than it says.
func TestEndWhileEverythingHangs(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	hangs := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var stderr output
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--web.listen-address=127.0.0.1:0"}, options{
			Stdout: io.Discard, Stderr: &stderr,
			site: site.Site{NewObserver: func(observer.Options) (site.Observer, error) {
				close(hangs)
				<-forever
				return nil, errors.New("too late")
			}},
		})
	}()
	<-hangs
	cancel()
	select {
	case c := <-code:
		if c != command.OK || !strings.Contains(stderr.String(), "a read still hangs") {
			t.Errorf("exit code %d, %s", c, stderr.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("does not end")
	}
}

func TestDescriptorsAreShared(t *testing.T) {
	for limit, want := range map[int]descriptors{
		64:      {64, 16, 1},
		512:     {512, 128, 288},
		1024:    {1024, 256, 672},
		1 << 20: {1 << 20, 256, 1<<20 - 256 - otherDescriptors},
	} {
		if got := shareDescriptors(limit); got != want {
			t.Errorf("%d: %+v, expected %+v", limit, got, want)
		}
	}
	if d := shareDescriptors(512); d.shortage(0) != "" || !strings.Contains(d.shortage(1), "LimitNOFILE") || !strings.Contains(d.shortage(1), strconv.Itoa(512)) {
		t.Error(d.shortage(0), d.shortage(1))
	}
}

func TestFIFOsAreNotRead(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "file")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "is a FIFO, expected a regular file"
	if _, err := (config.File{Path: fifo}).Read(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("configuration: %v", err)
	}
	if _, err := config.ReadManifest(fifo); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("manifest: %v", err)
	}
	if _, err := plan.ReadEnvironment(fifo); err == nil || !strings.Contains(err.Error(), "not a regular file") || !errors.Is(err, plan.ErrSettings) {
		t.Errorf("environment: %v", err)
	}
}
