// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"iter"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// rocePorts iterates over the ports that have RoCE, with the labels device and port.
func rocePorts(n *fabric.Node) iter.Seq2[[2]string, []fabric.RoCEChain] {
	return func(yield func([2]string, []fabric.RoCEChain) bool) {
		for i := range n.HCAs {
			h := &n.HCAs[i]
			for k := range h.Ports {
				chains := h.Ports[k].RoCE.Or(nil)
				if len(chains) > 0 && !yield([2]string{h.Name, strconv.Itoa(h.Ports[k].Number)}, chains) {
					return
				}
			}
		}
	}
}

func hasRoCE(n *fabric.Node) (bool, string) {
	if ok, why := hasRDMA(n); !ok {
		return false, why
	}
	for range rocePorts(n) {
		return true, ""
	}
	return false, "no RDMA device has a RoCE port"
}

func collectRoCE(n *fabric.Node, emit emit) {
	for at, chains := range rocePorts(n) {
		collectChain(at[0], at[1], &chains[0], emit)
		for i := range chains {
			if d := n.NetDev(chains[i].Interface); d != nil {
				collectQoS(at[0], at[1], d, &chains[i], emit)
			}
		}
	}
}

// collectChain is about the port.
func collectChain(dev, port string, c *fabric.RoCEChain, emit emit) {
	switch link := c.Link(c.Step); c.Verdict {
	case fabric.StatusOK:
		emit(roceChainConsistent, 1, dev, port)
	case fabric.StatusFailed:
		emit(roceChainConsistent, 0, dev, port)
		emit(roceChainBroken, 1, dev, port, string(c.Step))
	default:
		emit(roceChainUnknown, 1, dev, port, string(c.Step), string(link.Reason))
	}
	number(emit, roceTrafficClass, c.TrafficClass, dev, port)
	number(emit, roceDSCP, c.DSCP, dev, port)
	number(emit, rocePriority, c.Judged, dev, port)
	state(emit, roceCongestionControl, c.Mode, fabric.RoCEModes(), dev, port)
}

// collectQoS is about one physical interface below it.
func collectQoS(dev, port string, d *fabric.NetDev, c *fabric.RoCEChain, emit emit) {
	q := &d.QoS
	if t, ok := c.Trust.Get(); ok {
		state(emit, roceTrust, t, fabric.Trusts(), dev, port, d.Name)
	}
	used, known := c.Judged.Get()
	if pfc, ok := q.PFC.Get(); ok {
		for p := range fabric.NumPriorities {
			if on := pfc.Enabled.Has(p); on || known && p == used {
				emit(rocePFCEnabled, bit(on), dev, port, d.Name, strconv.Itoa(p))
			}
		}
	}
	if p, ok := q.Pause.Get(); ok {
		emit(roceGlobalPauseEnabled, bit(p.Receive), dev, port, d.Name, "receive")
		emit(roceGlobalPauseEnabled, bit(p.Transmit), dev, port, d.Name, "transmit")
	}
	if np, ok := q.NP.Get(); ok && known {
		emit(roceECNEnabled, bit(np.Has(used)), dev, port, d.Name, strconv.Itoa(used), "notification")
	}
	if rp, ok := q.RP.Get(); ok && known {
		emit(roceECNEnabled, bit(rp.Has(used)), dev, port, d.Name, strconv.Itoa(used), "reaction")
	}
	number(emit, roceLosslessBuffer, c.LosslessBuffer, dev, port, d.Name)
	number(emit, roceCNPDSCP, q.CNPDSCP, dev, port, d.Name)
	emit(roceConfigurationInfo, 1, dev, port, d.Name, c.Hash, c.TrafficClassFrom, dcbx(q.DCBX))
}

// dcbx says who configures the interface; empty when the driver does not.
func dcbx(f fabric.Fact[fabric.DCBX]) string {
	switch x, ok := f.Get(); {
	case !ok:
		return ""
	case x.Host:
		return "host"
	default:
		return "firmware"
	}
}

func collectDCQCN(n *fabric.Node, emit emit) {
	for at, chains := range rocePorts(n) {
		for i := range chains {
			d := n.NetDev(chains[i].Interface)
			if d == nil {
				continue
			}
			for _, p := range d.QoS.Parameters.Or(nil) {
				emit(roceCongestionControlParameter, float64(p.Value), at[0], at[1], d.Name, p.Name)
			}
		}
	}
}
