// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/page"
	"gpufabric_exporter/probes"
)

// ProbesPath is where the page of probes is; with .json behind, that for programs.
const ProbesPath = "/probes"

// JobsPath is where the jobs of the node are as JSON; people see them on the page of the node.
const JobsPath = "/jobs.json"

// StatusPath is where the page of the node is as JSON.
const StatusPath = "/status.json"

// pageTimeout limits how long a page waits for a device that hangs.
const pageTimeout = 3 * time.Second

// probePages are the page of probes, and the same as JSON.
func (h *handler) probePages() *page.Probes {
	return page.NewProbes(page.ProbesOptions{
		Title: h.node.Title, Status: h.config.prober.Status, Observe: h.observeAll, Log: h.log,
		Config: func() *probes.Config { return h.config.current().Config.Probes },
	})
}

// observe observes the node for a request, and returns when it is its turn to make an answer of it.
func (h *handler) observe(ctx context.Context, want fabric.Want) *fabric.Node {
	n := h.observer.Observe(ctx, want)
	h.places.make(ctx)
	return n
}

// observeAll observes the node for the pages, with everything that the enabled collectors read.
func (h *handler) observeAll(ctx context.Context) *fabric.Node { return h.observe(ctx, h.set.Want()) }

// landing is the page of the node.
func (h *handler) landing() *page.Landing {
	o := page.LandingOptions{
		Title: h.node.Title, Note: h.node.Note, Instance: h.node.Title,
		Observe: h.observeAll, Collectors: h.set, NoDevice: func(n *fabric.Node) (string,
			bool,
		) {
			return noDevice(n, h.node)
		},
		Config: h.config.current, Devices: h.exporter.Site.Devices.Filter, Seen: &h.seen, Links: h.links(), Log: h.log,
		Probes: h.probes,
	}
	if h.node.Simulated {
		o.Instance = "" // Prometheus does not know it
	}
	return page.NewLanding(o)
}

// links are relative to the landing page, so that they hold behind any reverse proxy.
func (h *handler) links() []page.Link {
	list := []page.Link{
		{Href: strings.TrimPrefix(h.exporter.Web.TelemetryPath, "/"), Text: "Metrics", Note: "metrics for Prometheus"},
		{Href: strings.TrimPrefix(ProbesPath, "/"), Text: "Probes", Note: "NCCL collectives on idle GPUs"},
		{Href: strings.TrimPrefix(StatusPath, "/"), Text: "JSON", Note: "this page for programs"},
		{Href: "-/healthy", Text: "Health", Note: "the process is alive, and answers"},
		{Href: "-/ready", Text: "Readiness", Note: "the first observation is done"},
	}
	if h.exporter.Web.EnablePprof {
		list = append(list, page.Link{Href: "debug/pprof/", Text: "Profiles", Note: "of this exporter"})
	}
	return list
}
