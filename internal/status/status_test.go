// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/verdict"
)

func documentOf(n *fabric.Node) *Document {
	begin := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	return Of(&Inputs{
		Node: n, Verdicts: diagnose.Run(n, nil), Name: "node17", Links: config.DefaultLinks(),
		Since: func([]verdict.Verdict) (time.Time, bool, bool) { return begin, true, true },
	})
}

func gpuNode(edit func(*fabric.Node), gdr func(*fabric.GDR)) *Document {
	n := fabrictest.WithGPUs()
	edit(n)
	fabrictest.Verdicts(n, gdr)
	return documentOf(n)
}

// Each GPU says whether it is there, how its NVLinks are, and whether its way to the NIC carries GPUDirect RDMA.
func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*fabric.Node)
		gdr  func(*fabric.GDR)
		// of the second GPU
		status, presence, nvlink, path string
	}{
		{"healthy", func(*fabric.Node) {}, fabrictest.Usable, StatusOK, PresenceListed, StatusOK, StatusOK},
		{"an NVLink is down", func(n *fabric.Node) { n.GPUDriver.GPUs[1].NVLinks.Value[4].Active.Value = false }, fabrictest.Usable, StatusFailed, PresenceListed, StatusFailed, StatusOK},
		{"no NVLink is in use", func(n *fabric.Node) {
			for i := range n.GPUDriver.GPUs {
				for k := range n.GPUDriver.GPUs[i].NVLinks.Value {
					n.GPUDriver.GPUs[i].NVLinks.Value[k].Active.Value = false
				}
			}
		}, fabrictest.Usable, StatusOK, PresenceListed, StatusNone, StatusOK},
		{"no module", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRModule, "no module"), StatusFailed, PresenceListed, StatusOK, StatusFailed},
		{"far by design", func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRDistance, "NODE"), StatusOK, PresenceListed, StatusOK, StatusNone},
		{"hidden by the hypervisor", func(*fabric.Node) {}, func(g *fabric.GDR) {
			g.Usable = fabric.UnknownFact[bool](fabric.ReasonVirtual, "config", g.Usable.At)
		}, StatusPartly, PresenceListed, StatusOK, StatusUnknown},
		{"lost", func(n *fabric.Node) {
			n.GPUDriver.GPUs[1] = fabric.GPU{Index: 1, Lost: fabric.Known(true, "", n.At)}
		}, fabrictest.Usable, StatusFailed, PresenceLost, StatusUnknown, StatusOK},
		{"not asked", func(n *fabric.Node) { n.GPUDriver = fabric.GPUDriver{} }, func(g *fabric.GDR) { *g = fabric.GDR{GPU: g.GPU} }, StatusUnknown, PresenceUnknown, StatusNone, StatusUnknown},
		{"virtual machine", func(n *fabric.Node) {
			n.GPUDriver = fabric.GPUDriver{Loaded: fabric.Known(false, "", n.At)}
			n.PCI.Function("0000:9b:00.0").Driver.Value = "vfio-pci"
		}, fabrictest.Blocked(fabric.GDRNoDriver, "none"), StatusPartly, PresenceVM, StatusNone, StatusNone},
	} {
		g := gpuNode(c.edit, c.gdr).GPUs[1]
		if g.Presence != c.presence || g.NVLinkOK != c.nvlink || g.Path.Status != c.path || (g.Status == StatusOK) != (c.status == StatusOK) || c.status == StatusPartly && c.path == StatusUnknown && g.Status != StatusPartly || c.status == StatusFailed && g.Status != StatusFailed {
			t.Errorf("%s: %s %s, NVLink %s, path %s", c.name, g.Status, g.Presence, g.NVLinkOK, g.Path.Status)
		}
	}
}

// What a hypervisor hides of the way to the NIC is listed: the GPU is not ok without a word about it.
func TestHiddenGPUDirectIsListed(t *testing.T) {
	d := gpuNode(func(*fabric.Node) {}, func(g *fabric.GDR) {
		g.Usable = fabric.UnknownFact[bool](fabric.ReasonVirtual, "config", g.Usable.At)
	})
	i := slices.IndexFunc(d.NotChecked, func(g Gap) bool { return strings.HasPrefix(g.What, "GPUDirect RDMA") })
	if i < 0 || len(d.NotChecked[i].Subjects) != len(d.GPUs) || d.NotChecked[i].Subjects[0].Part != d.GPUs[0].ID {
		t.Errorf("%+v", d.NotChecked)
	}
}

// The severity of a path is that of its finding.
func TestPathSeverity(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fabric.Node)
		gdr  func(*fabric.GDR)
		want string
	}{
		"module": {func(*fabric.Node) {}, fabrictest.Blocked(fabric.GDRModule, "no module"), "critical"},
		"usable": {func(*fabric.Node) {}, fabrictest.Usable, ""},
		"ACS": {func(n *fabric.Node) {
			for i := range n.PCI.Functions {
				if f := &n.PCI.Functions[i]; f.Kind == fabric.PCIBridge {
					f.Config.ACS = fabric.Known(fabric.ACS(0x1f), "config", n.At)
				}
			}
		}, fabrictest.Blocked(fabric.GDRACS, "ACS redirects"), "warning"},
	} {
		d := gpuNode(c.edit, c.gdr)
		g := d.GPUs[1]
		if g.Path.Severity != c.want {
			t.Errorf("%s: path %s %q, findings %+v", name, g.Path.Status, g.Path.Severity, d.Findings)
		}
	}
}

// The way of a GPU whose NIC has no active port ends at the NIC, whatever GPUDirect RDMA could do.
func TestPathToPortThatIsDown(t *testing.T) {
	n := fabrictest.WithGPUs()
	p := &n.HCAs[1].Ports[0]
	p.State.Value, p.PhysState.Value, p.Rate = fabric.PortDown, fabric.PhysPolling, fabric.AbsentFact[fabric.Rate]("rate", n.At)
	fabrictest.Verdicts(n, fabrictest.Usable)
	gpus := documentOf(n).GPUs
	if a, b := gpus[0].Path, gpus[1].Path; a.Status != StatusOK || b.Status != StatusFailed || b.Severity != "critical" {
		t.Errorf("with an active port %s, with one that is down %s %q", a.Status, b.Status, b.Severity)
	}
}

// A finding links to its parts, and these link to the finding.
func TestFindings(t *testing.T) {
	n := fabrictest.Healthy()
	for i, name := range []string{"eth7", "eth8"} {
		p := &n.HCAs[i].Ports[0]
		p.State.Value, p.PhysState.Value, p.NetDev.Value = fabric.PortDown, fabric.PhysDisabled, name
	}
	n.Derive()
	d := documentOf(n)
	i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Check == verdict.CheckPortActive })
	if i < 0 {
		t.Fatalf("%+v", d.Findings)
	}
	f := d.Findings[i]
	if len(f.Subjects) != 2 || f.Severity != "critical" || f.Since == nil || !f.AtLeast || f.Remedy != "" || !strings.Contains(f.Subjects[1].Remedy, "ip link set dev eth8 up") ||
		!strings.HasSuffix(f.Runbook, "check-ports.md#port_active") {
		t.Errorf("%+v", f)
	}
	for k, s := range f.Subjects {
		if s.Part != d.Devices[k].ID || !slices.Contains(d.Devices[k].Findings, f.ID) || !slices.Contains(d.Devices[k].Ports[0].Findings, f.ID) ||
			d.Devices[k].Status != StatusFailed || d.Devices[k].Severity != "critical" {
			t.Errorf("%+v %+v", s, d.Devices[k])
		}
	}
}

// A GPU that its driver does not list has the same name in the finding and in the list of GPUs, and the
// finding leads to it.
func TestFindingOfUnlistedGPU(t *testing.T) {
	d := gpuNode(func(n *fabric.Node) {
		n.GPUDriver = fabric.GPUDriver{Loaded: fabric.Known(false, "", n.At)}
		for _, f := range n.PCI.GPUs() {
			f.Driver = fabric.AbsentFact[string]("", n.At)
		}
	}, fabrictest.Blocked(fabric.GDRNoDriver, "none"))
	i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Check == verdict.CheckGPUDriver })
	if i < 0 || d.Findings[i].Subjects[0].Part != "gpu-0" || d.Findings[i].Subjects[0].Name != "GPU0" || d.GPUs[0].Name != "GPU0" || d.GPUs[0].Presence != PresenceUnlisted {
		t.Errorf("%+v", d.Findings)
	}
}

// What cannot be read is unknown on the part and in the list of what was not checked, and never ok.
func TestUnreadable(t *testing.T) {
	n := fabrictest.Healthy()
	n.HCAs[1].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonPrivilege, "state", n.At)
	n.Derive()
	d := documentOf(n)
	if p := d.Devices[1].Ports[0]; p.Status != StatusUnknown || d.Devices[1].Status != StatusUnknown || p.State.State != fabric.Unknown || p.State.Reason != "privilege" {
		t.Errorf("%+v", p)
	}
	if len(d.NotChecked) == 0 || d.NotChecked[0].Subjects[0].Part != d.Devices[1].ID {
		t.Errorf("%+v", d.NotChecked)
	}
	n.HCAs[0].Ports = nil
	if d := documentOf(n); d.Devices[0].Status != StatusUnknown {
		t.Errorf("without ports: %+v", d.Devices[0].Part)
	}
	for i := range n.HCAs {
		n.HCAs[i] = n.HCAs[i].WithoutFacts(fabric.ReasonStuck, n.At)
	}
	n.Sources = []fabric.Source{{Name: fabric.SourceHCA, Device: "mlx5_1", Reason: fabric.ReasonStuck, Since: n.At}}
	n.Derive()
	for _, device := range documentOf(n).Devices {
		if device.Status == StatusOK || device.Status == StatusPartly {
			t.Errorf("stuck: %+v", device.Part)
		}
	}
}

func TestNVLink(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*fabric.Node)
		kind string
		link int // active, of a direct link
	}{
		{"switches", func(*fabric.Node) {}, NVLinkSwitch, 0},
		{"bridge", func(n *fabric.Node) {
			for i, to := range []string{"0000:9B:00.0", "0000:19:00.0"} {
				for k := range 18 {
					l := &n.GPUDriver.GPUs[i].NVLinks.Value[k]
					l.Active.Value, l.RemoteKind.Value, l.Remote.Value = k < 12, fabric.NVLinkToGPU, to
				}
			}
		}, NVLinkSome, 12},
		{"none", func(n *fabric.Node) {
			for i := range 2 {
				n.GPUDriver.GPUs[i].NVLinks = fabric.AbsentFact[[]fabric.NVLink]("", n.At)
			}
		}, NVLinkNone, 0},
		{"not asked", func(n *fabric.Node) { n.GPUDriver = fabric.GPUDriver{} }, NVLinkUnknown, 0},
	} {
		v := gpuNode(c.edit, fabrictest.Usable).NVLink
		if v.Kind != c.kind || (c.link > 0) != (len(v.Links) == 1) || c.link > 0 && v.Links[0].Active != c.link {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// Whatever names contain, the document is bounded, and has no character that changes how others are shown.
func TestHostileNames(t *testing.T) {
	evil := "</style><script>\x00\x1b[31m\u202e\u2066 שלום" + strings.Repeat("x", 1<<20)
	n := fabrictest.Healthy()
	n.HCAs[0].Name, n.HCAs[0].Firmware.Value, n.HCAs[0].Ports[0].NetDev.Value, n.Host.Kernel.Value = evil, evil, evil, evil
	n.HCAs[0].Ports[0].State.Value = fabric.PortDown
	n.Excluded = slices.Repeat([]string{evil}, 1000)
	n.Derive()
	d := documentOf(n)
	d.Jobs = &progress.JobsDocument{}
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 3<<20 || d.LeftOut < 1000-maxList {
		t.Errorf("%d bytes, %d left out", len(body), d.LeftOut)
	}
	if strings.ContainsFunc(string(body), func(r rune) bool { return r < ' ' || r == '\u202e' || r == '\u2066' }) || strings.Contains(string(body), `\u202e`) || strings.Contains(string(body), `\u001b`) {
		t.Error("control characters are left")
	}
	i := slices.IndexFunc(d.Devices, func(x Device) bool { return strings.HasPrefix(x.Name, "</style>") })
	if i < 0 || len(d.Devices[i].Name) > maxName || !strings.HasSuffix(d.Devices[i].Name, "…") {
		t.Errorf("%+v", d.Devices)
	}
	if strings.Contains(string(body), "null,") && strings.Contains(string(body), `"findings":null`) {
		t.Error("a list is null")
	}
}

func FuzzClean(f *testing.F) {
	f.Add("mlx5_0", 64)
	f.Add("\xff\u202e\n", 8)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 4 + min(max(most, 0), 1000)
		got := clean(s, most)
		if len(got) > most {
			t.Errorf("%d bytes of %d", len(got), most)
		}
		if again := clean(got, most); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	})
}

// A port whose driver gives no state, as EFA's, is ok only as far as it could be checked, and so is its device.
func TestPortWithoutState(t *testing.T) {
	n := fabrictest.WithGPUs()
	if p := documentOf(n).Devices[0].Ports[0]; p.Status != StatusOK {
		t.Fatalf("a good port is %s", p.Status)
	}
	n.HCAs[0].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonDriverConstant, "", n.At)
	if d := documentOf(n).Devices[0]; d.Status != StatusPartly || d.Ports[0].Status != StatusPartly {
		t.Errorf("the device is %s, its port %s", d.Status, d.Ports[0].Status)
	}
	n.HCAs[0].Moved, n.HCAs[0].Ports = true, nil
	if d := documentOf(n).Devices[0]; d.Status == StatusOK {
		t.Error("a device that a pod has is ok")
	}
}

// A port of which settings of RoCE could not be read is not ok, though no check asks for them. Which traffic
// class jobs choose is no setting of the port.
func TestUnknownChainIsNotOK(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fabric.Node, *fabric.QoS)
		want string
	}{
		"known": {func(*fabric.Node, *fabric.QoS) {}, StatusOK},
		"PFC is not shown": {func(_ *fabric.Node, q *fabric.QoS) {
			q.PFC = fabric.UnknownFact[fabric.PFC](fabric.ReasonUnsupported, "", q.PFC.At)
		}, StatusPartly},
		"jobs choose class": {func(n *fabric.Node, _ *fabric.QoS) { n.NCCL.Variables = nil }, StatusOK},
	} {
		n := fabrictest.Lossless()
		n.Policy.RoCE = fabric.RoCEPolicy{}
		c.edit(n, &n.NetDevs[1].QoS)
		n.Derive()
		d := documentOf(n).Devices[1]
		if d.Status != c.want || d.Ports[0].Status != c.want {
			t.Errorf("%s: device %s, port %s, expected %s", name, d.Status, d.Ports[0].Status, c.want)
		}
	}
}

// A port that is not active is not shown as a port in order, and neither is its device: a virtual function
// that is down has verdicts that are ok, and no finding.
func TestDownIsNotOK(t *testing.T) {
	for state, want := range map[fabric.PortState]string{fabric.PortActive: StatusOK, fabric.PortDown: StatusNone} {
		n := fabrictest.Healthy()
		h := &n.HCAs[1]
		h.Function, h.Ports[0].State.Value = fabric.Known(fabric.FunctionVF, "physfn", n.At), state
		fine := func(s verdict.Subject) verdict.Verdict {
			return verdict.Verdict{Check: diagnose.Find("reads_return"), Subject: s, Status: verdict.OK}
		}
		d := Of(&Inputs{Node: n, Verdicts: []verdict.Verdict{fine(verdict.PortSubject(h, &h.Ports[0])), fine(verdict.Subject{Device: h.Name})}}).Devices[1]
		if d.Status != want || d.Ports[0].Status != want {
			t.Errorf("%s: device %s, port %s, expected %s", state, d.Status, d.Ports[0].Status, want)
		}
	}
}
