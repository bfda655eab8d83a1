// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"

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
	unwanted := func() *fabric.Node { return &fabric.Node{Policy: &fabric.Policy{}} }
	tests := []struct {
		name string
		node func() *fabric.Node
		args []string
		want []string
	}{
		{"stuck", stuck, nil, []string{"One thing looks wrong", "Reads do not return", "a read of the device does not return"}},
		{"unreadable", unreadable, nil, []string{"Nothing looks wrong in what could be read", "Not checked", "The state of the port is not known"}},
		{"portless", portless, nil, []string{"its ports could not be read"}},
		{"excluded", excluded, nil, []string{"All 1 RDMA devices under /sys/class/infiniband are excluded by flags", "Excluded by flags and not touched: mlx5_0"}},
		{"unlisted", unlisted, nil, []string{"Nothing looks wrong in what could be read", "list of RDMA devices"}},
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
