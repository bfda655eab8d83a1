// SPDX-License-Identifier: Apache-2.0

// Command gpufabric_exporter exposes the training fabric of a GPU node to Prometheus, and whether it is
// healthy and correctly configured.
//
// It is also the program of its own worker processes. They are wired here: no other package knows both what a
// worker does and how it is run.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/cgroup"
	"gpufabric_exporter/internal/host/nvml"
	"gpufabric_exporter/internal/host/podresources"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/jobs/ras"
	"gpufabric_exporter/internal/ownership"
	"gpufabric_exporter/internal/program"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/worker"
	"gpufabric_exporter/ncclprobe"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/rdmaping/pinger"
	"gpufabric_exporter/rdmaping/verbs"
)

func main() {
	worker.Undumpable() // /proc/self belongs to root from here on, and stays readable
	if !slices.Contains(os.Args, "--web.enable-pprof") {
		// what the runtime keeps for heap profiles is a twentieth of the memory, and cannot be requested
		runtime.MemProfileRate = 0
	}
	if os.Getenv("GOMAXPROCS") == "" {
		// A scrape is a few milliseconds of work, of which most is system calls; these do not occupy Go's processors while
		// they block. With one for each of the machine's processors the runtime wakes threads that find nothing to do, which
		// costs a fifth of the CPU time.
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		collectByNeed()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	line := program.New(&program.Options{
		Site: site.Site{Worker: askGPUs, RAS: ras.Ask}, ServeGPUs: serveGPUs,
		Exporter: exporter.Exporter{
			Excess: capabilitiesKept, Probing: probing(), Pinging: startPinger,
			OnListen: func([]net.Addr) { dropLoaded() },
		}, ServeRank: serveRank,
		Pinger: startPinger, ServePinger: servePinger,
	})
	context.AfterFunc(ctx, func() {
		time.Sleep(lastResort)
		os.Exit(128 + int(syscall.SIGTERM))
	})
	code := line.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// lastResort is how long after a signal the process ends, whatever it hangs in: a standard stream that nobody
// reads, for one. Serving ends sooner by itself.
const lastResort = 5 * time.Second

// gpus is NVML in a process of its own.
type gpus struct {
	*worker.Process
	client *nvml.Client
}

func (g gpus) Read(last fabric.GPUDriver, slow bool, now time.Time) (fabric.GPUDriver, error) {
	return g.client.Read(last, slow, now)
}

func (g gpus) Close() error { return g.client.Close() }

// nobody is the user that the worker for NVML runs as where that is possible.
const nobody = 65534

// askGPUs is the exporter's side of the process that loads NVML.
func askGPUs(o site.GPUOptions) site.GPUWorker {
	p := worker.New(worker.Options{
		User: func() *worker.User {
			user, err := worker.InPlaceOfRoot("/", nobody, ownership.Readable(o.Library, os.Getenv("LD_LIBRARY_PATH")))
			if err != nil && o.Log != nil {
				o.Log.Debug("the worker for NVML runs as root", "reason", err)
			}
			return user
		},
		Guarded: true, // guard.go
		Name:    "gpu", Path: "/proc/self/exe", Args: []string{os.Args[0], "gpu-worker", "--library=" + o.Library},
		// It asks one thing at a time; with a processor for each of hundreds, Go's runtime would only cost memory.
		Env: append(worker.Environment(os.Environ(), "LD_LIBRARY_PATH"), "GOMAXPROCS=2"),
		// A little less than the client's patience, so that its errors report the hang. The first request comes with
		// the initialisation of all GPUs.
		Timeout: 9 * time.Second, FirstTimeout: 55 * time.Second, Log: o.Log,
	})
	return gpus{p, nvml.NewClient(p)}
}

// serveGPUs is the other side. It retires when its library is no longer that of the driver.
func serveGPUs(ctx context.Context, library string) error {
	ctx, retire := context.WithCancel(ctx)
	defer retire()
	dropLoaded()
	s := nvml.NewServer(library)
	defer func() { _ = s.Close() }() // the end of the process releases all GPUs anyway
	return worker.Child(ctx, "gpufabric_gpu", func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := s.Handle(ctx, request)
		if s.Stale() {
			retire()
		}
		return answer, err
	})
}

// What binds the process of a rank. NCCL's threads poll: what they may burn is a last bound, far above what a
// probe needs.
var rankLimits = worker.Limits{Niceness: 10, OpenFiles: 4096, CPU: 10 * time.Minute}

// probing is how this program probes.
func probing() *prober.Platform {
	return &prober.Platform{
		Gate: openGate, Ranks: vetRanks,
		FindNCCL: func(given, libraryPath string) (string, error) { return ncclprobe.Find("/", given, libraryPath) },
	}
}

// openGate has everything read of this host that says whether its GPUs are idle.
func openGate(h *prober.Host) (*gate.Gate, func() error, error) {
	procfs, err := proc.Open(h.Procfs)
	if err != nil {
		return nil, nil, err
	}
	session := nvml.NewSession(func() nvml.Caller {
		return askGPUs(site.GPUOptions{
			Library: h.Library,
			Log:     h.Log,
		}).(gpus).Process
	})
	gate := gate.New(gate.Options{
		Site: siteCommand(h.Config.IdleCommand),
		GPUs: session, Processes: procfs, Cgroups: cgroup.New(filepath.Join(h.Sysfs, "fs/cgroup")),
		Pods:        podresources.New(filepath.Join(h.Rootfs, podresources.DefaultSocket)),
		Maintenance: h.Maintenance, Lock: h.Config.LockFile, Quiet: h.Quiet, Allocation: h.Allocation,
		IdleMemory: h.Config.IdleMemory,
	})
	return gate, func() error {
		session.Release()
		return procfs.Close()
	}, nil
}

// siteCommandLimit is how long a site's command may take.
const siteCommandLimit = 5 * time.Second

// siteCommand runs the site's command that says whether the node is free; nil: there is none.
func siteCommand(args []string) func(context.Context) (string, error) {
	if len(args) == 0 {
		return nil
	}
	c := &worker.Command{Args: args, Timeout: siteCommandLimit, Trusted: trusted}
	return func(ctx context.Context) (why string, err error) {
		ended, err := c.Run(ctx)
		if err != nil || ended.Status == 0 {
			return "", err
		}
		why = fmt.Sprintf("%s: exit status %d", args[0], ended.Status)
		if ended.Said != "" {
			why += ": " + ended.Said
		}
		return why, nil
	}
}

// vetRanks returns what starts the ranks of a plan, unless others could have written what they would load or
// take settings from.
func vetRanks(p *plan.Plan, log *slog.Logger) (probes.StartRank, *probes.Skipped) {
	public := true
	for _, r := range p.Ranks {
		ok, err := ncclprobe.Vet("/", ncclprobe.Errand{
			NCCL: p.Settings.NCCL, CUDA: p.Settings.CUDA, Env: r.Env,
			UIDs: []int{os.Geteuid(), p.Settings.User},
		})
		if err != nil {
			return nil, &probes.Skipped{Why: probes.SkipUntrusted, Detail: err.Error(), At: time.Now()}
		}
		public = public && ok
	}
	if err := ncclprobe.MissingDevice("/"); err != nil {
		return nil, &probes.Skipped{Why: probes.SkipNoGPU, Detail: err.Error(), At: time.Now()}
	}
	if p.Key.Kind == probes.Rail { // without enough memory a probe fails, which looks like a fault of the fabric
		if err := worker.CanLock(fabric.EnoughMemlock); err != nil {
			return nil, &probes.Skipped{Why: probes.SkipMemlock, Detail: err.Error(), At: time.Now()}
		}
	}
	user, err := worker.InPlaceOfRoot("/", p.Settings.User, public)
	if err != nil {
		log.Debug("ranks run as root", "reason", err)
	}
	return startRank(user, new(worker.Room)), nil
}

// trusted says why others than root and the user of this process may have written a file.
func trusted(path string) error {
	found, err := ownership.Check("/", path)
	if err != nil {
		return err
	}
	return found.Others
}

// startRank starts the ranks of a run as a user, nil: that of this process, in a room; nil: in none.
func startRank(user *worker.User, room *worker.Room) probes.StartRank {
	return func(ctx context.Context, r probes.Rank) (probes.RankProcess, error) {
		t, err := worker.Start(ctx, worker.Options{
			Name: "rank", Path: "/proc/self/exe", Args: []string{os.Args[0], "probe-rank"},
			Env:  append([]string{"GOMAXPROCS=2"}, r.Env...),
			User: func() *worker.User { return user }, Room: room, PinsMemory: true,
			// A rank keeps the deadlines that it is given. This one is for what hangs in spite of them.
			Timeout: 5 * time.Minute, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		return rank{t}, nil
	}
}

// rank is a worker.Task as a probe sees it.
type rank struct{ *worker.Task }

func (r rank) Call(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := r.Task.Call(ctx, request)
	switch {
	case errors.Is(err, worker.ErrHung):
		err = fmt.Errorf("%w: %w", probes.ErrRankHung, err)
	case errors.Is(err, worker.ErrRefused):
		err = fmt.Errorf("%w: %w", probes.ErrRankRefused, err)
	}
	return answer, err
}

func (r rank) Kill() { r.Task.Kill("the probe stops") }

func (r rank) Log() (head, tail []byte, dropped int64) {
	e := r.Task.Log()
	return e.Head, e.Tail, int64(e.Bytes) - int64(len(e.Head)) - int64(len(e.Tail))
}

// serveRank is the process of a rank.
func serveRank(ctx context.Context) error {
	dropLoaded()
	return worker.TaskChild(ctx, "gpufabric_rank", rankLimits, ncclprobe.NewServer().Handle)
}

// startPinger starts the process that has libibverbs.
func startPinger(ctx context.Context, library string, log *slog.Logger) (pinger.Worker, error) {
	public, err := verbs.Vet("/", library)
	if err != nil {
		return nil, err
	}
	user, err := worker.InPlaceOfRoot("/", nobody, public)
	if err != nil {
		log.Debug("RDMA ping runs as root", "reason", err)
	}
	return worker.Start(ctx, worker.Options{
		Name: "ping", Path: "/proc/self/exe", Args: []string{os.Args[0], "ping-worker"},
		Env:  []string{"GOMAXPROCS=2"}, // providers come from where the loader and libibverbs always look
		User: func() *worker.User { return user }, PinsMemory: true,
		Timeout: 10 * time.Second, Log: log, // a message has its own timeout, which is shorter
	})
}

// servePinger is that process. It stands back for nobody: what it measures is how long things take.
func servePinger(ctx context.Context) error {
	dropLoaded()
	return worker.TaskChild(ctx, "gpufabric_ping", worker.Limits{OpenFiles: 256, Private: true}, verbs.NewServer().Handle)
}
