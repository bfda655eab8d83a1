// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	defaults = "/etc/default/gpufabric_exporter"
	state    = "/var/lib/gpufabric_exporter"
)

// troubles is what docs/INSTALL.md says about troubleshooting.
func troubles(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Troubleshooting\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// testCompatibility requires that docs/SUPPORT.md calls tested what is tested here.
func testCompatibility(t *testing.T, m on) {
	text, err := os.ReadFile("../../docs/SUPPORT.md")
	if err != nil {
		t.Fatal(err)
	}
	for component, command := range map[string]string{
		"C library": "getconf GNU_LIBC_VERSION", // glibc 2.36
		"systemd":   "systemctl --version | head -n 1",
	} {
		version := strings.Fields(m.Must("sh", "-c", command))[1]
		if !regexp.MustCompile(`(?m)^\| ` + component + ` \| .* \| ` + regexp.QuoteMeta(version) + ` \| `).Match(text) {
			t.Errorf("docs/SUPPORT.md does not say that it is tested with %s %s", component, version)
		}
	}
}

// says waits until the journal of the service has words, which that section has too, with … for what differs.
func (m on) says(words string) {
	m.t.Helper()
	if !strings.Contains(troubles(m.t), words) {
		m.t.Errorf("docs/INSTALL.md does not quote %q", words)
	}
	pattern := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(words), "…", ".*"))
	m.Until("the journal has "+words, func() bool {
		return pattern.MatchString(m.Must("journalctl", "--no-pager", "-o", "cat", "-u", unit, "--since=-10min"))
	})
}

// A start that fails is provoked for each row of that section, and logs the message that is in that row.
func testTroubles(t *testing.T, m on) {
	t.Cleanup(func() { _, _ = m.Try("rm", "-f", defaults) })
	const other = "systemd-run --quiet --unit=other /usr/bin/gpufabric_exporter; until curl -sf localhost:10791/-/healthy; do sleep 0.2; done"
	for _, c := range []struct{ what, prepare, options, line, undo, says string }{
		{"port in use", other, "", "", "systemctl stop other", "address already in use: another process listens there"},
		{"port below 1024", "", "--web.listen-address=:80", "", "", "ports below 1024 need CAP_NET_BIND_SERVICE: choose another port"},
		{"no socket", "", "--web.systemd-socket", "", "", "--web.systemd-socket: systemd passed no socket on"},
		{"no AF_UNIX", "", "", "RestrictAddressFamilies=~AF_UNIX\nTimeoutStartSec=10", "", "systemd not notified of the start"},
		{"state is a file", "rm -r " + state + "; : >" + state, "", "", "rm " + state, "status=238/STATE_DIRECTORY"},
		{"no folder", "", "", "BindReadOnlyPaths=/nowhere", "", "status=226/NAMESPACE"},
		{"no user", "", "", "User=nowhere", "", "status=217/USER"},
	} {
		m.Must("sh", "-c", "journalctl --rotate --vacuum-time=1s 2>&1; "+c.prepare)
		m.Write(defaults, "ARGS="+c.options+"\n")
		m.dropIn("Restart=no", "TimeoutStartSec=30", c.line)
		if m.fails("systemctl", "restart", unit) == nil {
			t.Errorf("%s: it starts", c.what)
		}
		m.says(c.says)
		m.Must("sh", "-c", c.undo)
	}
}

// What is missing while the service runs is provoked for each row of it that other tests have not.
func testMissing(t *testing.T, m on) {
	t.Cleanup(func() { _, _ = m.Try("rm", "-f", site, state+"/inventory.json") })
	m.Write(site, "expected: {compute_ports: 4}\n")
	m.Must("systemctl", "start", unit)
	m.says("no RDMA device found under")
	m.says("no GPU driver is loaded")
	m.Must("rm", site)
	m.Must("systemctl", "reload", unit)
	m.says("no longer exists: restart the exporter to serve without a configuration")

	m.dropIn("RestartSec=1", "TimeoutStartSec=30", "LimitNOFILE=100", m.rails())
	m.Must("systemctl", "restart", unit)
	m.Scrape()
	m.Scrape()
	m.says("open files is too low to keep those of all devices open")

	// By hand, as a user to which /proc does not show the processes of others.
	m.Must("cp", "/usr/bin/sleep", "/run/slurmd")
	m.Must("systemd-run", "--quiet", "--unit=slurmd", "-p", "LimitMEMLOCK=65536", "/run/slurmd", "infinity")
	defer m.Must("systemctl", "stop", "slurmd")
	m.Until("slurmd runs", func() bool { return m.fails("pidof", "slurmd") == nil })
	const check = "setpriv --reuid=nobody --regid=nogroup --clear-groups gpufabric_exporter check"
	shown, _ := m.Try("sh", "-c", check)
	hidden, _ := m.Try("unshare", "--mount", "sh", "-c", "mount -t proc -o hidepid=2 proc /proc; "+check)
	root, _ := m.Try("unshare", "--mount", "sh", "-c", "mount -t proc -o hidepid=2 proc /proc; gpufabric_exporter check")
	t.Logf("%s\n\nhidepid:\n%s\n\nroot:\n%s", shown, hidden, root)
	const failed = `FAILED +[a-z]+ +memlock `
	for output, want := range map[string]string{shown: failed, hidden: `(?s)UNKNOWN +[a-z]+ +memlock .*not permitted for this user`, root: failed} {
		if !regexp.MustCompile(want).MatchString(output) {
			t.Errorf("lacks %s:\n%s", want, output)
		}
	}
}

// The exporter serves from a read-only root, as on an immutable system. What cannot be saved is in the log; the metrics
// are the same.
func testReadOnlyRoot(t *testing.T, m on) {
	mounts := m.rails()
	m.dropIn("RestartSec=1", "Restart=no", "TimeoutStartSec=30", mounts)
	m.Must("systemctl", "restart", unit) // which makes the folder of its state
	m.Must("systemctl", "stop", unit)
	m.Must("sh", "-ec", "rm -f "+state+"/*; journalctl --relinquish-var; mount -o remount,bind,ro /")
	t.Cleanup(func() { _, _ = m.Try("mount", "-o", "remount,bind,rw", "/") })
	contains(t, m.fails("touch", state+"/x").Error(), "exit status 1")
	m.Must("systemctl", "start", unit)
	contains(t, m.Scrape(), "\ngpufabric_node_info{", "\ngpufabric_hca_info{", "\ngpufabric_exporter_config_last_reload_successful 1\n")
	m.says("the hardware inventory cannot be saved")
	if left := m.Must("ls", "-A", state); left != "" {
		t.Errorf("half written: %s", left)
	}
	if _, err := m.Try("gpufabric_exporter", "check"); err != nil && !strings.HasSuffix(err.Error(), "status 2") {
		t.Errorf("check: %v", err) // no device: unknown
	}
	m.Must("systemctl", "stop", unit)

	// An upgrade by the archive ends at its first step, and nothing has changed.
	before := m.Must("sha256sum", "/usr/bin/gpufabric_exporter")
	out, err := m.Try("sh", "-ec", "cd /root; tar -xzf "+archive+".tar.gz")
	if err == nil || !strings.Contains(out, "Read-only file system") || m.Must("sha256sum", "/usr/bin/gpufabric_exporter") != before {
		t.Errorf("%v: %s", err, out)
	}

	// A folder for state that is not there cannot be made.
	m.Must("mount", "-o", "remount,bind,rw", "/")
	m.Must("sh", "-c", "rm -r "+state+"; mount -o remount,bind,ro /")
	if m.fails("systemctl", "start", unit) == nil {
		t.Error("it starts without its folder")
	}
	m.says("status=238/STATE_DIRECTORY")
}
