// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// The page is served as it is made, with headers that let it do nothing but show itself.
func TestLandingIsServed(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--collector.device-exclude=mlx5_9")
	status, page, header := p.Get("/")
	if status != http.StatusOK || header.Get("Content-Type") != "text/html; charset=utf-8" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", status, header)
	}
	contains(t, page, "No problems found", `href="status.json"`, "8 GPUs · 2 RDMA ports, 2 active · Linux 6.8.0", "mlx5_0", "MT_0000000838", "firmware 28.39.1002",
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

// A finding says how bad it is, which check found it, since when, and where to read on; its commands have
// names in them.
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
	p.Ready() // it has observed the node once
	become(true, 2*time.Hour)
	_, page, _ := p.Get("/")
	contains(t, page, `<span class="badge bad">critical</span>`, `<code>port_active</code> at least since 2026-11-22 16:00:00 UTC; before that it was not checked`,
		`<a href="https://github.com/gpufabric/gpufabric_exporter/blob/main/alerts/runbooks/check-ports.md#port_active"`)
	lacks(t, page, "Dashboard", "&lt;interface&gt;")

	become(false, time.Minute)
	p.Get("/metrics") // scrapes observe, too
	become(true, time.Minute)
	p.Get("/metrics")
	become(true, time.Hour)
	_, page, _ = p.Get("/")
	contains(t, page, `<code>port_active</code> since 2026-11-22 18:02:00 UTC`)
}
