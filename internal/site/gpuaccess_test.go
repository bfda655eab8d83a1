// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// fakeGPUs is a GPUWorker without a process.
type fakeGPUs struct {
	hang   bool // a Read ends with the next Release only
	absent bool // NVML finds no driver
	held   bool // the kernel does not release the process

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

// gpuHost is a host with a driver, and the access to it.
type gpuHost struct {
	*GPUAccess
	worker  *fakeGPUs
	file    string // of the maintenance
	version string // of the driver
	log     *bytes.Buffer
}

func newGPUHost(t *testing.T) gpuHost {
	t.Helper()
	dir := t.TempDir()
	h := gpuHost{worker: &fakeGPUs{}, file: filepath.Join(dir, "maintenance"), version: filepath.Join(dir, "proc/driver/nvidia/version"), log: new(bytes.Buffer)}
	if err := os.MkdirAll(filepath.Dir(h.version), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, h.version)
	s := &Site{Paths: Paths{Procfs: filepath.Join(dir, "proc"), Sysfs: filepath.Join(dir, "sys")}, GPUs: GPUs{Maintenance: h.file}}
	h.GPUAccess = s.gpuAccess(h.worker, slog.New(slog.NewTextHandler(h.log, nil)))
	return h
}

func write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// read expects a driver, or none, and a reason why the GPUs are released; empty: they are not.
func (h gpuHost) read(t *testing.T, loaded bool, released string) fabric.GPUDriver {
	t.Helper()
	d, err := h.Read(fabric.GPUDriver{}, false, time.Now())
	got, known := d.Loaded.Get()
	if err != nil || !known || got != loaded || d.Released != released {
		t.Fatalf("loaded %v, released %q, error %v; expected %v and %q", d.Loaded, d.Released, err, loaded, released)
	}
	if (len(d.GPUs) > 0) != (loaded && released == "") {
		t.Fatalf("%d GPUs", len(d.GPUs))
	}
	return d
}

func TestGPUAccessReads(t *testing.T) {
	h := newGPUHost(t)
	byFile := "maintenance file " + h.file
	h.read(t, true, "")

	write(t, h.file)
	h.read(t, true, byFile)
	h.toggle()
	h.read(t, true, "SIGUSR1")
	remove(t, h.file)
	h.read(t, true, "SIGUSR1")
	if h.worker.reads != 1 {
		t.Errorf("read %d times", h.worker.reads)
	}
	h.toggle()
	h.read(t, true, "")

	remove(t, h.version)
	h.read(t, false, "")
	h.toggle()
	h.read(t, false, "SIGUSR1")
	h.toggle()
	write(t, h.version)
	h.read(t, true, "")
	if want := []string{byFile, "the driver is not loaded"}; !slices.Equal(h.worker.ended(), want) {
		t.Errorf("ended %q, expected %q", h.worker.ended(), want)
	}
	contains(t, h.log.String(), `msg="GPUs released" reason="`+byFile, `msg="GPUs are no longer released"`)

	// The module alone is a driver too: its file in procfs may not show in a container.
	remove(t, h.version)
	if err := os.MkdirAll(h.module, 0o755); err != nil {
		t.Fatal(err)
	}
	h.read(t, true, "")

	// What cannot be looked for counts as there.
	write(t, h.file)
	h.flags.Maintenance = filepath.Join(h.file, "below")
	d, err := h.Read(fabric.GPUDriver{}, false, time.Now())
	if err != nil || !strings.Contains(d.Released, "not a directory") {
		t.Error(d.Released, err)
	}
}

// TestGPUAccessWatches checks that GPUs are released within a second when they are not read, and that nothing
// is looked at while there is no process.
func TestGPUAccessWatches(t *testing.T) {
	for _, what := range []string{"file", "driver"} {
		t.Run(what, func(t *testing.T) {
			h := newGPUHost(t)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go h.Watch(ctx)
				h.read(t, true, "")
				time.Sleep(time.Hour)
				if len(h.worker.ended()) != 0 {
					t.Fatal(h.worker.ended())
				}
				if what == "file" {
					write(t, h.file)
				} else {
					remove(t, h.version)
				}
				time.Sleep(watchInterval)
				synctest.Wait()
				if h.worker.Running() {
					t.Error("not released")
				}
				time.Sleep(time.Hour)
				if n := len(h.worker.ended()); n != 1 {
					t.Errorf("released %d times", n)
				}
			})
		})
	}
}

// TestGPUAccessDuringRead releases GPUs while a read hangs.
func TestGPUAccessDuringRead(t *testing.T) {
	for _, what := range []string{"file", "signal"} {
		t.Run(what, func(t *testing.T) {
			h := newGPUHost(t)
			h.worker.hang = true
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go h.Watch(ctx)
				read := make(chan fabric.GPUDriver)
				go func() {
					d, err := h.Read(fabric.GPUDriver{}, false, time.Now())
					if err != nil {
						t.Error(err)
					}
					read <- d
				}()
				synctest.Wait()
				begin, want := time.Now(), "SIGUSR1"
				if what == "file" {
					write(t, h.file)
					want = "maintenance file " + h.file
				} else {
					h.toggle()
				}
				if d := <-read; d.Released != want || time.Since(begin) > watchInterval {
					t.Errorf("released %q after %s", d.Released, time.Since(begin))
				}
			})
		})
	}
}

// TestGPUAccessWithoutNVML is a container without NVIDIA's library on a host with its driver.
func TestGPUAccessWithoutNVML(t *testing.T) {
	h := newGPUHost(t)
	h.worker.absent = true
	synctest.Test(t, func(t *testing.T) {
		for range 24 { // two minutes of scrapes
			if d, err := h.Read(fabric.GPUDriver{}, false, time.Now()); err != nil || d.Loaded.State != fabric.Unknown || d.Loaded.Reason != fabric.ReasonMissing {
				t.Fatal(d.Loaded, err) // known false would say that the kernel has none
			}
			if h.worker.Running() {
				t.Fatal("a process without a driver")
			}
			time.Sleep(5 * time.Second)
		}
		if h.worker.reads != 2 {
			t.Errorf("asked %d times, expected once a minute", h.worker.reads)
		}
		h.worker.absent = false
		time.Sleep(absentRetry)
		h.read(t, true, "")
	})
}

// TestGPUAccessHeld has a process that the kernel does not end: one message reports it.
func TestGPUAccessHeld(t *testing.T) {
	h := newGPUHost(t)
	h.read(t, true, "")
	h.worker.held = true
	write(t, h.file)
	for range 10 {
		h.read(t, true, "maintenance file "+h.file)
	}
	if n := strings.Count(h.log.String(), "GPUs not released"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, h.log)
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("lacks %q:\n%s", p, text)
		}
	}
}
