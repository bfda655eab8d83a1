// SPDX-License-Identifier: Apache-2.0

// Package topology is the command topology: it prints how far GPUs and RDMA NICs are from each other, and
// whether GPUDirect RDMA works between them.
package topology

import (
	"context"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/status"
)

// printing is one call of the command.
type printing struct {
	site     *site.Site
	log      *logging.Flags
	scenario *simulator.Scenario // nil: this host
	json     bool
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	p := &printing{site: s, log: log}
	return &command.Command{
		Name: "topology", Help: "Print the PCI bus distances between GPUs and RDMA NICs, and the nearest NIC of each GPU.",
		Define: func(f *command.Flags) {
			f.Output(&p.json)
			site.AddScenario(f, &p.scenario)
		},
		Takes:  []command.Group{&s.Config, log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    p.run,
	}
}

// run prints how far the GPUs and RDMA NICs of this host, or of a simulated node, are from each other. The
// observer logs what could not be read; the rest is printed nevertheless.
func (p *printing) run(ctx context.Context, c *command.Call) int {
	n, conf, err := p.site.ObserveOnce(ctx, p.scenario, fabric.WantHCA|fabric.WantPCI|fabric.WantGPU|fabric.WantNCCL, 0,
		p.log.Logger(c.Stderr))
	if err == nil {
		err = write(c.Stdout, p.json, status.TopologyOf(n, conf.Report()))
	}
	if err != nil {
		return c.Fail(err)
	}
	return command.OK
}
