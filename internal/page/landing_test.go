// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/probes"
)

// landingOf is the page of a node. Edit changes what it is given.
func landingOf(t *testing.T, node func() *fabric.Node, edit ...func(*LandingOptions)) string {
	t.Helper()
	w := httptest.NewRecorder()
	newLanding(t, node, edit...).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	return w.Body.String()
}

func newLanding(t *testing.T, node func() *fabric.Node, edit ...func(*LandingOptions)) *Landing {
	t.Helper()
	var names []string
	for _, c := range collector.Collectors() {
		if c.Default {
			names = append(names, c.Name)
		}
	}
	set, err := collector.NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	site := siteOf(t, "")
	o := LandingOptions{
		Title: "node17", Instance: "node17", Observe: func(context.Context) *fabric.Node { return node() }, Collectors: set,
		NoDevice: func(*fabric.Node) (string, bool) { return "", false },
		Config:   site, Seen: new(Sightings), Log: slog.New(slog.DiscardHandler), Probes: pagesOf(probes.Status{}, nil),
	}
	for _, e := range edit {
		e(&o)
	}
	return NewLanding(o)
}

// siteOf is a configuration in force.
func siteOf(t *testing.T, text string) func() ConfigStatus {
	t.Helper()
	c, err := config.Parse("site.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return func() ConfigStatus { return ConfigStatus{Config: c, Loaded: time.Unix(1_700_000_000, 0)} }
}

// TestPortCount distinguishes ports whose state is not known from those that are not active.
func TestPortCount(t *testing.T) {
	n := fabrictest.Healthy()
	for unknown, want := range []string{"2 RDMA ports, 2 active", "2 RDMA ports, 1 active, 1 of unknown state", "2 RDMA ports, 2 of unknown state"} {
		for i := range unknown {
			n.HCAs[i].Ports[0].State = fabric.Fact[fabric.PortState]{State: fabric.Unknown}
		}
		if got := portCount(n); got != want {
			t.Errorf("%d unknown: got %q, want %q", unknown, got, want)
		}
	}
}

// TestLanding shows a healthy node.
func TestLanding(t *testing.T) {
	page := landingOf(t, fabrictest.Healthy, func(o *LandingOptions) {
		o.Devices.Exclude, o.Links = regexp.MustCompile("^(?:mlx5_9)$"), []Link{{"metrics", "Metrics", "metrics for Prometheus"}}
	})
	contains(t, page, "node17", "No problems found", "8 GPUs · 2 RDMA ports, 2 active · Linux 6.8.0", "mlx5_0", "MT_0000000838", "firmware 28.39.1002",
		"0000:1a:00.0", "compute", "eth1", "400 Gb/s", "10.0.0.1", "entry 3 is the first RoCE v2 GID with an IPv4 address",
		"judged by: configuration (2 roles), record (2 links, 2 rates)", "No variable is set", "all but mlx5_9", `href="metrics"`, "running")
	lacks(t, page, "<script", "http://", "https://", "ZgotmplZ", "&lt;no value")

	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	if style == nil {
		t.Fatal("no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	contains(t, SecurityPolicy(), "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
}

// TestLandingEscapes puts markup wherever the node or the site can put a text.
func TestLandingEscapes(t *testing.T) {
	const evil = `</style><script>alert("1")</script>'"{{.}}`
	n := fabrictest.Healthy()
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
	page := landingOf(t, func() *fabric.Node { return n }, func(o *LandingOptions) {
		o.Devices.Exclude = regexp.MustCompile("^(?:<script>)$")
		o.Title, o.Note, o.Links = evil, evil, []Link{{evil, evil, evil}}
	})
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
		n := fabrictest.Healthy()
		n.Sources = []fabric.Source{{Name: fabric.SourceHCA, Device: "mlx5_1", Reason: fabric.ReasonStuck, Since: n.At}}
		n.HCAs[1] = n.HCAs[1].WithoutFacts(fabric.ReasonStuck, n.At)
		n.Derive()
		return n
	}
	unreadable := func() *fabric.Node {
		n := fabrictest.Healthy()
		n.HCAs[1].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonPrivilege, "state", n.At)
		n.Derive()
		return n
	}
	portless := func() *fabric.Node {
		n := fabrictest.Healthy()
		n.HCAs[0].Ports = nil
		return n
	}
	excluded := func() *fabric.Node {
		n := fabrictest.NoHardware()
		n.ClassPresent.Value, n.Excluded = true, []string{"mlx5_0"}
		return n
	}
	unlisted := func() *fabric.Node {
		n := fabrictest.NoHardware()
		n.ClassPresent = fabric.UnknownFact[bool](fabric.ReasonPrivilege, "class/infiniband", n.At)
		n.Sources = []fabric.Source{{Name: fabric.SourceClass, Reason: fabric.ReasonPrivilege}}
		return n
	}
	moved := func() *fabric.Node {
		n := fabrictest.Healthy()
		n.HCAs[1].Moved, n.HCAs[1].Ports = true, nil
		return n
	}
	unwanted := func() *fabric.Node { return &fabric.Node{Policy: &fabric.Policy{}} }
	tests := []struct {
		name string
		node func() *fabric.Node
		edit func(*LandingOptions)
		want []string
	}{
		{"stuck", stuck, nil, []string{`class="verdict bad"`, "1 problem found", "Reads do not return", "a read of the device does not return"}},
		{"unreadable", unreadable, nil, []string{"No problems found in the facts that could be read", "Not checked", "The state of the port is unknown"}},
		{"portless", portless, nil, []string{"its ports could not be read"}},
		{"excluded", excluded, func(o *LandingOptions) {
			o.NoDevice = func(*fabric.Node) (string, bool) { return "all 1 RDMA devices are excluded", true }
		}, []string{"All 1 RDMA devices are excluded", "Excluded by flags and not read: mlx5_0"}},
		{"unlisted", unlisted, nil, []string{"No problems found in the facts that could be read", "list of RDMA devices"}},
		{"in a pod", moved, nil, []string{"RDMA devices in other network namespaces, such as those of pods: mlx5_1. The state of their ports is unknown here."}},
		{"collectors off", unwanted, func(o *LandingOptions) { o.Collectors, _ = collector.NewSet([]string{"nccl"}) }, []string{"RDMA devices are not checked: their collectors are disabled"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			edit := test.edit
			if edit == nil {
				edit = func(*LandingOptions) {}
			}
			contains(t, landingOf(t, test.node, edit), test.want...)
		})
	}
}

// The addresses of the site are in one place.
func TestLandingLinksOfTheSite(t *testing.T) {
	broken := func() *fabric.Node {
		n := fabrictest.Healthy()
		n.HCAs[1].Ports[0].State.Value = fabric.PortDown
		n.Derive()
		return n
	}
	page := landingOf(t, broken, func(o *LandingOptions) {
		o.Config = siteOf(t, "links: {runbooks: 'https://wiki.example/gpu/', grafana: 'https://grafana.example'}")
	})
	contains(t, page, `<a href="https://wiki.example/gpu/check-ports.md#port_active"`, `<a href="https://grafana.example/d/gpufabric-node?var-instance=node17"`,
		`<th scope="row">Grafana</th><td>https://grafana.example</td>`)
	lacks(t, page, "github.com")

	page = landingOf(t, broken, func(o *LandingOptions) { o.Config = siteOf(t, "links: {runbooks: /usr/share/doc/gpufabric}") })
	contains(t, page, "Runbook: /usr/share/doc/gpufabric/check-ports.md")
	lacks(t, page, `href="/usr`)
}

// Names that the page puts into commands are quoted for a shell, and escaped for a browser.
func TestLandingCommands(t *testing.T) {
	page := func(names ...string) string {
		n := fabrictest.Healthy()
		for i, name := range names {
			n.HCAs[i].Ports[0].State.Value, n.HCAs[i].Ports[0].PhysState.Value = fabric.PortDown, fabric.PhysDisabled
			n.HCAs[i].Ports[0].NetDev.Value = name
		}
		n.Derive()
		return landingOf(t, func() *fabric.Node { return n })
	}
	contains(t, page("eth7"), `<p class="remedy">The network interface is down (ip link set dev eth7 up)`)
	contains(t, page("eth7", "eth8"), `<li>mlx5_0: <span class="remedy">The network interface is down (ip link set dev eth7 up)`,
		`<li>mlx5_1: <span class="remedy">The network interface is down (ip link set dev eth8 up)`)
	hostile := page(`x;<script>'`)
	contains(t, hostile, `ip link set dev &#39;x;&lt;script&gt;&#39;\&#39;&#39;&#39; up`)
	lacks(t, hostile, "<script")
}
