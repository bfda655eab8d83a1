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
		return errors.New("no port can be opened")
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", p.answer)
	if err != nil {
		return fmt.Errorf("--answer: %w", err)
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
		fmt.Fprintf(&b, "LID %d, service level %d", e.LID, o.ServiceLevel)
	} else {
		fmt.Fprintf(&b, "GID %d is %s, traffic class %d (%s)", o.GIDIndex, e.GID, o.TrafficClass, o.ClassBy)
	}
	fmt.Fprintf(&b, ", MTU %d", e.MTU)
	return b.String()
}
