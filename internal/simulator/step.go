// SPDX-License-Identifier: Apache-2.0

package simulator

// at returns the node as it is at a step. It depends on nothing but the node and the step.
func (n *Node) at(step int) *Node {
	c := n.Clone()
	down := map[string]int{} // steps without a link so far, by interface
	for _, f := range n.Flaps {
		for _, p := range n.HCA(f.Device).Ports {
			down[p.NetDev] = f.downs(step)
		}
		if f.down(step) {
			c.LinkDown(f.Device)
		}
	}
	delete(down, "") // a port without an interface; "" is no master either
	for i := range c.NetDevs {
		if d := &c.NetDevs[i]; n.NetDevs[i].Carrier {
			up := step - down[d.Name] - down[d.Master]
			d.Received, d.Sent = d.Received.at(up), d.Sent.at(up)
		}
	}
	return c
}

// at returns the counter after that many steps with a link.
func (c Counter) at(steps int) Counter {
	c.Start += uint64(steps) * c.PerStep
	return c
}

// plus adds counters.
func (c Counter) plus(o Counter) Counter {
	return Counter{Start: c.Start + o.Start, PerStep: c.PerStep + o.PerStep}
}

// down tells whether the link is down at a step.
func (f Flap) down(step int) bool { return step%f.Period >= f.Period-f.Down }

// downs counts the steps up to this one at which the link was down.
func (f Flap) downs(step int) int {
	return step/f.Period*f.Down + max(0, step%f.Period-(f.Period-f.Down)+1)
}
