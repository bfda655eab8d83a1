// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/pinger"
)

// hostPinger pings the rails of other nodes as the configuration says.
type hostPinger struct {
	ctx     context.Context
	options pinger.Options // Config and Client are set with each configuration
	web     string         // the file of --web.config.file
	reading errand.Errand[asker]
	log     *slog.Logger

	change sync.Mutex // held while one Pinger ends and another begins

	mu      sync.Mutex
	config  *rdmaping.Config
	client  string         // what the client file had
	running *pinger.Pinger // nil: off
	stop    func()
}

// pinger returns a pinger of this host, off; nil where there is nothing to ping with.
func (e *Exporter) pinger(ctx context.Context, n Node, ob site.Observer, log *slog.Logger) *hostPinger {
	if e.Pinging == nil || n.Simulated {
		return nil
	}
	maintenance := n.Maintenance
	if maintenance == nil { // GPUs are not looked at, and the file of the site counts all the same
		maintenance = func() (string, error) { return e.Site.GPUs.UnderMaintenance(), nil }
	}
	return &hostPinger{
		ctx: ctx, log: log, web: e.Web.ConfigFile, stop: func() {},
		options: pinger.Options{
			Start: namingLibrary(pinger.Sole(e.Pinging)), Log: log, Maintenance: maintenance, Host: ownNames,
			Observe: func(ctx context.Context) *fabric.Node { return ob.Observe(ctx, pinger.Wants) },
		},
	}
}

// namingLibrary names the key in errors of a start with the library that it says.
func namingLibrary(start pinger.Start) pinger.Start {
	return func(ctx context.Context, library string, log *slog.Logger) (pinger.Worker, error) {
		w, err := start(ctx, library, log)
		if err != nil && library != "" {
			err = fmt.Errorf("rdma_ping.library: %w", err)
		}
		return w, err
	}
}

// ownNames are the name and the addresses of this host, without those that no other host can reach.
func ownNames() ([]string, error) {
	name, _ := os.Hostname()
	names := []string{name}
	addresses, err := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			names = append(names, n.IP.String())
		}
	}
	return names, err
}

var errNoPing = errors.New("rdma_ping is configured, but cannot run here: this is not the host itself, or the program was built without it")

// Check says why Apply would not ping as the configuration says. It ends within seconds whatever file systems do.
func (p *hostPinger) Check(c *rdmaping.Config) error {
	_, err := p.asker(c)
	return err
}

// asker asks peers as the configuration says; zero where none is pinged.
func (p *hostPinger) asker(c *rdmaping.Config) (asker, error) {
	switch {
	case c == nil:
		return asker{}, nil
	case p == nil:
		return asker{}, errNoPing
	}
	return p.reading.Run(p.ctx, patience, func() (asker, error) { return askerOf(c, p.web) })
}

// Apply starts and stops pings according to the configuration. Without a change of it and of the client file they go
// on.
func (p *hostPinger) Apply(c *rdmaping.Config) error {
	asks, err := p.asker(c)
	if p == nil || err != nil {
		return err
	}
	p.change.Lock()
	defer p.change.Unlock()
	if p.running != nil && c != nil && p.client == asks.file && reflect.DeepEqual(*p.config, *c) {
		return nil
	}
	o := p.options
	p.end()
	if c == nil {
		return nil
	}
	o.Config, o.Client = *c, asks.client
	ctx, cancel := context.WithCancel(p.ctx)
	runs, done := pinger.New(o), make(chan struct{})
	go func() {
		defer close(done)
		runs.Run(ctx)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config, p.client, p.running = c, asks.file, runs
	p.stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(pingerEnds):
			p.log.Warn("RDMA ping hangs and is left alone")
		}
	}
	p.log.Info("RDMA ping", "files", len(c.Files), "names", len(c.Names), "peers", c.Peers, "interval", c.Interval)
	return nil
}

// pingerEnds is how long its end is waited for: a file of targets may be on a file system that hangs.
const pingerEnds = 1200 * time.Millisecond

func (p *hostPinger) end() {
	p.mu.Lock()
	stop := p.stop
	p.running, p.config, p.stop = nil, nil, func() {}
	p.mu.Unlock()
	stop()
}

func (p *hostPinger) Close() {
	if p != nil {
		p.change.Lock()
		defer p.change.Unlock()
		p.end()
	}
}

func (p *hostPinger) current() (runs *pinger.Pinger, plain bool) {
	if p == nil {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, p.config != nil && p.config.Plain
}

// Status is what was found; not enabled while it is off.
func (p *hostPinger) Status() rdmaping.Status {
	if runs, _ := p.current(); runs != nil {
		return runs.Status()
	}
	return rdmaping.Status{}
}

// ServeHTTP tells peers where the rails of this node answer.
func (p *hostPinger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	runs, plain := p.current()
	if runs == nil {
		http.Error(w, "RDMA ping is off (rdma_ping.enabled in the configuration)", http.StatusNotFound)
		return
	}
	// the file is read with each request, and may have lost them
	if _, guarded := secures(p.web); !plain && !guarded && r.TLS == nil {
		http.Error(w, "--web.config.file sets neither TLS nor passwords any more, and rdma_ping.plain is not set", http.StatusForbidden)
		return
	}
	exchange.Handler(runs.Rails).ServeHTTP(w, r)
}
