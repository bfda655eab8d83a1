// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/peers"
)

// TestAllAsked is 64 peers of which none answers, over HTTP either: each is asked again and again.
func TestAllAsked(t *testing.T) {
	p := New(Options{Config: rdmaping.DefaultConfig(), Log: slog.New(slog.DiscardHandler)})
	for i := range 64 {
		p.plan.rails = append(p.plan.rails, planned{peers: []peers.Target{{Address: fmt.Sprintf("n%d:1", i)}}})
	}
	asked, now := map[string]int{}, time.Now()
	for range 20 {
		list := p.due(now)
		if len(list) > askAtOnce {
			t.Errorf("%d at once", len(list))
		}
		for _, address := range list {
			asked[address]++
			p.answered(address, nil, context.DeadlineExceeded)
			p.told[address].silent = true
		}
		now = now.Add(askFor)
	}
	for address, n := range asked {
		if n != 5 {
			t.Errorf("%s is asked %d times", address, n)
		}
	}
	if len(asked) != 64 {
		t.Errorf("%d peers are asked", len(asked))
	}
}

// TestSizes sends nothing that is longer than the peer takes: InfiniBand drops it.
func TestSizes(t *testing.T) {
	w := newWorld(t, 4)
	w.size, w.mtu = 4096, 1024
	w.run(time.Minute)
	if w.sizes[1024] < 250 || len(w.sizes) != 2 || w.sizes[4096] > 130 { // which are those of loopback
		t.Errorf("%v", w.sizes)
	}
}

// TestRefused is exporters that tell nothing to who has no password: nothing is pinged, and so no rail is well.
func TestRefused(t *testing.T) {
	w := newWorld(t, 4)
	for i := range 4 {
		w.refuses[fmt.Sprintf("n%d:1", i)] = true
	}
	for _, r := range w.run(time.Minute).Rails {
		if sent, _ := lost(r); r.Uncovered != rdmaping.UncoveredAlone || sent > 0 {
			t.Errorf("%q, %d sent", r.Uncovered, sent)
		}
	}
}

// TestUntold counts peers that answer and tell no rails, and says why once for each reason.
func TestUntold(t *testing.T) {
	w := newWorld(t, 7)
	untold := func(want int) func(*Pinger) {
		return func(p *Pinger) {
			if got := p.Status().Untold; got != want {
				t.Errorf("%d, expected %d", got, want)
			}
		}
	}
	w.refuses["n1:1"], w.refuses["n2:1"], w.ended["n3:1"], w.dead["n4:1"] = true, true, true, true
	w.run(2*time.Minute, untold(2), func(*Pinger) { clear(w.refuses); clear(w.dead) }, untold(0))
	var warned []string
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "level=WARN") {
			warned = append(warned, line)
		}
	}
	all := strings.Join(warned, "")
	if len(warned) != 2 || !strings.Contains(all, "peers=2 example=n") || !strings.Contains(all, `err="answers 401: Unauthorized"`) ||
		!strings.Contains(all, "peers=1 example=n3:1") {
		t.Errorf("%s", all)
	}
}

// TestAskedLess asks peers that refuse again and again less often, and those that begin as often as before.
func TestAskedLess(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "http://n1:1", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name  string
		err   error
		waits string
	}{
		{"refuses", &exchange.StatusError{Code: 401}, "[10s 20s 40s 1m0s 1m0s]"},
		{"does not run", refused, "[10s 20s 40s 1m0s 1m0s]"},
		{"begins", nil, "[10s 10s 10s 10s 10s]"},
		{"does not answer", context.DeadlineExceeded, "[10s 10s 10s 10s 10s]"},
	} {
		p := asking("n1:1")
		var waits []time.Duration
		ask := func(err error) {
			p.due(time.Now())
			p.answered("n1:1", nil, err)
		}
		for range 5 {
			ask(c.err)
			waits = append(waits, p.told["n1:1"].again)
		}
		if got := fmt.Sprint(waits); got != c.waits {
			t.Errorf("%s: %s", c.name, got)
		}
		ask(nil)
		if ask(refused); p.told["n1:1"].again != lookEvery {
			t.Errorf("%s, then tells, then not: asked after %v", c.name, p.told["n1:1"].again)
		}
	}
}

// TestReasons has peers whose errors differ and their reasons do not, and more reasons than are logged.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var addresses []string
		for i := range 30 {
			addresses = append(addresses, fmt.Sprintf("n%d:1", i))
		}
		p := asking(addresses...)
		p.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		lines := func(times int, of func(address string) error) int {
			log.Reset()
			for range times {
				p.due(time.Now())
				for _, address := range addresses {
					p.told[address].begun++
					p.answered(address, nil, of(address))
				}
				time.Sleep(askAgain)
			}
			return strings.Count(log.String(), "\n")
		}
		get := func(address string, err error) error {
			return &url.Error{Op: "Get", URL: "https://" + address + exchange.Path, Err: err}
		}
		for _, c := range []struct {
			name  string
			times int
			of    func(address string) error
			want  int
		}{
			{"restart", 1, func(a string) error { return get(a, syscall.ECONNREFUSED) }, 0},
			{"back", 11, func(string) error { return nil }, 0},
			{"do not run", 30, func(a string) error { return get(a, syscall.ECONNREFUSED) }, 1},
			{"tell once", 1, func(string) error { return nil }, 0},
			{"do not run again", 30, func(a string) error { return get(a, syscall.ECONNREFUSED) }, 0},
			{"other names", 30, func(a string) error {
				return answers(t, a, &tls.CertificateVerificationError{
					Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{a}}, Host: a},
				})
			}, 1},
			{"other texts", 30, func(a string) error { return answers(t, a, errors.New(a)) }, maxReasons},
			{"nothing", 11, func(string) error { return nil }, 0},
			{"do not run, later", 30, func(a string) error { return get(a, syscall.ECONNREFUSED) }, 1},
		} {
			if got := lines(c.times, c.of); got != c.want {
				t.Errorf("%s: %d lines, expected %d:\n%s", c.name, got, c.want, log.String())
			}
		}
	})
}

// answers is the error of Ask where something answers, and not what was expected.
func answers(t *testing.T, address string, with error) error {
	t.Helper()
	_, err := exchange.Ask(t.Context(), exchange.Client(answering{with}), "https", address)
	if !exchange.Absent(err) {
		t.Fatal(err)
	}
	return err
}

type answering struct{ err error }

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GotFirstResponseByte()
	return nil, a.err
}

// asking is a Pinger with a rail that has those peers.
func asking(addresses ...string) *Pinger {
	p := New(Options{Config: rdmaping.DefaultConfig(), Log: slog.New(slog.DiscardHandler)})
	one := planned{}
	for _, address := range addresses {
		one.peers = append(one.peers, peers.Target{Address: address})
	}
	p.plan.rails = []planned{one}
	return p
}
