// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
)

// fakeGPUs is a site.GPUWorker without a process.
type fakeGPUs struct {
	mu      sync.Mutex
	reasons []string // of releases
	closed  bool
}

func (f *fakeGPUs) Read(_ fabric.GPUDriver, _ bool, now time.Time) (fabric.GPUDriver, error) {
	return fabric.GPUDriver{Loaded: fabric.Known(true, "nvmlInit", now)}, nil
}

func (f *fakeGPUs) Release(reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reasons = append(f.reasons, reason)
	return nil
}

func (f *fakeGPUs) Resume() {}

func (f *fakeGPUs) Running() bool { return true }

func (f *fakeGPUs) released(reason string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.reasons, reason)
}

func (f *fakeGPUs) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// TestServeGPUWorker runs the exporter with and without a worker, and sends it signals.
func TestServeGPUWorker(t *testing.T) {
	tree := t.TempDir()
	for _, d := range []string{"sys", "proc"} {
		if err := os.Mkdir(filepath.Join(tree, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args string
		want bool
	}{
		{"serve", true},
		{"serve --path.sysfs=" + tree + "/sys --path.procfs=" + tree + "/proc", false},
		{"serve --path.netlink=" + tree, false},
	} {
		t.Run(test.args, func(t *testing.T) {
			worker := &fakeGPUs{}
			library, asked := "", false
			observed := make(chan observer.Options, 1)
			listening := make(chan struct{})
			o := options{
				Stdout: io.Discard, Stderr: new(output),
				OnListen: func([]net.Addr) { close(listening) },
				site: site.Site{
					Worker: func(o site.GPUOptions) site.GPUWorker {
						library, asked = o.Library, true
						return worker
					},
					NewObserver: func(o observer.Options) (site.Observer, error) {
						observed <- o
						return &fakeObserver{node: healthy}, nil
					},
				},
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			exited := make(chan int, 1)
			args := append(strings.Fields(test.args), "--web.listen-address=127.0.0.1:0")
			if test.want {
				args = append(args, "--gpu.nvml-library=/opt/libnvidia-ml.so.1")
			}
			go func() { exited <- run(ctx, args, o) }()
			<-listening
			if got := <-observed; asked != test.want || asked && got.GPUs == nil {
				t.Errorf("a worker: %v, for the observer: %v", asked, got.GPUs)
			}
			if test.want {
				if library != "/opt/libnvidia-ml.so.1" {
					t.Error(library)
				}
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); test.want && !worker.released("SIGUSR1"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("not released by SIGUSR1 within a minute")
				}
			}
			cancel()
			if code := <-exited; code != command.OK {
				t.Errorf("exit code %d", code)
			}
			if worker.closed != test.want {
				t.Errorf("closed: %v", worker.closed)
			}
		})
	}
}
