// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

// Links that every report has a line about, in this order. Others have one if something was measured over them.
const (
	linkTCP        = "TCP"
	linkRoCE       = "RoCE v2"
	linkInfiniBand = "InfiniBand"
	linkNVLink     = "NVLink"

	linkPlugin = "network plugin" // of which the name follows
)

func resultOf(d *status.Document, r *probes.Result, from string) Result {
	v := Result{
		Kind: string(r.Kind), Label: r.Label, Device: r.Device, Port: r.Port, At: r.At.UTC(), Source: from,
		Link: linkOf(d, r), Network: r.Network,
		GPUDirect: probes.Word(r.GPUDirect, probes.YesNo), NCCL: r.NCCL, Outcome: string(r.Outcome),
		Failure: string(r.Failure), Error: r.Error, NoDevices: r.NoDevices, Expected: number(r.Expected.Fact),
		Baseline: number(r.Comparison.Median.Fact), Ratio: number(r.Comparison.Ratio.Fact), Faults: []probes.Fault{},
	}
	if n := len(r.Measurements); n > 0 && r.Outcome == probes.OK {
		m := &r.Measurements[n-1]
		v.Op, v.Bytes, v.Ranks = string(m.Op), m.Bytes, m.Ranks
		if m.Ranks > 1 && m.BusBW > 0 {
			v.BusBW = &m.BusBW
		}
	}
	if r.Outcome != probes.Aborted {
		v.Faults = append(v.Faults, r.Faults()...)
	}
	return v
}

// linkOf is the link that carried the data of a probe; empty: not known.
func linkOf(d *status.Document, r *probes.Result) string {
	switch path := r.Path.Or(""); path {
	case probes.PathSocket:
		return linkTCP
	case probes.PathIB:
		return rdmaLink(d, r.Device)
	case probes.PathPlugin:
		return linkPlugin + " " + probes.OrUnknown(r.Network)
	case probes.PathNVLS:
		return linkNVLink
	case probes.PathP2P:
		return p2pLink(d)
	case probes.PathSHM:
		return "host memory"
	}
	return ""
}

// rdmaLink is what NCCL's verbs network runs over on a device, or on all training ports where none is named.
func rdmaLink(d *status.Document, device string) string {
	links := map[string]bool{}
	for i := range d.Devices {
		for k := range d.Devices[i].Ports {
			p := &d.Devices[i].Ports[k]
			if d.Devices[i].Name != device && (device != "" || p.Role.Or("") != string(fabric.RoleCompute)) {
				continue
			}
			switch p.Layer.Or("") {
			case string(fabric.LinkInfiniBand):
				links[linkInfiniBand] = true
			case string(fabric.LinkEthernet):
				links[map[bool]string{
					true:  "RoCE v1",
					false: linkRoCE,
				}[p.Choice.Or(status.Choice{}).Type == string(fabric.GIDRoCEv1)]] = true
			default:
				links["RDMA"] = true
			}
		}
	}
	if len(links) == 1 {
		for l := range links {
			return l
		}
	}
	return "RDMA"
}

// p2pLink is what direct paths between the GPUs run over. GPUs whose NVLinks are not connected have them, too.
func p2pLink(d *status.Document) string {
	linked, listed, hidden := false, false, false
	for i := range d.GPUs {
		g := &d.GPUs[i]
		listed = listed || g.Listed()
		hidden = hidden || g.Listed() && g.NVLinks.Unknown()
		linked = linked || g.NVLinks.Or(0) > 0
	}
	switch {
	case linked:
		return linkNVLink
	case listed && !hidden:
		return "PCIe"
	}
	return "NVLink or PCIe"
}

// measured are the results over a link that have a bandwidth, the slowest first.
type measured []*Result

// middle is the result with the median bandwidth, of two the lower.
func (m measured) middle() *Result { return m[(len(m)-1)/2] }

func (m measured) median() float64 { return *m.middle().BusBW }

// over returns what was measured over a link, by the kinds of probe that measure one link only (for networks, rails) if
// there are any.
func (f *Facts) over(link string) measured {
	for _, rank := range [][]probes.Kind{{probes.Socket, probes.Rail}, {probes.Calibrate, probes.Node}} {
		m := which(f.Results, func(r *Result) bool {
			return r.BusBW != nil && r.Link == link && slices.Contains(rank, probes.Kind(r.Kind)) &&
				(link != linkTCP || r.Kind != string(probes.Rail) || r.Label != "")
		})
		if len(m) > 0 {
			slices.SortStableFunc(m, func(a, b *Result) int {
				return cmp.Or(strings.Compare(a.Kind, b.Kind), cmp.Compare(*a.BusBW, *b.BusBW),
					fabric.NaturalOrder(a.Device, b.Device))
			})
			return m
		}
	}
	return nil
}

// links are those that a report has a line of.
func (f *Facts) links() []string {
	all := []string{linkTCP, linkRoCE, linkInfiniBand, linkNVLink}
	for i := range f.Results {
		if l := f.Results[i].Link; l != "" && f.Results[i].BusBW != nil && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all[:min(len(all), document.MaxRows)]
}

// unmeasured says how to measure a link, or why it was not measured.
func (f *Facts) unmeasured(link string) document.Text {
	switch link {
	case linkTCP:
		return f.remains("gpufabric_exporter probe socket")
	case linkNVLink:
		return f.remains("gpufabric_exporter probe node")
	}
	if slices.ContainsFunc(f.Results, func(r Result) bool {
		return r.Kind == string(probes.Rail) && r.Link == linkTCP &&
			r.Label == ""
	}) {
		return text("the rail probes went over TCP")
	}
	return f.remains("gpufabric_exporter probe rail")
}

// remains is the command of a measurement that is missing, where it can be run.
func (f *Facts) remains(command string) document.Text {
	if why := f.withoutNCCL(); why != "" {
		return text("no probe runs here: " + why)
	}
	return text("measure it: ", document.Code(command))
}

// withoutNCCL says why NCCL cannot run on the node; empty: it may.
func (f *Facts) withoutNCCL() string {
	switch other := which(f.GPUs, func(g *GPU) bool { return g.GPUDirect == notJudged }); {
	case len(f.GPUs) == 0 && f.Node.GPUs == "0":
		return "it has no GPU"
	case len(f.GPUs) > 0 && len(other) == len(f.GPUs):
		return foreign
	}
	return ""
}

// lacks reports whether the node is known not to have a link.
func (f *Facts) lacks(link string) bool {
	switch link {
	case linkRoCE:
		return !f.mayHave(status.FabricRoCE)
	case linkInfiniBand:
		return !f.mayHave(status.FabricInfiniBand)
	case linkNVLink:
		return (len(f.GPUs) > 0 || f.withoutNCCL() != "") &&
			!slices.ContainsFunc(f.GPUs, func(g GPU) bool { return g.NVLinks != "none" && g.NVLinks != "0 of 0" })
	}
	return false
}

// mayHave reports whether the node has ports for training of a fabric, or ports of which that is not known.
func (f *Facts) mayHave(name string) bool {
	return slices.ContainsFunc(f.Ports, func(p Port) bool {
		return isUnknown(p.Fabric) || p.Fabric == name && (p.training() || isUnknown(p.Role))
	})
}
