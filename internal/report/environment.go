// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// environment is what the node has, in tables. Ports for training come first.
func (f *Facts) environment() []document.Section {
	s := document.Section{Title: "Environment"}
	t := document.Table{Head: []string{"What", "Value", "Source"}}
	t.Add("Kernel", f.Node.Kernel, document.Code("/proc/sys/kernel/osrelease"))
	t.Add("GPU driver", strings.TrimSuffix(strings.TrimPrefix(f.Node.Driver, "GPU driver "), "."), "NVML")
	t.Add("NCCL library of the host", f.Node.Library, "dynamic loader; containers bring their own")
	t.Add("Virtual machine", f.Node.Virtual, document.Code("/proc/cpuinfo"))
	s.Table(t)
	return []document.Section{s, f.devices(), f.interfaces(), f.gpus(), f.settings(), f.gids()}
}

func (p *Port) training() bool { return p.Role == string(fabric.RoleCompute) }

func (p *Port) active() bool { return p.State == string(fabric.PortActive) }

func (p *Port) name() document.Span {
	if p.Port > 1 {
		return document.Code(p.Device + " port " + strconv.Itoa(p.Port))
	}
	return document.Code(p.Device)
}

func (f *Facts) devices() document.Section {
	s := document.Section{Title: "RDMA devices", Sub: true}
	if len(f.Ports) == 0 {
		s.Say("No RDMA device is visible.")
		return s
	}
	t := document.Table{
		Head: []string{"Port", "State", "Rate", "Expected", "Role", "Fabric", "Driver", "Firmware", "NUMA node"},
		Note: "Source: netlink (RDMA), and class/infiniband and bus/pci of sysfs. The expected rate is that of the configuration, else of the ports of the same kind.",
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		state, speed := document.Span{Text: p.State}, document.Span{Text: rate(p.Rate)}
		if !p.active() {
			state = f.marked(p.State, p.Device, verdict.CheckPortActive)
		} else if p.Rate != nil && p.Expected != nil && *p.Rate < *p.Expected {
			speed = f.marked(speed.Text, p.Device, verdict.CheckPortRate, verdict.CheckPortRateAgrees)
		}
		t.Add(p.name(), state, speed, rate(p.Expected), p.Role, p.Fabric, p.Driver, p.Firmware, p.NUMA)
	}
	t.Collapse(1)
	s.Table(t)
	return s
}

// marked is a word of a device or GPU with the mark of the worst finding about it, of these checks.
func (f *Facts) marked(word, subject string, checks ...string) document.Span {
	for i := range f.Findings { // the worst first
		v := &f.Findings[i]
		about := slices.Contains(v.Devices, subject) || slices.Contains(v.Subjects, subject)
		if about && (len(checks) == 0 || slices.Contains(checks, v.ID)) {
			return v.mark(word)
		}
	}
	return document.Span{Text: word}
}

// mark is a word with the mark of a finding.
func (v *Finding) mark(word string) document.Span {
	if v.Severity == string(verdict.Critical) {
		return document.Bad(word)
	}
	return document.Unsure(word)
}

func (f *Facts) interfaces() document.Section {
	s := document.Section{Title: "Network interfaces", Sub: true}
	t := document.Table{
		Head: []string{"Interface", "Port", "RoCE settings", "MTU", "Traffic class", "DSCP", "Priority"},
		Note: "Source: rtnetlink, DCB netlink, and class/net of sysfs.",
	}
	if f.mayHave(status.FabricRoCE) {
		t.Note += " The section RoCE v2 has each step."
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		if p.Interface == "none" {
			continue
		}
		name, r, settings := text(document.Code(p.Interface)), RoCE{}, document.Span{}
		if isUnknown(p.Interface) {
			name = text(p.Interface)
		}
		switch {
		case p.RoCE != nil && !p.active() && p.State != notGiven:
			r, settings = *p.RoCE, document.Span{Text: "not judged: port " + p.State}
		case p.RoCE != nil && p.RoCE.Verdict == broken:
			r, settings = *p.RoCE, f.marked(broken+", "+p.RoCE.modeText(), p.Device)
		case p.RoCE != nil:
			r, settings = *p.RoCE, document.Span{Text: p.RoCE.Verdict + ", " + p.RoCE.modeText()}
		case p.Fabric == status.FabricRoCE:
			r, settings = RoCE{Class: unknown, DSCP: unknown, Priority: unknown}, document.Span{Text: unknown}
		case f.mayHave(status.FabricRoCE) || slices.ContainsFunc(f.Ports, func(o Port) bool { return o.RoCE != nil }):
			r, settings = RoCE{Class: "-", DSCP: "-", Priority: "-"}, document.Span{Text: "not RoCE"}
		}
		t.Add(name, p.name(), settings, p.MTU, r.Class, r.DSCP, r.Priority)
	}
	t.Collapse(2)
	if len(t.Rows) == 0 {
		s.Say("No RDMA port has a network interface.")
		return s
	}
	s.Table(t)
	return s
}

// modeText is what keeps RoCE from losing packets.
func (r *RoCE) modeText() string {
	if m := fabric.RoCEMode(r.Mode); m != fabric.RoCEModeUnknown {
		return m.Text()
	}
	pfc, ecn := r.step("pfc").Status, r.step("ecn notification", "ecn reaction").Status
	switch {
	case pfc != unknown && ecn == unknown:
		return "ECN unknown"
	case pfc == unknown && ecn != unknown:
		return "PFC unknown"
	}
	return fabric.RoCEModeUnknown.Text()
}

func (f *Facts) gpus() document.Section {
	s := document.Section{Title: "GPUs", Sub: true}
	if len(f.GPUs) == 0 {
		s.Say("No GPU is visible.")
		return s
	}
	t := document.Table{
		Head: []string{"GPU", "GPUDirect RDMA", "Nearest NIC", "Distance", "NVLinks active", "Model"},
		Note: "Source: NVML, and bus/pci of sysfs. Distances are NCCL's: PIX one switch, PXB several, PHB and NODE through the host bridge, SYS across NUMA nodes.",
	}
	for i := range f.GPUs {
		g := &f.GPUs[i]
		usable := document.Span{Text: g.GPUDirect}
		if strings.HasPrefix(g.GPUDirect, "blocked") || strings.HasPrefix(g.GPUDirect, "slow") {
			usable = f.marked(g.GPUDirect, g.Name, verdict.CheckGPUDirect)
		}
		t.Add(document.Code(g.Name), usable, g.NIC, g.Distance, g.NVLinks, g.Model)
	}
	s.Table(t)
	return s
}

func (f *Facts) settings() document.Section {
	s := document.Section{Title: "NCCL settings in effect", Sub: true}
	if len(f.Settings) > 0 {
		t := document.Table{Head: []string{"Variable", "Value", "From"}}
		for _, v := range f.Settings {
			t.Add(document.Code(v.Name), document.Code(v.Value), document.Code(v.Source))
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
	efa := which(f.Ports, func(p *Port) bool { return p.Fabric == status.FabricEFA })
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
				selected = text(document.Strong("selected"))
			}
			t.Add(p.name(), g.Index, document.Code(g.Address), g.Type, g.Interface, selected)
		}
		s.Table(t)
	}
	s.List(document.Grouped(f.Ports, func(p *Port) (name, line string) { return p.name().Text, p.GIDWhy })...)
	return s
}
