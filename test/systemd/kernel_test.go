// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"regexp"
	"strings"
	"testing"
)

// The tier kernel shows the messages of the kernel. Without a line of the tier they are unknown, with the reason.
func testKernel(t *testing.T, m on) {
	const (
		node  = "/dev/kmsg"
		up    = "\n" + `gpufabric_exporter_source_up{device="",netdev="",source="kernel"} `
		total = "\n" + `gpufabric_log_failures_total{`
	)
	m.Must("mknod", "-m", "444", node, "c", "1", "11")
	m.Write(site, "kernel: {messages: "+node+"}\n")
	t.Cleanup(func() { _, _ = m.Try("rm", node, site) })
	restricted := m.Must("cat", "/proc/sys/kernel/dmesg_restrict") == "1"
	if !restricted {
		t.Log("CAP_SYSLOG is not looked at: kernel.dmesg_restrict of this machine is not 1")
	}
	all := []string{"gpu", "bus", "jobs", "probes", "kernel"}
	for _, c := range []struct {
		tiers  []string
		line   string
		reason string // empty: they are read
		needs  bool   // kernel.dmesg_restrict
	}{
		{[]string{"kernel"}, "", "", false},
		{all, "", "", false},
		{nil, "", "missing", false},
		{[]string{"gpu", "bus", "jobs", "probes"}, "", "privilege", false},
		{[]string{"kernel"}, "CapabilityBoundingSet=~CAP_SYSLOG\nAmbientCapabilities=~CAP_SYSLOG", "privilege", true},
		{[]string{"kernel"}, "AmbientCapabilities=~CAP_SYSLOG", "privilege", true},
		{[]string{"kernel"}, "PrivateUsers=yes", "privilege", true},
		{[]string{"kernel"}, "ProtectKernelLogs=yes", "privilege", false},
		{[]string{"kernel"}, "PrivateDevices=yes", "missing", false},
		{[]string{"kernel"}, "DeviceAllow=", "privilege", false},
	} {
		if c.needs && !restricted || c.line == "DeviceAllow=" && !m.deniesDevices() {
			continue
		}
		m.tiers(c.tiers...)
		m.dropIn("RestartSec=1", "TimeoutStartSec=30", c.line)
		m.Must("systemctl", "restart", unit)
		text := m.Scrape()
		t.Logf("%v %q:%s", c.tiers, c.line, regexp.MustCompile(`\n[^#\n]*source="kernel".*`).FindAllString(text, -1))
		if c.reason == "" {
			contains(t, text, up+"1\n")
			continue
		}
		contains(t, text, up+"0\n", "\n"+`gpufabric_exporter_source_unknown{device="",netdev="",reason="`+c.reason+`",source="kernel"} 1`)
		if strings.Contains(text, total) {
			t.Errorf("%v %q: failures are counted", c.tiers, c.line)
		}
	}
}
