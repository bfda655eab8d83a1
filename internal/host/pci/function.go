// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// reader reads functions, bridges before what is below them.
type reader struct {
	root   *openat.Root
	now    time.Time
	asleep map[string]fabric.Fact[bool] // bridges that were read, by address
	buf    buffer
}

// everything fills in a function whose place is known.
func (r *reader) everything(f *fabric.PCIFunction, p place) {
	d, err := openDir(r.root, p.dir, &r.buf)
	if err != nil {
		*f = f.WithoutFacts(fabric.ReasonOf(err), r.now)
		return
	}
	defer d.close()
	if r.identify(f, d); f.Idle() {
		return
	}
	if r.changing(f, p.files); !r.suspended(f) {
		r.rest(f, d)
		return
	}
	f.Link.MaxSpeed = fabric.UnknownFact[float64](fabric.ReasonSuspended, d.path+"/max_link_speed", r.now)
	f.Link.MaxWidth = fabric.UnknownFact[int](fabric.ReasonSuspended, d.path+"/max_link_width", r.now)
	f.Config = fabric.UnknownPCIConfig(fabric.ReasonSuspended, d.path+"/config", r.now)
}

// links reads what changes, and all that can be read of a function that slept when everything was.
func (r *reader) links(f *fabric.PCIFunction, p place) {
	slept := f.Config.ACS.Meta().Reason == fabric.ReasonSuspended
	if r.changing(f, p.files); !slept || r.suspended(f) {
		return
	}
	d, err := openDir(r.root, p.dir, &r.buf)
	if err != nil {
		*f = f.WithoutFacts(fabric.ReasonOf(err), r.now)
		return
	}
	defer d.close()
	r.rest(f, d)
}

// changing reads the files that are kept open. Of a function that sleeps even those of the link would wake
// it: the kernel reads its registers for them (pci_config_pm_runtime_get of drivers/pci/pci-sysfs.c).
func (r *reader) changing(f *fabric.PCIFunction, files *files) {
	f.Asleep = kept(r, files, runtimeStatus, parseAsleep)
	r.asleep[f.Address] = f.Asleep
	f.AER = fabric.PCIErrors{ // the kernel's own counters, no register
		Correctable: kept(r, files, aerCorrectable, parseErrors("TOTAL_ERR_COR")),
		NonFatal:    kept(r, files, aerNonFatal, parseErrors("TOTAL_ERR_NONFATAL")),
		Fatal:       kept(r, files, aerFatal, parseErrors("TOTAL_ERR_FATAL")),
	}
	if r.suspended(f) {
		f.Link.Speed = fabric.UnknownFact[float64](fabric.ReasonSuspended, files.sources[linkSpeed], r.now)
		f.Link.Width = fabric.UnknownFact[int](fabric.ReasonSuspended, files.sources[linkWidth], r.now)
		return
	}
	f.Link.Speed = linked(kept(r, files, linkSpeed, parseSpeed))
	f.Link.Width = linked(kept(r, files, linkWidth, parseWidth))
}

// rest reads what hardly changes and must not be read of what sleeps.
func (r *reader) rest(f *fabric.PCIFunction, d directory) {
	f.Link.MaxSpeed = linked(fact(r, d, "max_link_speed", parseSpeed))
	f.Link.MaxWidth = linked(fact(r, d, "max_link_width", parseWidth))
	f.Config = r.config(d)
}

// suspended reports whether the function or a bridge above it sleeps. What is not known to sleep is taken to be awake:
// kernels without power management have no such file.
func (r *reader) suspended(f *fabric.PCIFunction) bool {
	for _, b := range f.Bridges {
		if r.asleep[b].Or(false) {
			return true
		}
	}
	return f.Asleep.Or(false)
}

// identify reads what the kernel remembers of the function.
func (r *reader) identify(f *fabric.PCIFunction, d directory) {
	f.Vendor = fact(r, d, "vendor", parseID)
	f.Device = fact(r, d, "device", parseID)
	f.Class = fact(r, d, "class", parseID)
	f.SubsystemVendor = fact(r, d, "subsystem_vendor", parseID)
	f.SubsystemDevice = fact(r, d, "subsystem_device", parseID)
	f.Driver = optional(linkFact(r, d, "driver", parseName))
	f.PF = optional(linkFact(r, d, "physfn", parseAddress))
	f.NUMANode = fact(r, d, "numa_node", parseNode)
	if n, ok := f.NUMANode.Get(); ok && n < 0 { // NUMA_NO_NODE: the firmware did not say
		f.NUMANode = fabric.UnknownFact[int](fabric.ReasonMissing, f.NUMANode.Source, r.now)
	}
	f.IOMMUGroup = optional(linkFact(r, d, "iommu_group", parseGroup))
	f.IOMMUType = fabric.Fact[string]{
		State: f.IOMMUGroup.State, Reason: f.IOMMUGroup.Reason,
		Source: f.IOMMUGroup.Source, At: r.now,
	}
	link, err := d.linkBase("iommu_group")
	if err != nil || f.IOMMUGroup.State != fabric.OK {
		return
	}
	group, err := openDir(r.root, iommuGroups+"/"+string(link), &r.buf)
	if err != nil {
		f.IOMMUType = fabric.UnknownFact[string](fabric.ReasonOf(err), iommuGroups+"/"+string(link), r.now)
		return
	}
	defer group.close()
	f.IOMMUType = fact(r, group, "type", parseName)
}

func (r *reader) config(d directory) fabric.PCIConfig {
	b, err := d.read("config")
	if err != nil {
		return fabric.UnknownPCIConfig(fabric.ReasonOf(err), d.path+"/config", r.now)
	}
	return parseConfig(b, d.path+"/config", r.now)
}

// fact makes a fact of a file.
func fact[T any](r *reader, d directory, name string, parse func([]byte) (T, bool)) fabric.Fact[T] {
	b, err := d.read(name)
	return factOf(b, err, d.path+"/"+name, r.now, parse)
}

// kept makes a fact of a file that is kept open.
func kept[T any](r *reader, f *files, which often, parse func([]byte) (T, bool)) fabric.Fact[T] {
	b, err := f.read(r.root, which, &r.buf)
	return factOf(b, err, f.sources[which], r.now, parse)
}

// linkFact makes a fact of the name of what a link leads to.
func linkFact[T any](r *reader, d directory, name string, parse func([]byte) (T, bool)) fabric.Fact[T] {
	b, err := d.linkBase(name)
	return factOf(b, err, d.path+"/"+name, r.now, parse)
}

func factOf[T any](b []byte, err error, source string, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	if err != nil {
		return fabric.UnknownFact[T](fabric.ReasonOf(err), source, now)
	}
	v, ok := parse(b)
	if !ok {
		return fabric.UnknownFact[T](fabric.ReasonMalformed, source, now)
	}
	return fabric.Known(v, source, now)
}

// optional turns a missing file into an absent fact: an unbound function has no driver.
func optional[T any](f fabric.Fact[T]) fabric.Fact[T] {
	if f.State == fabric.Unknown && f.Reason == fabric.ReasonMissing {
		return fabric.AbsentFact[T](f.Source, f.At)
	}
	return f
}

// linked turns what stands for no link into an absent fact. A missing file says less: old kernels have none.
func linked[T int | float64](f fabric.Fact[T]) fabric.Fact[T] {
	if v, ok := f.Get(); ok && v == noLink {
		return fabric.AbsentFact[T](f.Source, f.At)
	}
	return f
}
