// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"gpufabric_exporter/collector"
)

// reloader keeps the configuration in force and replaces it with a newer one that is without errors.
type reloader struct {
	site     site
	observer nodeObserver
	prober   siteProber
	log      *slog.Logger

	reading sync.Mutex // held while the file is read, which may take for ever

	mu     sync.Mutex
	status configStatus
}

// configStatus is what is in force and how the last attempt to replace it went.
type configStatus struct {
	config config
	loaded time.Time
	err    error // of the last reload
}

// newReloader takes over from a start with the given configuration.
func newReloader(s site, initial config, ob nodeObserver, p siteProber, log *slog.Logger) *reloader {
	return &reloader{site: s, observer: ob, prober: p, log: log, status: configStatus{config: initial, loaded: time.Now()}}
}

// reload reads the configuration again. On an error the old one stays in force.
func (r *reloader) reload() error {
	r.reading.Lock()
	defer r.reading.Unlock()
	c, err := r.site.config()
	if was := r.current().config.file; err == nil && c.file == "" && was != "" {
		err = vanished(was)
	}
	if err == nil {
		err = r.prober.apply(c.probes)
	}
	if err != nil {
		status := r.current()
		status.err = err
		r.replace(status)
		r.log.Error("configuration not reloaded, the one before stays in force", "err", err)
		return err
	}
	r.replace(configStatus{config: c, loaded: time.Now()})
	r.observer.SetPolicy(c.policy, c.nccl)
	r.log.Info("configuration reloaded", "file", c.origin())
	return nil
}

func (r *reloader) replace(s configStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = s
}

// current returns what is in force.
func (r *reloader) current() configStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// state is what the metrics say of it.
func (c configStatus) state() collector.ConfigState {
	return collector.ConfigState{LoadedAt: c.loaded, LastOK: c.err == nil}
}

// onSignal reloads whenever a signal arrives, until ctx ends.
func (r *reloader) onSignal(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			_ = r.reload() // logged there
		}
	}
}

// ServeHTTP is POST /-/reload.
func (r *reloader) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if err := r.reload(); err != nil {
		http.Error(w, "configuration not reloaded, the one before stays in force:\n"+err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("configuration reloaded\n"))
}
