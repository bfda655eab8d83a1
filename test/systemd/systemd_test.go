// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSystemd(t *testing.T) {
	m := boot(t)
	if !t.Run("install", func(t *testing.T) {
		testInstall(t, on{m.For(t), t})
	}) {
		return
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, on)
	}{
		{"start", testStart},
		{"reload", testReload},
		{"wrong configuration", testWrongConfiguration},
		{"state", testState},
		{"watchdog", testWatchdog},
		{"tiers", testTiers},
		{"loosened lines", testLoosened},
		{"devices", testDevices},
		{"late driver", testLateDriver},
		{"verbs", testVerbs},
		{"kernel", testKernel},
		{"check", testCheck},
		{"denied", testDenied},
		{"troubles", testTroubles},
		{"missing", testMissing},
		{"read-only root", testReadOnlyRoot},
		{"lock", testLock},
		{"probes", testProbes},
		{"memlock", testMemlock},
		{"scheduled probe", testScheduledProbe},
		{"jobs", testJobs},
		{"bus", testBus},
		{"removal", testRemoval}, // the last
	} {
		t.Run(c.name, func(t *testing.T) {
			here := on{m.For(t), t}
			here.tiers()
			here.dropIn("RestartSec=1", "TimeoutStartSec=30")
			_, _ = here.Run("", "systemctl", "reset-failed", unit)
			defer func() { _, _ = here.Try("systemctl", "stop", unit) }() // for the next, whatever happens
			c.run(t, here)
		})
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%s", part, text)
		}
	}
}

// testInstall follows docs/INSTALL.md: the archive, the tier gpu, the start.
func testInstall(t *testing.T, m on) {
	text, err := os.ReadFile("../../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		commands.WriteString(block[1] + "\n")
	}
	out, err := m.Run("cd /root\n"+commands.String(), "sh", "-ex")
	t.Log(out)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, out, "gpufabric_node_info{", "exit code 2") // no device: unknown
	contains(t, m.Property("DropInPaths"), "/gpu.conf")
	testCompatibility(t, m)
	if m.Property("UnitFileState") != "enabled" || m.Property("ActiveState") != "active" {
		t.Error("it is not enabled, or does not run")
	}
	m.Must("systemctl", "stop", unit)
}

// testRemoval follows docs/INSTALL.md: nothing of what was installed is left.
func testRemoval(t *testing.T, m on) {
	text, err := os.ReadFile("../../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`To remove:\n\n((?:    .+\n)+)`).FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/INSTALL.md does not say how to remove it")
	}
	m.Must("systemctl", "enable", "--now", unit, "gpufabric-check.timer")
	if out, err := m.Run(block[1]+"\n", "sh", "-ex"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := m.Must("find", "/etc/systemd", "/etc/default", "/usr/bin", "/usr/share", "/usr/lib", "/var/lib", "-iname", "*gpufabric*"); left != "" {
		t.Errorf("left:\n%s", left)
	}
	if m.fails("id", unit) == nil {
		t.Error("the user is left")
	}
}

// raises reports whether the systemd of a container can raise limits on this machine.
func raises(t *testing.T) bool {
	t.Helper()
	set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0)
	if err != nil || set == 0 {
		t.Log("limits are not looked at: this machine has no CAP_SYS_RESOURCE, with which systemd raises them")
		return false
	}
	return true
}

// The unit is started when the exporter listens, runs as its own user without a capability, and leaves
// nothing behind but its state.
func testStart(t *testing.T, m on) {
	m.Must("systemctl", "start", unit)
	contains(t, m.Scrape(), "\ngpufabric_node_info{", "\ngpufabric_exporter_build_info{") // at once
	status := m.Must("cat", "/proc/"+m.PID()+"/status")
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		contains(t, status, set+":\t0000000000000000\n")
	}
	contains(t, status, "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Uid:\t"+m.Must("id", "-u", "gpufabric_exporter")+"\t")
	if raises(t) {
		contains(t, m.Must("grep", "Max open files", "/proc/"+m.PID()+"/limits"), "65536")
	}
	m.Must("systemctl", "stop", unit)
	if result := m.Property("Result"); result != "success" {
		t.Errorf("stopped with %s\n%s", result, m.Log())
	}
}

// systemctl reload applies a changed configuration, but not an invalid one.
func testReload(t *testing.T, m on) {
	const file = "/etc/gpufabric_exporter/config.yml"
	expects := func() bool { // a number that this machine meets: others are not shown
		return strings.Contains(m.Scrape(), "\ngpufabric_node_compute_ports_expected 0\n")
	}
	m.Write(file, "expected: {}\n")
	defer m.Must("rm", file)
	m.Must("systemctl", "start", unit)
	pid := m.PID()
	m.Until("it is scraped", func() bool {
		return strings.Contains(m.Scrape(), "\ngpufabric_exporter_config_last_reload_successful 1\n")
	})
	if expects() {
		t.Error("it expects what nothing states")
	}
	m.Write(file, "expected: {compute_ports: 0}\n")
	m.Must("systemctl", "reload", unit)
	m.Until("it is read again", expects)
	m.Write(file, "expected: {computer_ports: 16}\n")
	m.Must("systemctl", "reload", unit)
	m.Until("the wrong one is refused", func() bool {
		return strings.Contains(m.Scrape(), "\ngpufabric_exporter_config_last_reload_successful 0\n")
	})
	if !expects() || m.PID() != pid {
		t.Errorf("the previous configuration is not in force, or another process serves\n%s", m.Log())
	}
	contains(t, m.Log(), "configuration not reloaded, the previous one stays in force")
}

// After a wrong command line the service is not restarted, because that would not help, and the log has the reason.
func testWrongConfiguration(t *testing.T, m on) {
	const file = "/etc/default/gpufabric_exporter"
	m.Write(file, `ARGS="--collector.nonsense"`+"\n")
	defer m.Must("rm", file)
	if m.fails("systemctl", "start", unit) == nil {
		t.Error("it starts")
	}
	m.Until("it fails", func() bool { return m.Property("ActiveState") == "failed" })
	if n, status := m.Property("NRestarts"), m.Property("ExecMainStatus"); n != "0" || status != "3" {
		t.Errorf("%s restarts, exit status %s", n, status)
	}
	contains(t, m.Log(), "nonsense")
}

// The state is the user's own, and survives.
func testState(t *testing.T, m on) {
	const folder = "/var/lib/gpufabric_exporter"
	m.Must("systemctl", "start", unit)
	m.Must("sh", "-c", "echo kept >"+folder+"/note")
	m.Must("systemctl", "restart", unit)
	contains(t, m.Must("stat", "-c", "%U %a", folder), "gpufabric_exporter 755")
	contains(t, m.Must("cat", folder+"/note"), "kept")
}

// A process that no longer serves is killed and started again; one that serves is left alone.
func testWatchdog(t *testing.T, m on) {
	m.dropIn("RestartSec=1", "WatchdogSec=6", "TimeoutAbortSec=2", "TimeoutStartSec=30")
	m.Must("systemctl", "start", unit)
	pid, began := m.PID(), m.Property("WatchdogTimestampMonotonic")
	m.Until("systemd is notified three times", func() bool {
		now := m.Property("WatchdogTimestampMonotonic")
		if now != began {
			began = now
			pid += "."
		}
		return strings.HasSuffix(pid, "...")
	})
	pid = strings.TrimRight(pid, ".")
	if m.PID() != pid || m.Property("NRestarts") != "0" {
		t.Fatalf("killed although it serves\n%s", m.Log())
	}
	m.Must("sh", "-c", "kill -STOP "+pid)
	m.Until("it is started again", func() bool {
		now := m.PID()
		return now != "0" && now != pid && m.Property("ActiveState") == "active"
	})
	contains(t, m.Scrape(), "\ngpufabric_node_info{")
	// The dump of its goroutines is long, and may be in the journal after systemd's own line.
	m.Until("the journal has the reason", func() bool {
		return m.fails("sh", "-c", "journalctl --no-pager -o cat -u "+unit+` | grep -q "Failed with result 'watchdog'"`) == nil
	})
}

// Each tier has its capabilities on every thread, and no others.
func testTiers(t *testing.T, m on) {
	for _, c := range []struct {
		tiers []string
		set   string
	}{
		{[]string{"gpu"}, "0000000000000000"},
		{[]string{"bus"}, "0000000000200000"},
		{[]string{"gpu", "jobs"}, "0000000000080004"},
		{[]string{"gpu", "probes"}, "0000000000000000"},
		{[]string{"gpu", "bus", "jobs", "probes"}, "0000000000280004"},
	} {
		m.tiers(c.tiers...)
		m.Must("systemctl", "start", unit)
		contains(t, m.Scrape(), "\ngpufabric_node_info{")
		pid := m.PID()
		for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if got := m.Must("sh", "-c", "grep -h ^"+set+" /proc/"+pid+"/task/*/status | sort -u"); got != set+":\t"+c.set {
				t.Errorf("%v: %s, want %s", c.tiers, got, c.set)
			}
		}
		limits := m.Must("grep", "Max locked memory", "/proc/"+pid+"/limits")
		if unlimited := strings.Contains(limits, "unlimited"); unlimited != (c.tiers[len(c.tiers)-1] == "probes") && raises(t) {
			t.Errorf("%v: %s", c.tiers, limits)
		}
		m.Must("systemctl", "stop", unit)
	}
}

// The kernel shows a process of the tier bus all of PCI configuration space, and each without a line of it
// the first 64 bytes. What the exporter makes of it takes devices that this machine does not have: the lab's
// pci has them.
func testBus(t *testing.T, m on) {
	config, err := m.Try("sh", "-c", "ls /sys/bus/pci/devices/*/config | head -n 1")
	if err != nil || config == "" {
		t.Skip("this machine has no PCI device: ", config)
	}
	if all := m.Must("sh", "-c", "wc -c <"+config); all == "64" {
		t.Skip("not even root of this machine is shown more than 64 bytes of " + config)
	}
	const few = "64"
	for _, c := range []struct {
		tiers []string
		line  string
		all   bool
	}{
		{[]string{"bus"}, "", true},
		{[]string{"gpu", "bus", "jobs", "probes"}, "", true},
		{nil, "", false},
		{[]string{"bus"}, "CapabilityBoundingSet=~CAP_SYS_ADMIN\nAmbientCapabilities=~CAP_SYS_ADMIN", false},
		{[]string{"bus"}, "PrivateUsers=yes", false},
	} {
		m.tiers(c.tiers...)
		log, _ := m.once("/bin/sh -c \"wc -c <"+config+"\"", c.line)
		size := regexp.MustCompile(`(?m)^[0-9]+$`).FindString(log)
		t.Logf("%v %q: %s bytes of %s", c.tiers, c.line, size, config)
		if (size != few) != c.all {
			t.Errorf("%v %q: %s bytes:\n%s", c.tiers, c.line, size, log)
		}
	}
}

// Every line that could be tighter is so for a reason: what is lost when it is tightened.
func testLoosened(t *testing.T, m on) {
	m.Must("cp", "/usr/bin/sleep", "/run/slurmd")
	m.Must("systemd-run", "--quiet", "--unit=slurmd", "-p", "LimitMEMLOCK=65536", "/run/slurmd", "infinity")
	defer m.Must("systemctl", "stop", "slurmd")
	m.Until("slurmd runs", func() bool { return m.fails("pidof", "slurmd") == nil })
	const (
		memlock = "\n" + `gpufabric_check_failed{check="memlock",`
		hidden  = "\n" + `gpufabric_check_unknown{check="memlock",`
		boot    = "\ngpufabric_node_boot_time_seconds "
		unnamed = "\n" + `gpufabric_node_info{kernel_release=""}`
	)
	m.Must("systemctl", "start", unit)
	contains(t, m.Scrape(), memlock, boot)
	for line, lost := range map[string]func() bool{
		"ProtectProc=invisible": func() bool {
			text := m.Scrape()
			return !strings.Contains(text, memlock) && strings.Contains(text, hidden)
		},
		"ProcSubset=pid": func() bool {
			text := m.Scrape()
			return !strings.Contains(text, boot) && !strings.Contains(text, unnamed)
		},
		"PrivateNetwork=yes":                        func() bool { return m.fails("curl", "-sS", "--fail", "http://localhost:10791/metrics") != nil },
		"RestrictAddressFamilies=~AF_INET AF_INET6": func() bool { return m.Property("ActiveState") != "active" },
		"RestrictAddressFamilies=~AF_UNIX":          func() bool { return m.Property("ActiveState") != "active" }, // systemd is not notified
		"StateDirectory=": func() bool {
			return m.fails("grep", "gpufabric_exporter .*rw", "/proc/"+m.PID()+"/mountinfo") != nil
		},
		"User=root\nGroup=root\nPrivateUsers=no": func() bool { return strings.Contains(m.Log(), "running as root is not needed") },
	} {
		m.dropIn("RestartSec=1", "TimeoutStartSec=5", line)
		_, _ = m.Run("", "systemctl", "restart", unit)
		if !lost() {
			t.Errorf("with %s nothing is lost\n%s", line, m.Log())
		}
	}
}

// What SELinux, AppArmor or a read-only file system denies is logged at the start, and everything that does not need it
// is served.
func testDenied(t *testing.T, m on) {
	const file = "/etc/gpufabric_exporter/config.yml"
	m.Write(file, "expected: {compute_ports: 4}\n")
	defer m.Must("rm", file)
	for line, says := range map[string]string{
		"InaccessiblePaths=" + file: file,
		"InaccessiblePaths=/sys":    "--path.sysfs",
	} {
		m.dropIn("RestartSec=1", "Restart=no", line)
		if m.fails("systemctl", "restart", unit) == nil {
			t.Errorf("%s: it starts", line)
		}
		contains(t, m.Log(), says, "permission denied: expected a path that exists and that user ")
	}
	m.dropIn("RestartSec=1", "ReadOnlyPaths=/")
	m.Must("systemctl", "restart", unit)
	contains(t, m.Scrape(), "\ngpufabric_node_info{")
}

// Without the tier probes there is no folder for the lock, and the log says so; with it the lock can be taken.
func testLock(t *testing.T, m on) {
	const file, says = "/etc/gpufabric_exporter/config.yml", "the lock of probes cannot be taken, and every probe is skipped"
	m.Must("rm", "-rf", "/run/gpufabric_exporter") // kept from the tier probes before
	m.Write(file, "probes: true\n")
	defer m.Must("rm", file)
	m.Must("systemctl", "start", unit)
	m.Until("the lock is missed", func() bool { return strings.Contains(m.Log(), says) })
	m.Must("systemctl", "stop", unit)
	m.tiers("gpu", "probes")
	m.Must("systemctl", "start", unit)
	contains(t, m.Must("stat", "-c", "%U %a", "/run/gpufabric_exporter"), "gpufabric_exporter 700")
	m.Until("a probe is considered", func() bool { return strings.Contains(m.Scrape(), "gpufabric_probe_") })
	if log := m.invocation(); strings.Contains(log, says) {
		t.Error(log)
	}
}
