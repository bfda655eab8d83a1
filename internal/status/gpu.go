// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func (b *builder) gpu(i int, all []verdict.GPU) GPU {
	g := all[i]
	presence := b.presence(g)
	hidden := presence == PresenceUnknown && g.IsNVIDIA()
	to := GPU{
		Part: b.part(fmt.Sprintf("gpu-%d", i), g.Name, hidden, g.Subject()), Presence: presence, NUMA: factOf(g.NUMANode()),
		NVLinkOK: StatusNone,
		Foreign:  !g.IsNVIDIA(), OnBus: g.Function != nil,
	}
	if presence == PresenceVM && to.Status == StatusOK {
		to.Status = StatusPartly // its driver is in the virtual machine
	}
	if g.GDR != nil && g.GDR.Usable.State == fabric.Unknown && b.unread[g.Subject().String()] && to.Status == StatusOK {
		to.Status = StatusPartly
	}
	if f := g.Function; f != nil {
		to.PCI, to.Group, to.Width = f.Address, b.groups[f.Address], factOf(f.Link.Width)
	}
	if d := g.Driver; d != nil {
		to.UUID, to.Model, to.MIG, to.Busy = d.UUID, factOf(d.Name), factOf(d.MIG), factOf(d.Utilization)
		to.Gen, to.MaxGen, to.Processes = factOf(d.PCIeGeneration), factOf(d.PCIeMaxGen), mapped(d.Processes, processes)
		to.Fabric = mapped(d.Fabric, func(f fabric.GPUFabric) string { return string(f.State) })
		if to.PCI == "" {
			to.PCI = d.Address
		}
		if to.Width.State != fabric.OK {
			to.Width = factOf(d.PCIeWidth)
		}
	}
	b.nvlinksOf(&to, g)
	to.Path = b.path(g)
	return to
}

func (b *builder) presence(g verdict.GPU) string {
	switch {
	case g.Lost():
		return PresenceLost
	case g.Driver != nil:
		return PresenceListed
	case g.Function != nil && g.Function.Driver.Or("") == "vfio-pci":
		return PresenceVM
	case b.fails(g.Subject(), verdict.CheckGPUDriver) || g.Listable(b.in.Node):
		return PresenceUnlisted
	}
	return PresenceUnknown
}

// processes counts processes: one may be there as a client of MPS and for itself.
func processes(list []fabric.GPUProcess) int {
	pids := map[int]bool{}
	for _, p := range list {
		pids[p.PID] = true
	}
	return len(pids)
}

func (b *builder) nvlinksOf(to *GPU, g verdict.GPU) {
	if g.Driver == nil {
		if !g.IsNVIDIA() {
			to.NVLinks = factOf(fabric.AbsentFact[int]("", b.in.Node.At))
		}
		return
	}
	active, total := g.NVLinks()
	to.NVLinks, to.NVLinksOf = factOf(active), total
	switch {
	case b.fails(g.Subject(), verdict.CheckNVLinks, verdict.CheckNVLinkFabric):
		to.NVLinkOK = StatusFailed
	case active.State == fabric.Unknown:
		to.NVLinkOK = StatusUnknown
	case active.Or(0) > 0:
		to.NVLinkOK = StatusOK
	}
}

// path is the way to the NIC that the GPU is to use.
func (b *builder) path(g verdict.GPU) Path {
	to := Path{Status: StatusUnknown, Placed: g.Rail != nil, Judged: g.GDR != nil}
	if r := g.Rail; r != nil {
		to.Device, to.Shared = short(r.NIC), r.Shared
		if r.NIC != "" {
			to.Rail = &r.Number
		}
		to.Distance = mapped(r.Distance, fabric.Distance.String)
	}
	if g.GDR == nil {
		return to
	}
	d := g.GDR
	to.Usable, to.By, to.Blocked, to.Evidence = factOf(d.Usable), string(d.Path), string(d.Block), d.Evidence
	block, blocked := g.Blocked()
	check := ""
	switch {
	case b.fails(g.Subject(), verdict.CheckGPUDirect):
		check = verdict.CheckGPUDirect
	case blocked && block == fabric.GDRACS && b.fails(verdict.Subject{Device: d.NIC}, verdict.CheckACS):
		check = verdict.CheckACS
	case blocked && block == fabric.GDRModule && b.fails(verdict.Subject{}, verdict.CheckPeermem):
		check = verdict.CheckPeermem
	case b.portFails(d.NIC):
		check = verdict.CheckPortActive
	}
	switch {
	case check != "":
		to.Status, to.Severity = StatusFailed, string(diagnose.Find(check).Severity)
	case blocked, d.Usable.State == fabric.Absent:
		to.Status = StatusNone
	case d.Usable.State == fabric.OK:
		to.Status = StatusOK
	}
	return to
}

// portFails reports whether no compute port of a device is active: the way of its GPU to the network ends there.
func (b *builder) portFails(device string) bool {
	h := b.in.Node.HCA(device)
	if h == nil {
		return false
	}
	compute := slices.DeleteFunc(slices.Clone(h.Ports), func(p fabric.Port) bool { return !p.Serves(fabric.RoleCompute) })
	return len(compute) > 0 && !slices.ContainsFunc(compute, func(p fabric.Port) bool {
		return !b.fails(verdict.PortSubject(h, &p).Key(), verdict.CheckPortActive)
	})
}

// nvlinkOf finds how NVLinks connect GPUs. Links that are down connect nothing.
func nvlinkOf(gpus []verdict.GPU) NVLink {
	to := NVLink{Kind: NVLinkNone}
	switched, unknown, some := false, false, 0
	for i := range gpus {
		if gpus[i].Driver == nil {
			unknown = unknown || gpus[i].IsNVIDIA()
			continue
		}
		some++
		links, ok := gpus[i].Driver.NVLinks.Get()
		unknown = unknown || !ok && gpus[i].Driver.NVLinks.State == fabric.Unknown
		for k := range links {
			switched = switched || links[k].RemoteKind.Or("") == fabric.NVLinkToSwitch
		}
		for k := i + 1; k < len(gpus); k++ {
			if n := direct(gpus[i].Driver, gpus[k].Driver); n > 0 {
				to.Links = append(to.Links, Link{fmt.Sprintf("gpu-%d", i), fmt.Sprintf("gpu-%d", k), n})
			}
		}
	}
	switch pairs := some * (some - 1) / 2; {
	case switched:
		to.Kind = NVLinkSwitch
	case len(to.Links) > 0 && len(to.Links) == pairs && some > 2:
		to.Kind = NVLinkMesh
	case len(to.Links) > 0:
		to.Kind = NVLinkSome
	case unknown:
		to.Kind = NVLinkUnknown
	}
	return to
}

// direct counts the active links from one GPU to another.
func direct(from, to *fabric.GPU) int {
	if to == nil || to.Address == "" {
		return 0
	}
	links, _ := from.NVLinks.Get()
	n := 0
	for i := range links {
		l := &links[i]
		if l.Active.Or(false) && l.RemoteKind.Or("") == fabric.NVLinkToGPU && strings.EqualFold(l.Remote.Or(""), to.Address) {
			n++
		}
	}
	return n
}

// LinksOf returns the direct links of a GPU.
func (v *NVLink) LinksOf(id string) []Link {
	return slices.DeleteFunc(slices.Clone(v.Links), func(l Link) bool { return l.A != id && l.B != id })
}
