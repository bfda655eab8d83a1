// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/prometheus/exporter-toolkit/web"

	"gpufabric_exporter/internal/logging"
)

// Limits of the HTTP servers.
const (
	// readTimeout is for a whole request; see bodiless. It is longer than scrapes are apart: the next one moves the timer
	// before it fires, which would wake an idle process and cost a tenth of a scrape.
	readTimeout    = time.Minute
	writeTimeout   = 2 * time.Minute // for an answer without a deadline; see places
	maxConnections = 256             // fewer where there are few descriptors
	maxUnsent      = 16 << 20        // bytes of answers that clients have not read yet
	idleTimeout    = 5 * time.Minute
	maxHeaderBytes = 4 << 10     // which take up to 25 times that in memory; Go allows 4 KiB more
	shutdownGrace  = time.Second // for requests in flight when the process is to stop
)

// listen opens all addresses, or takes the sockets that systemd passed on.
func (e *Exporter) listen() ([]net.Listener, error) {
	if len(e.Web.Listen) == 0 {
		return listen([]string{defaultAddress}, e.Web.SystemdSocket)
	}
	return listen(e.Web.Listen, e.Web.SystemdSocket)
}

func listen(addresses []string, fromSystemd bool) ([]net.Listener, error) {
	if fromSystemd {
		ls, err := activation.Listeners()
		if err == nil && len(ls) == 0 {
			err = errors.New("systemd passed no socket on (is there a .socket unit?)")
		}
		if err != nil {
			return nil, fmt.Errorf("--web.systemd-socket: %w", err)
		}
		return ls, nil
	}
	var ls []net.Listener
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			closeAll(ls)
			return nil, listenError(a, err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// listenError says what to do if an address cannot be used.
func listenError(address string, err error) error {
	_, port, _ := net.SplitHostPort(address)
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return fmt.Errorf("--web.listen-address=%q: %w", address, err)
	}
	remedy := "expected an address of this host"
	switch errno {
	case syscall.EADDRINUSE:
		remedy = "another process listens there (ss -ltnp sport = :" + port + " shows it): end it, or choose another port"
	case syscall.EACCES:
		remedy = "ports below 1024 need CAP_NET_BIND_SERVICE: choose another port"
	}
	return fmt.Errorf("--web.listen-address=%q: %w: %s", address, errno, remedy)
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}

// serveListeners serves h on all listeners until ctx ends or one of them fails. Each has a server of its own:
// the toolkit's ServeMultiple changes one shared server from several goroutines. What they log goes to errs.
func serveListeners(ctx context.Context, ls []net.Listener, h http.Handler, webConfigFile string, log *slog.Logger,
	errs slog.Handler,
) error {
	// Requests in flight outlive ctx by the grace.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	quiet := slog.New(logging.Demoted{Handler: withoutValues{log.Handler()}})
	flags := &web.FlagConfig{WebConfigFile: &webConfigFile}

	guesses, errs := newGuesses(log), newRation(withoutValues{errs})
	var running sync.WaitGroup
	failed := make(chan error, len(ls))
	servers := make([]*http.Server, len(ls))
	clients := newConnections(ownDescriptors().clients, maxUnsent)
	h = clients.counted(h)
	// Without HTTP/2, whatever the web configuration says: a client of it has any number of answers waiting that
	// it accepts no byte of, and scrapers gain nothing.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	for i, l := range ls {
		s := &http.Server{
			Handler:        h,
			ReadTimeout:    readTimeout,
			WriteTimeout:   writeTimeout,
			Protocols:      &protocols,
			IdleTimeout:    idleTimeout,
			MaxHeaderBytes: maxHeaderBytes,
			ConnState:      clients.track,
			ConnContext:    clients.known,
			BaseContext:    func(net.Listener) context.Context { return requests },
			ErrorLog:       slog.NewLogLogger(errs, slog.LevelWarn),
		}
		servers[i] = s
		guesses.guard(s)
		running.Go(func() {
			if err := web.Serve(handshakes{l}, s, flags, quiet); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s: %w", l.Addr(), err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case err = <-failed:
	}
	shutdown(servers)
	running.Wait()
	return err
}

// shutdown stops all servers within the grace, whatever their handlers do.
func shutdown(servers []*http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	var done sync.WaitGroup
	for _, s := range servers {
		done.Go(func() {
			if s.Shutdown(ctx) != nil {
				s.Close()
			}
		})
	}
	done.Wait()
}
