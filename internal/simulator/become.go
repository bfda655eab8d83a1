// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"strconv"
)

// Healthy returns the node before the scenario happened to it, for the caller to keep.
func (s Scenario) Healthy() *Node { return s.follow(s.platform.build().gpuDirectFrom(s.platform.gdr)) }

// Reload has the node look as if its drivers had just been loaded, and returns it: what grows starts from 0. What does not grow
// stays: gauges, and counters that have stopped at some value. The boot time stays, too: alerts give a node that booted half an
// hour to settle.
func (n *Node) Reload() *Node {
	n.counters(func(_ string, c *Counter) {
		if c.PerStep > 0 {
			c.Start = 0
		}
	})
	n.Driver.Peermem.Allocated.Start = n.Driver.Peermem.Registered // of the job that runs
	return n
}

// Become turns the node into another of the same machine, which starts at step 0. What was unplugged stays so. Counters
// that both have go on from their values of now, as those of a machine do; others start where the new node has them. Logs
// keep their lines.
func (t *Tree) Become(n *Node) error {
	n = n.Clone()
	t.mu.Lock()
	defer t.mu.Unlock()
	was := map[string]uint64{}
	old := t.node.at(t.step)
	old.counters(func(name string, c *Counter) { was[name] = c.Start })
	n.Logs = continued(old.Logs, n.Logs)
	n.counters(func(name string, c *Counter) {
		if start, ok := was[name]; ok {
			c.Start = start
		}
	})
	if err := n.check(); err != nil {
		return err
	}
	t.node, t.step = n, 0
	return t.update(context.Background())
}

// counters calls f with every counter of the node, under a name that is the counter's alone.
func (n *Node) counters(f func(name string, c *Counter)) {
	all := func(owner string, list []Statistic) {
		for i := range list {
			f(owner+" "+list[i].Name, &list[i].Counter)
		}
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		all(h.Name+" hw", h.HW)
		for k := range h.Ports {
			p := &h.Ports[k]
			port := h.Name + "/" + strconv.Itoa(p.Number)
			all(port+" pma", p.PMA)
			all(port+" hw", p.HW)
			all(port+" cm", p.CM)
		}
	}
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		f("netdev "+d.Name+" received", &d.Received)
		f("netdev "+d.Name+" sent", &d.Sent)
		f("netdev "+d.Name+" corrected", &d.QoS.FEC.Corrected)
		f("netdev "+d.Name+" uncorrectable", &d.QoS.FEC.Uncorrectable)
		all("netdev "+d.Name+" statistic", d.Stats)
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		f("gpu "+g.PCI+" replays", &g.Replays)
		for k := range g.Links {
			l := &g.Links[k]
			for e := range l.Errors {
				f("gpu "+g.PCI+" link "+strconv.Itoa(k)+" "+string(l.Errors[e].Kind), &l.Errors[e].Counter)
			}
		}
	}
	for i := range n.Functions {
		e := &n.Functions[i].AER
		address := "function " + n.Functions[i].Address()
		f(address+" correctable", &e.Correctable)
		f(address+" nonfatal", &e.NonFatal)
		f(address+" fatal", &e.Fatal)
	}
	f("peermem", &n.Driver.Peermem.Allocated)
}
