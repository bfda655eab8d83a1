// SPDX-License-Identifier: Apache-2.0

package simulator

// at returns the node as it is at a step. It depends on nothing but the node and the step.
func (n *Node) at(step int) *Node {
	c := n.Clone()
	c.Logs = written(n.Logs, step)
	down := map[string]int{} // steps without a link so far, by interface
	for _, f := range n.Flaps {
		for _, p := range n.HCA(f.Device).Ports {
			down[p.NetDev] = n.downs(f.Device, step)
		}
		if f.down(step) {
			c.LinkDown(f.Device)
		}
	}
	delete(down, "") // a port without an interface; "" is no master either
	for i := range c.NetDevs {
		if d := &c.NetDevs[i]; n.NetDevs[i].Carrier {
			up := step - down[d.Name] - down[d.Master] - down[d.VLAN.Lower]
			d.Received, d.Sent = d.Received.at(up), d.Sent.at(up)
			move(d.Stats, min(up, n.carriedBy(d, step)))
			fec := &d.QoS.FEC
			fec.Corrected, fec.Uncorrectable = fec.Corrected.at(up), fec.Uncorrectable.at(up)
		}
	}
	for i := range c.HCAs {
		h := &c.HCAs[i]
		step := n.carried(step)
		move(h.HW, step)
		for k := range h.Ports {
			if n.HCAs[i].Ports[k].State == active {
				h.Ports[k].at(step, func(step int) int { return step - n.downs(h.Name, step) })
			}
		}
	}
	c.idle(step)
	for i := range c.GPUs {
		c.GPUs[i].at(i, step)
	}
	for i := range c.Functions {
		e := &c.Functions[i].AER
		e.Correctable, e.NonFatal, e.Fatal = e.Correctable.at(step), e.NonFatal.at(step), e.Fatal.at(step)
	}
	peers := &c.Driver.Peermem.Allocated
	*peers = peers.at(step)
	return c
}

// downs counts the steps up to this one at which the links of the device were down.
func (n *Node) downs(device string, step int) int {
	for _, f := range n.Flaps {
		if f.Device == device {
			return f.downs(step)
		}
	}
	return 0
}

// at moves the counters of a port to a step; up counts the steps with a link until then.
func (p *Port) at(step int, up func(step int) int) {
	move(p.HW, up(step))
	move(p.CM, up(step))
	if p.ClearEvery == 0 || step < p.ClearEvery {
		move(p.PMA, up(step))
		return
	}
	for i := range p.PMA {
		p.PMA[i].Start = 0
	}
	move(p.PMA, up(step)-up(step-step%p.ClearEvery))
}

func move(all []Statistic, steps int) {
	for i := range all {
		all[i].Counter = all[i].at(steps)
	}
}

// down reports whether the link is down at a step.
func (f Flap) down(step int) bool { return step%f.Period >= f.Period-f.Down }

// downs counts the steps up to this one at which the link was down.
func (f Flap) downs(step int) int {
	return step/f.Period*f.Down + max(0, step%f.Period-(f.Period-f.Down)+1)
}
