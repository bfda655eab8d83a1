// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"log/slog"
	"slices"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/site"
)

// watch returns the watch that queries NCCL RAS about suspected jobs, switched off; nil if processes of jobs are not
// read. It has a Tracker of its own, so that the verdicts on jobs are the same with and without it.
func (e *Exporter) watch(ctx context.Context, n Node, set *collector.Set, ob site.Observer,
	log *slog.Logger,
) *inquiry.Watch {
	var o inquiry.Options
	switch {
	case !slices.Contains(set.Names(), "job"):
		return nil
	case n.RAS != nil:
		o = *n.RAS
	case n.Simulated || n.Netlink != "" || e.Site.RAS == nil:
		return nil
	default:
		o = inquiry.Options{Asker: inquiry.Asker(n.Procfs), Ask: inquiry.Dial(e.Site.RAS), Quiet: progress.Quiet}
	}
	o.Log = log
	tracker := new(job.Tracker)
	o.Look = func(ctx context.Context) (*fabric.Node, job.Jobs, error) {
		ctx, cancel := context.WithTimeout(ctx, site.FirstObservation)
		defer cancel()
		seen := ob.Observe(ctx, job.Wants)
		return seen, tracker.Update(seen), nil
	}
	return inquiry.NewWatch(ctx, o)
}

// askIf switches the watch on or off, and warns if it cannot run.
func askIf(on bool, watch *inquiry.Watch, log *slog.Logger) {
	if on && watch == nil {
		log.Warn("nccl.ask_ras is set and no job is asked: the collector job is disabled, or this is not the host itself")
	}
	watch.Apply(on)
}
