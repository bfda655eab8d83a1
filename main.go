// SPDX-License-Identifier: Apache-2.0

// Command gpufabric_exporter tells Prometheus what the training fabric of a GPU node is, and whether it is right.
//
// It is also the program of its own worker processes. Here they are wired: nothing else knows both what a worker does
// and how it is run.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/nvml"
	"gpufabric_exporter/internal/program"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/worker"
)

func main() {
	worker.Undumpable() // /proc/self belongs to root from here on, and stays readable
	if !slices.Contains(os.Args, "--web.enable-pprof") {
		runtime.MemProfileRate = 0 // what the runtime keeps for heap profiles is a twentieth of the memory, and nobody can ask for it
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
		Site: site.Site{Worker: askGPUs}, ServeGPUs: serveGPUs,
		Exporter: exporter.Exporter{Probing: probing()}, ServeRank: serveRank,
	})
	code := line.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// gpus is NVML in a process of its own.
type gpus struct {
	*worker.Process
	client *nvml.Client
}

func (g gpus) Read(last fabric.GPUDriver, slow bool, now time.Time) (fabric.GPUDriver, error) {
	return g.client.Read(last, slow, now)
}

func (g gpus) Close() error { return g.client.Close() }

// nobody is who the worker for NVML runs as where that is possible.
const nobody = 65534

// askGPUs is the exporter's side of the process that loads NVML.
func askGPUs(o site.GPUOptions) site.GPUWorker {
	p := worker.New(worker.Options{
		User: func() *worker.User {
			user, err := another("/", nobody, readable(o.Library, os.Getenv("LD_LIBRARY_PATH")))
			if err != nil && o.Log != nil {
				o.Log.Debug("the worker for NVML runs as root", "reason", err)
			}
			return user
		},
		Name: "gpu", Path: "/proc/self/exe", Args: []string{os.Args[0], "gpu-worker", "--library=" + o.Library},
		// It asks one thing at a time; with a processor for each of hundreds, Go's runtime would only cost memory.
		Env: append(worker.Environment(os.Environ(), "LD_LIBRARY_PATH"), "GOMAXPROCS=2"),
		// A little less than the client's patience, so that its errors tell of the hang. The first request comes with
		// the initialisation of all GPUs.
		Timeout: 9 * time.Second, FirstTimeout: 55 * time.Second, Log: o.Log,
	})
	return gpus{p, nvml.NewClient(p)}
}

// serveGPUs is the other side. It retires when its library is no longer that of the driver.
func serveGPUs(ctx context.Context, library string) error {
	ctx, retire := context.WithCancel(ctx)
	defer retire()
	s := nvml.NewServer(library)
	defer func() { _ = s.Close() }() // the end of the process lets go of all GPUs anyway
	return worker.Child(ctx, "gpufabric_gpu", func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := s.Handle(ctx, request)
		if s.Stale() {
			retire()
		}
		return answer, err
	})
}
