// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"errors"
	"log/slog"
	"reflect"
	"regexp"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/jobs/inspector"
	"gpufabric_exporter/internal/jobs/owned"
	"gpufabric_exporter/internal/nccl/settings"
)

// Cadences and limits of the design; Options can change the intervals for tests.
const (
	DefaultFastInterval   = 5 * time.Second
	DefaultMediumInterval = 10 * time.Second
	DefaultSlowInterval   = time.Minute
	DefaultRareInterval   = time.Hour
	stuckAfter            = 5 * time.Second
	maxDevices            = 256
)

// Options configures an Observer.
type Options struct {
	Sysfs, Procfs, Rootfs string // mount points
	Netlink               string // folder of recorded answers of a kernel; empty: this kernel's, if Sysfs is
	LibraryPath           string // LD_LIBRARY_PATH of programs whose NCCL library is looked for; empty: none
	Devices               fabric.Filter
	Policy                *fabric.Policy // nil: no expectations
	NCCL                  NCCLFiles
	// answers for the drivers of network interfaces; nil: those in Netlink or, if Sysfs is its, of this kernel
	Ethernet Ethernet
	// whole names of statistics of network interfaces to read beside those with a meaning; nil: none
	Statistics *regexp.Regexp
	// answers for the driver of the GPUs, closed with the Observer; nil: it is not asked
	GPUs           GPUs
	Ranks          Ranks         // processes that hold GPUs, closed with the Observer; nil: they are not read
	Descriptors    int           // of files of devices that stay open; 0: no limit
	RanksPatience  time.Duration // how long a caller waits for Ranks; 0: ranksPatience
	FastInterval   time.Duration // how long callers share a reading; 0: DefaultFastInterval
	MediumInterval time.Duration // how long they share statistics of network interfaces; 0: DefaultMediumInterval
	SlowInterval   time.Duration // age at which slow facts are read again; 0: DefaultSlowInterval
	RareInterval   time.Duration // age at which what only a reboot changes is read again; 0: DefaultRareInterval
	Log            *slog.Logger
	starved        func() time.Duration // see lane
}

// Observer is described in the package comment.
type Observer struct {
	o    Options
	rdma RDMA
	host Host
	bus  Bus // nil: the PCI bus is not read
	log  *slog.Logger

	lanes    []*lane // all but those of devices
	class    *reading[classList]
	node     *reading[hostFacts]
	nccl     *reading[fabric.NCCLConfig]
	netdevs  *reading[netDevs]
	pci      *reading[pciFacts]
	gpus     *reading[gpuFacts]
	inside   *reading[fabric.Inside]
	ranks    *reading[rankFacts]
	inspect  *reading[fabric.InspectorReading]
	logs     *reading[fabric.LogReading]
	kernel   *reading[fabric.KernelReading]
	physical physicalReader

	mu       sync.Mutex
	policy   *fabric.Policy
	profile  *fabric.Profile // of policy, that was recognized last
	why      fabric.Recognition
	files    NCCLFiles
	devices  map[string]*device
	last     *fabric.Node // the last complete observation
	lastWant fabric.Want
	lastAt   time.Time                     // when the oldest read in it began
	troubled map[sourceID]map[trouble]bool // why sources fail, as far as it was logged
	asked    fabric.Commands               // of devices that left
	uncached func() uint64                 // nil: nothing is
	left     []fabric.HCA                  // devices that are in other network namespaces now, as they were when they left
	close    []func() error
	closed   bool

	// Who owns files of jobs is known in the lanes that read them, whichever reader they have.
	inspectOwners, logOwners owned.Owners
}

// New opens the mounts of o. A mount that is missing altogether is an error; what is missing below it is not.
func New(o Options) (ob *Observer, err error) {
	var opened []func() error
	defer func() {
		if err != nil {
			for _, undo := range opened {
				err = errors.Join(err, undo())
			}
		}
	}()
	sys, err := sysfs.Open(o.Sysfs)
	if err != nil {
		return nil, err
	}
	opened = append(opened, sys.Close)
	prc, err := proc.Open(o.Procfs)
	if err != nil {
		return nil, err
	}
	opened = append(opened, prc.Close)
	bus, err := pci.Open(o.Sysfs)
	if err != nil {
		return nil, err
	}
	opened = append(opened, bus.Close)
	dial, err := dialerOf(o.Netlink, sys)
	if err != nil {
		return nil, err
	}
	var drivers *ethernetReader
	if o.Ethernet == nil {
		if drivers, err = ethernetOf(o.Netlink, sys); err != nil {
			return nil, err
		}
	}
	if drivers != nil {
		o.Ethernet = drivers
	}
	if o.Ranks == nil && o.GPUs != nil && o.Netlink == "" && sys.IsKernel() {
		if o.Ranks, err = ranksOf(&o, sys); err != nil {
			return nil, err
		}
	}
	o.starved = prc.Starved
	ob = newObserver(o, classReader{sys, dial}, hostReader{sys, prc, prc.Daemons(), dial, drivers})
	ob.bus, ob.close = bus, opened
	if o.Descriptors > 0 {
		budget := openat.NewBudget(o.Descriptors)
		sys.Keep(budget)
		bus.Keep(budget)
		ob.uncached = budget.Refused
	}
	return ob, nil
}

func newObserver(o Options, r RDMA, h Host) *Observer {
	o.RanksPatience = cmp.Or(o.RanksPatience, ranksPatience)
	o.FastInterval = cmp.Or(o.FastInterval, DefaultFastInterval)
	o.MediumInterval = cmp.Or(o.MediumInterval, DefaultMediumInterval)
	o.SlowInterval = cmp.Or(o.SlowInterval, DefaultSlowInterval)
	o.RareInterval = cmp.Or(o.RareInterval, DefaultRareInterval)
	ob := &Observer{
		o: o, rdma: r, host: h, log: o.Log,
		physical: physicalReader{ethernet: o.Ethernet, meters: map[string]meter{}},
		devices:  map[string]*device{}, troubled: map[sourceID]map[trouble]bool{}, asked: fabric.Commands{},
	}
	ob.class = newReading[classList](ob, nil)
	ob.node = newReading[hostFacts](ob, nil)
	ob.nccl = newReading[fabric.NCCLConfig](ob, nil)
	ob.pci = newReading[pciFacts](ob, nil)
	ob.inside = newReading[fabric.Inside](ob, nil)
	ob.inspect = newReading[fabric.InspectorReading](ob, nil)
	ob.logs = newReading[fabric.LogReading](ob, nil)
	ob.kernel = newReading[fabric.KernelReading](ob, nil)
	var netdevs, gpus, ranks func()
	if o.Ethernet != nil {
		netdevs = o.Ethernet.Close
	}
	if o.GPUs != nil {
		gpus = ob.closing("the reader of GPUs", o.GPUs.Close)
	}
	if o.Ranks != nil {
		ranks = ob.closing("the reader of processes", o.Ranks.Close)
	}
	ob.netdevs = newReading[netDevs](ob, netdevs)
	ob.gpus = newReading[gpuFacts](ob, gpus)
	ob.ranks = newReading[rankFacts](ob, ranks)
	ob.inspectOwners.Users, ob.logOwners.Users = owned.UsersOf(o.Rootfs), owned.UsersOf(o.Rootfs)
	ob.SetPolicy(o.Policy, o.NCCL)
	return ob
}

// newReading returns a reading whose lane is retired when ob is closed.
func newReading[T any](ob *Observer, closes func()) *reading[T] {
	r := &reading[T]{lane: lane{stuckAfter: stuckAfter, starved: ob.o.starved, closes: closes}, err: errPending}
	ob.lanes = append(ob.lanes, &r.lane)
	return r
}

// SetPolicy replaces what the site expects, from the next Observe on. What was followed already stays, so
// that its counts do.
func (ob *Observer) SetPolicy(p *fabric.Policy, files NCCLFiles) {
	if p == nil {
		p = &fabric.Policy{}
	}
	ob.mu.Lock()
	defer ob.mu.Unlock()
	before := ob.files
	ob.policy, ob.last, ob.profile, ob.files = p, nil, nil, files
	ob.nccl.replace(ob.ncclOf(settings.New(ob.o.Rootfs, files.Environment, files.Home), files.Library), nil)
	ofJobs := inspector.New(files.Inspector, &ob.inspectOwners)
	ob.inspect.replace(func(_ fabric.InspectorReading, now time.Time) (fabric.InspectorReading, error) {
		return ofJobs.Read(now)
	}, nil)
	if !reflect.DeepEqual(before.Logs, files.Logs) {
		ob.followLogs(files.Logs)
	}
	if before.Kernel != files.Kernel {
		ob.followKernel(files.Kernel)
	}
}

// Close releases all files and GPUs. It does not wait for reads that hang; they let go when they return.
func (ob *Observer) Close() {
	patience := time.After(closingGPUs)
	for _, done := range ob.retire() {
		select {
		case <-done:
		case <-patience:
			return
		}
	}
}

// retire retires all lanes, and has the mounts be closed when nothing is left in them. It returns what is
// closed when processes and GPUs are released.
func (ob *Observer) retire() []<-chan struct{} {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if ob.closed {
		return nil
	}
	ob.closed, ob.last = true, nil
	var all []<-chan struct{}
	for _, l := range ob.lanes {
		all = append(all, l.retire())
	}
	for _, d := range ob.devices {
		all = append(all, d.reading.lane.retire())
	}
	clear(ob.devices)
	go func() {
		for _, done := range all {
			<-done
		}
		for _, c := range ob.close {
			ob.closing("a mount", c)()
		}
	}()
	return []<-chan struct{}{ob.gpus.lane.retire(), ob.ranks.lane.retire()}
}

// closing returns a release that has nothing to fail for but the log.
func (ob *Observer) closing(what string, release func() error) func() {
	return func() {
		if err := release(); err != nil {
			ob.log.Debug("closing "+what+" failed", "err", err)
		}
	}
}
