// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/kmsg"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/jobs/inspector"
	"gpufabric_exporter/internal/jobs/joblog"
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
	Ethernet              Ethernet       // answers for the drivers of network interfaces; nil: those in Netlink or, if Sysfs is its, of this kernel
	Statistics            *regexp.Regexp // whole names of statistics of network interfaces to read beside those with a meaning; nil: none
	GPUs                  GPUs           // answers for the driver of the GPUs, closed with the Observer; nil: it is not asked
	Ranks                 Ranks          // processes that hold GPUs, closed with the Observer; nil: they are not read
	Descriptors           int            // of files of devices that stay open; 0: no limit
	RanksPatience         time.Duration  // how long a caller waits for Ranks; 0: ranksPatience
	FastInterval          time.Duration  // how long callers share a reading; 0: DefaultFastInterval
	MediumInterval        time.Duration  // how long they share statistics of network interfaces; 0: DefaultMediumInterval
	SlowInterval          time.Duration  // age at which slow facts are read again; 0: DefaultSlowInterval
	RareInterval          time.Duration  // age at which what only a reboot changes is read again; 0: DefaultRareInterval
	Log                   *slog.Logger
}

// Observer is described in the package comment.
type Observer struct {
	o    Options
	rdma RDMA
	host Host
	bus  Bus // nil: the PCI bus is not read
	log  *slog.Logger

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

	mu        sync.Mutex
	policy    *fabric.Policy
	profile   *fabric.Profile // of policy, that was recognized last
	why       fabric.Recognition
	conf      NCCL
	files     NCCLFiles
	inspector *inspector.Reader // belongs to the lane of inspect
	joblogs   *joblog.Reader    // belongs to the lane of logs; nil: none is followed
	messages  *kmsg.Reader      // belongs to the lane of kernel; nil: not read
	devices   map[string]*device
	last      *fabric.Node // the last complete observation
	lastWant  fabric.Want
	lastAt    time.Time                     // when the oldest read in it began
	troubled  map[sourceID]map[trouble]bool // why sources fail, as far as it was logged
	asked     fabric.Commands               // of devices that left
	uncached  func() uint64                 // nil: nothing is
	left      []fabric.HCA                  // devices that are in other network namespaces now, as they were when they left
	close     []func() error
	closed    bool
}

// classList is what the kernel lists below class/infiniband, and which devices it has in other network namespaces.
type classList struct {
	present bool
	names   []string
	moved   []sysfs.Moved
	odd     error // what could not be listed beside these
}

// hostFacts is one reading of the node itself. What few ask for has a time of its own.
type hostFacts struct {
	host      fabric.Host
	daemonsAt time.Time
	gpus      fabric.Fact[int]
	direct    fabric.GPUDirect
	directAt  time.Time
}

// New opens the mounts of o. A mount that is missing altogether is an error; what is missing below it is not.
func New(o Options) (*Observer, error) {
	sys, err := sysfs.Open(o.Sysfs)
	if err != nil {
		return nil, err
	}
	prc, err := proc.Open(o.Procfs)
	if err != nil {
		return nil, errors.Join(err, sys.Close())
	}
	dial, err := dialerOf(o.Netlink, sys)
	var drivers *ethernetReader
	if err == nil && o.Ethernet == nil {
		drivers, err = ethernetOf(o.Netlink, sys)
	}
	if err != nil {
		return nil, errors.Join(err, prc.Close(), sys.Close())
	}
	if drivers != nil {
		o.Ethernet = drivers
	}
	if o.Ranks == nil && o.GPUs != nil && o.Netlink == "" && sys.IsKernel() {
		if o.Ranks, err = ranksOf(&o, sys); err != nil {
			return nil, errors.Join(err, prc.Close(), sys.Close())
		}
	}
	ob := newObserver(o, classReader{sys, dial}, hostReader{sys, prc, prc.Daemons(), dial, drivers})
	ob.close = append(ob.close, sys.Close, prc.Close)
	bus, err := pci.Open(o.Sysfs)
	if err != nil {
		ob.Close()
		return nil, err
	}
	if o.Descriptors > 0 {
		budget := openat.NewBudget(o.Descriptors)
		sys.Keep(budget)
		bus.Keep(budget)
		ob.uncached = budget.Refused
	}
	ob.bus = bus
	ob.close = append(ob.close, bus.Close)
	return ob, nil
}

func newObserver(o Options, r RDMA, h Host) *Observer {
	if o.RanksPatience == 0 {
		o.RanksPatience = ranksPatience
	}
	if o.FastInterval == 0 {
		o.FastInterval = DefaultFastInterval
	}
	if o.MediumInterval == 0 {
		o.MediumInterval = DefaultMediumInterval
	}
	if o.SlowInterval == 0 {
		o.SlowInterval = DefaultSlowInterval
	}
	if o.RareInterval == 0 {
		o.RareInterval = DefaultRareInterval
	}
	ob := &Observer{
		o: o, rdma: r, host: h, log: o.Log,
		class:    newReading[classList](stuckAfter),
		node:     newReading[hostFacts](stuckAfter),
		nccl:     newReading[fabric.NCCLConfig](stuckAfter),
		netdevs:  newReading[netDevs](stuckAfter),
		pci:      newReading[pciFacts](stuckAfter),
		gpus:     newReading[gpuFacts](stuckAfter),
		inside:   newReading[fabric.Inside](stuckAfter),
		ranks:    newReading[rankFacts](stuckAfter),
		inspect:  newReading[fabric.InspectorReading](stuckAfter),
		logs:     newReading[fabric.LogReading](stuckAfter),
		kernel:   newReading[fabric.KernelReading](stuckAfter),
		physical: physicalReader{ethernet: o.Ethernet, meters: map[string]meter{}},
		devices:  map[string]*device{}, troubled: map[sourceID]map[trouble]bool{}, asked: fabric.Commands{},
	}
	ob.SetPolicy(o.Policy, o.NCCL)
	return ob
}

// SetPolicy replaces what the site expects, from the next Observe on.
func (ob *Observer) SetPolicy(p *fabric.Policy, files NCCLFiles) {
	if p == nil {
		p = &fabric.Policy{}
	}
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.policy, ob.last, ob.profile = p, nil, nil
	ob.followLogs(ob.files, files)
	ob.files = files
	ob.conf = settings.New(ob.o.Rootfs, files.Environment, files.Home)
	ob.inspector = inspector.New(files.Inspector).WithUsers(owned.UsersOf(ob.o.Rootfs))
	ob.inspect.forget()
	ob.nccl.forget() // and not another reading: one that hangs would lose a thread with each reload
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

// retire has each lane release what it uses, and the mounts be closed when all have. It returns what is closed when processes and
// GPUs are released.
func (ob *Observer) retire() []<-chan struct{} {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if ob.closed {
		return nil
	}
	ob.closed, ob.last = true, nil
	ob.releaseKernel()
	nothing := func() {}
	gpus, ranks, netdevs := nothing, nothing, nothing
	if r := ob.o.GPUs; r != nil {
		gpus = ob.closing("the reader of GPUs", r.Close)
	}
	if r := ob.o.Ranks; r != nil {
		ranks = ob.closing("the reader of processes", r.Close)
	}
	if r := ob.physical.ethernet; r != nil {
		netdevs = r.Close
	}
	awaited := []<-chan struct{}{ob.gpus.lane.retire(gpus), ob.ranks.lane.retire(ranks)}
	all := append(slices.Clone(awaited), ob.netdevs.lane.retire(netdevs))
	for _, l := range []*lane{&ob.class.lane, &ob.node.lane, &ob.nccl.lane, &ob.pci.lane, &ob.inside.lane, &ob.inspect.lane, &ob.logs.lane, &ob.kernel.lane} {
		all = append(all, l.retire(nothing))
	}
	for name, d := range ob.devices {
		all = append(all, d.reading.lane.retire(d.closeReader))
		delete(ob.devices, name)
	}
	go func() {
		for _, done := range all {
			<-done
		}
		for _, c := range ob.close {
			ob.closing("a mount", c)()
		}
	}()
	return awaited
}

// closing returns a release that has nothing to fail for but the log.
func (ob *Observer) closing(what string, release func() error) func() {
	return func() {
		if err := release(); err != nil {
			ob.log.Debug("closing "+what+" failed", "err", err)
		}
	}
}

// errClosed is why nothing is known after Close.
var errClosed = errors.New("closed: nothing is read any more")

// unread is the node of which nothing is known, because the observer is closed.
func unread(now time.Time, policy *fabric.Policy) *fabric.Node {
	return &fabric.Node{At: now, Policy: policy, Sources: []fabric.Source{{Name: fabric.SourceClass, Reason: fabric.ReasonNotRead, Err: errClosed}}}
}

// Observe returns the node as it is now, at most FastInterval old; after Close one of which nothing is known. Half of the time until ctx's deadline is
// for the devices, the rest for what depends on their answers.
func (ob *Observer) Observe(ctx context.Context, want fabric.Want) *fabric.Node {
	if want&fabric.WantRanks != 0 {
		want |= fabric.WantGPU | fabric.WantCounters // their GPUs and their devices
	}
	if want&(fabric.WantGID|fabric.WantGPU) != 0 {
		want |= fabric.WantNCCL // which chooses among GIDs, and whether to use GPUDirect RDMA
	}
	if want&fabric.WantFreshPCI != 0 {
		want |= fabric.WantPCI
	}
	if want&(fabric.WantGID|fabric.WantCounters|fabric.WantCM|fabric.WantPCI|fabric.WantGPU|wantPhysical) != 0 {
		want |= fabric.WantHCA
	}
	if want&fabric.WantGPU != 0 {
		want |= fabric.WantPCI
	}
	now := time.Now()
	ob.mu.Lock()
	if n := ob.last; n != nil && now.Sub(ob.lastAt) < ob.o.FastInterval && ob.lastWant&want == want {
		ob.mu.Unlock()
		return n
	}
	policy, closed := ob.policy, ob.closed
	ob.mu.Unlock()
	if closed {
		return unread(now, policy)
	}

	first, cancel := halfOf(ctx, now)
	defer cancel()
	ob.node.startIfStale(ob.freshHost(now, want), ob.readHost(want))
	gpuDone := ob.startGPUsIfDue(now, want)
	if want&wantNCCLFiles != 0 {
		ob.nccl.startIfStale(since[fabric.NCCLConfig](now, ob.o.SlowInterval), ob.readNCCL)
	}
	if want&fabric.WantHCA != 0 {
		ob.class.refresh(first, since[classList](now, ob.o.FastInterval), ob.readClass(want&fabric.WantInside != 0))
		ob.listed(now) // what left has its place on the bus still, if it is in another network namespace
	}
	pciDone := ob.startPCIIfDue(now, want, policy)
	if want&fabric.WantHCA != 0 {
		ob.observeDevices(first, now, want, policy)
	}
	n, oldest := ob.assembleDevices(now, want, policy)
	if want&fabric.WantHCA != 0 {
		ob.observeNetDevs(ctx, n, now, want)
	}
	ob.node.refresh(ctx, ob.freshHost(now, want), ob.readHost(want))
	if want&wantNCCLFiles != 0 {
		ob.nccl.refresh(ctx, since[fabric.NCCLConfig](now, ob.o.SlowInterval), ob.readNCCL)
	}
	ob.observeInside(ctx, n, want)
	ob.assemblePCI(ctx, n, want, pciDone)
	if began := ob.assembleGPUs(ctx, n, want, gpuDone); began.Before(oldest) {
		oldest = began
	}
	n.LocateMoved()
	ob.assembleHost(n, want)
	ob.observeRanks(ctx, n, want)
	ob.observeInspector(ctx, n, want)
	ob.observeLogs(ctx, n, want)
	if ob.uncached != nil {
		n.Uncached = ob.uncached()
	}
	ob.recognize(n)
	derive(n, want)

	ob.mu.Lock()
	defer ob.mu.Unlock()
	if ob.closed { // meanwhile: what could not be read has not failed
		return unread(now, policy)
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // a caller who left is no failing source
		ob.logSources(n)
	}
	if complete(n) && ob.policy == policy {
		ob.last, ob.lastWant, ob.lastAt = n, want, oldest
	}
	return n
}

// recognize looks which profile fits the node. A bus that does not answer for a while does not make it another machine: then what was
// recognized before stands.
func (ob *Observer) recognize(n *fabric.Node) {
	n.DeriveProfile()
	ob.mu.Lock()
	defer ob.mu.Unlock()
	switch {
	case ob.policy != n.Policy:
	case n.Recognition.Why == fabric.RecognizedIncomplete && ob.profile != nil:
		n.Profile, n.Recognition = ob.profile, ob.why
	default:
		ob.profile, ob.why = n.Profile, n.Recognition
	}
}

// derive derives what follows from what is wanted.
func derive(n *fabric.Node, want fabric.Want) {
	n.DerivePorts()
	if want&fabric.WantGID != 0 {
		n.DeriveGIDs()
	}
	if want&fabric.WantPCI != 0 {
		n.DeriveRails()
	}
	if want&wantPhysical != 0 {
		n.DeriveRoCE()
	}
	if want&fabric.WantGPU != 0 {
		n.DeriveGDR()
	}
}

// halfOf returns a context that ends half way to ctx's deadline.
func halfOf(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, now.Add(end.Sub(now)/2))
}

// since reports whether values of reads that began within age of now are fresh.
func since[T any](now time.Time, age time.Duration) func(T, time.Time) bool {
	return func(_ T, began time.Time) bool { return now.Sub(began) < age }
}

func complete(n *fabric.Node) bool {
	return !slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return !s.Since.IsZero() })
}

// readClass lists the devices. A kernel without RDMA is an answer, not an error. Where nothing can be listed, the last
// list stands. A job wants to know of the devices that its container lacks.
func (ob *Observer) readClass(inside bool) func(classList, time.Time) (classList, error) {
	return func(last classList, _ time.Time) (classList, error) {
		names, err := ob.rdma.Devices()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return classList{}, nil
		case err != nil && len(names) == 0:
			return last, err
		}
		moved, movedErr := ob.rdma.Moved(names, inside)
		return classList{present: true, names: names, moved: moved, odd: errors.Join(err, movedErr)}, nil
	}
}

// freshHost reports whether what is wanted of the node itself is known well enough.
func (ob *Observer) freshHost(now time.Time, want fabric.Want) func(hostFacts, time.Time) bool {
	return func(v hostFacts, began time.Time) bool {
		return ob.young(began, now, false) && (want&fabric.WantDaemons == 0 || ob.young(v.daemonsAt, now, false)) &&
			(want&fabric.WantGPU == 0 || ob.young(v.directAt, now, false))
	}
}

func (ob *Observer) readHost(want fabric.Want) func(hostFacts, time.Time) (hostFacts, error) {
	return func(last hostFacts, now time.Time) (hostFacts, error) {
		next := last
		next.host, next.gpus = ob.host.Host(last.host, now), ob.host.GPUs(now)
		next.host.Daemons = last.host.Daemons
		if want&fabric.WantDaemons != 0 {
			next.host.Daemons, next.daemonsAt = ob.host.Daemons(now), now
		}
		if want&fabric.WantGPU != 0 {
			next.direct, next.directAt = ob.host.GPUDirect(now), now
		}
		return next, nil
	}
}

func (ob *Observer) assembleHost(n *fabric.Node, want fabric.Want) {
	h, src := ob.node.get(fabric.SourceHost, "", ob.freshHost(n.At, want))
	n.Sources = append(n.Sources, src)
	n.Host, n.GPUs, n.GPUDirect = h.host, h.gpus, h.direct
	if !src.Up {
		n.Host.Daemons = fabric.UnknownFact[[]fabric.Daemon](src.Reason, "", n.At)
		n.GPUDirect = fabric.UnknownGPUDirect(src.Reason, n.At)
	}
	if want&wantNCCLFiles == 0 {
		return
	}
	c, src := ob.nccl.get(fabric.SourceNCCL, "", since[fabric.NCCLConfig](n.At, ob.o.SlowInterval))
	n.Sources = append(n.Sources, src)
	n.NCCL = c
}
