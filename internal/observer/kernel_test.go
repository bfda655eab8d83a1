// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sysfs"
)

// kernel is a fake kernel: devices that can hang, fail, panic, leave and come back.
type kernel struct {
	mu      sync.Mutex
	devices map[string]*fakeDevice
	absent  bool // no RDMA class
	calls   map[string]int
	node    chan struct{} // files of the node block until it is closed; nil: they answer
	rtnl    chan struct{} // network interfaces block until it is closed; nil: they answer
	speed   float64
	listing time.Duration // how long the list of devices takes
	opened  map[string]int
	closed  map[string]int

	waiting atomic.Int32        // calls under the rtnl lock
	lower   map[string][]string // what bonds and VLANs sit on
	refuse  map[string]error    // interfaces whose driver answers with an error
	partly  map[string]error    // interfaces of whose driver's answers one is wrong
	foreign map[string]error    // interfaces with files that hold foreign text
	routes  error               // the default routes cannot be read
	odd     error               // what could not be listed beside the devices
	// unlisted says that no device can be listed.
	unlisted error
	moved    []sysfs.Moved // devices in other network namespaces
	counted  uint64        // value of every statistic
	index    uint32        // of every interface
}

type fakeDevice struct {
	k     *kernel
	name  string
	hang  chan struct{} // reads block until it is closed
	takes time.Duration // each read
	err   error
	panic bool
	down  bool // its port has no link
	kind  string
	gids  []fabric.GID
	busy  atomic.Int32

	address     string // of its PCI function
	netDevMoved bool   // its interface is in another network namespace
}

func newKernel(n int) *kernel {
	k := &kernel{devices: map[string]*fakeDevice{}, calls: map[string]int{}, opened: map[string]int{}, closed: map[string]int{}, speed: 50e9}
	for i := range n {
		k.add(fmt.Sprintf("mlx5_%d", i))
	}
	return k
}

func (k *kernel) add(name string) *fakeDevice {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := &fakeDevice{k: k, name: name, gids: []fabric.GID{{Index: 3, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4, NetDev: "eth-" + name}}}
	k.devices[name] = d
	return d
}

func (k *kernel) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.devices, name)
}

func (k *kernel) count(what string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[what]
}

func (k *kernel) called(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls[what]++
}

func (k *kernel) Devices() ([]string, error) {
	k.called("class")
	time.Sleep(k.listing)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.absent {
		return nil, fmt.Errorf("list: %w", fs.ErrNotExist)
	}
	if k.unlisted != nil {
		return nil, k.unlisted
	}
	var names []string
	for n := range k.devices {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, k.odd
}

func (k *kernel) Moved([]string, bool) ([]sysfs.Moved, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.moved), nil
}

func (k *kernel) Open(name string) (Device, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened[name]++
	d := k.devices[name]
	if d == nil {
		return nil, fmt.Errorf("open: %w", fs.ErrNotExist)
	}
	return d, nil
}

func (k *kernel) Host(_ fabric.Host, now time.Time) fabric.Host {
	return fabric.Host{Kernel: fabric.Known("6.1", "", now), BootTime: fabric.Known(now.Add(-time.Hour), "", now)}
}

func (k *kernel) Daemons(now time.Time) fabric.Fact[[]fabric.Daemon] {
	k.called("daemons")
	return fabric.Known([]fabric.Daemon{{Name: "slurmd", PID: 4127}}, "", now)
}

func (k *kernel) GPUs(now time.Time) fabric.Fact[int] { return fabric.Known(8, "", now) }
func (k *kernel) GPUDirect(now time.Time) fabric.GPUDirect {
	k.called("gpudirect")
	k.mu.Lock()
	hang := k.node
	k.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return fabric.GPUDirect{OpenModule: fabric.Known(true, "", now), Peermem: fabric.Known(fabric.Peermem{Module: "nvidia_peermem"}, "", now)}
}

func (k *kernel) NetDevs(names []string, detailed bool, now time.Time) ([]fabric.NetDev, error) {
	k.called("netdev")
	if detailed {
		k.called("netdev in detail")
	}
	k.lockRTNL()
	all := slices.Clone(names)
	for _, n := range names {
		all = append(all, k.lower[n]...)
	}
	slices.Sort(all)
	var devs []fabric.NetDev
	for _, n := range slices.Compact(all) {
		devs = append(devs, fabric.NetDev{
			Name: n, Speed: fabric.Known(k.speed, "", now), DefaultRoute: fabric.Known(false, "", now),
			Lower: fabric.Known(k.lower[n], "", now),
		})
		if detailed {
			devs[len(devs)-1].Driver = fabric.Known("mlx5_core", "", now)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return devs, k.routes
}

func (k *kernel) Interfaces(now time.Time) fabric.Fact[[]fabric.Interface] {
	k.called("interfaces")
	return fabric.Known([]fabric.Interface{{Name: "eno1", OperState: fabric.Known("up", "", now)}}, "", now)
}

// lockRTNL waits for the holder of the lock. It fails the test if another caller waits: reads that need it
// must not overlap.
func (k *kernel) lockRTNL() {
	if k.waiting.Add(1) != 1 {
		panic("two calls under the rtnl lock at once")
	}
	defer k.waiting.Add(-1)
	k.mu.Lock()
	rtnl := k.rtnl
	k.mu.Unlock()
	if rtnl != nil {
		<-rtnl
	}
}

func (k *kernel) ReadCongestionParameters(netdev string, _ *fabric.QoS, _ time.Time) error {
	k.called("parameters " + netdev)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.foreign[netdev]
}
func (k *kernel) Commands() fabric.Commands { return fabric.Commands{fabric.CommandCongestion: 2} }

// files are the QoS files of interfaces, drivers their drivers.
type (
	files   struct{ *kernel }
	drivers struct{ k *kernel }
)

func (f files) ReadQoS(netdev string, q *fabric.QoS, now time.Time) error {
	f.called("files " + netdev)
	q.Trust = fabric.Known(fabric.TrustDSCP, "qos/trust", now)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.foreign[netdev]
}

func (d drivers) ask(what, netdev string) error {
	d.k.called(what + " " + netdev)
	d.k.lockRTNL()
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	return d.k.refuse[netdev]
}

func (d drivers) ReadQoS(netdev string, q *fabric.QoS, now time.Time) error {
	if err := d.ask("qos", netdev); err != nil {
		return err
	}
	q.PFC = fabric.Known(fabric.PFC{Enabled: 1 << 3}, "DCB_ATTR_IEEE_PFC", now)
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	return d.k.partly[netdev]
}

func (d drivers) Statistics(netdev string, wanted func(string) bool, now time.Time) ([]fabric.Counter, error) {
	if err := d.ask("statistics", netdev); err != nil {
		return nil, err
	}
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	var list []fabric.Counter
	for _, name := range []string{"rx_packets", "rx_prio3_pause", "rx_out_of_buffer", "ch0_events"} {
		if wanted(name) {
			list = append(list, fabric.Counter{Name: name, Value: fabric.Known(d.k.counted, "", now)})
		}
	}
	return list, nil
}

func (d drivers) Instance(string) uint32 {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	return d.k.index
}

func (d drivers) Commands() fabric.Commands { return fabric.Commands{fabric.CommandNetStats: 5} }
func (d drivers) Close()                    { d.k.called("close ethernet") }

// enter is the begin of every read: it proves that reads of one device never overlap.
func (d *fakeDevice) enter(what string) error {
	d.k.called(what + " " + d.name)
	if d.busy.Add(1) != 1 {
		panic("two reads of " + d.name + " at once")
	}
	defer d.busy.Add(-1)
	d.k.mu.Lock()
	hang, err, boom, here := d.hang, d.err, d.panic, d.k.devices[d.name] == d
	takes := d.takes
	d.k.mu.Unlock()
	time.Sleep(takes)
	if hang != nil {
		<-hang
	}
	if boom {
		panic("boom")
	}
	if !here {
		return fmt.Errorf("%w: %s", sysfs.ErrGone, what)
	}
	return err
}

func (d *fakeDevice) Identify(h *fabric.HCA, restricted bool, now time.Time) error {
	if err := d.enter("identify"); err != nil {
		return err
	}
	h.NodeType, h.Restricted = fabric.Known(fabric.NodeCA, "", now), fabric.Known(restricted, "", now)
	h.Function, h.Type = fabric.Known(fabric.FunctionPF, "", now), fabric.Known("MT4129", "", now)
	h.PCI = fabric.Known(d.address, "", now)
	if len(h.Ports) == 0 {
		h.Ports = []fabric.Port{{Number: 1}}
	}
	if d.kind != "" {
		h.Type = fabric.Known(d.kind, "", now)
	}
	h.Ports[0].LinkLayer = fabric.Known(fabric.LinkEthernet, "", now)
	return nil
}

func (d *fakeDevice) ReadPorts(h *fabric.HCA, now time.Time) error {
	if err := d.enter("ports"); err != nil {
		return err
	}
	h.Ports[0].State, h.Ports[0].PhysState = fabric.Known(fabric.PortActive, "", now), fabric.Known(fabric.PhysLinkUp, "", now)
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	if d.down {
		h.Ports[0].State, h.Ports[0].PhysState = fabric.Known(fabric.PortDown, "", now), fabric.Known(fabric.PhysDisabled, "", now)
		h.Ports[0].Rate = fabric.AbsentFact[fabric.Rate]("", now)
	}
	return nil
}

func (d *fakeDevice) ReadPortDetails(h *fabric.HCA, now time.Time) error {
	if err := d.enter("details"); err != nil {
		return err
	}
	h.Ports[0].Rate = fabric.Known(fabric.Rate{BytesPerSecond: 50e9, Lanes: 4, Generation: "NDR"}, "", now)
	if h.Ports[0].NetDev = fabric.Known("eth-"+d.name, "", now); d.netDevMoved {
		h.Ports[0].NetDev = fabric.UnknownFact[string](fabric.ReasonMoved, "", now)
	}
	return nil
}

func (d *fakeDevice) ScanGIDs(h *fabric.HCA, now time.Time) error { return d.readGIDs("scan", h, now) }

func (d *fakeDevice) FindGIDs(h *fabric.HCA, now time.Time) error { return d.readGIDs("find", h, now) }

func (d *fakeDevice) ReadGIDs(h *fabric.HCA, now time.Time) error { return d.readGIDs("gids", h, now) }

func (d *fakeDevice) readGIDs(what string, h *fabric.HCA, now time.Time) error {
	if err := d.enter(what); err != nil {
		return err
	}
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	h.Ports[0].GIDs.Size = fabric.Known(256, "", now)
	h.Ports[0].GIDs.Entries = fabric.Known(slices.Clone(d.gids), "", now)
	return nil
}
func (d *fakeDevice) ReadPMA(*fabric.HCA, bool, time.Time) error { return d.enter("pma") }
func (d *fakeDevice) ReadHWCounters(h *fabric.HCA, now time.Time) error {
	err := d.enter("hw")
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	h.Ports[0].Counters.HW = fabric.Known([]fabric.Counter{{Name: "np_cnp_sent", Value: fabric.Known(d.k.counted, "", now)}}, "", now)
	return err
}
func (d *fakeDevice) ReadTrafficClass(*fabric.HCA, time.Time) error { return d.enter("tc") }
func (d *fakeDevice) ReadCM(*fabric.HCA, time.Time) error           { return d.enter("cm") }
func (d *fakeDevice) Begin(*fabric.HCA, time.Time)                  {}
func (d *fakeDevice) End()                                          {}
func (d *fakeDevice) Commands() fabric.Commands                     { return fabric.Commands{fabric.CommandQueryPort: 7} }

func (d *fakeDevice) Close() {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	d.k.closed[d.name]++
}

func (d *fakeDevice) set(change func(d *fakeDevice)) {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	change(d)
}
