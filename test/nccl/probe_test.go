// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/worker"
	"gpufabric_exporter/ncclprobe"
	"gpufabric_exporter/ncclprobe/ncclprobetest"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// asProber is the variable that makes this program one that runs the probe in it, with asRank as the process of a rank.
const (
	asProber = "RIG_PROBER"
	asRank   = "RIG_PROBE_RANK"
)

// An errand is what a prober is asked for.
type errand struct {
	Name string // of the processes of ranks
	Plan plan.Plan
	Step string // with which rank 1 gets a signal: "connect"; empty: none
	By   syscall.Signal
}

// probe runs an errand as the exporter does, each rank in a process of its own, and prints the result.
func probe(text string) error {
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return err
	}
	start := func(ctx context.Context, rank probes.Rank) (probes.RankProcess, error) {
		t, err := worker.Start(ctx, worker.Options{
			Name: "rank", Path: "/proc/self/exe", Args: []string{"rank"}, Env: append([]string{"GOMAXPROCS=2", asRank + "=" + e.Name}, rank.Env...),
			Timeout: 5 * time.Minute, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		r := rankProcess{Task: t}
		if slices.Contains(rank.Env, hosts[1][1]) {
			r.step, r.by = e.Step, e.By
		}
		return r, nil
	}
	return json.NewEncoder(os.Stdout).Encode(run.Run(context.Background(), &e.Plan, start, nil))
}

type rankProcess struct {
	*worker.Task
	step string
	by   syscall.Signal
}

func (r rankProcess) Call(ctx context.Context, request []byte) ([]byte, error) {
	if r.step != "" && bytes.HasPrefix(request, []byte(`{"`+r.step+`"`)) {
		syscall.Kill(r.PID(), r.by)
	}
	return r.Task.Call(ctx, request)
}

func (r rankProcess) Kill() { r.Task.Kill("the probe stops") }

func (r rankProcess) Log() (head, tail []byte, dropped int64) {
	e := r.Task.Log()
	return e.Head, e.Tail, int64(e.Bytes) - int64(len(e.Head)) - int64(len(e.Tail))
}

// serveRank is the process of a rank.
func serveRank(name string) error {
	return worker.TaskChild(context.Background(), name, worker.Limits{}, ncclprobe.NewServer().Handle)
}

// standIn returns the path of the stand-in for libcuda. Streams of NCCL do not wait for it.
func standIn(t *testing.T) string {
	t.Helper()
	if *guest { // lab.sh has built it
		file, err := filepath.Abs(filepath.Join("rigs", ncclprobetest.CUDA))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	dir := t.TempDir()
	ncclprobetest.Build(t, dir, "2.29.7")
	return filepath.Join(dir, ncclprobetest.CUDA)
}

// rankName is the name of the processes of ranks of a suite, which no other test has.
func rankName(suite string) string { return "rig-" + suite }

// transport is a plan with two ranks that take themselves for two hosts.
func transport(r rig, cuda string, env ...string) plan.Plan {
	return transportOf(r, cuda, hosts, env...)
}

// transportOf is a plan with two ranks of these hosts.
func transportOf(r rig, cuda string, hosts [][]string, env ...string) plan.Plan {
	p := plan.Plan{
		Key: probes.Key{Kind: probes.Socket},
		Settings: plan.Settings{
			NCCL: filepath.Join(r.folder, "lib/libnccl.so.2"), CUDA: cuda, Deadline: time.Minute, Budget: 10 * time.Second, Collective: 100 * time.Millisecond,
			Wants: []plan.Want{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 20, Iterations: 5}},
		},
	}
	for i, own := range hosts {
		p.Ranks = append(p.Ranks, probes.Rank{
			UUID: fmt.Sprintf("GPU-%08d-1111-2222-3333-444444444444", i), Address: fmt.Sprintf("0000:%02x:00.0", 0x1b+i),
			Env: slices.Concat(r.basic(), []string{"NCCL_DEBUG_FILE=" + worker.LogFile}, own, env),
		})
	}
	return p
}

// probeOf runs a probe on a node.
func probeOf(t *testing.T, n *node, e errand) probes.Result {
	t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := n.inside(exe)
	cmd.Env = append(os.Environ(), asProber+"="+string(text))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var r probes.Result
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, said.String())
	}
	return r
}

// TestProbe runs the exporter's probe over the real library: set-up, the network that NCCL took, failures with the rank
// that has them, and time-outs. The stand-in moves data and reduces none, so every sum is wrong: that one is not asserted.
func TestProbe(t *testing.T) {
	cuda := standIn(t)
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, "")
		for _, c := range []struct {
			name    string
			e       errand
			failure probes.Failure
			says    string
			most    time.Duration
		}{
			{"two hosts over TCP", errand{Name: rankName(r.suite), Plan: transport(r, cuda, "NCCL_NET=Socket")}, probes.FailureWrong, "all_reduce of 1048576 bytes: ", 15 * time.Second},
			{"no interface", errand{Name: rankName(r.suite), Plan: transport(r, cuda, "NCCL_SOCKET_IFNAME==nosuch")}, probes.FailureInit, "no socket interface found", 5 * time.Second},
			{"no GPU for the runtime", errand{Name: rankName(r.suite), Plan: transport(r, cuda, "RIG_GPUS=0")}, probes.FailureInit, "unhandled cuda error", 5 * time.Second},
			{"a network that is not there", errand{Name: rankName(r.suite), Plan: transport(r, cuda, "NCCL_NET=nosuch")}, probes.FailureInit, "ncclCommInitRankConfig", 15 * time.Second},
			{"killed in set-up", errand{rankName(r.suite), transport(r, cuda, "NCCL_NET=Socket"), "connect", syscall.SIGKILL}, probes.FailureCrash, "rank 1: connect: rank worker: crashed: signal: killed", 15 * time.Second},
			{"killed in a collective", errand{rankName(r.suite), transport(r, cuda, "NCCL_NET=Socket"), "measure", syscall.SIGKILL}, probes.FailureCrash, "rank 1: measure all_reduce: rank worker: crashed: signal: killed", 15 * time.Second},
			{"stopped in set-up", errand{rankName(r.suite), transport(r, cuda, "NCCL_NET=Socket"), "connect", syscall.SIGSTOP}, probes.FailureHang, "rank 1: connect: no answer within 21s", 40 * time.Second},
		} {
			if testing.Short() && c.failure == probes.FailureHang {
				t.Logf("%s: not tried with -short: 20 s", c.name)
				continue
			}
			got := probeOf(t, n, c.e)
			if got.Failure != c.failure || !strings.Contains(got.Error, c.says) || got.Wall.Duration() > c.most {
				t.Errorf("%s: %s %q in %s, expected %s %q in %s at most", c.name, got.Failure, got.Error, got.Wall, c.failure, c.says, c.most)
			}
			if got.NCCL != r.release {
				t.Errorf("%s: NCCL %s, expected %s", c.name, got.NCCL, r.release)
			}
			if path, known := got.Path.Get(); c.failure == probes.FailureWrong && (!known || path != probes.PathSocket || got.Network != "Socket" || len(got.Measurements) == 0) {
				t.Errorf("%s: path %q (known: %v), network %q, %d measurements", c.name, path, known, got.Network, len(got.Measurements))
			}
			t.Logf("%s: %s after %.1f s", c.name, got.Error, got.Wall.Duration().Seconds())
		}
		if left := n.sh(t, "grep -lx "+rankName(r.suite)+" /proc/[0-9]*/comm || true"); left != "" {
			t.Errorf("ranks are left: %s", left)
		}
	})
}
