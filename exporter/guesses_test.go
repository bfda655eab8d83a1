// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/command/commandtest"

	"golang.org/x/crypto/bcrypt"
)

// Wrong passwords cost a bounded number of comparisons, from one client and from a thousand, and no scrape of
// who knows the password; the log names the client once a minute.
func TestGuessesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		compared, secret := 0, "secret"
		var log strings.Builder
		g := newGuesses(slog.New(slog.NewTextHandler(&log, nil)))
		h := g.before(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); password != secret {
				compared++
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		ask := func(address, password string) int {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.RemoteAddr = address
			r.SetBasicAuth("prometheus", password)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		scrape := func() {
			t.Helper()
			if status := ask("10.0.0.1:4000", secret); status != http.StatusOK {
				t.Fatalf("who knows the password gets %d", status)
			}
		}
		scrape()
		minute := func(address func(second, i int) string) (n int) {
			before := compared
			for second := range 60 {
				for i := range 100 {
					ask(address(second, i), fmt.Sprint(second, i))
				}
				scrape()
				time.Sleep(time.Second)
			}
			return compared - before
		}
		if n := minute(func(int, int) string { return "10.0.0.2:5000" }); n > burstOfClient+60*guessesOfClient {
			t.Errorf("%d comparisons in a minute for one client", n)
		}
		if n := minute(func(_, i int) string { return fmt.Sprintf("[2001:db8::%x]:5000", i+1) }); n > burstOfClient+60*guessesOfClient {
			t.Errorf("%d comparisons in a minute for one network of IPv6", n)
		}
		if n := minute(func(second, i int) string { return fmt.Sprintf("10.%d.%d.3:5000", second+1, i) }); n > burstOfAll+60*guessesOfAll {
			t.Errorf("%d comparisons in a minute for thousands of clients", n)
		}
		if len(g.clients) > maxGuessers || len(g.accepted) != 1 {
			t.Errorf("%d clients and %d credentials are remembered", len(g.clients), len(g.accepted))
		}
		if n := strings.Count(log.String(), "\n"); n < 3 || n > 4 || !strings.Contains(log.String(), "client=10.0.0.2") {
			t.Errorf("%d lines in three minutes:\n%s", n, log.String())
		}
		secret = "another"
		if status := ask("10.0.0.1:4000", "secret"); status != http.StatusUnauthorized || len(g.accepted) != 0 {
			t.Errorf("after the password was changed, the old one gets %d, and %d are remembered", status, len(g.accepted))
		}
	})
}

// The servers have the bound.
func TestGuesses(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	a := commandtest.NewAuthority(t)
	p := start(t, &fakeObserver{node: healthy}, a.Config("basic_auth_users:", "  prometheus: "+string(hash)))
	get := func(credentials string) int {
		p.URL = "http://" + credentials + "@" + p.Addrs[0].String()
		status, _, _ := p.Get("/metrics")
		return status
	}
	if status := get("prometheus:secret"); status != http.StatusOK {
		t.Fatal(status)
	}
	statuses := map[int]int{}
	for i := range 100 {
		statuses[get(fmt.Sprintf("prometheus:%d", i))]++
	}
	if statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusOK] != 0 {
		t.Errorf("100 wrong passwords get %v", statuses)
	}
	if status := get("prometheus:secret"); status != http.StatusOK {
		t.Errorf("the right one gets %d", status)
	}
	p.Logs("passwords are refused without comparison")
}
