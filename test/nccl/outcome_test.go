// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/nccl/settings"
)

// Fates of a job.
const (
	works   = "works"
	refused = "refused" // an error before it runs
	fails   = "fails"   // an error when it runs
	fpe     = "SIGFPE"
	segv    = "SIGSEGV"
)

// outcomes are settings and what becomes of a job of two hosts over TCP, in the first release of suites and
// in later ones. What only the kernels of a GPU would break is not to be seen here.
var outcomes = []struct {
	settings string // between "; "
	old, now string
	unsaid   string // why lint does not call refused what does not work, or the other way round
}{
	{settings: "NCCL_BUFFSIZE=4M", old: fpe, now: fpe},
	{settings: "NCCL_BUFFSIZE=true", old: fpe, now: fpe},
	{settings: "NCCL_BUFFSIZE=-1", old: fpe, now: fpe},
	{settings: "NCCL_BUFFSIZE=0x400000", old: works, now: works},
	{settings: "NCCL_BUFFSIZE=", old: works, now: works},
	{settings: "NCCL_BUFFSIZE=4000000000", old: refused, now: refused},
	{settings: "NCCL_MAX_CTAS=0", old: fpe, now: works},
	{settings: "NCCL_MIN_CTAS=8; NCCL_MAX_CTAS=4", old: works, now: works},
	{settings: "NCCL_MIN_CTAS=0", old: works, now: works},
	{settings: "NCCL_MAX_NCHANNELS=0", old: works, now: works},
	{settings: "NCCL_WORK_ARGS_BYTES=48", old: works, now: works},
	{settings: "NCCL_WORK_ARGS_BYTES=-1", old: works, now: works},
	{settings: "NCCL_WORK_FIFO_BYTES=1M", old: works, now: works},
	{settings: "NCCL_CONNECT_ROUND_MAX_PEERS=0", old: segv, now: segv},
	{settings: "NCCL_P2P_PER_CHANNEL_NET_BW=0", old: works, now: fpe},
	{settings: "NCCL_P2P_SCHEDULE_GROUP_SIZE=0", old: works, now: fpe},
	{settings: "NCCL_SOCKET_NTHREADS=-1", old: fails, now: fails},
	{settings: "NCCL_SOCKET_NTHREADS=17", old: works, now: works},
	{settings: "NCCL_SOCKET_NTHREADS=16; NCCL_NSOCKS_PERTHREAD=64", old: works, now: works},
	{settings: "NCCL_NTHREADS=100000", old: works, now: works},
	{settings: "NCCL_ALGO=Rong", old: works, now: refused},
	{settings: "NCCL_ALGO=Ring,Rong", old: works, now: refused},
	{settings: "NCCL_ALGO=ring", old: works, now: works},
	{settings: "NCCL_ALGO=CollNet", old: works, now: refused},
	{settings: "NCCL_ALGO=Ring;Tree", old: works, now: refused},
	{settings: "NCCL_ALGO=Ring;allreduce:ring", old: works, now: works},
	{settings: `NCCL_ALGO="Ring"`, old: works, now: refused},
	{settings: "NCCL_ALGO=Ring, Tree", old: works, now: refused},
	{settings: "NCCL_ALGO=", old: works, now: works},
	{settings: "NCCL_ALGO=CollNetChain", old: works, now: fails, unsaid: "hardware decides"},
	{settings: "NCCL_PROTO=Simpel", old: fails, now: refused},
	{settings: "NCCL_PROTO=Simpel,Simple", old: works, now: refused},
	{settings: "NCCL_PROTO=^Simpel", old: works, now: refused},
	{settings: `NCCL_PROTO="Simple"`, old: fails, now: refused},
	{settings: "NCCL_PROTO=", old: fails, now: works},
	{settings: "NCCL_NET=", old: refused, now: refused},
	{settings: "NCCL_NET=socket", old: works, now: works},
	{settings: "NCCL_NET=IB", old: refused, now: refused, unsaid: "a node without RDMA"},
	{settings: "NCCL_NET=eth0", old: refused, now: refused, unsaid: "a plugin may have the name"},
	{settings: "NCCL_COMM_ID=", old: refused, now: refused},
	{settings: "NCCL_GRAPH_FILE=", old: refused, now: refused},
	{settings: "NCCL_GRAPH_FILE=/absent", old: refused, now: refused, unsaid: "the node has the file or not"},
	{settings: "NCCL_TOPO_FILE=", old: works, now: works},
	{settings: "NCCL_TOPO_FILE=/absent", old: works, now: works},
	{settings: "NCCL_TOPO_FILE=/etc/passwd", old: refused, now: refused, unsaid: "the file is not read"},
	{settings: "NCCL_SOCKET_FAMILY=ipv4", old: works, now: works},
	{settings: "NCCL_SOCKET_FAMILY=AF_INET6", old: refused, now: refused, unsaid: "a node without IPv6"},
	{settings: "NCCL_LAUNCH_MODE=x", old: works, now: works},
	{settings: "NCCL_CTA_POLICY=FAST", old: works, now: works},
	{settings: "NCCL_NETDEVS_POLICY=MAX:0", old: works, now: works},
	{settings: "NCCL_PROXY_CPUSET=x", old: works, now: works},
	{settings: "NCCL_DEBUG_FILE=~/x", old: works, now: works},
}

// TestOutcomes runs jobs, and holds against their fate what lint says of the settings for that release.
func TestOutcomes(t *testing.T) {
	whole(t)
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, "")
		release, err := fabric.ParseNCCLVersion(r.release)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outcomes {
			settings := strings.Split(o.settings, "; ")
			want := o.old
			if r.suite != suites[0] {
				want = o.now
			}
			got, said := fate(t, n, r, settings)
			if got != want {
				t.Errorf("%s: a job with NCCL %s: %s, expected %s:\n%s", o.settings, r.release, got, want, tail(said))
			}
			agrees(t, settings, release, got, o.unsaid)
			if fatal(settings) && got == works && r.suite != suites[0] { // check means the releases of now
				t.Errorf("%s: a job with NCCL %s works, check says that NCCL refuses it", o.settings, r.release)
			}
		}
	})
}

// fatal reports whether check would say of one of these lines of a host that jobs end by it.
func fatal(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		name, value, _ := strings.Cut(line, "=")
		return slices.ContainsFunc(settings.CheckValue(settings.Setting{Name: name, Value: value}), func(f fabric.NCCLFinding) bool {
			return f.Harm == fabric.NCCLFatal
		})
	})
}

// agrees holds what lint says of settings against the fate of a job.
func agrees(t *testing.T, settings []string, release fabric.NCCLVersion, got, unsaid string) {
	t.Helper()
	in, err := lint.Parse("nccl.conf", []byte(strings.Join(settings, "\n")+"\n"), lint.FormatConf)
	if err != nil {
		t.Fatal(err)
	}
	result, deadly := lint.Judge([]lint.Input{in}, release, nil), false
	for i := range result.Lines {
		deadly = deadly || result.Lines[i].Worst().Verdict == lint.Refused
	}
	if deadly != (got != works) != (unsaid != "" && got != works) {
		t.Errorf("%s: a job with NCCL %v: %s, lint says refused: %t: %+v", settings, release, got, deadly, result.Lines[0].Findings)
	}
}

// fate runs a job and says what becomes of it, with the output of rank 0.
func fate(t *testing.T, n *node, r rig, settings []string) (fate, output string) {
	t.Helper()
	return fateOf(t, n.job(t, r, 100, append([]string{"RIG_COUNT=5", "NCCL_NET=Socket", "NCCL_RAS_ENABLE=0"}, settings...), hosts...))
}

// fateOf waits until a job ends and says what became of it, with the output of rank 0.
func fateOf(t *testing.T, started []*process) (fate, output string) {
	t.Helper()
	fate = works
	select { // a rank that lost the other may wait for it forever
	case <-started[0].done:
	case <-started[1].done:
	case <-time.After(patient(30 * time.Second)):
		t.Errorf("no rank ends in time:\n%s", tail(started[0].output()))
	}
	for _, p := range started {
		select {
		case <-p.done:
		case <-time.After(6 * time.Second):
			p.Kill()
			<-p.done
			continue
		}
		end := p.end
		status := end.Sys().(syscall.WaitStatus)
		switch {
		case status.Signaled() && status.Signal() == syscall.SIGFPE:
			fate = fpe
		case status.Signaled() && status.Signal() == syscall.SIGSEGV:
			fate = segv
		case end.Success() || fate != works:
		case strings.Contains(p.output(), ": initialised"):
			fate = fails
		default:
			fate = refused
		}
	}
	return fate, started[0].output()
}
