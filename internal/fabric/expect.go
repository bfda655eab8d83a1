// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"time"
)

// Authority is who says what should be there. The first that speaks of a fact wins.
type Authority string

// Authorities, the first before the rest.
const (
	ByConfiguration Authority = "configuration" // roles and expected of the site
	ByManifest      Authority = "manifest"      // what the operator accepted: check --write-manifest
	ByNCCL          Authority = "nccl_ib_hca"   // NCCL_IB_HCA of the host, as NCCL matches it
	ByProfile       Authority = "profile"       // of the platform
	ByRecord        Authority = "record"        // what this node itself had
	ByKernel        Authority = "kernel"        // the kernel shows that the device belongs to the platform
	ByNobody        Authority = "guess"
)

// Expected is what should be there, and who says so.
type Expected[T any] struct {
	Value T
	By    Authority // ByNobody: Value says nothing
	Words string    // for people: "it had a link until 2026-11-27 03:12 UTC (record of this node)"
}

// Stated reports whether anybody says so.
func (e Expected[T]) Stated() bool { return e.By != ByNobody && e.By != "" }

// deriveExpectations says of each port whether it should have a link, and at which rate, after its role.
func (n *Node) deriveExpectations() {
	count := n.count(func(_ *HCA, p *Port) bool { return p.Serves(RoleCompute) })
	for h, p := range n.Ports {
		if n.meant(p, count) && p.RoleBy == ByNobody {
			p.RoleBy = ByConfiguration
		}
		p.Link = n.linkOf(h, p, count)
		p.ExpectedRate, p.RateBy = n.expectedRate(h, p)
		p.Address = n.addressOf(h, p)
	}
}

// lacksNIC reports whether the node had more RDMA devices than now: then a number that fits, fits by a device
// that is gone.
func (n *Node) lacksNIC() bool {
	return slices.ContainsFunc(n.Remembered, func(r Remembered) bool { return r.Kind == PCINIC })
}

// meant reports whether the number of compute ports that the site expects says that it means this one: there
// are no others, or no others that are active.
func (n *Node) meant(p *Port, count portCount) bool {
	want := n.Policy.ComputePorts
	return want != nil && p.Serves(RoleCompute) && !n.lacksNIC() &&
		(count.all == *want || count.active == *want && p.Carries())
}

// portCount is how many ports there are of those that should be so many.
type portCount struct{ all, active int }

// count counts those that are wanted.
func (n *Node) count(wanted func(*HCA, *Port) bool) (c portCount) {
	for h, p := range n.Ports {
		if !wanted(h, p) {
			continue
		}
		c.all++
		if p.Carries() {
			c.active++
		}
	}
	return c
}

// linkOf says whether a port should have a link.
func (n *Node) linkOf(h *HCA, p *Port, count portCount) Expected[bool] {
	for _, stated := range []func(*HCA, *Port, portCount) (Expected[bool], bool){
		n.linkByCount, n.linkByManifest,
		n.linkByNCCL, n.linkByProfile, n.linkByRecord,
	} {
		if e, ok := stated(h, p, count); ok {
			return e
		}
	}
	return Expected[bool]{By: ByNobody}
}

// linkByCount follows from the number of compute ports that the site expects.
func (n *Node) linkByCount(_ *HCA, p *Port, count portCount) (e Expected[bool], ok bool) {
	want := n.Policy.ComputePorts
	if want == nil || !p.Serves(RoleCompute) {
		return e, false
	}
	e = Expected[bool]{By: ByConfiguration, Words: fmt.Sprintf("the configuration expects %d compute ports", *want)}
	return e, count.tells(*want, p, &e.Value)
}

// tells sets whether a port should have a link where so many of them should: all if there are no more, else
// those that are active if they are as many. None beside them should if they are enough, unless it had one:
// then another may count in its place.
func (c portCount) tells(want int, p *Port, link *bool) bool {
	*link = c.all <= want || c.active == want && p.Carries()
	return *link || c.active >= want && !p.Seen.Active
}

func (n *Node) linkByManifest(h *HCA, p *Port, _ portCount) (e Expected[bool], ok bool) {
	rate, _ := n.Policy.Manifest.ofPort(h, p, "rate")
	if rate == ManifestNone {
		return Expected[bool]{By: ByManifest, Words: "the manifest has it without a link"}, true
	}
	_, ok = n.Policy.Manifest.rateOf(h, p)
	return Expected[bool]{Value: true, By: ByManifest, Words: "the manifest has it at " + rate}, ok
}

// linkByNCCL is so only for devices that NCCL_IB_HCA names as a whole: a prefix, or what "^" leaves, may
// match what has no cable. Of a device with several ports, NCCL takes those that are active: one of them
// should be.
func (n *Node) linkByNCCL(h *HCA, p *Port, _ portCount) (e Expected[bool], ok bool) {
	if !n.NCCL.names(h, p) || !p.Carries() && !n.NCCL.namesPort(h, p) &&
		slices.ContainsFunc(h.Ports, func(q Port) bool { return q.Carries() }) {
		return e, false
	}
	v, _ := n.NCCL.Lookup("NCCL_IB_HCA")
	return Expected[bool]{Value: true, By: ByNCCL, Words: "NCCL_IB_HCA names it (" + v.Source + ")"}, true
}

// linkByProfile is so only where the provider of the machine fixes the cabling. It may leave ports of cards
// without one.
func (n *Node) linkByProfile(h *HCA, p *Port, _ portCount) (e Expected[bool], ok bool) {
	nic := n.inProfile(h, p)
	if nic == nil || n.Profile.Cabling.By != CabledByProvider {
		return e, false
	}
	e = Expected[bool]{By: ByProfile, Words: "each " + n.Profile.Title + " has it cabled"}
	count := n.count(func(h *HCA, p *Port) bool { return n.inProfile(h, p) == nic })
	if count.all > nic.Number {
		e.Words = fmt.Sprintf("each %s has %d of them cabled", n.Profile.Title, nic.Number)
	}
	return e, count.tells(nic.Number, p, &e.Value)
}

// linkByRecord is not so for virtual functions of which nothing states that they are for training: pods take
// their links down.
func (n *Node) linkByRecord(h *HCA, p *Port, _ portCount) (e Expected[bool], ok bool) {
	if !p.Seen.Active || h.Lent() && p.RoleBy == ByNobody {
		return e, false
	}
	return Expected[bool]{Value: true, By: ByRecord, Words: "it had a link" + Until(p.Seen.Last)}, true
}

// Until says until when the record of a node has something; zero: that is not known.
func Until(last time.Time) string {
	const source = " (record of this node)"
	if last.IsZero() {
		return source
	}
	return " until " + last.UTC().Format("2006-01-02 15:04 UTC") + source
}

// manifestRoCEv2 is how a manifest has the GID that NCCL chooses on a RoCE v2 port, before the family.
const manifestRoCEv2 = "RoCE v2, "

// addressOf says whether a port should have an address of the family that NCCL looks for. Which one is never
// expected: networks are renumbered. Members of a bond have its address while they are the active one.
func (n *Node) addressOf(h *HCA, p *Port) Expected[GIDFamily] {
	family, past := FamilyIPv4, p.Seen.IPv4
	if s, _ := n.NCCL.Text("NCCL_IB_ADDR_FAMILY"); s == "AF_INET6" {
		family, past = FamilyIPv6, p.Seen.IPv6
	}
	if gid, ok := n.Policy.Manifest.ofPort(h, p, "gid"); ok {
		if gid != manifestRoCEv2+string(family) {
			return Expected[GIDFamily]{By: ByManifest}
		}
		return Expected[GIDFamily]{Value: family, By: ByManifest, Words: "the manifest has " + gid}
	}
	d := n.NetDev(p.NetDev.Or(""))
	if !past.Addr.IsValid() || d == nil || d.Upper.State != Absent {
		return Expected[GIDFamily]{By: ByNobody}
	}
	return Expected[GIDFamily]{Value: family, By: ByRecord, Words: "it had " + past.Addr.String() + Until(past.Last)}
}
