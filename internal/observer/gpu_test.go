// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const wantGPU = fabric.WantGPU

// gpuDriver is a driver of two GPUs that can hang, fail, panic and be absent.
type gpuDriver struct {
	busy atomic.Int32

	mu     sync.Mutex
	reads  int
	slow   int
	closed int
	hang   chan struct{} // reads block until it is closed
	err    error
	panics bool
	absent bool
	loaded fabric.Fact[bool] // what comes with err
	last   fabric.GPUDriver  // what the last read was given
}

func (d *gpuDriver) enter() {
	if d.busy.Add(1) != 1 {
		panic("two calls at once")
	}
}

func (d *gpuDriver) Read(last fabric.GPUDriver, slow bool, now time.Time) (fabric.GPUDriver, error) {
	d.enter()
	defer d.busy.Add(-1)
	d.mu.Lock()
	d.reads++
	if slow {
		d.slow++
	}
	d.last = last
	hang, err, panics, absent := d.hang, d.err, d.panics, d.absent
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	switch {
	case panics:
		panic("gpus")
	case err != nil:
		return fabric.GPUDriver{Loaded: d.loaded}, err
	case absent:
		return fabric.GPUDriver{Loaded: fabric.Known(false, "nvmlInit_v2", now)}, nil
	}
	next := fabric.GPUDriver{Loaded: fabric.Known(true, "nvmlInit_v2", now), Version: last.Version}
	if slow {
		next.Version = fabric.Known("580.65.06", "nvmlSystemGetDriverVersion", now)
	}
	for i, uuid := range []string{"GPU-a", "GPU-b"} {
		next.GPUs = append(next.GPUs, fabric.GPU{Index: i, UUID: uuid, Utilization: fabric.Known(0.5, "nvmlDeviceGetUtilizationRates", now)})
	}
	return next, nil
}

func (d *gpuDriver) Close() error {
	d.enter()
	defer d.busy.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
	return nil
}

func (d *gpuDriver) set(edit func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	edit()
}

func (d *gpuDriver) counts() (reads, slow, closed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads, d.slow, d.closed
}

func startGPUs(t *testing.T) (*Observer, *gpuDriver, *kernel) {
	t.Helper()
	k, d := newKernel(2), &gpuDriver{}
	ob := start(t, k, func(o *Options) { o.GPUs = d })
	ob.bus = &bus{}
	return ob, d, k
}

// load is the utilization of the first GPU.
func load(n *fabric.Node) fabric.Fact[float64] {
	if len(n.GPUDriver.GPUs) == 0 {
		return fabric.UnknownFact[float64]("no GPU", "", n.At)
	}
	return n.GPUDriver.GPUs[0].Utilization
}

func TestGPUsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, k := startGPUs(t)
		for range 8 { // two minutes of scrapes every 15 s
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					n := observe(t, ob, wantGPU)
					if load(n).Or(0) != 0.5 || n.GPUDriver.Version.Or("") == "" || !source(n, fabric.SourceGPU, "").Up {
						t.Errorf("%+v", n.GPUDriver)
					}
					if len(n.PCI.Functions) == 0 || len(n.HCAs) == 0 { // where they are, and what for
						t.Errorf("the bus has %d functions, the node %d devices", len(n.PCI.Functions), len(n.HCAs))
					}
				})
			}
			wg.Wait()
			time.Sleep(15 * time.Second)
		}
		if reads, slow, _ := d.counts(); reads != 8 || slow != 2 {
			t.Errorf("in two minutes %d reads, %d of them slow; want 8 and 2", reads, slow)
		}
		if got := k.count("gpudirect"); got != 2 {
			t.Errorf("files about GPUDirect were read %d times, want twice", got)
		}
		before, _, _ := d.counts()
		for range 5 { // within five seconds
			observe(t, ob, wantGPU)
			time.Sleep(time.Second - time.Millisecond)
		}
		if reads, _, _ := d.counts(); reads != before+1 {
			t.Errorf("5 scrapes within 5 s read %d times, want once", reads-before)
		}
	})
}

// A node that is put together anew with a reading of the GPUs that is shared must not be shared for longer than that.
func TestSharedGPUsDoNotAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, _ := startGPUs(t)
		for range 20 {
			for _, want := range []fabric.Want{wantGPU, wantGPU | fabric.WantGID, wantGPU} { // the second reads devices again
				n := observe(t, ob, want)
				if age := time.Since(load(n).At); age >= DefaultFastInterval {
					t.Fatalf("the load of a GPU is %s old", age)
				}
				time.Sleep(4 * time.Second)
			}
		}
	})
}

func TestGPUsAreReadOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		n := observe(t, ob, fabric.WantHCA|fabric.WantPCI)
		if reads, _, _ := d.counts(); reads != 0 || source(n, fabric.SourceGPU, "").Name != "" || n.GPUDriver.Loaded.Meta().Reason != fabric.ReasonNotRead {
			t.Errorf("not asked for: %d reads, %+v", reads, n.GPUDriver)
		}
		if n := observe(t, ob, wantGPU); load(n).Or(0) != 0.5 { // at once, though the rest is fresh
			t.Errorf("%+v", n.GPUDriver)
		}
		none := start(t, newKernel(1), nil) // the driver is not asked
		n = observe(t, none, wantGPU)
		if m := n.GPUDriver.Loaded.Meta(); m.State != fabric.Unknown || m.Reason != fabric.ReasonNotRead || source(n, fabric.SourceGPU, "").Name != "" {
			t.Errorf("without a reader: %+v, %+v", m, n.Sources)
		}
		if v, ok := n.GPUDirect.OpenModule.Get(); !ok || !v {
			t.Errorf("what the kernel shows needs no reader: %+v", n.GPUDirect)
		}
	})
}

// A driver that hangs costs what it says and nothing else, and is entered once.
func TestGPUsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		observe(t, ob, wantGPU)
		hang := make(chan struct{})
		d.set(func() { d.hang = hang })
		time.Sleep(10 * time.Second)
		n := observeWithin(t, ob, wantGPU, 2*time.Second)
		if s := source(n, fabric.SourceGPU, ""); s.Up || s.Reason != fabric.ReasonTimeout || load(n).Meta().Reason != fabric.ReasonTimeout {
			t.Errorf("a late answer: %+v, %+v", s, load(n))
		}
		time.Sleep(10 * time.Second)
		observe(t, ob, wantGPU)
		synctest.Wait()
		base := runtime.NumGoroutine()
		for i := range 1000 {
			time.Sleep(15 * time.Second)
			begin := time.Now()
			n := observe(t, ob, wantGPU)
			if took := time.Since(begin); took != 0 {
				t.Fatalf("scrape %d waited %s for a driver known to hang", i, took)
			}
			if s := source(n, fabric.SourceGPU, ""); !s.Stuck() || s.Since.IsZero() {
				t.Fatalf("%+v", s)
			}
			if m := load(n).Meta(); m.State != fabric.Unknown || m.Reason != fabric.ReasonStuck || len(n.GPUDriver.GPUs) != 2 || n.GPUDriver.GPUs[1].UUID != "GPU-b" {
				t.Fatalf("%+v", n.GPUDriver)
			}
			if n.HCAs[0].Ports[0].State.State != fabric.OK || n.PCI.GPUs()[0].NUMANode.State != fabric.OK {
				t.Fatal("the rest of the node is fine")
			}
		}
		synctest.Wait()
		if g := runtime.NumGoroutine(); g > base+100 { // the runtime has some of its own, and takes its time with those that end
			t.Errorf("%d goroutines after 1000 scrapes, %d before", g, base)
		}
		if reads, _, _ := d.counts(); reads != 2 {
			t.Errorf("entered %d times, want twice: once well, once for ever", reads)
		}
		d.set(func() { d.hang = nil })
		close(hang)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, wantGPU); load(n).Or(0) != 0.5 || !source(n, fabric.SourceGPU, "").Up {
			t.Errorf("did not recover: %+v", n.GPUDriver)
		}
	})
}

// What failed was perhaps the worker, or the driver was replaced: afterwards everything is read anew.
func TestGPUsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		observe(t, ob, wantGPU)
		d.set(func() { d.err = unix.EIO })
		time.Sleep(10 * time.Second)
		for range 3 {
			n := observe(t, ob, wantGPU)
			if s := source(n, fabric.SourceGPU, ""); s.Up || s.Reason != fabric.ReasonIO || s.Err == nil {
				t.Errorf("%+v", s)
			}
			if m := load(n).Meta(); m.Reason != fabric.ReasonIO || n.GPUDriver.GPUs[1].UUID != "GPU-b" || n.GPUDriver.Version.Meta().Reason != fabric.ReasonIO {
				t.Errorf("old values must not be served as new: %+v", n.GPUDriver)
			}
			time.Sleep(10 * time.Second)
		}
		// Library and module of different versions: there is a driver, and it cannot be asked.
		d.set(func() { d.loaded = fabric.Known(true, "nvmlInit_v2", time.Now()) })
		if n := observe(t, ob, wantGPU); !n.GPUDriver.Loaded.Or(false) || load(n).Meta().Reason != fabric.ReasonIO {
			t.Errorf("%+v", n.GPUDriver)
		}
		time.Sleep(10 * time.Second)
		reads, slow, _ := d.counts()
		d.set(func() { d.err = nil })
		if n := observe(t, ob, wantGPU); n.GPUDriver.Version.Or("") == "" || load(n).Or(0) != 0.5 {
			t.Errorf("no recovery: %+v", n.GPUDriver)
		}
		if r, s, _ := d.counts(); r != reads+1 || s != slow+1 {
			t.Errorf("after a failure %d reads, %d of them of everything; want one that is", r-reads, s-slow)
		}
	})
}

func TestGPUsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		observe(t, ob, wantGPU)
		d.set(func() { d.panics = true })
		time.Sleep(10 * time.Second)
		n := observe(t, ob, wantGPU)
		if s := source(n, fabric.SourceGPU, ""); s.Reason != fabric.ReasonPanic || load(n).Meta().Reason != fabric.ReasonPanic || !strings.Contains(s.Err.Error(), "gpus") {
			t.Errorf("%+v, %+v", s, n.GPUDriver)
		}
		if n.HCAs[0].Ports[0].State.State != fabric.OK {
			t.Error("the devices are fine")
		}
		d.set(func() { d.panics = false })
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, wantGPU); load(n).Or(0) != 0.5 {
			t.Errorf("no recovery: %+v", n.GPUDriver)
		}
	})
}

// A node without a driver is an answer. What is read is given to the next read.
func TestGPUDriverComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		d.absent = true
		n := observe(t, ob, wantGPU)
		if loaded, known := n.GPUDriver.Loaded.Get(); !known || loaded || !source(n, fabric.SourceGPU, "").Up {
			t.Errorf("%+v", n.GPUDriver)
		}
		d.set(func() { d.absent = false })
		time.Sleep(time.Minute)
		if n := observe(t, ob, wantGPU); len(n.GPUDriver.GPUs) != 2 {
			t.Errorf("%+v", n.GPUDriver)
		}
		time.Sleep(10 * time.Second)
		observe(t, ob, wantGPU)
		if d.last.Version.Or("") != "580.65.06" || len(d.last.GPUs) != 2 {
			t.Errorf("the read was given %+v", d.last)
		}
	})
}

func TestGPUsAreClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		observe(t, ob, wantGPU)
		begin := time.Now()
		ob.Close()
		ob.Close()
		if _, _, closed := d.counts(); closed != 1 || time.Since(begin) != 0 {
			t.Errorf("closed %d times in %s", closed, time.Since(begin))
		}
		time.Sleep(time.Minute)
		n := observe(t, ob, wantGPU)
		if reads, _, _ := d.counts(); reads != 1 || source(n, fabric.SourceGPU, "").Up {
			t.Errorf("read after it was closed: %d reads, %+v", reads, n.Sources)
		}
	})
}

// Close does not wait for a driver that hangs, and releases it when it comes back.
func TestGPUsAreClosedAfterAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, d, _ := startGPUs(t)
		hang := make(chan struct{})
		d.hang = hang
		observe(t, ob, wantGPU)
		begin := time.Now()
		ob.Close()
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("Close took %s", took)
		}
		if _, _, closed := d.counts(); closed != 0 {
			t.Error("closed while a read is in it")
		}
		close(hang)
		synctest.Wait()
		if _, _, closed := d.counts(); closed != 1 {
			t.Errorf("closed %d times after the read returned", closed)
		}
	})
}

// What the kernel shows of GPUDirect is unknown while files of the node cannot be read.
func TestGPUDirectHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, k := startGPUs(t)
		observe(t, ob, wantGPU)
		hang := make(chan struct{})
		k.mu.Lock()
		k.node = hang
		k.mu.Unlock()
		time.Sleep(time.Minute)
		observe(t, ob, wantGPU)
		time.Sleep(10 * time.Second)
		n := observe(t, ob, wantGPU)
		if m := n.GPUDirect.OpenModule.Meta(); m.Reason != fabric.ReasonStuck || n.GPUDirect.Peermem.Meta().Reason != fabric.ReasonStuck {
			t.Errorf("%+v", n.GPUDirect)
		}
		if load(n).Or(0) != 0.5 {
			t.Errorf("the driver answers: %+v", n.GPUDriver)
		}
		k.mu.Lock()
		k.node = nil
		k.mu.Unlock()
		close(hang)
		synctest.Wait()
	})
}
