// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/probes/state"
)

// probeBench is a node with GPUs, a gate that looks at them, and ranks that do what the test sets.
type probeBench struct {
	t    *testing.T
	node *fabric.Node
	// busy is what others do on the GPUs; nil: nothing.
	busy      func(*fabric.GPU)
	noNCCL    bool
	untrusted *probes.Skipped                                               // why no rank may start; nil: it may
	answer    func(rank int, env []string, q *probes.Request) *probes.Reply // nil, or returns nil: as healthy ranks do
	config    string
	mu        sync.Mutex
	started   int // ranks
	running   int
	envs      [][]string
}

func newProbeBench(t *testing.T, gpus int) *probeBench {
	t.Helper()
	n := fabrictest.WithGPUs()
	first := n.GPUDriver.GPUs[0]
	for i := len(n.GPUDriver.GPUs); i < gpus; i++ {
		g := first
		g.Index, g.UUID, g.Address = i, "GPU-"+strings.Repeat(string(rune('a'+i)), 8), fmt.Sprintf("0000:%02x:00.0", 0xa0+i)
		n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, g)
	}
	n.GPUDriver.GPUs = n.GPUDriver.GPUs[:gpus]
	b := &probeBench{t: t, node: n, config: filepath.Join(t.TempDir(), "site.yml")}
	b.configure("")
	return b
}

// configure writes the section probes of the configuration.
func (b *probeBench) configure(more string) {
	text := "probes:\n  lock_file: " + filepath.Join(filepath.Dir(b.config), "lock") + "\n" + more
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// run runs the command. Time is made up: a minute of watching is over at once.
func (b *probeBench) run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs commandtest.Output
	synctest.Test(b.t, func(t *testing.T) {
		platform := &prober.Platform{
			Gate: func(h *prober.Host) (*gate.Gate, func() error, error) {
				return gate.New(gate.Options{
					GPUs: b, Processes: benchHost{}, Cgroups: benchHost{}, Pods: benchPods{}, Maintenance: h.Maintenance, Lock: h.Config.LockFile, IdleMemory: h.Config.IdleMemory,
				}), func() error { return nil }, nil
			},
			Ranks: func(*plan.Plan, *slog.Logger) (probes.StartRank, *probes.Skipped) { return b.Start, b.untrusted },
			FindNCCL: func(given, _ string) (string, error) {
				if b.noNCCL {
					return "", fmt.Errorf("look for libnccl.so.2: %w", os.ErrNotExist)
				}
				return "libnccl.so.2", nil
			},
		}
		s := &site.Site{NewObserver: func(observer.Options) (site.Observer, error) { return fixed{b}, nil }}
		code = runTo(t, &out, &errs, s, platform, append([]string{"--config.file=" + b.config}, args...)...)
	})
	if b.running != 0 {
		b.t.Errorf("%d ranks are left", b.running)
	}
	return code, out.String(), errs.String()
}

// runTo runs the command.
func runTo(t *testing.T, stdout, stderr io.Writer, s *site.Site, platform *prober.Platform, args ...string) int {
	t.Helper()
	return commandtest.RunTo(t, stdout, stderr, s, func(s *site.Site, log *logging.Flags) *command.Command { return New(s, log, platform) }, args...)
}

// fixed is an observer of the node of a bench.
type fixed struct{ bench *probeBench }

func (f fixed) Observe(context.Context, fabric.Want) *fabric.Node { return f.bench.node }
func (f fixed) SetPolicy(*fabric.Policy, observer.NCCLFiles)      {}
func (f fixed) Close()                                            {}

func (b *probeBench) Read(context.Context, bool) (fabric.GPUDriver, error) {
	now := time.Now()
	d := fabric.GPUDriver{Loaded: fabric.Known(true, "", now)}
	for _, g := range b.node.GPUDriver.GPUs {
		idle := fabric.GPU{
			Index: g.Index, UUID: g.UUID, Lost: fabric.Known(false, "", now), Processes: fabric.Known([]fabric.GPUProcess(nil), "", now),
			Utilization: fabric.Known(0.0, "", now), Memory: fabric.Known(fabric.GPUMemory{Total: 80 << 30}, "", now),
			ComputeMode: fabric.Known(fabric.ComputeDefault, "", now), MIG: fabric.Known(false, "", now), Persistence: fabric.Known(true, "", now),
			ClockReasons: fabric.Known(fabric.ClockReasons(1), "", now), PCIeReplays: fabric.Known(uint64(0), "", now),
			NVLinks: fabric.Known([]fabric.NVLink(nil), "", now),
		}
		b.mu.Lock()
		if b.busy != nil {
			b.busy(&idle)
		}
		b.mu.Unlock()
		d.GPUs = append(d.GPUs, idle)
	}
	return d, nil
}

func (b *probeBench) Processes(ctx context.Context) ([]fabric.GPU, error) {
	d, err := b.Read(ctx, false)
	return d.GPUs, err
}

func (b *probeBench) Release() {}

type benchHost struct{}

func (benchHost) Initial() error                                                    { return nil }
func (benchHost) Find(context.Context, func(string) bool) ([]fabric.Process, error) { return nil, nil }

func (benchHost) Process(pid int) (fabric.Process, error) {
	return fabric.Process{PID: pid, Command: "python3"}, nil
}
func (benchHost) Cgroups() (fabric.Cgroups, error) { return fabric.Cgroups{}, nil }

type benchPods struct{}

func (benchPods) GPUs(context.Context) ([]string, bool, error) { return nil, false, nil }

// Start starts a rank that lives in this process.
func (b *probeBench) Start(_ context.Context, rank probes.Rank) (probes.RankProcess, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started++
	b.running++
	b.envs = append(b.envs, rank.Env)
	return &benchRank{bench: b, pid: 1000 + b.started, env: rank.Env, killed: make(chan struct{})}, nil
}

type benchRank struct {
	bench       *probeBench
	pid         int
	env         []string
	rank, ranks int
	once, gone  sync.Once
	killed      chan struct{}
}

func (r *benchRank) PID() int { return r.pid }
func (r *benchRank) Kill()    { r.once.Do(func() { close(r.killed) }) }

func (r *benchRank) Close() error {
	r.Kill()
	r.gone.Do(func() {
		r.bench.mu.Lock()
		defer r.bench.mu.Unlock()
		r.bench.running--
	})
	return nil
}

func (r *benchRank) has(setting string) bool { return slices.Contains(r.env, setting) }

// Log is what NCCL would log over the way that the environment leaves.
func (r *benchRank) Log() (head, tail []byte, dropped int64) {
	way, network := "P2P/CUMEM", "IB"
	switch {
	case r.has("NCCL_NET=Socket"):
		way, network = "NET/Socket/0", "Socket"
	case r.has("NCCL_NET=IB"):
		way = "NET/IB/0/GDRDMA"
	case r.has("NCCL_P2P_DISABLE=1"):
		way = "SHM/direct/direct"
	}
	const prefix = "node17:41:41 [0] NCCL INFO "
	lines := []string{
		"NCCL_DEBUG set by environment to INFO.", "Using network " + network, "4 coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, 4 p2p channels per peer",
		"Channel 00/0 : 0[0] -> 1[1] via " + way, "ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 19000 commId 0x2 - Init COMPLETE",
	}
	return []byte(prefix + strings.Join(lines, "\n"+prefix) + "\n"), nil, 0
}

// Call answers as a rank with 200 GB/s of bus bandwidth between two GPUs, a tenth less for each doubling, 20
// GB/s without direct ways, 40 GB/s over an HCA and 4 GB/s over sockets.
func (r *benchRank) Call(ctx context.Context, request []byte) ([]byte, error) {
	var q probes.Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, err
	}
	if q.Connect != nil {
		r.rank, r.ranks = q.Connect.Rank, q.Connect.Ranks
	}
	var reply *probes.Reply
	if r.bench.answer != nil {
		reply = r.bench.answer(r.rank, r.env, &q)
	}
	if reply == nil {
		reply = r.healthy(&q)
	}
	took := time.Millisecond
	if m := reply.Measure; m != nil {
		took = m.Time
	}
	if c := reply.Connect; c != nil {
		took = c.Took
	}
	select {
	case <-time.After(took):
	case <-r.killed:
		return nil, errors.New("crashed: signal: killed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return json.Marshal(reply)
}

func (r *benchRank) healthy(q *probes.Request) *probes.Reply {
	switch {
	case q.Open != nil:
		i := slices.IndexFunc(r.bench.node.GPUDriver.GPUs, func(g fabric.GPU) bool { return g.Address == q.Open.GPU })
		return &probes.Reply{Open: &probes.OpenReply{NCCLPath: "/usr/lib/libnccl.so.2", NCCL: 22703, CUDA: 13000, GPU: r.bench.node.GPUDriver.GPUs[i].UUID, Memory: 80 << 30}}
	case q.NewID != nil:
		return &probes.Reply{ID: make([]byte, probes.IDSize)}
	case q.Connect != nil:
		return &probes.Reply{Connect: &probes.ConnectReply{Took: time.Second}}
	case q.Measure != nil:
		m := q.Measure
		one := 10*time.Microsecond + time.Duration(float64(m.Bytes)*m.Op.BusFactor(r.ranks)/r.speed()*1e9)
		return &probes.Reply{Measure: &probes.MeasureReply{Bytes: m.Bytes, Time: one * time.Duration(m.Iterations), DeviceTime: one}}
	}
	return &probes.Reply{}
}

func (r *benchRank) speed() float64 {
	switch {
	case r.has("NCCL_NET=Socket"):
		return 4e9
	case r.has("NCCL_NET=IB"):
		return 40e9
	case r.has("NCCL_P2P_DISABLE=1"):
		return 20e9
	}
	speed := 200e9
	for n := 2; n < r.ranks; n *= 2 {
		speed *= 0.9
	}
	return speed
}

// The tables and the JSON of runs, to the letter.
func TestProbeOutput(t *testing.T) {
	wrong := func(rank int, _ []string, q *probes.Request) *probes.Reply {
		if m := q.Measure; m != nil && rank == 1 && m.Bytes > 1<<20 {
			return &probes.Reply{Measure: &probes.MeasureReply{Bytes: m.Bytes, Time: time.Millisecond * time.Duration(m.Iterations), Wrong: 7}}
		}
		return nil
	}
	for _, c := range []struct {
		file  string
		gpus  int
		args  []string
		code  int
		bench func(*probeBench)
	}{
		{"node", 2, nil, exitProbed, nil},
		{"sweep", 4, []string{"--bytes=8:64M:8", "--op=all_gather", "--dtype=bfloat16"}, exitProbed, nil},
		{"transport", 1, []string{"transport"}, exitProbed, nil},
		{"rails", 2, []string{"rail"}, exitProbed, nil},
		{"rail-json", 2, []string{"--device=mlx5_1", "--output=json", "--bytes=64M"}, exitProbed, nil},
		{"scaling", 8, []string{"scaling", "--bytes=1M:64M:8"}, exitProbed, nil},
		{"nvlink", 2, []string{"nvlink", "--kind=node", "--iterations=5"}, exitProbed, nil},
		{"tcp", 2, []string{"tcp"}, exitProbed, nil},
		{"tcp-node-json", 2, []string{"tcp", "--kind=node", "--bytes=64M", "--output=json"}, exitProbed, nil},
		{"wrong", 2, []string{"--kind=node"}, exitUnsound, func(b *probeBench) { b.answer = wrong }},
		{"wrong-json", 4, []string{"scaling", "--output=json"}, exitUnsound, func(b *probeBench) { b.answer = wrong }},
	} {
		t.Run(c.file, func(t *testing.T) {
			b := newProbeBench(t, c.gpus)
			if c.bench != nil {
				c.bench(b)
			}
			code, out, errs := b.run(c.args...)
			if code != c.code || errs != "" {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs)
			}
			golden(t, filepath.Join("testdata", c.file+".txt"), out)
		})
	}
}

var update = flag.Bool("update", false, "write what is seen to testdata instead of comparing it")

// golden compares a text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (refresh with -update)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// What keeps a probe from running is said with what to do about it, and nothing is started.
func TestProbeRefuses(t *testing.T) {
	process := func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 4711, Kind: fabric.GPUCompute}} }
	for name, c := range map[string]struct {
		gpus  int
		args  []string
		bench func(*probeBench)
		want  []string
	}{
		"busy":     {2, nil, func(b *probeBench) { b.busy = process }, []string{"not probed (process): compute process 4711 on GPU-aaaaaaaa", "ps shows the process", "--even-if-busy"}},
		"memory":   {2, nil, func(b *probeBench) { b.busy = func(g *fabric.GPU) { g.Memory.Value.Used = 1 << 30 } }, []string{"not probed (memory): 1024 MiB"}},
		"unread":   {2, nil, func(b *probeBench) { b.busy = func(g *fabric.GPU) { g.MIG = fabric.Fact[bool]{} } }, []string{"not probed (cannot_prove_idle): MIG of GPU", "root"}},
		"no NCCL":  {2, nil, func(b *probeBench) { b.noNCCL = true }, []string{"error: NCCL not found: look for libnccl.so.2", "LD_LIBRARY_PATH", "--library"}},
		"one GPU":  {1, nil, nil, []string{"not probed (no_gpu): 1 GPU, expected at least 2"}},
		"no GPU":   {0, nil, func(b *probeBench) { b.noNCCL = true }, []string{"not probed (no_gpu)"}},
		"too many": {2, []string{"--ranks=4"}, nil, []string{"not probed (no_gpu): 2 GPUs, expected at least 4"}},
		"no driver": {2, nil, func(b *probeBench) { b.node.GPUDriver = fabric.GPUDriver{Loaded: fabric.Known(false, "", b.node.At)} }, []string{
			"not probed (no_gpu): no GPU driver is loaded", "nvidia-smi -L",
		}},
		"scaling of two": {2, []string{"scaling"}, nil, []string{"not probed (no_gpu): scaling over 2 GPUs: expected 3 or more"}},
		"no such rail":   {2, []string{"rail", "--device=mlx5_7"}, nil, []string{"not probed (no_device): mlx5_7 is none of mlx5_0:1, mlx5_1:1"}},
		"no such port":   {2, []string{"--device=mlx5_0:2"}, nil, []string{"not probed (no_device): mlx5_0 is none of"}},
		"no rails":       {2, []string{"rail"}, func(b *probeBench) { b.node.HCAs = nil }, []string{"not probed (no_device): no port is active and for training"}},
		"too small":      {4, []string{"--op=all_gather", "--bytes=8"}, nil, []string{"error: --bytes: 8 bytes are too few: all_gather of float32 over 4 ranks moves at least 16"}},
		"untrusted": {2, nil, func(b *probeBench) {
			b.untrusted = &probes.Skipped{Why: probes.SkipUntrusted, Detail: "/home/u/x.so: owner 1000:1000"}
		}, []string{
			"not probed (untrusted): /home/u/x.so: owner 1000:1000", "chown root",
		}},
		"untrusted variables": {2, nil, func(b *probeBench) {
			env := filepath.Join(filepath.Dir(b.config), "env")
			b.configure("  env_file: " + env + "\n")
			if err := errors.Join(os.WriteFile(env, []byte("NCCL_NET_PLUGIN=/tmp/x.so\n"), 0o600), os.Chmod(env, 0o666)); err != nil {
				b.t.Fatal(err)
			}
		}, []string{"settings of probes: ", "env: owner ", "mode 0666", "chmod go-w"}},
		"no variables":              {2, nil, func(b *probeBench) { b.configure("  env_file: /nosuch/probes.env\n") }, []string{"settings of probes: /nosuch/probes.env"}},
		"bad configuration":         {2, nil, func(b *probeBench) { b.configure("  bytes: much\n") }, []string{`site.yml:3: bytes: "much"`}},
		"maintenance":               {2, []string{"--gpu.maintenance-file=/"}, nil, []string{"not probed (maintenance): maintenance file /"}},
		"maintenance, even if busy": {2, []string{"--even-if-busy", "--gpu.maintenance-file=/"}, nil, []string{"not probed (maintenance)"}},
		"no GPU, even if busy":      {0, []string{"--even-if-busy"}, nil, []string{"not probed (no_gpu)"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newProbeBench(t, c.gpus)
			if c.bench != nil {
				c.bench(b)
			}
			code, out, errs := b.run(c.args...)
			want := exitUnprobed
			if name == "bad configuration" {
				want = command.Usage
			}
			if code != want || out != "" || b.started > 0 {
				t.Errorf("exit code %d, %d ranks started, %q", code, b.started, out)
			}
			commandtest.Contains(t, errs, c.want...)
		})
	}
}

// Two probers of a node do not run at the same time, even if both ignore busy GPUs.
func TestProbeIsAlone(t *testing.T) {
	for _, args := range [][]string{nil, {"--even-if-busy"}} {
		b := newProbeBench(t, 2)
		lock, err := state.TakeLock(filepath.Join(filepath.Dir(b.config), "lock"))
		if err != nil {
			t.Fatal(err)
		}
		code, _, errs := b.run(args...)
		if code != exitUnprobed || b.started > 0 {
			t.Errorf("%v: exit code %d, %d ranks started", args, code, b.started)
		}
		commandtest.Contains(t, errs, "not probed (locked)", "another probe of this node")
		lock.Release()
	}
}

// What the driver uses of an idle GPU by itself, the configuration says.
func TestProbeKnowsIdleMemory(t *testing.T) {
	b := newProbeBench(t, 2)
	b.busy = func(g *fabric.GPU) { g.Memory.Value.Used = 600 << 20 }
	b.configure("  idle_memory: 600MiB\n")
	if code, _, errs := b.run(); code != exitProbed {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestProbeEvenIfBusy(t *testing.T) {
	b := newProbeBench(t, 2)
	b.busy = func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 4711, Kind: fabric.GPUCompute}} }
	code, out, errs := b.run("--even-if-busy")
	if code != exitProbed || b.started != 2 {
		t.Errorf("exit code %d, %d ranks started", code, b.started)
	}
	commandtest.Contains(t, out, "# ok: average bus bandwidth")
	commandtest.Contains(t, errs, "continues because of --even-if-busy, although (process): compute process 4711")
}

// Another process on a GPU ends the probe, without a statement about the fabric.
func TestProbeMakesWay(t *testing.T) {
	b := newProbeBench(t, 2)
	b.answer = func(_ int, _ []string, q *probes.Request) *probes.Reply {
		if q.Connect != nil {
			b.mu.Lock()
			b.busy = func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 4711, Kind: fabric.GPUCompute}} }
			b.mu.Unlock()
		}
		return nil
	}
	code, out, _ := b.run("rail")
	if code != exitUnprobed || b.started != 2 {
		t.Errorf("exit code %d, %d ranks started: the second rail was not to be tried", code, b.started)
	}
	commandtest.Contains(t, out, "# ABORTED (intruder)", "compute process 4711 (python3) on GPU-", "came to the GPUs", "try again when the GPUs are idle", "GPUs afterwards: idle ")
}

// What ranks and libraries say cannot reach the terminal as it is.
func TestProbeTextEscapes(t *testing.T) {
	const evil = "\x1b[2J"
	r := probes.Result{Outcome: probes.Failed, Failure: probes.Failure(evil), Error: evil, NCCL: evil, Driver: evil, CUDA: evil, Network: evil, Log: evil + "\n"}
	r.Device = evil
	var b commandtest.Output
	plan := &plan.Plan{Ranks: []probes.Rank{{UUID: "GPU-a"}}}
	if err := writeRun(command.Legible(&b), oneRun{plan: plan, result: &r}); err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, b.String(), `\u001b[2J`)
	commandtest.Lacks(t, b.String(), "\x1b")
}
