// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
)

// environment is what the node has, in tables. Ports for training come first.
func (f *Facts) environment() []document.Section {
	s := document.Section{Title: "Environment"}
	t := document.Table{Head: []string{"What", "Value", "Source"}}
	t.Add("Kernel", f.Node.Kernel, code("/proc/sys/kernel/osrelease"))
	t.Add("GPU driver", strings.TrimSuffix(strings.TrimPrefix(f.Node.Driver, "GPU driver "), "."), "NVML")
	t.Add("NCCL library of the host", f.Node.Library, "dynamic loader; containers bring their own")
	t.Add("Virtual machine", f.Node.Virtual, code("/proc/cpuinfo"))
	s.Table(t)
	return []document.Section{s, f.devices(), f.interfaces(), f.gpus(), f.settings(), f.gids()}
}

func (p *Port) training() bool { return p.Role == string(fabric.RoleCompute) }

func (p *Port) active() bool { return p.State == string(fabric.PortActive) }

func (p *Port) name() document.Span {
	if p.Port > 1 {
		return code(p.Device + " port " + strconv.Itoa(p.Port))
	}
	return code(p.Device)
}

func (f *Facts) devices() document.Section {
	s := document.Section{Title: "RDMA devices", Sub: true}
	if len(f.Ports) == 0 {
		s.Say("No RDMA device is visible.")
		return s
	}
	t := document.Table{
		Head: []string{"Port", "Role", "Fabric", "State", "Rate", "Expected", "Driver", "Firmware", "NUMA node"},
		Note: "Source: netlink (RDMA), and class/infiniband and bus/pci of sysfs. The expected rate is that of the configuration, else of the ports of the same kind.",
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		t.Add(p.name(), p.Role, p.Fabric, p.State, rate(p.Rate), rate(p.Expected), p.Driver, p.Firmware, p.NUMA)
	}
	s.Table(t)
	return s
}

func (f *Facts) interfaces() document.Section {
	s := document.Section{Title: "Network interfaces", Sub: true}
	t := document.Table{
		Head: []string{"Interface", "Port", "MTU", "Traffic class", "DSCP", "Priority", "RoCE settings"},
		Note: "Source: rtnetlink, DCB netlink, and class/net of sysfs.",
	}
	if f.mayHave(fabricRoCE) {
		t.Note += " The section RoCE v2 has each step."
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		if p.Interface == "none" {
			continue
		}
		name, r, settings := text(code(p.Interface)), RoCE{}, ""
		if isUnknown(p.Interface) {
			name = text(p.Interface)
		}
		if p.RoCE != nil {
			r, settings = *p.RoCE, p.RoCE.Verdict+", "+modeText(p.RoCE.Mode)
		}
		t.Add(name, p.name(), p.MTU, r.Class, r.DSCP, r.Priority, settings)
	}
	if len(t.Rows) == 0 {
		s.Say("No RDMA port has a network interface.")
		return s
	}
	s.Table(t)
	return s
}

// modeText is what keeps RoCE from losing packets.
func modeText(mode string) string {
	switch fabric.RoCEMode(mode) {
	case fabric.RoCEModePFCECN:
		return "PFC and ECN"
	case fabric.RoCEModePFC:
		return "PFC without ECN"
	case fabric.RoCEModeECN:
		return "ECN without PFC"
	case fabric.RoCEModeNone:
		return "neither PFC nor ECN"
	}
	return "PFC and ECN unknown"
}

func (f *Facts) gpus() document.Section {
	s := document.Section{Title: "GPUs", Sub: true}
	if len(f.GPUs) == 0 {
		s.Say("No GPU is visible.")
		return s
	}
	t := document.Table{
		Head: []string{"GPU", "Model", "NVLinks active", "Nearest NIC", "Distance", "GPUDirect RDMA"},
		Note: "Source: NVML, and bus/pci of sysfs. Distances are NCCL's: PIX one switch, PXB several, PHB and NODE through the host bridge, SYS across NUMA nodes.",
	}
	for i := range f.GPUs {
		g := &f.GPUs[i]
		t.Add(code(g.Name), g.Model, g.NVLinks, g.NIC, g.Distance, g.GPUDirect)
	}
	s.Table(t)
	return s
}

func (f *Facts) settings() document.Section {
	s := document.Section{Title: "NCCL settings in effect", Sub: true}
	if len(f.Settings) > 0 {
		t := document.Table{Head: []string{"Variable", "Value", "From"}}
		for _, v := range f.Settings {
			t.Add(code(v.Name), code(v.Value), code(v.Source))
		}
		s.Table(t)
	}
	s.Say(document.Prose(f.SettingsNote))
	return s
}

const maxGIDs = 64 // entries of GID tables of all ports that are shown

// gids is the table of GIDs, the selected entry of each port marked. Of many ports only those entries are shown.
func (f *Facts) gids() document.Section {
	s := document.Section{Title: "GID table", Sub: true}
	efa := which(f.Ports, func(p *Port) bool { return p.Fabric == fabricEFA })
	entries := slices.DeleteFunc(slices.Clone(f.GIDs), func(g GID) bool {
		return slices.ContainsFunc(efa, func(p *Port) bool { return p.Device == g.Device })
	})
	switch {
	case len(efa) > 0:
		s.Say("NCCL selects no GID of EFA ports: its network plugin addresses them.")
	case len(f.GIDs) == 0:
		s.Say("No GID is visible.")
	}
	if len(entries) > 0 {
		t := document.Table{
			Head: []string{"Port", "Index", "GID", "Type", "Interface", "Selected"},
			Note: "Source: netlink (RDMA) or gids and gid_attrs of sysfs. Selected: what NCCL 2.21 and later choose with the host's settings (src/transport/net_ib).",
		}
		if all := len(entries); all > maxGIDs {
			entries = slices.DeleteFunc(entries, func(g GID) bool { return !g.Selected })
			t.Note = fmt.Sprintf("Selected entries only, of %d. ", all) + t.Note
		}
		for _, g := range entries {
			p, selected := Port{Device: g.Device, Port: g.Port}, text("")
			if g.Selected {
				selected = text(strong("selected"))
			}
			t.Add(p.name(), g.Index, code(g.Address), g.Type, g.Interface, selected)
		}
		s.Table(t)
	}
	s.List(document.Grouped(f.Ports, func(p *Port) (name, line string) { return p.name().Text, p.GIDWhy })...)
	return s
}
