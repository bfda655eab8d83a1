// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"iter"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// The rows of what is always on: how collectors, sources, devices and the configuration do.
var (
	scrapeCollectorSuccess = &Family{
		Name: "scrape_collector_success", Type: Gauge, Labels: []string{"collector"},
		Help:   "1 if everything that the collector needs could be read, or the node has nothing to read; 0 otherwise.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	scrapeCollectorSupported = &Family{
		Name: "scrape_collector_supported", Type: Gauge, Labels: []string{"collector"},
		Help:   "1 if the node has the hardware or software that the collector reads; 0 if it has not, which is not an error.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	scrapeCollectorTimeout = &Family{
		Name: "scrape_collector_timeout", Type: Gauge, Labels: []string{"collector"},
		Help:   "1 if a read that the collector needs did not return in time for this scrape.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	scrapeCollectorDuration = &Family{
		Name: "scrape_collector_duration_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"collector"},
		Help:   "Duration of the last reads that the collector needs, summed over devices, which are read in parallel.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	sourceUp = &Family{
		Name: "exporter_source_up", Type: Gauge, Labels: []string{"source", "device", "netdev"},
		Help:   "1 if the source could be read, 0 if not. netdev is the network interface for qos, netstats and dcqcn; device and netdev are empty for sources of the whole node.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	sourceUnknown = &Family{
		Name: "exporter_source_unknown", Type: Gauge, Labels: []string{"source", "device", "netdev", "reason"},
		Help:   "1 while the source cannot be read (exporter_source_up is 0), with the reason as in exporter_facts_unknown. Absent otherwise.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	hcaStuck = &Family{
		Name: "hca_stuck", Type: Gauge, Labels: []string{"device"},
		Help:   "1 while a read of the RDMA device has not returned for 5 s or more; nothing else is read from the device during that time.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	factsUnknown = &Family{
		Name: "exporter_facts_unknown", Type: Gauge, Labels: []string{"device", "uuid", "reason"},
		Help:   "Number of unknown facts of the RDMA device or the GPU, by reason; device and uuid are empty for facts of the GPU driver. Unknown facts have no other series.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	driverCommands = &Family{
		Name: "exporter_driver_commands_total", Type: Counter, Labels: []string{"kind"},
		Help: "Requests of the exporter that the kernel passed on to drivers, most of which query their firmware: query_port, process_mad (one PMA counter), " +
			"get_hw_stats (all hardware counters of a port); and to drivers of network interfaces: dcb_get, pause_get, fec_get, link_get (speed), ethtool_stats " +
			"(all statistics), ethtool_names (their names), cong_query (one file of congestion control). The rate does not depend on the number of scrapers.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	uncachedReads = &Family{
		Name: "exporter_uncached_reads_total", Type: Counter,
		Help: "Reads for which a sysfs file of an RDMA device had to be opened, because the limit of open files (RLIMIT_NOFILE) does not allow keeping it open. " +
			"Such a read costs about twenty times as much; raise LimitNOFILE of the unit if this increases.",
		Source: "exporter", Cadence: Self, Stability: Experimental,
	}
	configReloadSuccessful = &Family{
		Name: "exporter_config_last_reload_successful", Type: Gauge,
		Help:   "1 if the last attempt to load the configuration file succeeded; 0 if not: the previous configuration stays in force, or, after a start, rails are not pinged although rdma_ping is enabled.",
		Source: "--config.file", Cadence: Self, Stability: Stable,
	}
	configReloadTimestamp = &Family{
		Name: "exporter_config_last_reload_success_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "Time at which the current configuration was loaded, in seconds since the epoch.",
		Source: "--config.file", Cadence: Self, Stability: Stable,
	}
	logLinesDropped = &Family{
		Name: "exporter_log_lines_dropped_total", Type: Counter,
		Help: "Lines of the exporter's log that were dropped since it started, because whatever reads its standard error did not keep up or is gone, or the disk is full. " +
			"Nothing waits for the log; look at journald or the container runtime if this increases.",
		Source: "exporter", Cadence: Self, Stability: Experimental,
	}
)

// healthFamilies are the rows of health, in the order of documentation.
func healthFamilies() []*Family {
	return []*Family{
		scrapeCollectorSuccess, scrapeCollectorSupported, scrapeCollectorTimeout, scrapeCollectorDuration, sourceUp,
		sourceUnknown, hcaStuck,
		factsUnknown, driverCommands, uncachedReads, logLinesDropped, configReloadSuccessful, configReloadTimestamp,
	}
}

// Health is how one collector does.
type Health struct {
	Name      string
	Supported bool   // the node has what it is for
	Success   bool   // everything it needs was read; also when there is nothing to read
	Timeout   bool   // something it needs did not answer in time
	Why       string // it is not supported or failed
	Duration  time.Duration
}

// Health returns how each collector of the set does on a node.
func (s *Set) Health(n *fabric.Node) []Health {
	var list []Health
	for _, c := range s.collectors {
		list = append(list, c.health(n))
	}
	return list
}

func (c collector) health(n *fabric.Node) Health {
	h := Health{Name: c.Name, Success: true}
	h.Supported, h.Why = c.supported(n)
	for _, s := range n.Sources {
		if !slices.Contains(c.sources, s.Name) {
			continue
		}
		h.Duration += s.Duration
		if !s.Up {
			h.Success, h.Why = false, s.Name+" "+s.Device+": "+string(s.Reason)
		}
		h.Timeout = h.Timeout || !s.Since.IsZero()
	}
	return h
}

func emitHealth(h Health, emit emit) {
	emit(scrapeCollectorSuccess, bit(h.Success), h.Name)
	emit(scrapeCollectorSupported, bit(h.Supported), h.Name)
	emit(scrapeCollectorTimeout, bit(h.Timeout), h.Name)
	emit(scrapeCollectorDuration, h.Duration.Seconds(), h.Name)
}

// collectSources returns how what the set lives on does; a node may know of more.
func (s *Set) collectSources(n *fabric.Node, emit emit) {
	used := map[string]bool{fabric.SourceHost: true}
	for _, c := range s.collectors {
		for _, name := range c.sources {
			used[name] = true
		}
	}
	for _, src := range n.Sources {
		if !used[src.Name] {
			continue
		}
		device, netdev := src.Device, ""
		if src.OfNetDev() {
			device, netdev = "", src.Device
		}
		emit(sourceUp, bit(src.Up), src.Name, device, netdev)
		if !src.Up {
			emit(sourceUnknown, 1, src.Name, device, netdev, string(src.Reason))
		}
		if src.Name == fabric.SourceHCA {
			emit(hcaStuck, bit(src.Stuck()), device)
		}
	}
	if used[fabric.SourceHCA] {
		for _, k := range fabric.CommandKinds() {
			emit(driverCommands, float64(n.Commands[k]), string(k))
		}
		emit(uncachedReads, float64(n.Uncached))
		for i := range n.HCAs {
			h := &n.HCAs[i]
			count := unknowns{}
			count.add(h.Unknowns())
			if f := n.PCI.NIC(h.Name); f != nil {
				count.add(f.Unknowns())
			}
			count.emit(emit, h.Name, "")
		}
	}
	if used[fabric.SourceGPU] {
		collectUnknownGPUs(n, emit)
	}
}

// collectUnknownGPUs counts unknown facts of GPUs that have no UUID, for the node.
func collectUnknownGPUs(n *fabric.Node, emit emit) {
	node := unknowns{}
	node.add(n.GPUDriver.Unknowns())
	node.add(n.GPUDirect.Unknowns())
	named := map[*fabric.GPU]bool{}
	for g := range gpus(n) {
		named[g] = true
		count := unknowns{}
		count.add(g.Unknowns())
		count.emit(emit, "", label(g.UUID))
	}
	for i := range n.GPUDriver.GPUs {
		if g := &n.GPUDriver.GPUs[i]; !named[g] {
			node.add(g.Unknowns())
		}
	}
	node.emit(emit, "", "")
}

// unknowns counts unknown facts.
type unknowns map[fabric.Reason]int

func (u unknowns) add(facts iter.Seq2[string, fabric.Reason]) {
	for _, r := range facts {
		if r != fabric.ReasonNotRead && r != fabric.ReasonMoved { // it was not asked for; hca_moved shows the other
			u[r]++
		}
	}
}

func (u unknowns) emit(emit emit, device, uuid string) {
	for _, r := range fabric.Reasons() {
		if u[r] > 0 {
			emit(factsUnknown, float64(u[r]), device, uuid, string(r))
		}
	}
}

// ConfigState is how the exporter's configuration file does, and its log.
type ConfigState struct {
	LoadedAt   time.Time // when the configuration in force was loaded
	LastOK     bool      // the last attempt to load one succeeded
	LogDropped uint64    // lines of the log that were dropped
}

func collectConfig(c ConfigState, emit emit) {
	emit(logLinesDropped, float64(c.LogDropped))
	emit(configReloadSuccessful, bit(c.LastOK))
	if !c.LoadedAt.IsZero() {
		emit(configReloadTimestamp, float64(c.LoadedAt.UnixNano())/1e9)
	}
}
