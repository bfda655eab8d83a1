// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

func write(w io.Writer, asJSON bool, r *status.Topology) error {
	if asJSON {
		return command.JSON(w, r)
	}
	if len(r.GPUs)+len(r.NICs) == 0 {
		_, err := fmt.Fprintf(w, "The PCI bus has no GPU and no RDMA NIC.\nConfiguration: %s\n", r.Configuration.Text)
		return err
	}
	unknown, err := writeMatrix(w, r)
	if err != nil {
		return err
	}
	var b strings.Builder
	writeLegend(&b, r, unknown)
	writeReasons(&b, r)
	fmt.Fprintf(&b, "Configuration: %s\n", r.Configuration.Text)
	_, err = io.WriteString(w, b.String())
	return err
}

// writeMatrix writes a row for each GPU and NIC, and returns why some distances are not known.
func writeMatrix(w io.Writer, r *status.Topology) (unknown map[string]bool, err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(first string, cells ...string) {
		for i, c := range cells {
			cells[i] = command.OneLine(c)
		}
		fmt.Fprintln(t, strings.TrimRight(command.OneLine(first)+"\t"+strings.Join(cells, "\t"), "\t"))
	}
	var names []string
	for i := range r.GPUs {
		g := &r.GPUs[i]
		names = append(names, g.Name)
	}
	for _, nic := range r.NICs {
		names = append(names, nic.Name)
	}
	row("", append(slices.Clone(names), "NUMA", "rail", "GPUDirect")...)
	unknown = map[string]bool{}
	for i, from := range names {
		var cells []string
		for k := range names {
			d := r.Distances[i*len(names)+k]
			switch {
			case i == k:
				cells = append(cells, "X")
			case d.NVLinks != nil && *d.NVLinks > 0:
				cells = append(cells, "NV"+strconv.Itoa(*d.NVLinks))
			case d.Class == "":
				cells = append(cells, "?")
				unknown[d.Reason] = true
			default:
				cells = append(cells, d.Class)
			}
		}
		if i < len(r.GPUs) {
			g := &r.GPUs[i]
			cells = append(cells, orUnknown(g.NUMANode), railText(g), gpuDirectText(g))
		} else {
			nic := r.NICs[i-len(r.GPUs)]
			cells = append(cells, orUnknown(nic.NUMANode), nic.Role)
		}
		row(from, cells...)
	}
	return unknown, t.Flush()
}

// railText is a GPU's nearest NIC, as one looks for it in the matrix.
func railText(g *status.TopologyGPU) string {
	switch {
	case g.Rail == nil && g.Reason != "":
		return "?"
	case g.Rail == nil || g.NIC == "":
		return "none"
	case g.Shared:
		return fmt.Sprintf("%d %s, shared", *g.Rail, g.NIC)
	default:
		return fmt.Sprintf("%d %s", *g.Rail, g.NIC)
	}
}

// gpuDirectText is the verdict in two words.
func gpuDirectText(g *status.TopologyGPU) string {
	switch d := g.GPUDirect; {
	case d.Usable == nil && d.Reason != "":
		return "?"
	case d.Usable == nil:
		return "none"
	case *d.Usable:
		return strings.TrimRight("yes "+d.Path, " ")
	case fabric.GDRBlock(d.Block).Slow():
		return "slow " + d.Block
	default:
		return strings.TrimRight("no "+d.Block, " ")
	}
}

func orUnknown(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

func writeLegend(b *strings.Builder, r *status.Topology, unknown map[string]bool) {
	b.WriteString(`
X     itself
NV#   number of active NVLinks, to each other or both to NVSwitches
PIX   below one PCIe switch
PXB   through several PCIe switches, not through the host bridge
P2C   through NVLink-C2C to the processor, then PCIe
PHB   through one PCIe host bridge
NODE  through PCIe host bridges of one NUMA node (PHB in NCCL)
SYS   through the interconnect of NUMA nodes
`)
	for _, reason := range fabric.Reasons() {
		if unknown[string(reason)] {
			fmt.Fprintf(b, "?     unknown: %s\n", verdict.ReasonText(reason))
		}
	}
	b.WriteString("rail  of a GPU: the number of its nearest compute NIC and that NIC; of a NIC: its role\n")
	if len(r.GPUs) == 0 {
		return
	}
	b.WriteString("GPUDirect  whether NCCL would use GPUDirect RDMA with that NIC: yes and how (dmabuf, peermem), or no and why not:\n" +
		"           driver: none responds; gpu: not supported; module: no dma-buf, no peer-memory module; override: denied by a driver option;\n" +
		"           distance: further than NCCL's default level; level: NCCL_NET_GDR_LEVEL; acs: bridges redirect; iommu: an IOMMU translates\n")
}

// writeReasons says which is which, why the verdicts are as they are, and what is not known.
func writeReasons(b *strings.Builder, r *status.Topology) {
	b.WriteString("\n")
	for _, text := range []string{r.Driver.Text, linksUnknown(r)} {
		if text != "" {
			b.WriteString(text + "\n")
		}
	}
	acs, unsure, block := sameOfAll(r, acsUnknown), sameOfAll(r, verdictUnknown), sameOfAll(r, blockText)
	if acs != "" {
		fmt.Fprintf(b, "Whether ACS redirects traffic between GPUs and NICs is unknown: %s.\n", acs)
	}
	if unsure != "" {
		fmt.Fprintf(b, "Whether GPUDirect RDMA works is unknown: %s.\n", unsure)
	}
	if block != "" {
		b.WriteString(verdict.Sentence(block) + "\n")
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		text := g.Name + " is " + placeText(g)
		if why := acsUnknown(g); why != "" && acs == "" {
			text += "; whether ACS redirects traffic to " + g.NIC + " is unknown: " + why
		}
		if len(g.ACSRedirect) > 0 && g.GPUDirect.Block != string(fabric.GDRACS) { // else that says it
			text += "; ACS redirects traffic to " + g.NIC + " at " + strings.Join(g.ACSRedirect, ", ")
		}
		if why := verdictUnknown(g); why != "" && unsure == "" {
			text += "; GPUDirect RDMA is unknown: " + why
		}
		if why := blockText(g); why != "" && block == "" {
			text += "; " + why
		}
		b.WriteString(command.OneLine(text) + "\n")
	}
	for _, nic := range r.NICs {
		fmt.Fprintf(b, "%s is %s%s\n", command.OneLine(nic.Name), nic.PCI, linksText(nic.Degraded))
	}
	writePairs(b, r)
}

func placeText(g *status.TopologyGPU) string {
	text := g.PCI
	if text == "" {
		text = "at an unknown position"
	}
	if g.Model != nil {
		text += ", " + *g.Model
	}
	if g.Lost != nil && *g.Lost {
		text += "; its driver has lost it"
	}
	if g.Fabric != "" && g.Fabric != string(fabric.GPUFabricCompleted) {
		text += "; it has not joined its NVLink fabric: " + verdict.Spaced(g.Fabric)
	}
	return text
}

// linksUnknown says that the table shows PCIe where there may be NVLink.
func linksUnknown(r *status.Topology) string {
	var names []string
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.NVLinks == nil {
			names = append(names, g.Name)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) == len(r.GPUs):
		return "NVLinks are unknown: between GPUs the table shows the PCIe path."
	default:
		return "NVLinks of " + strings.Join(names, ", ") + " are unknown: to them the table shows the PCIe path."
	}
}

// sameOfAll returns what is said of every GPU that has a NIC, or nothing if it is not the same.
func sameOfAll(r *status.Topology, say func(*status.TopologyGPU) string) string {
	var said []string
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.NIC != "" {
			said = append(said, say(g))
		}
	}
	if said = slices.Compact(said); len(said) != 1 {
		return ""
	}
	return said[0]
}

// acsUnknown returns why it is unknown whether ACS redirects on the way to the NIC; empty when it is known.
func acsUnknown(g *status.TopologyGPU) string {
	if g.NIC == "" || g.ACSRedirect != nil {
		return ""
	}
	text := verdict.ReasonText(fabric.Reason(g.ACSReason))
	if fabric.Reason(g.ACSReason) == fabric.ReasonPrivilege {
		text += ", requires root (CAP_SYS_ADMIN)"
	}
	return text
}

// verdictUnknown returns why it is unknown whether GPUDirect RDMA works; empty when it is known, or there is no NIC.
func verdictUnknown(g *status.TopologyGPU) string {
	d := g.GPUDirect
	switch {
	case g.NIC == "" || d.Usable != nil || d.Reason == "":
		return ""
	case d.Evidence != "":
		return strings.TrimSuffix(d.Evidence, ".")
	default:
		return verdict.ReasonText(fabric.Reason(d.Reason))
	}
}

// blockText returns why GPUDirect RDMA does not work, or is slow; empty when it is usable, or that is unknown.
func blockText(g *status.TopologyGPU) string {
	d := g.GPUDirect
	if d.Usable == nil || *d.Usable {
		return ""
	}
	what := "no GPUDirect RDMA: "
	if fabric.GDRBlock(d.Block).Slow() {
		what = "GPUDirect RDMA is slow: "
	}
	return what + cmp.Or(strings.TrimSuffix(d.Evidence, "."), d.Block)
}

// writePairs returns which GPUs cannot write to each other, by the reason that NVML gives.
func writePairs(b *strings.Builder, r *status.Topology) {
	pairs := map[string][]string{}
	var order []string
	size := len(r.GPUs) + len(r.NICs)
	for i := range r.GPUs {
		for k := i + 1; k < len(r.GPUs); k++ {
			d := r.Distances[i*size+k]
			if d.Write == "" || d.Write == string(fabric.P2POK) {
				continue
			}
			if pairs[d.Write] == nil {
				order = append(order, d.Write)
			}
			pairs[d.Write] = append(pairs[d.Write], d.From+" and "+d.To)
		}
	}
	for _, why := range order {
		which := strings.Join(pairs[why], ", ")
		if n := len(r.GPUs); len(pairs[why]) == n*(n-1)/2 && n > 2 {
			which = "any two GPUs"
		}
		fmt.Fprintf(b, "No peer-to-peer writes between %s: %s\n", which, verdict.Spaced(why))
	}
}

func linksText(list []status.DegradedLink) string {
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, "; the link below %s runs at %s", l.Bridge, l.Text)
	}
	return b.String()
}
