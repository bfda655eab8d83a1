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

	httpconfig "github.com/prometheus/common/config"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
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
	log     *slog.Logger

	change sync.Mutex // held while one Pinger ends and another begins

	mu      sync.Mutex
	config  *rdmaping.Config
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
			Start: e.Pinging, Log: log, Maintenance: maintenance, Host: ownNames(),
			Observe: func(ctx context.Context) *fabric.Node { return ob.Observe(ctx, pinger.Wants) },
		},
	}
}

// ownNames are the name and the addresses of this host.
func ownNames() []string {
	name, _ := os.Hostname()
	names := []string{name}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() {
			names = append(names, n.IP.String())
		}
	}
	return names
}

// Apply starts and stops pings according to the configuration. Without a change they go on.
func (p *hostPinger) Apply(c *rdmaping.Config) error {
	if p == nil {
		if c != nil {
			return errors.New("rdma_ping is configured, but cannot run here: this is not the host itself, or the program was built without it")
		}
		return nil
	}
	p.change.Lock()
	defer p.change.Unlock()
	if p.running != nil && c != nil && reflect.DeepEqual(*p.config, *c) {
		return nil
	}
	o := p.options
	if c != nil {
		if encrypted, guarded := secures(p.web); !c.Plain && !encrypted && !guarded {
			return &config.Error{Err: errors.New("rdma_ping: peers would be told over plain HTTP, to everyone who asks, where this node answers: " +
				"set TLS or authentication in --web.config.file, or plain: true")}
		}
		asks, err := askerOf(c)
		if err != nil {
			return &config.Error{Err: fmt.Errorf("rdma_ping.client_file: %w", err)}
		}
		o.Config, o.Client = *c, asks
	}
	p.end()
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(p.ctx)
	runs, done := pinger.New(o), make(chan struct{})
	go func() {
		defer close(done)
		runs.Run(ctx)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config, p.running = c, runs
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

// secures reports whether a web configuration file has TLS, which begins with the exporter, and passwords.
func secures(file string) (encrypted, guarded bool) {
	if file == "" {
		return false, false
	}
	text, err := files.Read(file, 1<<20)
	var all struct {
		TLS   toolkit.TLSConfig `yaml:"tls_server_config"`
		Users map[string]any    `yaml:"basic_auth_users"`
	}
	if err != nil || yaml.Unmarshal(text, &all) != nil {
		return false, false
	}
	return all.TLS.IsEnabled(), len(all.Users) > 0
}

// askerOf asks peers as the client file says, which has the form of http_config of Prometheus; without one as everyone.
func askerOf(of *rdmaping.Config) (*http.Client, error) {
	if of.ClientFile == "" {
		return exchange.Client(nil), nil
	}
	c, _, err := httpconfig.LoadHTTPConfigFile(of.ClientFile)
	if err != nil {
		return nil, err
	}
	if of.Scheme != "https" && !of.Plain && hasSecrets(c) {
		return nil, errors.New("its credentials would be sent over plain HTTP: set scheme: https, or plain: true")
	}
	transport, err := httpconfig.NewRoundTripperFromConfig(*c, "rdma_ping", httpconfig.WithHTTP2Disabled(),
		httpconfig.WithKeepAlivesDisabled(), httpconfig.WithDialContextFunc(exchange.Dial))
	if err != nil {
		return nil, err
	}
	return exchange.Client(transport), nil
}

// hasSecrets reports whether requests carry what others must not read. Loading moves bearer tokens to Authorization.
func hasSecrets(c *httpconfig.HTTPClientConfig) bool {
	return c.BasicAuth != nil || c.Authorization != nil || c.OAuth2 != nil || c.HTTPHeaders != nil
}
