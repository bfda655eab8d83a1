// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"slices"
	"strings"
)

// Rail is a GPU with the compute NICs nearest to it.
type Rail struct {
	GPU      string         // address
	Distance Fact[Distance] // of the nearest NICs; absent without compute NICs
	Nearest  []string       // RDMA devices at that distance, in their order
	// NIC is the one among Nearest that this GPU gets when they are dealt out evenly; empty when there is none.
	NIC    string
	Number int  // of NIC among the compute NICs
	Shared bool // another GPU gets the same
}

// rails deals the nearest compute NICs out to the GPUs. Those that have the least choice come first.
func (n *Node) rails() []Rail {
	return n.deal(n.computeNICs(), n.gpuNICDistance)
}

// deal is rails for these NICs and these distances.
func (n *Node) deal(nics []string, distance func(gpu, nic *PCIFunction) Fact[Distance]) []Rail {
	rails := make([]Rail, 0, 8)
	for _, g := range n.PCI.GPUs() {
		r := Rail{GPU: g.Address}
		r.Distance, r.Nearest = n.nearest(g, nics, distance)
		rails = append(rails, r)
	}
	order := make([]*Rail, len(rails))
	for i := range rails {
		order[i] = &rails[i]
	}
	slices.SortStableFunc(order, func(a, b *Rail) int { return cmp.Compare(len(a.Nearest), len(b.Nearest)) })
	users := map[string]int{}
	for _, r := range order {
		if len(r.Nearest) == 0 {
			continue
		}
		r.NIC = slices.MinFunc(r.Nearest, func(a, b string) int { return cmp.Compare(users[a], users[b]) })
		r.Number = slices.Index(nics, r.NIC)
		users[r.NIC]++
	}
	for i := range rails {
		rails[i].Shared = users[rails[i].NIC] > 1
	}
	return rails
}

// nearest returns the NICs at the least distance from a GPU. Below a common switch nothing can be nearer by much;
// further away, a NIC of which a hypervisor hides the place might be.
func (n *Node) nearest(gpu *PCIFunction, nics []string,
	distance func(gpu, nic *PCIFunction) Fact[Distance],
) (Fact[Distance], []string) {
	const source = "bus/pci/devices"
	best := AbsentFact[Distance](source, n.At)
	var names []string
	var hidden Fact[Distance]
	for _, name := range nics {
		d := distance(gpu, n.PCI.NIC(name))
		switch v, known := d.Get(); {
		case !known:
			if hidden.Reason != ReasonVirtual {
				hidden = d
			}
		case best.State != OK || v < best.Value:
			best, names = d, []string{name}
		case v == best.Value:
			names = append(names, name)
		}
	}
	if hidden.Reason != "" && (best.State != OK || best.Value > DistancePXB && hidden.Reason == ReasonVirtual) {
		return hidden, nil
	}
	return best, names
}

// computeNICs returns the RDMA devices with a port of role compute that are PCI functions, mlx5_2 before
// mlx5_10. One near a GPU that cannot be read now keeps its place: its GPU must not look as if it had moved
// to another.
func (n *Node) computeNICs() []string {
	var names []string
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if f := n.PCI.NIC(h.Name); f != nil && n.mayCompute(h, f) {
			names = append(names, h.Name)
		}
	}
	slices.SortFunc(names, NaturalOrder)
	return names
}

// mayCompute reports whether training traffic may take the device with that function.
func (n *Node) mayCompute(h *HCA, f *PCIFunction) bool {
	return h.Serves(RoleCompute) || h.PortsHidden() && !h.Part() && n.nearGPU(f)
}

// nearGPU reports whether the function shares a switch with a GPU.
func (n *Node) nearGPU(f *PCIFunction) bool {
	return n.nearAny(n.PCI.GPUs(), f)
}

// nearAny reports whether the function shares a switch with one of these.
func (n *Node) nearAny(gpus []*PCIFunction, f *PCIFunction) bool {
	return slices.ContainsFunc(gpus, func(g *PCIFunction) bool {
		if sharedBridges(g, f) == 0 { // most are not
			return false
		}
		d, known := DistanceOf(g, f, n.Host.Hypervisor, n.At).Get()
		return known && d <= DistancePXB
	})
}

// NaturalOrder compares names as people count: numbers in them by their value.
func NaturalOrder(a, b string) int {
	const digits = "0123456789"
	for a != "" && b != "" {
		restA, restB := strings.TrimLeft(a, digits), strings.TrimLeft(b, digits)
		numberA, numberB := strings.TrimLeft(a[:len(a)-len(restA)], "0"), strings.TrimLeft(b[:len(b)-len(restB)], "0")
		if c := cmp.Or(cmp.Compare(len(numberA), len(numberB)), strings.Compare(numberA, numberB)); c != 0 {
			return c
		}
		endA, endB := len(restA)-len(strings.TrimLeftFunc(restA, isNoDigit)),
			len(restB)-len(strings.TrimLeftFunc(restB, isNoDigit))
		if c := strings.Compare(restA[:endA], restB[:endB]); c != 0 {
			return c
		}
		a, b = restA[endA:], restB[endB:]
	}
	return cmp.Compare(len(a), len(b))
}

func isNoDigit(r rune) bool { return r < '0' || r > '9' }
