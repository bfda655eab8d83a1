// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"iter"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Health is how one collector does.
type Health struct {
	Name      string
	Supported bool   // the node has what it is for
	Success   bool   // everything it needs was read; also when there is nothing to read
	Timeout   bool   // something it needs did not answer in time
	Why       string // it is not supported or failed
	Duration  time.Duration
}

// Health tells how each collector of the set does on a node.
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

// collectSources tells how what the set lives on does; a node may know of more.
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

// collectUnknownGPUs counts for the node what nobody is named of.
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
		if r != fabric.ReasonNotRead && r != fabric.ReasonMoved { // nobody asked for it; hca_moved tells
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

// ConfigState is how the exporter's configuration file does.
type ConfigState struct {
	LoadedAt time.Time // when the configuration in force was loaded
	LastOK   bool      // the last attempt to load one succeeded
}

func collectConfig(c ConfigState, emit emit) {
	emit(configReloadSuccessful, bit(c.LastOK))
	if !c.LoadedAt.IsZero() {
		emit(configReloadTimestamp, float64(c.LoadedAt.UnixNano())/1e9)
	}
}
