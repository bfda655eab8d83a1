// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/page"
	"gpufabric_exporter/internal/site"
)

// reloader keeps the configuration in force and replaces it with a newer one that has no errors.
type reloader struct {
	node     Node
	observer site.Observer
	prober   Prober
	pinger   *hostPinger
	watch    *inquiry.Watch
	log      *slog.Logger

	clients  *rate.Limiter                // of reloads over HTTP, each of which reads files and writes a line to the log
	changing sync.Mutex                   // held from reading the file until its content is in force
	reading  errand.Errand[config.Config] // the file may be on a file system that hangs

	mu     sync.Mutex
	status page.ConfigStatus
}

// newReloader begins with the configuration that was read at the start.
func newReloader(n Node, initial config.Config, ob site.Observer, p Prober, pings *hostPinger, w *inquiry.Watch,
	log *slog.Logger,
) *reloader {
	return &reloader{
		node: n, observer: ob, prober: p, pinger: pings, watch: w, log: log, clients: rate.NewLimiter(1, reloadBurst),
		status: page.ConfigStatus{Config: initial, Loaded: time.Now()},
	}
}

// reloadBurst is how many reloads clients may ask for at once; after them it is one in a second.
const reloadBurst = 10

var errTooMany = errors.New("too many reloads, try again in a second")

// patience is how long reading a file of the site may take.
const patience = 5 * time.Second

// reload reads the configuration again. On an error the old one stays in force. It ends within seconds
// whatever the file system does. For clients it fails at once while another reload is running
// (errand.ErrBusy), and the rate at which they may request it is limited (errTooMany). The operator's signal
// waits its turn, or clients could have it ignored.
func (r *reloader) reload(ctx context.Context, client bool) error {
	if !client {
		r.changing.Lock()
	} else if !r.changing.TryLock() {
		return errand.ErrBusy
	}
	defer r.changing.Unlock()
	c, err := r.reading.Run(ctx, patience, func() (config.Config, error) {
		if client && !r.clients.Allow() {
			return config.Config{}, errTooMany
		}
		return r.node.Config()
	})
	if errors.Is(err, errTooMany) || client && errors.Is(err, errand.ErrBusy) {
		return err // nothing was tried, and nothing is logged: clients may send any number of requests
	}
	if was := r.current().Config.File; err == nil && c.File == "" && was != "" {
		err = vanished(was)
	}
	if err == nil { // before anything is changed
		err = r.pinger.Check(c.RDMAPing)
	}
	if err == nil {
		err = r.prober.Apply(c.Probes)
	}
	if err == nil {
		err = r.pinger.Apply(c.RDMAPing)
	}
	if err != nil {
		if !errors.Is(err, errand.ErrBusy) {
			status := r.current()
			status.Err = err
			r.replace(status)
		}
		r.log.Error("configuration not reloaded, the previous one stays in force", "err", err)
		return err
	}
	r.replace(page.ConfigStatus{Config: c, Loaded: time.Now()})
	askIf(c.AskRAS, r.watch, r.log)
	r.observer.SetPolicy(c.Policy, c.NCCL)
	r.log.Info("configuration reloaded", "file", c.Origin())
	leftOut(c, r.log)
	return nil
}

// leftOut logs what of the configuration is not in force, although it has no errors.
func leftOut(c config.Config, log *slog.Logger) {
	for _, problem := range c.Problems {
		log.Warn("a profile is left out", "err", problem)
	}
}

func (r *reloader) replace(s page.ConfigStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = s
}

// current returns what is in force.
func (r *reloader) current() page.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// vanished is the error of a reload that finds the default file gone. What was in force stays: a deployment
// that removes the file before it writes the next one must not disable every expectation.
func vanished(file string) error {
	return &config.Error{Err: fmt.Errorf("%s no longer exists: restart the exporter to serve without a configuration",
		file)}
}

// state is what the metrics report about it.
func (r *reloader) state() collector.ConfigState {
	c := r.current()
	s := collector.ConfigState{LoadedAt: c.Loaded, LastOK: c.Err == nil}
	if r.node.LogDropped != nil {
		s.LogDropped = r.node.LogDropped()
	}
	return s
}

// onSignal reloads whenever a signal arrives, until ctx ends.
func (r *reloader) onSignal(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			_ = r.reload(ctx, false) // logged there
		}
	}
}

// ServeHTTP is POST /-/reload. A client that leaves does not end it.
func (r *reloader) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch err := r.reload(context.WithoutCancel(req.Context()), true); {
	case errors.Is(err, errTooMany):
		http.Error(w, "configuration not reloaded: "+err.Error(), http.StatusTooManyRequests)
	case errors.Is(err, errand.ErrBusy):
		http.Error(w, "configuration not reloaded: a reload is "+err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, "configuration not reloaded, the previous one stays in force:\n"+err.Error(),
			http.StatusInternalServerError)
	default:
		_, _ = w.Write([]byte("configuration reloaded\n"))
	}
}
