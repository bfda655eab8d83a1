// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const gpuUUID = "GPU-0"

// nodeOf is a node with one GPU at work and these processes.
func nodeOf(at time.Time, list ...fabric.RankCandidate) *fabric.Node {
	return &fabric.Node{
		At: at, Policy: &fabric.Policy{}, Ranks: fabric.Known(list, "/proc", at),
		GPUDriver: fabric.GPUDriver{GPUs: []fabric.GPU{{UUID: gpuUUID, Utilization: fabric.Known(0.9, "nvml", at)}}},
	}
}

// rankOf is a process that shows a communicator and exchanges that many bytes with another host.
func rankOf(pid int, sent, received uint64) fabric.RankCandidate {
	known := netip.MustParseAddrPort
	return fabric.RankCandidate{
		PID: pid, Start: uint64(pid), Command: "python3", GPUs: fabric.Known([]string{gpuUUID}, "nvml", epoch),
		Workload: fabric.Known(fabric.Workload{Scheduler: "slurm", Job: "7", Ranks: 2}, "cgroup", epoch),
		Files:    fabric.Known(fabric.OpenFiles{All: 9, Complete: true, Sockets: []uint64{uint64(pid)*10 + 1, uint64(pid)*10 + 2}}, "fd", epoch),
		Maps:     fabric.Known(fabric.MappedFiles{NCCL: "libnccl.so.2", Version: "2.27.3", Verbs: true, Segments: 1}, "maps", epoch),
		Verbs:    fabric.Known(fabric.VerbsUse{}, "netlink", epoch),
		Settings: fabric.Known([]fabric.NCCLVariable(nil), "environ", epoch),
		Sockets: fabric.Known([]fabric.Socket{
			{Inode: uint64(pid)*10 + 1, Local: known("10.0.0.1:40001"), Remote: known("10.0.0.2:40002"), Counted: true},
			{Inode: uint64(pid)*10 + 2, Local: known("10.0.0.1:40003"), Remote: known("10.0.0.2:40004"), Sent: sent, Received: received, Counted: true},
		}, "sock_diag", epoch),
	}
}

// run gives a tracker readings ten seconds apart and returns the verdicts on its only job, in short.
func run(t *testing.T, edits ...func(n *fabric.Node, c *fabric.RankCandidate)) []string {
	t.Helper()
	var tr Tracker
	var got []string
	for i, edit := range edits {
		at := epoch.Add(time.Duration(i) * 10 * time.Second)
		n := nodeOf(at, rankOf(100, uint64(i)*5e9, uint64(i)*5e9))
		if edit != nil {
			edit(n, &n.Ranks.Value[0])
		}
		jobs := tr.Update(n)
		if len(jobs.List) != 1 {
			t.Fatalf("%d jobs", len(jobs.List))
		}
		v := jobs.List[0].Verdict
		s := string(v.Transport)
		if v.Confirmed {
			s += "!"
		}
		if v.Reason != "" {
			s += ":" + string(v.Reason)
		}
		got = append(got, s)
	}
	return got
}

type edit = func(n *fabric.Node, c *fabric.RankCandidate)

// Each condition of a confirmed verdict of TCP is needed: without one it is suspected, or unknown.
func TestConfirmedTCPNeedsAll(t *testing.T) {
	for name, c := range map[string]struct {
		edit edit
		want string
	}{
		"all":              {nil, "tcp!"},
		"GPU idle":         {func(n *fabric.Node, _ *fabric.RankCandidate) { n.GPUDriver.GPUs[0].Utilization.Value = 0.01 }, "tcp"},
		"GPU unknown":      {func(n *fabric.Node, _ *fabric.RankCandidate) { n.GPUDriver.GPUs = nil }, "tcp"},
		"some descriptors": {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Files.Value.Complete = false }, "tcp"},
		"no descriptors": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Files = fabric.UnknownFact[fabric.OpenFiles](fabric.ReasonPrivilege, "", epoch)
		}, "tcp"},
		"uverbs": {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Files.Value.Uverbs = []string{"uverbs0"} }, "tcp"},
		"contexts": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Verbs.Value = fabric.VerbsUse{Contexts: 1, Devices: []string{"mlx5_0"}}
		}, "tcp"},
		"contexts unknown": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonMissing, "", epoch)
		}, "tcp"},
		"no RDMA at all": {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Verbs = fabric.AbsentFact[fabric.VerbsUse]("", epoch) }, "tcp!"},
		"TCPX": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Maps.Value.Plugins = []string{"tcpx/lib64/libnccl-net.so"}
		}, "tcp"},
		"FasTrak": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Settings.Value = []fabric.NCCLVariable{{Name: "NCCL_FASTRAK_IFNAME", Value: "set"}}
		}, "tcp"},
		"plugins unknown": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Maps = fabric.UnknownFact[fabric.MappedFiles](fabric.ReasonPrivilege, "", epoch)
		}, "tcp"},
		"settings unknown": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Settings = fabric.UnknownFact[[]fabric.NCCLVariable](fabric.ReasonPrivilege, "", epoch)
		}, "tcp"},
		"no certain sign": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Maps.Value.Segments, c.Maps.Value.Version = 0, ""
			listen(c)
		}, "tcp"},
		"mostly one way": {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Sockets.Value[1].Received /= 10 }, "unknown:little_traffic"},
		"no bootstrap":   {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Sockets.Value = c.Sockets.Value[1:] }, "unknown:no_traffic"},
		"port of a service": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Sockets.Value[1].Remote = netip.MustParseAddrPort("10.0.0.2:9000")
		}, "unknown:no_traffic"},
		"to itself": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Sockets.Value[1].Remote = netip.MustParseAddrPort("10.0.0.1:40004")
		}, "unknown:no_traffic"},
		"no byte counts":    {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Sockets.Value[1].Counted = false }, "unknown:unreadable"},
		"TCPX by libraries": {func(_ *fabric.Node, c *fabric.RankCandidate) { c.Maps.Value.Hints = []string{"tcpx"} }, "tcp"},
		"sockets unknown": {func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonPrivilege, "", epoch)
		}, "unknown:privilege"},
	} {
		if got := run(t, c.edit, c.edit); got[1] != c.want {
			t.Errorf("%s: %s, expected %s", name, got[1], c.want)
		}
	}
}

// listen gives a process a listener of the bootstrap.
func listen(c *fabric.RankCandidate) {
	c.Sockets.Value = append(c.Sockets.Value, fabric.Socket{Inode: 5, Listening: true, Local: netip.MustParseAddrPort("10.0.0.1:40009")})
}

func idle(n *fabric.Node, c *fabric.RankCandidate) {
	n.GPUDriver.GPUs[0].Utilization.Value = 0
	c.Sockets.Value[1].Sent, c.Sockets.Value[1].Received = 5e9, 5e9
}

func hidden(_ *fabric.Node, c *fabric.RankCandidate) {
	c.Files = fabric.UnknownFact[fabric.OpenFiles](fabric.ReasonPrivilege, "", epoch)
	c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonPrivilege, "", epoch)
}

// ended: it has no communicator any more.
func ended(_ *fabric.Node, c *fabric.RankCandidate) { c.Maps.Value.Segments, c.Sockets.Value = 0, nil }

func restarted(_ *fabric.Node, c *fabric.RankCandidate) { c.Start++ }

// A known verdict changes after two contradictions, and is kept while nothing moves; a pid that is used again
// is a new process.
func TestVerdictsSettle(t *testing.T) {
	for name, c := range map[string]struct {
		edits []edit
		want  string
	}{
		"at the second reading": {[]edit{nil, nil}, "unknown:first_reading tcp!"},
		"kept while idle":       {[]edit{nil, nil, idle, idle, idle}, "unknown:first_reading tcp! tcp! tcp! tcp!"},
		"one contradiction":     {[]edit{nil, nil, ended, nil}, "unknown:first_reading tcp! tcp! tcp!"},
		"kept while unseen":     {[]edit{nil, nil, hidden, hidden, hidden}, "unknown:first_reading tcp! tcp! tcp! tcp!"},
		"two contradictions":    {[]edit{nil, nil, ended, ended}, "unknown:first_reading tcp! tcp! unknown:no_communicator"},
		"pid used again":        {[]edit{nil, nil, restarted}, "unknown:first_reading tcp! unknown:first_reading"},
	} {
		if got := strings.Join(run(t, c.edits...), " "); got != c.want {
			t.Errorf("%s: %s, expected %s", name, got, c.want)
		}
	}
	var tr Tracker
	tr.Update(nodeOf(epoch, rankOf(1, 0, 0)))
	tr.Update(nodeOf(epoch.Add(time.Minute), rankOf(1, 9e10, 9e10)))
	for at := 2 * time.Minute; ; at += time.Minute {
		n := nodeOf(epoch.Add(at), rankOf(1, 9e10, 9e10))
		n.GPUDriver.GPUs[0].Utilization.Value = 0
		if tr.Update(n).List[0].Verdict.Transport == Unknown {
			if kept := at - time.Minute; kept != keep {
				t.Errorf("kept for %s, expected %s", kept, keep)
			}
			break
		}
	}
}

// The same reading, seen by two scrapers, counts once, and one that failed neither ends jobs nor counts.
func TestReadingsAreTakenOnce(t *testing.T) {
	var tr Tracker
	second := nodeOf(epoch.Add(10*time.Second), rankOf(1, 5e9, 5e9))
	tr.Update(nodeOf(epoch, rankOf(1, 0, 0)))
	first := tr.Update(second)
	if again := tr.Update(second); !reflect.DeepEqual(first, again) {
		t.Errorf("the same reading: %+v, then %+v", first, again)
	}
	failed := nodeOf(epoch.Add(20 * time.Second))
	failed.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonStuck, "/proc", failed.At)
	if got := tr.Update(failed); got.Known || got.Reason != Unreadable || len(got.List) != 1 || got.List[0].Verdict.Transport != TCP || got.Impaired[gpuUUID][ImpairedTCP] != 10 {
		t.Errorf("a reading that failed: %+v", got)
	}
	got := tr.Update(nodeOf(epoch.Add(30*time.Second), rankOf(1, 15e9, 15e9)))
	if v := got.List[0].Verdict; v.Transport != TCP || !v.Confirmed || got.Impaired[gpuUUID][ImpairedTCP] != 30 {
		t.Errorf("after it: %+v, %v", v, got.Impaired)
	}
	if got := tr.Update(nodeOf(epoch.Add(40 * time.Second))); len(got.List) != 0 || len(tr.before) != 0 || len(tr.lint) != 0 {
		t.Errorf("a job that ended is still there: %+v", got.List)
	}
}

// Forked children belong to the rank that they inherited from, also after their parent died, and what they
// inherited counts once.
func TestChildrenAreNoRanks(t *testing.T) {
	child := func(pid, parent int) fabric.RankCandidate {
		c := rankOf(100, 5e9, 5e9)
		c.PID, c.Parent, c.Start, c.GPUs = pid, parent, uint64(pid), fabric.AbsentFact[[]string]("nvml", epoch)
		return c
	}
	second := rankOf(103, 0, 0) // a rank that inherited a socket of another one
	second.Sockets.Value = append(second.Sockets.Value, rankOf(100, 5e9, 5e9).Sockets.Value...)
	other := child(204, 1) // of another user, who got hold of a socket
	other.User, other.Limits, other.GPUs = 1001, fabric.Known(fabric.ProcessLimits{}, "limits", epoch), fabric.UnknownFact[[]string](fabric.ReasonIO, "nvml", epoch)
	other.Files.Value.CUDA = true
	rank := ofUser(rankOf(100, 5e9, 5e9), 1000)
	if kept := processesOf([]fabric.RankCandidate{rank, other}); len(kept) != 2 || kept[0].children != 0 || len(kept[0].Sockets.Value) != 2 {
		t.Errorf("a process of another user: %d processes, %+v", len(kept), kept[0])
	}
	kept := processesOf([]fabric.RankCandidate{child(201, 100), child(202, 201), child(203, 1), second, rankOf(100, 5e9, 5e9)})
	if len(kept) != 2 || kept[0].PID != 100 || kept[0].children != 3 || kept[1].PID != 103 || len(kept[1].Sockets.Value) != 2 {
		t.Errorf("%d processes: %+v", len(kept), kept[0])
	}
}

// Agents that watch GPUs are no jobs, whether the driver was asked or not.
func TestWatchersAreNoJobs(t *testing.T) {
	agent := rankOf(1, 0, 0)
	agent.GPUs = fabric.AbsentFact[[]string]("nvml", epoch)
	unlisted := rankOf(2, 0, 0)
	unlisted.GPUs = fabric.UnknownFact[[]string](fabric.ReasonPrivilege, "nvml", epoch)
	worker := rankOf(3, 0, 0)
	worker.GPUs, worker.Files.Value.CUDA = unlisted.GPUs, true
	if kept := processesOf([]fabric.RankCandidate{agent, unlisted, worker}); len(kept) != 1 || kept[0].PID != 3 {
		t.Errorf("%d are kept", len(kept))
	}
}

// What users write does not pass into names, texts and labels as it is, and nothing of a job is without bound.
func TestHostileCandidates(t *testing.T) {
	const secret = "hunter2 \"\n\x1b[31m{}"
	r := rand.New(rand.NewPCG(1, 2))
	var tr Tracker
	for i := range 4 {
		var list []fabric.RankCandidate
		for k := range 3000 {
			c := rankOf(k+1, r.Uint64(), r.Uint64())
			c.Workload.Value.Scheduler, c.Workload.Value.Job = secret, fmt.Sprint(strings.Repeat(secret, 50), k)
			c.Command, c.Maps.Value.NCCL, c.Maps.Value.Version, c.Maps.Value.Plugins = secret, secret, secret, []string{secret}
			c.Settings.Value = []fabric.NCCLVariable{{Name: "NCCL_DEBUG_FILE", Value: hiddenValue}, {Name: "NCCL_IB_HCA", Value: secret, Masked: true}}
			list = append(list, c)
		}
		jobs := tr.Update(nodeOf(epoch.Add(time.Duration(i)*10*time.Second), list...))
		if len(jobs.List) > maxJobs || jobs.Dropped == 0 || len(tr.before) > maxCandidates {
			t.Errorf("%d jobs, %d left out, %d remembered", len(jobs.List), jobs.Dropped, len(tr.before))
		}
		if text := fmt.Sprintf("%+v", jobs); strings.Contains(text, "hunter2 ") || strings.ContainsAny(text, "\n\x1b\"") {
			t.Errorf("it shows: %.600s", text)
		}
		for _, j := range jobs.List {
			if len(j.Name) > maxName+20 {
				t.Errorf("a name of %d bytes", len(j.Name))
			}
		}
	}
}

// A variable in nccl.conf of the job counts where the environment does not set it, and findings name the file.
func TestSettingsOfConf(t *testing.T) {
	number := func(name string, n int64, source string) fabric.NCCLVariable {
		return fabric.NCCLVariable{Name: name, Value: strconv.FormatInt(n, 10), Number: n, IsNumber: true, Source: source}
	}
	for _, c := range []struct {
		environ []fabric.NCCLVariable
		cause   Cause
	}{
		{nil, CauseDisabled},
		{[]fabric.NCCLVariable{number("NCCL_IB_DISABLE", 0, "environ")}, CauseNoPort},
	} {
		var tr Tracker
		for i := range 3 {
			r := rankOf(100, uint64(i)*5e9, uint64(i)*5e9)
			r.Settings.Value = c.environ
			r.Conf = fabric.Known([]fabric.NCCLVariable{number("NCCL_IB_DISABLE", 1, "/etc/nccl.conf"), number("NCCL_IB_DISABLED", 1, "/etc/nccl.conf")}, "", epoch)
			j := tr.Update(nodeOf(epoch.Add(time.Duration(i)*10*time.Second), r)).List[0]
			if text := fmt.Sprintf("%+v", j.Findings); !strings.Contains(text, "NCCL_IB_DISABLED=*** in /etc/nccl.conf: ") || i == 2 && j.Verdict.Cause != c.cause {
				t.Errorf("%+v: %s, %s", c.environ, j.Verdict.Cause, text)
			}
		}
	}
}

// With settings that were not read, libibverbs may be unmapped because NCCL_IB_DISABLE is set.
func TestCauseNeedsSettings(t *testing.T) {
	for name, c := range map[string]struct {
		settings fabric.Fact[[]fabric.NCCLVariable]
		cause    Cause
	}{
		"read":     {fabric.Known([]fabric.NCCLVariable(nil), "environ", epoch), CauseNoLibrary},
		"not read": {fabric.UnknownFact[[]fabric.NCCLVariable](fabric.ReasonStuck, "environ", epoch), CauseNone},
	} {
		var tr Tracker
		for i := range 3 {
			r := rankOf(100, uint64(i)*5e9, uint64(i)*5e9)
			r.Settings, r.Maps.Value.Verbs = c.settings, false
			j := tr.Update(nodeOf(epoch.Add(time.Duration(i)*10*time.Second), r)).List[0]
			if i == 2 && (j.Verdict.Transport != TCP || j.Verdict.Cause != c.cause) {
				t.Errorf("%s: %+v, expected TCP with cause %q", name, j.Verdict, c.cause)
			}
		}
	}
}

// Jobs that last seconds, a thousand in an hour, with the same PID again and again: each begins anew, and
// nothing of those that ended is kept but the time that their GPU lost.
func TestThousandJobsAnHour(t *testing.T) {
	var tr Tracker
	const jobs, each = 1000, 3
	for i := range jobs * each {
		job := i / each
		c := rankOf(100, uint64(i%each)*5e9, uint64(i%each)*5e9)
		c.Start, c.Workload.Value.Job = uint64(job+1), strconv.Itoa(job)
		c.Settings.Value = []fabric.NCCLVariable{{Name: "NCCL_IB_TIMEOUT", Value: strconv.Itoa(job), Number: int64(job), IsNumber: true}}
		got := tr.Update(nodeOf(epoch.Add(time.Duration(i)*1200*time.Millisecond), c))
		if len(got.List) != 1 || got.List[0].Name != fmt.Sprintf("slurm/%d", job) {
			t.Fatalf("reading %d: %+v", i, got.List)
		}
		if v := got.List[0].Verdict; i%each == 0 && v.Reason != FirstReading || i%each == each-1 && v.Transport != TCP {
			t.Fatalf("reading %d of a job: %+v", i%each, v)
		}
		if len(tr.before) != 1 || len(tr.lint) > 1 || len(got.Impaired) > 1 {
			t.Fatalf("%d processes, %d settings and %d GPUs are remembered", len(tr.before), len(tr.lint), len(got.Impaired))
		}
	}
}

// A user cannot name a job so that it is confused with one of a scheduler.
func TestForgedNames(t *testing.T) {
	c := rankOf(1, 0, 0)
	lie := c
	lie.Workload = fabric.UnknownFact[fabric.Workload](fabric.ReasonPrivilege, "", epoch)
	lie.Command = "slurm/7"
	if a, b := nameOf(&c), nameOf(&lie); a != "slurm/7" || b != "none/slurm/7" {
		t.Errorf("%s and %s", a, b)
	}
}

// Contexts that grow in each reading are reported, those that are made once are not.
func TestGrowth(t *testing.T) {
	var grows, stays growth
	for i := range stepsToLeak + 2 {
		grows.take(fabric.Known(fabric.VerbsUse{Contexts: 8 + i, Regions: 100 + i}, "", epoch))
		stays.take(fabric.Known(fabric.VerbsUse{Contexts: 8, Regions: 100 + i}, "", epoch))
	}
	if !grows.leaks() || stays.leaks() {
		t.Errorf("%+v, %+v", grows, stays)
	}
	if grows.take(fabric.Known(fabric.VerbsUse{Contexts: 8, Regions: 100}, "", epoch)); grows.leaks() {
		t.Error("they fell, and still leak")
	}
}

// The way of a plugin follows from the words of its path, as they are installed.
func TestWayOfPlugin(t *testing.T) {
	for path, want := range map[string]Way{
		"hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so.0.0.0": WayIBext, // https://github.com/NVIDIA/nccl/issues/1357
		"hpcx/nccl_spectrum-x_plugin/lib/libnccl-net.so":       WayIBext,
		"ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so":         WayEFA,
		"amazon/ofi-nccl/lib64/libnccl-net-ofi.so":             WayEFA,
		"opt/aws-ofi-nccl/lib/libnccl-net.so":                  WayEFA,
		"local/gib/lib64/libnccl-net.so":                       WayGIB,
		"local/tcpx/lib64/libnccl-net.so":                      WayTCPX,
		"var/lib/tcpxo/lib64/libnccl-net.so":                   WayFasTrak,
		"envs/default/lib/libnccl-net.so":                      WayPlugin, // neither EFA
		"home/.nix-profile/lib/libnccl-net.so":                 WayPlugin, // nor OFI
		"usr/local/nvidia/lib64/libnccl-net.so":                WayPlugin,
	} {
		if got := wayOfPlugin(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Nobody gives a process to the job of another, takes its name, or makes it have another one, whatever he
// states: the kernel says whose a process is.
func TestOwners(t *testing.T) {
	process := func(pid int, user uint32, w fabric.Workload) fabric.RankCandidate {
		c := ofUser(rankOf(pid, 0, 0), user)
		c.Workload = fabric.Known(w, "cgroup", epoch)
		switch { // as the reader finds it: the outermost one
		case w.Scheduler == "slurm" && !w.Stated:
			c.Owner = fabric.Owner{Kind: fabric.OwnerJob, ID: w.Job}
		case w.Pod != "":
			c.Owner = fabric.Owner{Kind: fabric.OwnerPod, ID: w.Pod}
		case w.ContainerID != "" && (!w.Stated || w.Scheduler != "container"):
			c.Owner = fabric.Owner{Kind: fabric.OwnerContainer, ID: w.ContainerID}
		}
		return c
	}
	machine := func(pid int, user uint32, name string, w fabric.Workload) fabric.RankCandidate {
		c := process(pid, user, w)
		c.Owner = fabric.Owner{Kind: fabric.OwnerContainer, ID: name}
		return c
	}
	python := fabric.Workload{Scheduler: "none", Job: "python"}
	const a, b = "aaaaaaaaaaaa1111111111111111111111111111111111111111111111111111", "aaaaaaaaaaaa2222222222222222222222222222222222222222222222222222"
	slurm := func(stated bool) fabric.Workload {
		return fabric.Workload{Scheduler: "slurm", Job: "7", Stated: stated}
	}
	in := func(w fabric.Workload, pod, container string) fabric.Workload {
		w.Pod, w.ContainerID = pod, container
		return w
	}
	victim, docker := process(200, 1000, slurm(false)), fabric.Workload{Scheduler: "container", Job: a[:12], ContainerID: a}
	pod := fabric.Workload{Scheduler: "kubernetes", Job: "team/train-0", Pod: "uid-1", ContainerID: a}
	for name, c := range map[string]struct {
		list []fabric.RankCandidate
		want string
	}{
		"stated by its own user":               {[]fabric.RankCandidate{victim, process(201, 1000, slurm(true))}, "slurm/7 2"},
		"stated by its own user alone":         {[]fabric.RankCandidate{process(201, 1000, slurm(true))}, "slurm/7-of-user-1000 1"},
		"stated by another user":               {[]fabric.RankCandidate{victim, process(100, 1001, slurm(true))}, "slurm/7 1, slurm/7-of-user-1001 1"},
		"stated by another user alone":         {[]fabric.RankCandidate{process(100, 1001, slurm(true))}, "slurm/7-of-user-1001 1"},
		"stated by the same number in a":       {[]fabric.RankCandidate{victim, process(100, 1000, in(slurm(true), "", a))}, "slurm/7 1, slurm/7-of-container-" + a[:12] + " 1"},
		"stated by the same number in a pod":   {[]fabric.RankCandidate{victim, process(100, 1000, in(slurm(true), "uid-1", b))}, "slurm/7 1, slurm/7-of-pod-uid-1 1"},
		"stated in two containers":             {[]fabric.RankCandidate{process(100, 1000, in(slurm(true), "", a)), process(101, 1000, in(slurm(true), "", "b"+b[1:]))}, "slurm/7-of-container-" + a[:12] + " 1, slurm/7-of-container-b" + b[1:12] + " 1"},
		"the same job of another slurmd":       {[]fabric.RankCandidate{victim, process(201, 1001, slurm(false))}, "slurm/7 1, slurm/7-of-user-1001 1"},
		"root, older, in the job":              {[]fabric.RankCandidate{victim, process(100, 0, slurm(false))}, "slurm/7 1, slurm/7-of-user-0 1"},
		"a container in the job":               {[]fabric.RankCandidate{victim, process(201, 1000, in(slurm(false), "", b))}, "slurm/7 2"},
		"two users of a container":             {[]fabric.RankCandidate{process(100, 0, docker), process(101, 1000, docker)}, "container/" + a[:12] + " 2"},
		"containers whose IDs begin alike":     {[]fabric.RankCandidate{process(100, 0, docker), process(101, 0, fabric.Workload{Scheduler: "container", Job: b[:12], ContainerID: b})}, "container/" + a[:12] + " 1, container/" + b[:12] + "-of-container-" + b + " 1"},
		"a container that a user claims":       {[]fabric.RankCandidate{process(100, 1001, fabric.Workload{Scheduler: "container", Job: a[:12], ContainerID: a, Stated: true}), process(101, 0, docker)}, "container/" + a[:12] + " 1, container/" + a[:12] + "-of-user-1001 1"},
		"two containers of a pod":              {[]fabric.RankCandidate{process(100, 0, pod), process(101, 5, in(pod, "uid-1", b))}, "kubernetes/team/train-0 2"},
		"a pod that has the name of another":   {[]fabric.RankCandidate{process(100, 0, pod), process(101, 0, in(pod, "uid-2", b))}, "kubernetes/team/train-0 1, kubernetes/team/train-0-of-pod-uid-2 1"},
		"a program called like one of another": {[]fabric.RankCandidate{process(100, 1000, fabric.Workload{Scheduler: "none", Job: "x"}), process(101, 1001, fabric.Workload{Scheduler: "none", Job: "x-of-user-1000"})}, "none/x-of-user-1000 1, none/x-of-user-1000-of-user-1001 1"},
		"a program called like a job of Slurm": {[]fabric.RankCandidate{victim, process(101, 1001, fabric.Workload{Scheduler: "none", Job: "slurm/7"})}, "none/slurm/7-of-user-1001 1, slurm/7 1"},
		"root of two machines and of the node": {
			[]fabric.RankCandidate{machine(100, 0, "lxc.payload.bob", python), machine(101, 5, "lxc.payload.bob", python), machine(102, 0, "lxc.payload.eve", python), process(103, 0, python)},
			"none/python-of-container-lxc.payload.bob 2, none/python-of-container-lxc.payload.eve 1, none/python-of-user-0 1",
		},
		"two programs of a machine":         {[]fabric.RankCandidate{machine(100, 0, "alice", python), machine(101, 0, "alice", fabric.Workload{Scheduler: "none", Job: "x"})}, "none/python-of-container-alice 1, none/x-of-container-alice 1"},
		"stated by root of a machine":       {[]fabric.RankCandidate{process(200, 0, slurm(false)), machine(100, 0, "alice", slurm(true))}, "slurm/7 1, slurm/7-of-container-alice 1"},
		"stated by the user of many":        {[]fabric.RankCandidate{process(200, 65534, slurm(false)), process(100, 65534, slurm(true))}, "slurm/7 1, slurm/7-of-user-65534 1"},
		"a scheduler that a reader made up": {[]fabric.RankCandidate{victim, process(101, 1001, fabric.Workload{Scheduler: "slurm/7", Job: "7"})}, "none/7-of-user-1001 1, slurm/7 1"},
		"of a job, and not known whose it is": {[]fabric.RankCandidate{victim, func() fabric.RankCandidate {
			c := process(100, 0, slurm(false))
			c.Limits = fabric.Fact[fabric.ProcessLimits]{}
			return c
		}()}, "slurm/7 1, slurm/7-of-user-unknown 1"},
	} {
		var names []string
		for _, j := range new(Tracker).Update(nodeOf(epoch, c.list...)).List {
			names = append(names, fmt.Sprint(j.Name, " ", len(j.Ranks)))
		}
		if got := strings.Join(names, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	many := []fabric.RankCandidate{victim}
	for i := range 2 * maxJobs {
		many = append(many, process(300+i, 1001, fabric.Workload{Scheduler: "slurm", Job: strconv.Itoa(10 + i), Stated: true}))
		many = append(many, process(900+i, 1001, fabric.Workload{Scheduler: "none", Job: strconv.Itoa(i)}))
	}
	many = append(many, process(9000, 1002, fabric.Workload{Scheduler: "none", Job: "late"}))
	jobs := new(Tracker).Update(nodeOf(epoch, many...))
	for _, name := range []string{"slurm/7", "none/late-of-user-1002"} {
		if len(jobs.List) != maxJobs || jobs.Dropped == 0 || !slices.ContainsFunc(jobs.List, func(j Job) bool { return j.Name == name }) {
			t.Errorf("%d jobs, %d dropped, expected %s among them", len(jobs.List), jobs.Dropped, name)
		}
	}
}

// What a log says counts only where the kernel cannot show how the data travels, and never makes a verdict certain.
func TestLog(t *testing.T) {
	says := func(said fabric.NCCLLog, more edit) []edit {
		one := func(n *fabric.Node, c *fabric.RankCandidate) {
			c.Log = fabric.Known(said, "log", epoch)
			if more != nil {
				more(n, c)
			}
		}
		return []edit{one, one, one}
	}
	hidden := func(_ *fabric.Node, c *fabric.RankCandidate) {
		c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonPrivilege, "setns", epoch)
	}
	moved := func(n *fabric.Node, c *fabric.RankCandidate) {
		hidden(n, c)
		c.Files.Value.Uverbs = []string{"uverbs0"}
	}
	quiet := func(_ *fabric.Node, c *fabric.RankCandidate) {
		c.Sockets.Value[1].Sent, c.Sockets.Value[1].Received = 0, 0
	}
	idle := func(n *fabric.Node, c *fabric.RankCandidate) {
		moved(n, c)
		n.GPUDriver.GPUs[0].Utilization.Value = 0
	}
	for name, c := range map[string]struct {
		said fabric.NCCLLog
		more edit
		want string
	}{
		"sockets seen, log agrees":         {fabric.NCCLLog{Sockets: true}, nil, "tcp!"},
		"sockets seen, log lies":           {fabric.NCCLLog{Verbs: true}, nil, "tcp!"},
		"hidden, log says sockets":         {fabric.NCCLLog{Sockets: true}, hidden, "tcp"},
		"hidden, log says nothing":         {fabric.NCCLLog{}, hidden, "unknown:privilege"},
		"moved, log says verbs":            {fabric.NCCLLog{Verbs: true}, moved, "rdma"},
		"moved, log says both":             {fabric.NCCLLog{Verbs: true, Sockets: true}, moved, "mixed"},
		"moved, log says what may be both": {fabric.NCCLLog{Verbs: true, Other: true}, moved, "unknown:moved"},
		"moved and idle":                   {fabric.NCCLLog{Verbs: true}, idle, "unknown:idle"},
		"all read, nothing moves":          {fabric.NCCLLog{Verbs: true}, quiet, "unknown:no_traffic"},
	} {
		if got := run(t, says(c.said, c.more)...); got[2] != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

// Sockets of a control group stand in for those of a rank whose descriptors cannot be read: what they carry
// is suspected, and what they do not carry says nothing.
func TestSocketsByCgroup(t *testing.T) {
	hidden := func(_ *fabric.Node, c *fabric.RankCandidate) {
		const why = fabric.ReasonPrivilege
		c.Files = fabric.UnknownFact[fabric.OpenFiles](why, "fd", epoch)
		c.Maps = fabric.UnknownFact[fabric.MappedFiles](why, "maps", epoch)
		c.Settings = fabric.UnknownFact[[]fabric.NCCLVariable](why, "environ", epoch)
		c.Verbs = fabric.UnknownFact[fabric.VerbsUse](why, "netlink", epoch)
		c.SocketsByCgroup = true
	}
	quiet := func(n *fabric.Node, c *fabric.RankCandidate) {
		hidden(n, c)
		c.Sockets.Value[1].Sent, c.Sockets.Value[1].Received = 0, 0
	}
	alone := func(n *fabric.Node, c *fabric.RankCandidate) {
		hidden(n, c)
		c.Workload.Value.Ranks, c.Sockets.Value = 1, []fabric.Socket{{Inode: 5, Listening: true, Local: netip.MustParseAddrPort("127.0.0.1:28028")}}
	}
	queues := func(n *fabric.Node, c *fabric.RankCandidate) {
		quiet(n, c)
		c.Verbs = fabric.Known(fabric.VerbsUse{Devices: []string{"mlx5_0"}, Contexts: 1, QueuePairs: 2}, "netlink", epoch)
	}
	for name, c := range map[string]struct {
		edit edit
		want string
	}{"busy": {hidden, "tcp"}, "quiet": {quiet, "unknown:privilege"}, "no connections": {alone, "unknown:privilege"}, "queue pairs": {queues, "unknown:moved"}} {
		if got := run(t, c.edit, c.edit, c.edit); got[2] != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

// Sockets of ports below 32768 count where the range of ephemeral ports begins below.
func TestEphemeralPorts(t *testing.T) {
	low := func(first uint16) edit {
		return func(_ *fabric.Node, c *fabric.RankCandidate) {
			c.EphemeralFrom = first
			for i := range c.Sockets.Value {
				s := &c.Sockets.Value[i]
				s.Local = netip.AddrPortFrom(s.Local.Addr(), s.Local.Port()-20000)
			}
		}
	}
	for first, want := range map[uint16]string{0: "unknown:no_traffic", 32768: "unknown:no_traffic", 15000: "tcp!"} {
		if got := run(t, low(first), low(first), low(first)); got[2] != want {
			t.Errorf("from %d: %q, want %s", first, got, want)
		}
	}
}

// Without a scheduler, what two users run under one name is two jobs.
func TestUsersWithoutScheduler(t *testing.T) {
	var list []fabric.RankCandidate
	for pid, user := range []uint32{1000, 1001, 1000} {
		c := rankOf(pid+1, 0, 0)
		c.User, c.Limits = user, fabric.Known(fabric.ProcessLimits{}, "limits", epoch)
		c.Workload.Value = fabric.Workload{Scheduler: "none", Job: "python3", Rank: -1}
		list = append(list, c)
	}
	var names []string
	for _, j := range new(Tracker).Update(nodeOf(epoch, list...)).List {
		names = append(names, fmt.Sprint(j.Name, " ", len(j.Ranks), " ", j.User))
	}
	if want := []string{"none/python3-of-user-1000 2 1000", "none/python3-of-user-1001 1 1001"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// Thousands of connections of a rank, to as many hosts, make neither the verdict wrong nor what is said or kept grow.
func TestThousandsOfSockets(t *testing.T) {
	const sockets = 4000 // the reader takes 4096 descriptors of a process
	many := func(_ *fabric.Node, c *fabric.RankCandidate) {
		for i := range sockets {
			s := c.Sockets.Value[0]
			s.Inode = uint64(1e6 + i)
			s.Remote = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), 45000)
			c.Sockets.Value = append(c.Sockets.Value, s)
		}
	}
	var edits []edit
	for range 20 {
		edits = append(edits, many)
	}
	for i, got := range run(t, edits...) {
		if i > 0 && got != "tcp!" {
			t.Errorf("reading %d: %s", i, got)
		}
	}
	var tr Tracker
	for i := range 20 {
		n := nodeOf(epoch.Add(time.Duration(i)*10*time.Second), rankOf(100, uint64(i)*5e9, uint64(i)*5e9))
		many(n, &n.Ranks.Value[0])
		v := tr.Update(n).List[0].Verdict
		if text := strings.Join(v.Evidence, ""); len(text) > 1<<10 {
			t.Fatalf("%d bytes of evidence: %.200s", len(text), text)
		}
	}
	if len(tr.before) != 1 {
		t.Errorf("%d processes are remembered", len(tr.before))
	}
}
