// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func TestLanding(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--collector.device-exclude=mlx5_9")
	status, page, header := p.get("/")
	if status != http.StatusOK || header.Get("Content-Type") != "text/html; charset=utf-8" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", status, header)
	}
	contains(t, page, "Nothing looks wrong", "8 GPUs · 2 RDMA ports, 2 active · Linux 6.8.0", "mlx5_0", "MT_0000000838", "firmware 28.39.1002",
		"0000:1a:00.0", "compute", "eth1", "400 Gb/s", "10.0.0.1", "entry 3 is the first RoCE v2 GID with an IPv4 address",
		"No variable is set", "all but mlx5_9", `href="metrics"`, `href="-/healthy"`, "running")
	lacks(t, page, "<script", "http://", "https://", "ZgotmplZ", "pprof", "&lt;no value")

	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	if style == nil {
		t.Fatal("no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	contains(t, header.Get("Content-Security-Policy"), "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
}

// TestLandingEscapes puts markup wherever the node or the site can put a text.
func TestLandingEscapes(t *testing.T) {
	const evil = `</style><script>alert("1")</script>'"{{.}}`
	n := healthy()
	h := &n.HCAs[0]
	h.Name, h.BoardID.Value, h.Firmware.Value, h.PCI.Value = evil, evil, evil, evil
	h.BoardID.Source = evil
	h.Ports[0].NetDev.Value, h.Ports[0].State.Value = evil, evil
	h.Ports[0].PhysState.Value, h.Ports[0].LinkLayer.Value = evil, evil
	n.Host.Kernel.Value = evil
	n.Excluded = []string{evil}
	n.NCCL = fabric.NCCLConfig{
		Files:     []fabric.NCCLFile{{Path: evil, Exists: fabric.Known(true, evil, n.At)}},
		Variables: []fabric.NCCLVariable{{Name: evil, Value: evil, Source: evil}},
		Findings:  []fabric.NCCLFinding{{Rule: evil, Name: evil, Source: evil, Text: evil}},
	}
	n.Sources = []fabric.Source{{Name: fabric.SourceHCA, Device: evil, Reason: fabric.ReasonIO, Err: evilError(evil)}}
	p := start(t, &fakeObserver{node: func() *fabric.Node { c := *n; return &c }}, "--collector.device-exclude=<script>")
	_, page, _ := p.get("/")
	if strings.Count(page, "</style>") != 1 {
		t.Error("the style ends early")
	}
	lacks(t, page, "<script", `title="`+evil, "ZgotmplZ")
	if n := strings.Count(page, "&lt;script&gt;"); n < 15 {
		t.Errorf("%d escaped texts:\n%s", n, page)
	}
}

type evilError string

func (e evilError) Error() string { return string(e) }

func TestVerdicts(t *testing.T) {
	stuck := func() *fabric.Node {
		n := healthy()
		n.Sources = []fabric.Source{{Name: fabric.SourceHCA, Device: "mlx5_1", Reason: fabric.ReasonStuck, Since: n.At}}
		n.HCAs[1] = n.HCAs[1].WithoutFacts(fabric.ReasonStuck, n.At)
		n.Derive()
		return n
	}
	unreadable := func() *fabric.Node {
		n := healthy()
		n.HCAs[1].Ports[0].State = fabric.NotKnown[fabric.PortState](fabric.ReasonPrivilege, "state", n.At)
		n.Derive()
		return n
	}
	portless := func() *fabric.Node {
		n := healthy()
		n.HCAs[0].Ports = nil
		return n
	}
	excluded := func() *fabric.Node {
		n := noHardware()
		n.ClassPresent.Value, n.Excluded = true, []string{"mlx5_0"}
		return n
	}
	unlisted := func() *fabric.Node {
		n := noHardware()
		n.ClassPresent = fabric.NotKnown[bool](fabric.ReasonPrivilege, "class/infiniband", n.At)
		n.Sources = []fabric.Source{{Name: fabric.SourceClass, Reason: fabric.ReasonPrivilege}}
		return n
	}
	moved := func() *fabric.Node {
		n := healthy()
		n.HCAs[1].Moved, n.HCAs[1].Ports = true, nil
		return n
	}
	unwanted := func() *fabric.Node { return &fabric.Node{Policy: &fabric.Policy{}} }
	tests := []struct {
		name string
		node func() *fabric.Node
		args []string
		want []string
	}{
		{"stuck", stuck, nil, []string{`<section class="verdict bad">`, "One thing looks wrong", "Reads do not return", "a read of the device does not return"}},
		{"unreadable", unreadable, nil, []string{"Nothing looks wrong in what could be read", "Not checked", "The state of the port is not known"}},
		{"portless", portless, nil, []string{"its ports could not be read"}},
		{"excluded", excluded, nil, []string{"All 1 RDMA devices under /sys/class/infiniband are excluded by flags", "Excluded by flags and not touched: mlx5_0"}},
		{"unlisted", unlisted, nil, []string{"Nothing looks wrong in what could be read", "list of RDMA devices"}},
		{"in a pod", moved, nil, []string{"RDMA devices in other network namespaces, as of pods: mlx5_1. What their ports do is not known here."}},
		{"collectors off", unwanted, []string{"--collector.disable-defaults", "--collector.nccl"}, []string{"RDMA devices are not looked at: their collectors are disabled"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := start(t, &fakeObserver{node: test.node}, test.args...)
			_, page, _ := p.get("/")
			contains(t, page, test.want...)
		})
	}
}

// Red is for what keeps jobs from the node: the page is as bad as the worst of its findings.
func TestVerdictIsAsBadAsItsFindings(t *testing.T) {
	withoutRace(t)
	for scenario, want := range map[string]string{
		"port-down":         `<section class="verdict bad">`,
		"counter-saturated": `<section class="verdict unsure">`, // info, for which check ends with 0
	} {
		p := start(t, nil, append(simulatedHost(t, scenario), "--config.file=none")...)
		_, page, _ := p.get("/")
		contains(t, page, want)
	}
}

// A finding says how bad it is, which check found it, since when, and where to read on; its commands have names in them.
func TestLandingFinding(t *testing.T) {
	var mu sync.Mutex
	down, at := true, time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC)
	node := func() *fabric.Node {
		mu.Lock()
		defer mu.Unlock()
		n := healthy()
		n.At = at
		if down {
			n.HCAs[1].Ports[0].State.Value, n.HCAs[1].Ports[0].PhysState.Value = fabric.PortDown, fabric.PhysDisabled
		}
		n.Derive()
		return n
	}
	become := func(isDown bool, later time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		down, at = isDown, at.Add(later)
	}
	p := start(t, &fakeObserver{node: node})
	p.ready() // it has looked once
	become(true, 2*time.Hour)
	_, page, _ := p.get("/")
	contains(t, page, `<span class="bad">critical</span> <code>port_active</code> at least since 2026-11-22 16:00:00 UTC; this exporter did not look before`,
		`<a href="https://github.com/gpufabric/gpufabric_exporter/blob/main/alerts/runbooks/check-ports.md"`)
	lacks(t, page, "Dashboard", "&lt;interface&gt;")

	become(false, time.Minute)
	p.get("/metrics") // scrapes look too
	become(true, time.Minute)
	p.get("/metrics")
	become(true, time.Hour)
	_, page, _ = p.get("/")
	contains(t, page, `<code>port_active</code> since 2026-11-22 18:02:00 UTC`)
}

// The addresses of the site are in one place.
func TestLandingLinksOfTheSite(t *testing.T) {
	broken := func() *fabric.Node {
		n := healthy()
		n.HCAs[1].Ports[0].State.Value = fabric.PortDown
		n.Derive()
		return n
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, &fakeObserver{node: broken}, "--config.file="+siteFile(t, "links: {runbooks: 'https://wiki.example/gpu/', grafana: 'https://grafana.example'}"))
	_, page, _ := p.get("/")
	contains(t, page, `<a href="https://wiki.example/gpu/check-ports.md"`, `<a href="https://grafana.example/d/gpufabric-node?var-instance=`+url.QueryEscape(host)+`"`,
		`<th scope="row">Grafana</th><td>https://grafana.example</td>`)
	lacks(t, page, "github.com")

	p = start(t, &fakeObserver{node: broken}, "--config.file="+siteFile(t, "links: {runbooks: /usr/share/doc/gpufabric}"))
	_, page, _ = p.get("/")
	contains(t, page, "Runbook: /usr/share/doc/gpufabric/check-ports.md")
	lacks(t, page, `href="/usr`)
}

// Names that the page puts into commands are quoted for a shell, and escaped for a browser.
func TestLandingCommands(t *testing.T) {
	page := func(names ...string) string {
		n := healthy()
		for i, name := range names {
			n.HCAs[i].Ports[0].State.Value, n.HCAs[i].Ports[0].PhysState.Value = fabric.PortDown, fabric.PhysDisabled
			n.HCAs[i].Ports[0].NetDev.Value = name
		}
		n.Derive()
		_, body, _ := start(t, &fakeObserver{node: func() *fabric.Node { c := *n; return &c }}).get("/")
		return body
	}
	contains(t, page("eth7"), `<p class="remedy">The network interface is switched off (ip link set dev eth7 up)`)
	contains(t, page("eth7", "eth8"), `<li>mlx5_0: <span class="remedy">The network interface is switched off (ip link set dev eth7 up)`,
		`<li>mlx5_1: <span class="remedy">The network interface is switched off (ip link set dev eth8 up)`)
	hostile := page(`x;<script>'`)
	contains(t, hostile, `ip link set dev &#39;x;&lt;script&gt;&#39;\&#39;&#39;&#39; up`)
	lacks(t, hostile, "<script")
}
