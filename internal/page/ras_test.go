// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/progress"
)

// What RAS says of a job is with the job, in its JSON and in that of the node.
func TestLandingRAS(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	rank := fabric.RankCandidate{
		PID: 41200, GPUs: fabric.Known([]string{"GPU-a"}, "nvml", at), Files: fabric.Known(fabric.OpenFiles{CUDA: true, Complete: true}, "fd", at),
		Workload: fabric.Known(fabric.Workload{Scheduler: "slurm", Job: "4242", Rank: 0}, "cgroup", at), Maps: fabric.Known(fabric.MappedFiles{Segments: 1}, "maps", at),
	}
	node := func() *fabric.Node { return withRanks(rank) }
	lost := fabric.RASMissing{RASPlace: fabric.RASPlace{Rank: 12, Host: netip.MustParseAddr("10.0.0.18"), PID: 41212}, Dead: true}
	account := progress.Account{Job: "slurm/4242", Suspicions: []progress.Suspicion{progress.TrafficStopped}}
	account.Take([]fabric.RASAnswer{{Communicators: []fabric.RASCommunicator{{ID: "1f2e-2-3", Size: 16, MissingCount: 1, Missing: []fabric.RASMissing{lost}}}}}, at, progress.GPUsBusy)
	notAsked := progress.Account{Job: "slurm/4242", Suspicions: []progress.Suspicion{progress.RanksApart}, Refused: &progress.Refusal{Why: progress.OtherNamespace, Text: "its RAS listens in the network namespace of a pod"}}
	show := func(a ...progress.Account) string {
		set := setOf(t, "job").WithRAS(func() progress.Status { return progress.Status{Enabled: true, Jobs: a} })
		w := httptest.NewRecorder()
		JobsJSON(func(context.Context) *fabric.Node { return node() }, set, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/jobs.json", nil))
		with := func(o *LandingOptions) { o.Collectors = set }
		newLanding(t, node, with).ServeJSON(w, httptest.NewRequest(http.MethodGet, "/status.json", nil))
		return landingOf(t, node, with) + w.Body.String()
	}
	contains(t, show(account), "it no longer moves data to other nodes", "dead (1 answer of 2023-11-14 22:13:20 UTC, 1 communicator); communicator 1f2e-2-3 of 16 ranks: dead, rank 12 (PID 41212 on 10.0.0.18)",
		`"state": "dead"`, `"host": "10.0.0.18"`, `"ras":[{"job":"slurm/4242"`, `"state":"dead"`)
	contains(t, show(notAsked), "busy and those of others idle", "not asked:</span> its RAS listens in the network namespace of a pod.", `"refused_reason": "other_namespace"`)
	lacks(t, show(), "RAS", `"ras": `)
}
