// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
)

const wantPCI = fabric.WantHCA | fabric.WantPCI

// bus is a PCI bus with one GPU and the NICs that may be seen.
type bus struct {
	mu     sync.Mutex
	reads  int
	links  int
	all    int
	hang   chan struct{}
	err    error
	panics bool
	nics   []pci.NIC // asked for last
	gpu    fabric.PCIID
}

func (b *bus) Read(_ fabric.PCI, what fabric.PCIFacts, nics []pci.NIC, now time.Time) (fabric.PCI, error) {
	b.mu.Lock()
	b.nics = nics
	b.reads++
	if what >= fabric.PCILinks {
		b.links++
	}
	if what == fabric.PCIEverything {
		b.all++
	}
	hang, err, panics := b.hang, b.err, b.panics
	b.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if panics {
		panic("bus")
	}
	gpu := fabric.PCIFunction{Address: "0000:1b:00.0", Kind: fabric.PCIGPU, NUMANode: fabric.Known(1, "numa_node", now)}
	if id := b.gpu; id.Vendor != 0 {
		gpu.Vendor, gpu.Device = fabric.Known(int(id.Vendor), "vendor", now), fabric.Known(int(id.Device), "device", now)
	}
	nic := fabric.PCIFunction{Address: "0000:1c:00.0", Kind: fabric.PCINIC}
	for _, n := range nics {
		nic.HCAs = append(nic.HCAs, n.Device)
	}
	return fabric.PCI{Functions: []fabric.PCIFunction{gpu, nic}}, err
}

func (b *bus) Close() error { return nil }

func (b *bus) set(edit func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	edit()
}

// counts are the reads so far and those of everything. A read that hangs shares no lock with who asks.
func (b *bus) counts() (reads, all int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads, b.all
}

func startBus(t *testing.T, change func(o *Options)) (*Observer, *bus, *kernel) {
	k, b := newKernel(3), &bus{}
	ob := start(t, k, change)
	ob.bus = b
	return ob, b, k
}

func TestPCICadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, _ := startBus(t, nil)
		for range 2 * 60 * 4 { // two hours
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if n := observe(t, ob, wantPCI); len(n.PCI.Functions) != 2 || !source(n, fabric.SourcePCI, "").Up {
						t.Errorf("%+v", n.PCI)
					}
				})
			}
			wg.Wait()
			time.Sleep(15 * time.Second)
		}
		if reads, all := b.counts(); reads != 120 || all != 2 {
			t.Errorf("in two hours %d reads, %d of them of everything; want 120 and 2", reads, all)
		}
		observe(t, ob, wantPCI)
		time.Sleep(time.Minute)
		for range 5 { // who wants devices only has their places read, and who wants more is not content with that
			observe(t, ob, fabric.WantHCA)
			time.Sleep(10 * time.Second)
		}
		if reads, _ := b.counts(); reads != 122 || b.links != 121 {
			t.Errorf("%d reads, %d of them of links; want 122 and 121", reads, b.links)
		}
		if observe(t, ob, wantPCI); b.links != 122 {
			t.Errorf("links were read %d times; want 122", b.links)
		}
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, 0); len(n.PCI.Functions) > 0 || source(n, fabric.SourcePCI, "").Name != "" {
			t.Errorf("not asked for, but read: %+v", n.PCI)
		}
	})
}

// What is slow now may be so because of settings that changed in the last hour.
func TestPCISettingsOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, _ := startBus(t, nil)
		observe(t, ob, wantPCI)
		expect := func(want int, when string) {
			t.Helper()
			if _, all := b.counts(); all != want {
				t.Errorf("%s: settings were read %d times, expected %d", when, all, want)
			}
		}
		time.Sleep(2 * time.Minute)
		observe(t, ob, wantPCI)
		expect(1, "without a request")
		observe(t, ob, fabric.WantFreshPCI)
		expect(2, "on request, though links were just read")
		for range 5 {
			time.Sleep(10 * time.Second)
			observe(t, ob, fabric.WantFreshPCI)
		}
		expect(2, "on five more within a minute")
		time.Sleep(10 * time.Second)
		observe(t, ob, fabric.WantFreshPCI)
		expect(3, "a minute later")
		time.Sleep(59 * time.Minute)
		observe(t, ob, wantPCI)
		expect(3, "less than an hour after the last request")
		time.Sleep(time.Minute)
		observe(t, ob, wantPCI)
		expect(4, "an hour after it")
	})
}

// TestProfileStands: a machine does not become another one because its bus does not answer, but what it is is
// not guessed either.
func TestProfileStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, _ := startBus(t, nil)
		b.gpu = fabric.PCIID{Vendor: 0x10de, Device: 0x2e12}
		all := []fabric.Profile{{Name: "spark", Match: []fabric.ProfileMatch{{GPUs: []fabric.PCIID{b.gpu}, AtLeast: 1}}}}
		ob.SetPolicy(&fabric.Policy{Profiles: all}, NCCLFiles{})
		if n := observe(t, ob, 0); n.Profile != nil || n.Recognition.Why != fabric.RecognizedIncomplete {
			t.Errorf("before the bus was read: %+v, %+v", n.Profile, n.Recognition)
		}
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, wantPCI); n.Profile == nil || n.Recognition.Why != fabric.RecognizedByGPUs {
			t.Errorf("%+v", n.Recognition)
		}
		hang := make(chan struct{})
		b.set(func() { b.hang = hang })
		time.Sleep(2 * time.Minute)
		observe(t, ob, wantPCI)
		time.Sleep(time.Minute)
		if n := observe(t, ob, wantPCI); n.Profile == nil || n.Recognition.Why != fabric.RecognizedByGPUs {
			t.Errorf("while it hangs: %+v", n.Recognition)
		}
		ob.SetPolicy(nil, NCCLFiles{})
		if n := observe(t, ob, wantPCI); n.Profile != nil || n.Recognition.Why != fabric.RecognizedNone {
			t.Errorf("without profiles: %+v", n.Recognition)
		}
		close(hang)
	})
}

// A bus that hangs costs what is known of it and nothing else.
func TestPCIHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, _ := startBus(t, nil)
		observe(t, ob, wantPCI)
		hang := make(chan struct{})
		b.set(func() { b.hang = hang })
		time.Sleep(time.Minute)
		observe(t, ob, wantPCI)
		for range 100 {
			time.Sleep(15 * time.Second)
			n := observe(t, ob, wantPCI)
			if s := source(n, fabric.SourcePCI, ""); !s.Stuck() || n.PCI.GPUs()[0].NUMANode.Meta().Reason != fabric.ReasonStuck {
				t.Fatalf("%+v, %+v", s, n.PCI)
			}
			if n.HCAs[0].Ports[0].State.State != fabric.OK {
				t.Fatalf("the devices are fine: %+v", n.HCAs[0].Ports[0].State)
			}
		}
		if reads, _ := b.counts(); reads != 2 {
			t.Errorf("entered %d times", reads)
		}
		b.set(func() { b.hang = nil })
		close(hang)
		time.Sleep(time.Minute)
		if n := observe(t, ob, wantPCI); n.PCI.GPUs()[0].NUMANode.Or(0) != 1 {
			t.Errorf("%+v", n.PCI)
		}
	})
}

func TestPCIFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, _ := startBus(t, nil)
		b.set(func() { b.err = errors.New("a link leads out") })
		n := observe(t, ob, wantPCI)
		if s := source(n, fabric.SourcePCI, ""); s.Up || s.Err == nil || n.PCI.GPUs()[0].NUMANode.Or(0) != 1 {
			t.Errorf("%+v, %+v", s, n.PCI)
		}
		b.set(func() { b.panics = true })
		time.Sleep(time.Minute)
		n = observe(t, ob, wantPCI)
		if s := source(n, fabric.SourcePCI, ""); s.Reason != fabric.ReasonPanic || n.PCI.GPUs()[0].NUMANode.Meta().Reason != fabric.ReasonPanic {
			t.Errorf("%+v, %+v", s, n.PCI)
		}
	})
}

func TestPCILeavesDevicesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, _ := startBus(t, func(o *Options) {
			o.Devices.Exclude = regexp.MustCompile("^mlx5_0$")
			o.Policy = &fabric.Policy{Restricted: regexp.MustCompile("^mlx5_2$")}
		})
		if n := observe(t, ob, wantPCI); !slices.Equal(n.PCI.Functions[1].HCAs, []string{"mlx5_1"}) {
			t.Errorf("%v", n.PCI.Functions[1].HCAs)
		}
	})
}
