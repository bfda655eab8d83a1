// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"sync"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/probes/state"
)

// hostProber runs the probes of the configuration, and others when it changes.
type hostProber struct {
	ctx  context.Context
	host prober.Host           // Config and Gate are set with each configuration
	slow func(context.Context) // after a result below the baseline
	log  *slog.Logger

	change sync.Mutex // held while one Prober ends and another begins

	mu      sync.Mutex
	config  *probes.Config
	running *prober.Prober // nil: probing is off
	stop    func()
}

// prober returns a prober of this host, off; nil where there is nothing to probe with.
func (e *Exporter) prober(ctx context.Context, n Node, ob site.Observer, log *slog.Logger) *hostProber {
	if e.Probing == nil || n.Maintenance == nil {
		return nil
	}
	paths := e.Site.Paths
	return &hostProber{
		ctx: ctx, log: log, stop: func() {},
		slow: func(ctx context.Context) { ob.Observe(ctx, plan.Wants|fabric.WantFreshPCI) },
		host: prober.Host{
			Platform: e.Probing, Log: log,
			Observe: func(ctx context.Context) (*fabric.Node, error) { return ob.Observe(ctx, plan.Wants), nil },
			Sysfs:   paths.Sysfs, Procfs: paths.Procfs, Rootfs: paths.Rootfs, Library: e.Site.GPUs.Library,
			Maintenance: n.Maintenance,
		},
	}
}

// Apply starts and stops probes according to the configuration. Without a change they continue to run.
func (p *hostProber) Apply(c *probes.Config) error {
	if p == nil {
		if c != nil {
			return errors.New("probes are configured, but cannot run here: this is not the host itself, or the collectors of GPUs are disabled")
		}
		return nil
	}
	p.change.Lock()
	defer p.change.Unlock()
	if p.running != nil && c != nil && reflect.DeepEqual(*p.config, *c) {
		return nil
	}
	p.end()
	if c == nil {
		return nil
	}
	host := p.host
	host.Config = *c
	var closeGate func() error
	var err error
	if host.Gate, closeGate, err = host.Platform.Gate(&host); err != nil {
		return err
	}
	name, _ := os.Hostname() // all nodes without a name probe at the same times
	runs, err := prober.New(prober.Options{Config: *c, Host: name, Logger: p.log, Machine: &host, Slow: p.slow})
	if err != nil {
		return errors.Join(err, closeGate())
	}
	ctx, cancel := context.WithCancel(p.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		runs.Run(ctx)
		if err := closeGate(); err != nil {
			p.log.Warn("a helper process of the probe gate did not exit", "err", err)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config, p.running = c, runs
	p.stop = func() {
		cancel()
		done.Wait()
	}
	go p.checkLock(c.LockFile) // a file system may hang
	p.log.Info("probing", "kinds", len(c.Every))
	return nil
}

// checkLock logs that no probe can run without the lock file.
func (p *hostProber) checkLock(file string) {
	if err := state.CheckLock(file); err != nil {
		p.log.Warn("the lock of probes cannot be taken, and every probe is skipped", "file", file, "err", err,
			"remedy",
			"make the folder of the file writable for this process, or name another file in probes.lock_file of the configuration")
	}
}

// end ends what runs and waits for it, which takes two seconds at most.
func (p *hostProber) end() {
	p.mu.Lock()
	stop := p.stop
	p.running, p.config, p.stop = nil, nil, func() {}
	p.mu.Unlock()
	stop()
}

func (p *hostProber) Close() {
	if p == nil {
		return
	}
	p.change.Lock()
	defer p.change.Unlock()
	p.end()
}

// Status says what became of all probes; not enabled while none are configured.
func (p *hostProber) Status() probes.Status {
	if p == nil {
		return probes.Status{}
	}
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if running == nil {
		return probes.Status{}
	}
	return running.Status()
}
