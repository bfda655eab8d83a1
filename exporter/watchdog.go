// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// watchdog notifies systemd that the exporter listens (Type=notify), and from then on that it still answers
// (WatchdogSec): at a third of that time it requests /-/healthy from each of its own ports. Every answer
// counts but that it is not healthy (503): a refusal as well, because it has neither a password nor a client
// certificate. Without an answer in time systemd is not notified, and
// kills the process.
//
// A port that has never answered is ignored: a packet filter may drop what comes from this host.
type watchdog struct {
	ports []*port
	log   *slog.Logger

	mu   sync.Mutex
	from []string // the last addresses that it connected from
}

// port is a listener as the watchdog reaches it.
type port struct {
	network, address, path string

	scheme   string // http or https; empty: not known yet
	answered bool   // at least once
	client   *http.Client
}

// newWatchdog returns one for the listeners, whose paths begin with prefix.
func newWatchdog(ls []net.Listener, prefix string, log *slog.Logger) *watchdog {
	w := &watchdog{log: log}
	for _, l := range ls {
		p := &port{network: l.Addr().Network(), address: l.Addr().String(), path: prefix + "/-/healthy"}
		p.client = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DisableKeepAlives: true, // a port that accepts no connection is stuck, too
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, p.network, p.address)
					if err == nil {
						w.connected(c.LocalAddr().String())
					}
					return c, err
				},
			},
		}
		w.ports = append(w.ports, p)
	}
	return w
}

// run notifies systemd until ctx ends. Without systemd it returns at once.
func (w *watchdog) run(ctx context.Context) {
	if expected, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		w.log.Warn("systemd not notified of the start, and will end the service: set AF_UNIX in RestrictAddressFamilies, or Type=exec and WatchdogSec=0", "err", err)
	} else if !expected {
		return
	}
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		w.log.Warn("systemd's watchdog not notified", "err", err)
	}
	if err == nil && limit > 0 {
		w.watch(ctx, limit/3)
	}
	<-ctx.Done()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) // systemd sees the end of the process anyway
}

// watch notifies systemd's watchdog after each interval in which all ports answered.
func (w *watchdog) watch(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for stuck := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.ask(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !stuck {
			w.log.Error("own port does not answer, systemd is not notified until it does", "err", err)
		}
		stuck = err != nil
		if stuck {
			continue
		}
		if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
			w.log.Warn("systemd's watchdog not notified", "err", err)
		}
	}
}

// ask requests an answer from every port, and returns an error for one that has answered before and does not now.
func (w *watchdog) ask(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	errs := make([]error, len(w.ports))
	var asked sync.WaitGroup
	for i, p := range w.ports {
		asked.Go(func() { errs[i] = p.ask(ctx) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// ask requests an answer until ctx ends.
func (p *port) ask(ctx context.Context) error {
	var err error
	if p.scheme != "" {
		err = p.get(ctx, p.scheme)
	} else if err = p.get(ctx, "https"); errors.Is(err, http.ErrSchemeMismatch) {
		p.scheme = "http"
		err = p.get(ctx, p.scheme)
	} else if ctx.Err() == nil {
		p.scheme = "https"
	}
	if ctx.Err() == nil && !errors.Is(err, errUnhealthy) { // what is refused or cut off is an answer
		p.answered = true
		return nil
	}
	if !p.answered && !errors.Is(err, errUnhealthy) {
		return nil
	}
	return fmt.Errorf("%s: %w", p.address, err)
}

func (p *port) get(ctx context.Context, scheme string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost"+p.path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	why, _ := io.ReadAll(io.LimitReader(answer.Body, 256))
	return fmt.Errorf("%w: %s", errUnhealthy, strings.TrimSpace(string(why)))
}

// errUnhealthy is what the exporter says of itself.
var errUnhealthy = errors.New("status 503")

// refusals is how many connections of the watchdog to one port are known to be its own: a busy server refuses
// them late.
const refusals = 64

// connected keeps the local addresses of the watchdog, until the servers have logged its connections.
func (w *watchdog) connected(from string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from = append(w.from, from)
	w.from = w.from[max(0, len(w.from)-refusals*len(w.ports)):]
}

// serverLog is a handler for what the servers log, without the refusals of the watchdog, which has no client
// certificate.
func (w *watchdog) serverLog(h slog.Handler) slog.Handler { return serverLog{h, w} }

type serverLog struct {
	slog.Handler
	watchdog *watchdog
}

func (l serverLog) Handle(ctx context.Context, r slog.Record) error {
	l.watchdog.mu.Lock()
	own := slices.ContainsFunc(l.watchdog.from, func(from string) bool {
		return strings.Contains(r.Message,
			" from "+from+":")
	})
	l.watchdog.mu.Unlock()
	if own {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}
