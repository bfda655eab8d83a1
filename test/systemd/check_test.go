// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"os"
	"regexp"
	"testing"
)

// The check writes its textfile beside node_exporter, which owns the folder; its unit has not
// failed where something is unknown.
func testCheck(t *testing.T, m on) {
	const folder, file = "/var/lib/node_exporter", "/var/lib/node_exporter/gpufabric.prom"
	m.Must("find", "/var/lib/gpufabric_exporter", "-type", "f", "-delete") // no record of hardware that the tests before had
	if m.fails("systemctl", "start", "gpufabric-check.service") == nil {
		t.Error("without a folder for the textfile the unit does not fail")
	}
	contains(t, m.Must("journalctl", "--no-pager", "-o", "cat", "-n", "5", "-u", "gpufabric-check"), file)
	m.Must("install", "-d", "-o", "daemon", folder)
	m.Must("systemctl", "start", "gpufabric-check.service") // no device: hardware is unknown
	contains(t, m.Must("cat", file), "gpufabric_check_timestamp_seconds", `gpufabric_check_unknown{check="hardware"`)
	contains(t, m.Must("systemctl", "show", "--value", "-p", "ExecMainStatus", "gpufabric-check.service"), "2")

	m.Must("rm", file)
	m.Must("mkdir", "-p", "/run/systemd/system/gpufabric-check.service.d")
	if out, err := m.Run("[Service]\nCapabilityBoundingSet=~CAP_DAC_OVERRIDE\nAmbientCapabilities=~CAP_DAC_OVERRIDE\n", "sh", "-c", "cat >/run/systemd/system/gpufabric-check.service.d/50-test.conf"); err != nil {
		t.Fatal(err, out)
	}
	m.Must("systemctl", "daemon-reload")
	_, _ = m.Run("", "systemctl", "start", "gpufabric-check.service")
	if m.fails("test", "-e", file) == nil {
		t.Error("without CAP_DAC_OVERRIDE it writes into the folder of another user")
	}
	m.Must("rm", "-r", "/run/systemd/system/gpufabric-check.service.d")
	testOtherFolder(t, m)
}

// testOtherFolder has the check write where docs/INSTALL.md says that Debian's node_exporter reads.
func testOtherFolder(t *testing.T, m on) {
	text, err := os.ReadFile("../../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)systemctl edit gpufabric-check`:\n\n```ini\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/INSTALL.md has no lines for another folder")
	}
	const folder = "/var/lib/prometheus/node-exporter"
	m.Must("install", "-d", "-o", "daemon", folder)
	m.Must("mkdir", "-p", "/etc/systemd/system/gpufabric-check.service.d")
	defer m.Must("rm", "-r", "/etc/systemd/system/gpufabric-check.service.d")
	m.Write("/etc/systemd/system/gpufabric-check.service.d/override.conf", block[1])
	m.Must("systemctl", "daemon-reload")
	_, _ = m.Run("", "systemctl", "start", "gpufabric-check.service")
	contains(t, m.Must("cat", folder+"/gpufabric.prom"), "gpufabric_check_timestamp_seconds")
}
