// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
)

// answerOn answers on the rails that can be opened, until ctx ends.
func (p *pinging) answerOn(ctx context.Context, c *command.Call, s session, rails []own, log *slog.Logger) error {
	var ends []rdmaping.Endpoint
	for _, r := range rails {
		e, err := s.open(ctx, r)
		if err != nil {
			c.Complain(err)
			continue
		}
		ends = append(ends, e)
		fmt.Fprintln(c.Stdout, r.describe(e))
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
