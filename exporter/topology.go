// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// The formats of topology.
const (
	outputText = "text"
	outputJSON = "json"
)

// topology prints how far the GPUs and RDMA NICs of this host, or of a simulated node, are from each other. The
// observer logs what could not be read; the rest is printed nevertheless.
func topology(ctx context.Context, f *flags, o Options) int {
	n, err := observeTopology(ctx, f, o)
	if err == nil {
		err = writeTopology(o.Stdout, f.topologyOutput, topologyOf(n))
	}
	if err != nil {
		fmt.Fprintf(o.Stderr, "%s: error: %v\n", name, err)
		return exitFailure
	}
	return exitOK
}

func observeTopology(ctx context.Context, f *flags, o Options) (*fabric.Node, error) {
	read := func() (config, error) { return readConfig(f.configFile) }
	at := observer.Options{Sysfs: f.sysfs, Procfs: f.procfs, Rootfs: f.rootfs, Netlink: f.netlink, Devices: f.devices, Log: f.logger(o.Stderr)}
	if f.topologySimulated {
		dir, err := os.MkdirTemp("", name+"_topology_")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		tree, err := f.demoScenario.Build().Materialise(dir)
		if err != nil {
			return nil, err
		}
		at.Sysfs, at.Procfs, at.Rootfs, at.Ethernet = tree.Sysfs(), tree.Procfs(), tree.Rootfs(), tree.Ethernet()
		read = func() (config, error) {
			return parseConfig("scenario "+f.demoScenario.Name, []byte(f.demoScenario.Config()))
		}
	}
	conf, err := read()
	if err != nil {
		return nil, err
	}
	at.Policy, at.NCCL = conf.policy, conf.nccl
	ob, err := o.newObserver(at)
	if err != nil {
		return nil, err
	}
	defer ob.Close()
	ctx, cancel := context.WithTimeout(ctx, firstObservation)
	defer cancel()
	n := ob.Observe(ctx, fabric.WantHCA|fabric.WantPCI)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	return n, nil
}

// topologyReport is what topology prints, and as JSON what it promises.
type topologyReport struct {
	Virtual   *bool              `json:"virtual_machine"` // null: not known
	GPUs      []topologyGPU      `json:"gpus"`
	NICs      []topologyNIC      `json:"nics"`
	Distances []topologyDistance `json:"distances"`
}

type topologyGPU struct {
	Name     string   `json:"name"` // GPU and the index by PCI address, as NVML counts
	PCI      string   `json:"pci_address"`
	NUMANode *int     `json:"numa_node"`
	Rail     *int     `json:"rail"` // null without a nearest NIC
	NIC      string   `json:"nic"`
	Nearest  []string `json:"nearest_nics"`
	Class    string   `json:"class"`
	Shared   bool     `json:"nic_shared"`
	Reason   string   `json:"unknown_reason,omitempty"`
	// ACSRedirect names the bridges on the way to NIC that redirect; null: not known.
	ACSRedirect []string `json:"acs_redirecting_bridges"`
}

type topologyNIC struct {
	Name     string `json:"name"`
	PCI      string `json:"pci_address"`
	NUMANode *int   `json:"numa_node"`
	Role     string `json:"role"`
	// Degraded are the links on the way to the root complex that run below what their ends can do; null: not known.
	Degraded []topologyLink `json:"degraded_links"`
}

// topologyLink is a link by the bridge above it.
type topologyLink struct {
	Bridge string `json:"bridge"`
	Text   string `json:"text"`
}

type topologyDistance struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Class  string `json:"class"` // empty: not known
	Reason string `json:"unknown_reason,omitempty"`
}

// topologyOf puts what was observed in words. The distances are those of all pairs, row by row.
func topologyOf(n *fabric.Node) topologyReport {
	r := topologyReport{Virtual: pointer(n.Host.Hypervisor), GPUs: []topologyGPU{}, NICs: []topologyNIC{}, Distances: []topologyDistance{}}
	type member struct {
		name     string
		function *fabric.PCIFunction
	}
	var members []member
	for i, rail := range n.PCI.Rails {
		f := n.PCI.Function(rail.GPU)
		g := topologyGPU{Name: "GPU" + strconv.Itoa(i), PCI: f.Address, NUMANode: pointer(f.NUMANode), NIC: rail.NIC, Nearest: rail.Nearest, Shared: rail.Shared}
		if d, ok := rail.Distance.Get(); ok {
			g.Class, g.Rail = d.String(), &rail.Number
			if list, ok := n.PCI.ACSRedirects(f, n.PCI.NIC(rail.NIC), n.At).Get(); ok {
				g.ACSRedirect = append([]string{}, list...)
			}
		}
		g.Reason = string(rail.Distance.Meta().Reason)
		r.GPUs = append(r.GPUs, g)
		members = append(members, member{g.Name, f})
	}
	for _, h := range nicsOf(n) {
		f := n.PCI.NIC(h.Name)
		nic := topologyNIC{Name: h.Name, PCI: f.Address, NUMANode: pointer(f.NUMANode), Role: roleNames(h)}
		if list, ok := n.PCI.Shortfalls(f, n.At).Get(); ok {
			nic.Degraded = []topologyLink{}
			for _, s := range list {
				nic.Degraded = append(nic.Degraded, topologyLink{s.Upper, linkText(s)})
			}
		}
		r.NICs = append(r.NICs, nic)
		members = append(members, member{h.Name, f})
	}
	for _, a := range members {
		for _, b := range members {
			t := topologyDistance{From: a.name, To: b.name}
			d := fabric.DistanceOf(a.function, b.function, n.Host.Hypervisor, n.At)
			if v, ok := d.Get(); ok {
				t.Class = v.String()
			}
			t.Reason = string(d.Meta().Reason)
			r.Distances = append(r.Distances, t)
		}
	}
	return r
}

// nicsOf returns the RDMA devices that are PCI functions, mlx5_2 before mlx5_10.
func nicsOf(n *fabric.Node) []*fabric.HCA {
	var list []*fabric.HCA
	for i := range n.HCAs {
		if n.PCI.NIC(n.HCAs[i].Name) != nil {
			list = append(list, &n.HCAs[i])
		}
	}
	slices.SortFunc(list, func(a, b *fabric.HCA) int { return fabric.NaturalOrder(a.Name, b.Name) })
	return list
}

// roleNames are the roles that the ports of a device have.
func roleNames(h *fabric.HCA) string {
	var names []string
	for _, r := range fabric.Roles() {
		if h.Serves(r) {
			names = append(names, string(r))
		}
	}
	return strings.Join(names, ",")
}

func pointer[T any](f fabric.Fact[T]) *T {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}

func writeTopology(w io.Writer, format string, r topologyReport) error {
	if format == outputJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if len(r.GPUs)+len(r.NICs) == 0 {
		_, err := fmt.Fprintln(w, "No GPU and no RDMA NIC is on the PCI bus.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(first string, cells ...string) {
		fmt.Fprintln(t, strings.TrimRight(first+"\t"+strings.Join(cells, "\t"), "\t"))
	}
	var names []string
	for _, g := range r.GPUs {
		names = append(names, g.Name)
	}
	for _, nic := range r.NICs {
		names = append(names, nic.Name)
	}
	row("", append(slices.Clone(names), "NUMA", "rail")...)
	unknown := map[string]bool{}
	for i, from := range names {
		var cells []string
		for k := range names {
			d := r.Distances[i*len(names)+k]
			switch {
			case i == k:
				cells = append(cells, "X")
			case d.Class == "":
				cells = append(cells, "?")
				unknown[d.Reason] = true
			default:
				cells = append(cells, d.Class)
			}
		}
		numa, rail := (*int)(nil), ""
		if i < len(r.GPUs) {
			numa, rail = r.GPUs[i].NUMANode, railText(r.GPUs[i])
		} else {
			numa, rail = r.NICs[i-len(r.GPUs)].NUMANode, r.NICs[i-len(r.GPUs)].Role
		}
		row(from, append(cells, orUnknown(numa), rail)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeLegend(w, r, unknown)
}

// railText is a GPU's nearest NIC, as one looks for it in the matrix.
func railText(g topologyGPU) string {
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

func orUnknown(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

func writeLegend(w io.Writer, r topologyReport, unknown map[string]bool) error {
	var b strings.Builder
	b.WriteString(`
X     itself
PIX   below one PCIe switch
PXB   through several PCIe switches, not through the host bridge
PHB   through one PCIe host bridge
NODE  through PCIe host bridges of one NUMA node
SYS   through the interconnect of NUMA nodes
`)
	for _, reason := range fabric.Reasons() {
		if unknown[string(reason)] {
			fmt.Fprintf(&b, "?     not known: %s\n", reasonText(reason))
		}
	}
	b.WriteString("rail  of a GPU: the number of its nearest compute NIC and that NIC; of a NIC: its role\n\n")
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "%s is %s%s\n", g.Name, g.PCI, acsText(g))
	}
	for _, nic := range r.NICs {
		fmt.Fprintf(&b, "%s is %s%s\n", nic.Name, nic.PCI, linksText(nic.Degraded))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func acsText(g topologyGPU) string {
	switch {
	case g.NIC == "":
		return ""
	case g.ACSRedirect == nil:
		return "; whether ACS redirects on the way to " + g.NIC + " is not known"
	case len(g.ACSRedirect) > 0:
		return "; ACS redirects on the way to " + g.NIC + " at " + strings.Join(g.ACSRedirect, ", ")
	}
	return ""
}

func linksText(list []topologyLink) string {
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, "; the link below %s runs at %s", l.Bridge, l.Text)
	}
	return b.String()
}

// linkText says what a link does and could do.
func linkText(s fabric.LinkShortfall) string {
	var parts []string
	if s.Narrow {
		parts = append(parts, fmt.Sprintf("x%d instead of x%d", s.Width, s.MaxWidth))
	}
	if s.Slow {
		parts = append(parts, fmt.Sprintf("%g GT/s instead of %g GT/s", s.Speed/1e9, s.MaxSpeed/1e9))
	}
	return strings.Join(parts, " and ")
}
