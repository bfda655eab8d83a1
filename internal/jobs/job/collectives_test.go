// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// A file is of the job whose rank could have written it, and of no other.
func TestCollectives(t *testing.T) {
	sample := fabric.CollectiveSample{Collective: "AllReduce", Size: fabric.SizeLarge, Nodes: true, BusBandwidth: 2e11, Duration: time.Millisecond}
	boot := epoch.Add(-time.Hour)
	for name, c := range map[string]struct {
		edit func(n *fabric.Node, jobs *Jobs, f *fabric.InspectorFile)
		want int
	}{
		"its GPU":        {func(*fabric.Node, *Jobs, *fabric.InspectorFile) {}, 1},
		"its PID":        {func(_ *fabric.Node, _ *Jobs, f *fabric.InspectorFile) { f.GPU, f.PID = "", 100 }, 1},
		"another PID":    {func(_ *fabric.Node, _ *Jobs, f *fabric.InspectorFile) { f.GPU, f.PID = "", 101 }, 0},
		"another GPU":    {func(_ *fabric.Node, _ *Jobs, f *fabric.InspectorFile) { f.GPU = "GPU-other" }, 0},
		"another user":   {func(_ *fabric.Node, _ *Jobs, f *fabric.InspectorFile) { f.Owner = 1001 }, 0},
		"an earlier job": {func(_ *fabric.Node, _ *Jobs, f *fabric.InspectorFile) { f.Written = boot }, 0},
		"user not known": {func(n *fabric.Node, _ *Jobs, _ *fabric.InspectorFile) {
			n.Ranks.Value[0].Limits = fabric.Fact[fabric.ProcessLimits]{}
		}, 0},
		"boot not known": {func(n *fabric.Node, _ *Jobs, _ *fabric.InspectorFile) { n.Host.BootTime = fabric.Fact[time.Time]{} }, 0},
		"folder not read": {func(n *fabric.Node, _ *Jobs, _ *fabric.InspectorFile) {
			n.Inspector = fabric.Fact[fabric.InspectorReading]{}
		}, 0},
		"no job":            {func(_ *fabric.Node, jobs *Jobs, _ *fabric.InspectorFile) { jobs.List = nil }, 0},
		"two jobs on a GPU": {func(n *fabric.Node, jobs *Jobs, _ *fabric.InspectorFile) { share(n, jobs) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			rank := rankOf(100, 0, 0)
			rank.User, rank.Limits = 1000, fabric.Known(fabric.ProcessLimits{}, "limits", epoch)
			n := nodeOf(epoch, rank)
			n.Host.BootTime = fabric.Known(boot, "stat", epoch)
			jobs := Jobs{List: []Job{{Name: "slurm/7", Ranks: []Rank{{PID: 100}}}}}
			older := fabric.InspectorFile{GPU: gpuUUID, Owner: 1000, Written: epoch.Add(-time.Minute), Samples: []fabric.CollectiveSample{{Collective: "AllReduce", Size: fabric.SizeLarge, Nodes: true, BusBandwidth: 1}}}
			f := fabric.InspectorFile{GPU: gpuUUID, Owner: 1000, Written: epoch, Samples: []fabric.CollectiveSample{sample}}
			files := []fabric.InspectorFile{f}
			n.Inspector = fabric.Known(fabric.InspectorReading{Files: files}, "folder", epoch)
			c.edit(n, &jobs, &files[0])
			if c.want == 1 {
				n.Inspector.Value.Files = append(files, older) // the newest counts
			}
			got := jobs.Inspect(n)
			if len(got.Samples) != c.want || c.want == 1 && got.Samples[0] != (Collective{Place{"slurm/7", gpuUUID}, sample}) {
				t.Errorf("%+v", got)
			}
			if used := len(n.Inspector.Or(fabric.InspectorReading{}).Files) - got.NoRank; used != 2*c.want {
				t.Errorf("uses %d files", used)
			}
		})
	}
}

// What several processes of a job on one GPU counted is one total.
func TestCollectiveTotals(t *testing.T) {
	rank := rankOf(100, 0, 0)
	rank.User, rank.Limits = 1000, fabric.Known(fabric.ProcessLimits{}, "limits", epoch)
	second := rank
	second.PID = 101
	n := nodeOf(epoch, rank, second)
	n.Host.BootTime = fabric.Known(epoch.Add(-time.Hour), "stat", epoch)
	jobs := Jobs{List: []Job{{Name: "slurm/7", Ranks: []Rank{{PID: 100}, {PID: 101}}}}}
	total := fabric.CollectiveTotal{Collective: "AllReduce", Nodes: true, Recorded: 10, Seconds: 2, Launched: 11}
	var files []fabric.InspectorFile
	for _, pid := range []int{100, 101} {
		files = append(files, fabric.InspectorFile{PID: pid, Owner: 1000, Written: epoch, Totals: []fabric.CollectiveTotal{total, {Collective: "AllReduce", Recorded: 1}}})
	}
	n.Inspector = fabric.Known(fabric.InspectorReading{Files: files}, "folder", epoch)
	at := Place{"slurm/7", gpuUUID}
	want := []CollectiveTotal{{at, fabric.CollectiveTotal{Collective: "AllReduce", Recorded: 2}}, {at, fabric.CollectiveTotal{Collective: "AllReduce", Nodes: true, Recorded: 20, Seconds: 4, Launched: 22}}}
	if got := jobs.Inspect(n).Totals; !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// share adds a second job on the same GPU.
func share(n *fabric.Node, jobs *Jobs) {
	second := n.Ranks.Value[0]
	second.PID = 200
	n.Ranks.Value = append(n.Ranks.Value, second)
	jobs.List = append(jobs.List, Job{Name: "slurm/8", Ranks: []Rank{{PID: 200}}})
}
