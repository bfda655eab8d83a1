// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/pinger"
)

// answerOn answers on the rails that can be opened, until ctx ends.
func (p *pinging) answerOn(ctx context.Context, c *command.Call, s pinger.Session, rails []pinger.Own,
	log *slog.Logger,
) error {
	var ends []rdmaping.Endpoint
	for _, r := range rails {
		e, err := s.Open(ctx, r)
		if err != nil {
			c.Complain(err)
			continue
		}
		ends = append(ends, e)
		fmt.Fprintln(c.Stdout, describe(r, e))
	}
	if len(ends) == 0 {
		return errors.New("no port can be opened: the lines before say why")
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", p.answer)
	if err != nil {
		return fmt.Errorf("--answer: %w: choose an address of this host, and a port that is free", err)
	}
	mux := http.NewServeMux()
	mux.Handle(exchange.Path, exchange.Handler(func() []rdmaping.Endpoint { return ends }))
	server := &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	fmt.Fprintf(c.Stdout, "Answers who asks http://%s%s, until interrupted.\n", l.Addr(), exchange.Path)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// describe is the settings of a rail for people.
func describe(o pinger.Own, e rdmaping.Endpoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Device)
	if e.Link == rdmaping.InfiniBand {
		fmt.Fprintf(&b, "LID %d, P_Key %#04x, service level %d", e.LID, e.PKey, o.ServiceLevel)
	} else {
		fmt.Fprintf(&b, "GID %d is %s%s, traffic class %d (%s)", o.GIDIndex, e.GID, version(e), o.TrafficClass, o.ClassBy)
	}
	fmt.Fprintf(&b, ", MTU %d", e.MTU)
	return b.String()
}

func version(e rdmaping.Endpoint) string {
	if e.RoCE == 0 {
		return ""
	}
	return fmt.Sprintf(" (RoCE v%d)", e.RoCE)
}

// clocks says what times are by.
func clocks(own, peer rdmaping.Endpoint) string {
	switch {
	case !own.Timed:
		return fmt.Sprintf("Times are by the clock of this host: %s has none for completions.", own.Device)
	case !peer.Timed:
		return fmt.Sprintf("Times are by the clock of this host: the peer's %s has none for completions.", peer.Device)
	}
	return "Times of network and hosts are by the clocks of both NICs."
}
