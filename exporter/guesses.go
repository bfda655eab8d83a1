// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What passwords that were not accepted before may cost. One costs about 60 ms of processor time (bcrypt),
// which belongs to jobs.
const (
	guessesOfClient = 1  // per second
	burstOfClient   = 10 // at once
	guessesOfAll    = 4  // per second
	burstOfAll      = 20 // at once
	maxGuessers     = 1024
	maxAccepted     = 64
	guessesLogged   = time.Minute // at most once in
)

// guesses bounds what wrong passwords cost. Without it, one client that guesses takes a processor of the
// node, and scrapers wait for seconds: passwords are compared one after the other, and only the last hundred
// outcomes are remembered. Credentials that were accepted pass, so that guesses of one client keep no other
// from its scrapes. It may be used by any number of servers.
type guesses struct {
	log *slog.Logger

	mu       sync.Mutex
	accepted map[[sha256.Size]byte]bool
	clients  map[netip.Prefix]*rate.Limiter
	all      *rate.Limiter
	logged   time.Time
}

func newGuesses(log *slog.Logger) *guesses {
	return &guesses{
		log: log, accepted: map[[sha256.Size]byte]bool{}, clients: map[netip.Prefix]*rate.Limiter{},
		all: rate.NewLimiter(guessesOfAll, burstOfAll),
	}
}

// guard has passwords of a server pass here first. The toolkit puts what compares them before the handler of
// the server just before it serves, which is when the server asks for its context.
func (g *guesses) guard(s *http.Server) {
	base := s.BaseContext
	s.BaseContext = func(l net.Listener) context.Context {
		s.Handler = g.before(s.Handler)
		return base(l)
	}
}

// before wraps what compares passwords.
func (g *guesses) before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, given := r.BasicAuth()
		if !given {
			h.ServeHTTP(w, r)
			return
		}
		key := sha256.Sum256([]byte(user + ":" + password)) // a user has no colon
		if !g.allow(key, r.RemoteAddr) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many passwords that were not accepted, try again in a second", http.StatusTooManyRequests)
			return
		}
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(s, r)
		g.learn(key, s.status != http.StatusUnauthorized)
	})
}

// allow reports whether credentials may be compared.
func (g *guesses) allow(key [sha256.Size]byte, address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.accepted[key] {
		return true
	}
	client := clientOf(address)
	l := g.clients[client]
	if l == nil {
		if len(g.clients) >= maxGuessers {
			clear(g.clients) // the bound of all holds
		}
		l = rate.NewLimiter(guessesOfClient, burstOfClient)
		g.clients[client] = l
	}
	if l.Allow() && g.all.Allow() {
		return true
	}
	if now := time.Now(); now.Sub(g.logged) >= guessesLogged {
		g.logged = now
		g.log.Warn("passwords are refused without comparison, because too many were wrong", "client", client.Addr().String())
	}
	return false
}

// learn remembers whether credentials were accepted. Only those who know a password can add any.
func (g *guesses) learn(key [sha256.Size]byte, accepted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !accepted {
		delete(g.accepted, key) // the password was changed
		return
	}
	if len(g.accepted) >= maxAccepted {
		clear(g.accepted)
	}
	g.accepted[key] = true
}

// clientOf is who connects from an address: one of IPv4, or a network of IPv6, of which a client has 2^64 addresses.
func clientOf(address string) netip.Prefix {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits)
	return p
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, which sets deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
