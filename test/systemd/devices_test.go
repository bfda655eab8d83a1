// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
)

// module is what the machine shows as /proc/driver. A unit with ProtectKernelTunables has a procfs of its own
// in a container, into which it is mounted.
const module = "/opt/driver"

// nvidia is the folder of the stand-ins for libraries of NVIDIA.
const nvidia = "/opt/nvidia"

// driver gives the machine a GPU driver: what its kernel module shows in /proc, its device node, and a
// library that opens the node.
func (m on) driver(lines ...string) {
	m.t.Helper()
	const folder, node = nvidia, "/dev/nvidiactl"
	library := nvmltest.Build(m.t, m.t.TempDir())
	nvmltest.Describe(m.t, library, append(lines, "gpus 2", "node "+node)...)
	m.Must("sh", "-ec", "mkdir -p "+folder+" "+module+"/nvidia; mknod -m 666 "+node+" c 195 255; "+
		"echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (test)' >"+module+"/nvidia/version")
	for _, file := range []string{library, library + ".machine"} {
		m.Must("install", "-m", "644", m.Put(file), folder+"/")
	}
	m.Write("/etc/default/gpufabric_exporter", "ARGS=--gpu.nvml-library="+folder+"/"+filepath.Base(library)+"\n")
	m.t.Cleanup(func() {
		_, _ = m.Try("sh", "-c", "rm -r "+node+" "+folder+" "+module+" /etc/default/gpufabric_exporter")
	})
}

// GPUs are seen in the tier gpu. Without it, or where SELinux or a container denies the device nodes, they
// are unknown: a driver that is loaded is never said to be missing.
func testDevices(t *testing.T, m on) {
	m.driver()
	const loaded, asked = "\ngpufabric_gpu_driver_loaded 1\n", "\n" + `gpufabric_scrape_collector_supported{collector="gpu"} `
	unknown := func(reason string) string {
		return "\n" + `gpufabric_exporter_facts_unknown{device="",reason="` + reason + `",uuid=""} `
	}
	for _, c := range []struct {
		what  string
		tiers []string
		line  string
		node  string // its mode
		seen  bool
		shows []string
		says  string
	}{
		{"tier gpu", []string{"gpu"}, "", "666", true, []string{loaded, asked + "1\n"}, ""},
		{"all tiers", []string{"gpu", "bus", "jobs", "probes"}, "", "666", true, []string{loaded, asked + "1\n"}, ""},
		{"no tier", nil, "", "666", false, []string{loaded, asked + "0\n", unknown("missing")}, "the device nodes /dev/nvidia* may be missing here. With systemd, enable the tier gpu"},
		{"PrivateDevices=yes", []string{"gpu"}, "PrivateDevices=yes", "666", false, []string{loaded, asked + "0\n", unknown("missing")}, "the device nodes /dev/nvidia* may be missing here"},
		{"denied", []string{"gpu"}, "", "600", false, []string{loaded, unknown("privilege")}, "nvmlInit answers 4 (no_permission)"},
		{"no library", []string{"gpu"}, "InaccessiblePaths=/opt/nvidia", "666", false, []string{loaded, unknown("privilege")}, "cannot open shared object file: permission denied"},
		{"no DeviceAllow", []string{"gpu"}, "DeviceAllow=", "666", false, []string{loaded, unknown("privilege")}, "nvmlInit answers 4 (no_permission)"},
	} {
		if c.line == "DeviceAllow=" && !m.deniesDevices() {
			continue
		}
		m.tiers(c.tiers...)
		m.dropIn("RestartSec=1", "TimeoutStartSec=30", "BindReadOnlyPaths="+module+":/proc/driver", c.line)
		m.Must("chmod", c.node, "/dev/nvidiactl")
		m.Must("systemctl", "restart", unit)
		text := m.Scrape()
		t.Logf("%s:%s", c.what, gpuLines(text))
		contains(t, text, c.shows...)
		if strings.Contains(text, "\ngpufabric_gpu_info{") != c.seen {
			t.Errorf("%s: GPUs are seen: %v", c.what, !c.seen)
		}
		if c.seen {
			m.worker()
		}
		log := m.invocation()
		contains(t, log, c.says)
	}
}

// worker requires that the process with the driver's library has no capability, whatever the exporter has.
func (m on) worker() {
	m.t.Helper()
	status := m.Must("sh", "-c", "cat /proc/$(cat /proc/"+m.PID()+"/task/*/children | tr -d ' ')/status")
	contains(m.t, status, "NoNewPrivs:\t1\n", "Seccomp:\t2\n")
	for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
		contains(m.t, status, set+":\t0000000000000000\n")
	}
}

// systemd takes the numbers of devices when a unit starts. Where the driver is loaded later, GPUs are unknown
// until a restart.
func testLateDriver(t *testing.T, m on) {
	if !m.deniesDevices() {
		return
	}
	m.driver()
	m.tiers("gpu")
	m.dropIn("RestartSec=1", "TimeoutStartSec=30", "BindReadOnlyPaths="+module+":/proc/driver")
	const seen = "\ngpufabric_gpu_info{"
	m.Must("umount", "/proc/devices")
	_, err := m.Try("systemctl", "restart", unit)
	m.Must("mount", "--bind", devices, "/proc/devices")
	if text := m.Scrape(); err != nil || strings.Contains(text, seen) || !strings.Contains(text, "\ngpufabric_gpu_driver_loaded 1\n") {
		t.Errorf("%v: GPUs are seen through device nodes whose number systemd did not know:%s", err, gpuLines(text))
	}
	m.says("nvmlInit answers … (no_permission)")
	m.Must("systemctl", "restart", unit)
	contains(t, m.Scrape(), seen)
}

// NCCL opens the device nodes of RDMA. Under the unit, preflight reports as usable what the unit permits to open.
func testVerbs(t *testing.T, m on) {
	if !m.deniesDevices() {
		return
	}
	mounts := m.rails()
	m.Must("sh", "-ec", "mkdir /dev/infiniband; mknod -m 666 /dev/nvidia0 c 195 0; i=192; for d in /opt/node/class/infiniband_verbs/uverbs*; do "+
		"mknod -m 666 /dev/infiniband/${d##*/} c 231 $i; echo 231:$i >$d/dev; i=$((i+1)); done")
	t.Cleanup(func() { _, _ = m.Try("rm", "-r", "/dev/infiniband", "/dev/nvidia0") })
	const refused = "The job is not permitted to open RDMA devices"
	for _, c := range []struct {
		tiers  []string
		line   string
		denied bool
	}{
		{[]string{"gpu", "probes"}, "", false},
		{[]string{"gpu", "probes"}, "DeviceAllow=\nDeviceAllow=char-nvidia* rw", true},
		{[]string{"gpu"}, "", true},
	} {
		m.tiers(c.tiers...)
		log, _ := m.once("/usr/bin/gpufabric_exporter preflight", mounts, c.line)
		t.Logf("%v %q:\n%s", c.tiers, c.line, log)
		if strings.Contains(log, refused) != c.denied || !strings.Contains(log, "passed") {
			t.Errorf("%v %q: RDMA devices are denied: %v", c.tiers, c.line, !c.denied)
		}
	}
}

// deniesDevices reports whether systemd can deny devices here: kernels before 5.8 have no CAP_BPF, which it needs for
// that in a container.
func (m on) deniesDevices() bool {
	m.t.Helper()
	if m.fails("systemd-run", "--quiet", "--wait", "-p", "DevicePolicy=strict", "-p", "PrivateDevices=no", "dd", "if=/dev/urandom", "of=/dev/zero", "count=1") != nil {
		_, _ = m.Try("systemctl", "reset-failed")
		return true
	}
	m.t.Log("DeviceAllow is not looked at: the control groups of this machine let the systemd of a container deny no device")
	return false
}

// gpuLines are those of metrics that are about GPUs.
func gpuLines(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && (strings.HasPrefix(line, "gpufabric_gpu_driver") || strings.HasPrefix(line, "gpufabric_gpu_info") ||
			strings.Contains(line, `collector="gpu"`) || strings.HasPrefix(line, "gpufabric_exporter_facts_unknown") || strings.Contains(line, `source="gpu"`)) {
			lines.WriteString("\n\t" + strings.TrimSpace(line))
		}
	}
	return lines.String()
}
