// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
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

// fakeGPUs is a GPUWorker without a process.
type fakeGPUs struct {
	hang   bool // a Read ends with the next Release only
	absent bool // NVML finds no driver
	held   bool // the kernel does not let go of the process

	mu       sync.Mutex
	running  bool
	barred   string
	reads    int
	releases []string // each time that a process was ended
	closed   bool
	gone     chan struct{} // closed when the process ends
}

func (f *fakeGPUs) Read(_ fabric.GPUDriver, _ bool, now time.Time) (fabric.GPUDriver, error) {
	f.mu.Lock()
	if f.barred != "" {
		f.mu.Unlock()
		return fabric.GPUDriver{}, errors.New("released: " + f.barred)
	}
	f.reads++
	if !f.running {
		f.running, f.gone = true, make(chan struct{})
	}
	gone := f.gone
	f.mu.Unlock()
	if f.hang {
		<-gone
		return fabric.GPUDriver{}, errors.New("released")
	}
	return fabric.GPUDriver{Loaded: fabric.Known(!f.absent, "nvmlInit", now), GPUs: make([]fabric.GPU, 8)}, nil
}

func (f *fakeGPUs) Release(reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.barred = reason
	if f.held {
		return errors.New("it was killed")
	}
	if f.running {
		f.running = false
		f.releases = append(f.releases, reason)
		close(f.gone)
	}
	return nil
}

func (f *fakeGPUs) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.barred = ""
}

func (f *fakeGPUs) Running() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

func (f *fakeGPUs) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.running = true, false
	return nil
}

func (f *fakeGPUs) ended() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.releases)
}

// TestServeGPUWorker runs the process shell around a worker: who gets one, and what signals do.
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
				worker.mu.Lock()
				worker.running, worker.gone = true, make(chan struct{})
				worker.mu.Unlock()
				if library != "/opt/libnvidia-ml.so.1" {
					t.Error(library)
				}
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); test.want && worker.Running(); time.Sleep(10 * time.Millisecond) {
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
