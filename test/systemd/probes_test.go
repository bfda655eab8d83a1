// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/ncclprobe/ncclprobetest"
)

const (
	groups = "/opt/cgroup" // control groups of a node without jobs
	site   = "/etc/gpufabric_exporter/config.yml"

	library = "--gpu.nvml-library=" + nvidia + "/libnvidia-ml.so.1"
	shown   = "BindReadOnlyPaths=" + module + ":/proc/driver " + groups + ":/sys/fs/cgroup" // instead of what the container has
)

// prober gives the machine two idle GPUs, NCCL and CUDA, and control groups. NCCL uses shared memory and CUDA compiles
// code, as the real ones do.
func (m on) prober() {
	m.t.Helper()
	m.driver("processes 0")
	built := m.t.TempDir()
	ncclprobetest.Build(m.t, built, "2.27.3")
	ncclprobetest.Describe(m.t, built, "gpus 2", "shm 1048576", "jit 1")
	for _, name := range []string{ncclprobetest.CUDA, ncclprobetest.NCCL, "machine"} {
		m.Must("install", "-m", "644", m.Put(filepath.Join(built, name)), nvidia+"/")
	}
	m.Must("mknod", "-m", "666", "/dev/nvidia-uvm", "c", "1", "3")
	m.Write(groups+"/cgroup.controllers", "")
	m.Write(site, "probes:\n  every: {node: 1m}\n  duty: 1\n  idle_memory: 512MiB\n  nccl: "+nvidia+"/"+ncclprobetest.NCCL+"\n  cuda: "+nvidia+"/"+ncclprobetest.CUDA+"\n")
	m.t.Cleanup(func() { _, _ = m.Try("rm", "-r", "/dev/nvidia-uvm", groups, site) })
}

// clean requires that probes have left neither a process nor shared memory.
func (m on) clean(when string) {
	m.t.Helper()
	if left, err := m.Try("sh", "-c", "grep -lx gpufabric_rank /proc/[0-9]*/comm"); err == nil {
		m.t.Errorf("%s: ranks are left: %s", when, left)
	}
	if left := m.Must("ls", "/dev/shm"); strings.Contains(left, "nccl-") {
		m.t.Errorf("%s: shared memory is left: %s", when, left)
	}
}

// A probe runs under the unit with its tier. Without a line of the tier it does not, and says why.
func testProbes(t *testing.T, m on) {
	m.prober()
	const passed = "2.27.3"
	all := []string{"gpu", "bus", "jobs", "probes"}
	for _, c := range []struct {
		tiers      []string
		probe      string
		line, says string
	}{
		{[]string{"gpu", "probes"}, "node", "", passed},
		{all, "node", "", passed},
		{all, "node", "MemoryDenyWriteExecute=yes", "cuInit"},
		{all, "node", "SystemCallFilter=~@resources", "not confined: niceness 10: operation not permitted"},
		{all, "node", "PrivateDevices=yes", "not probed ("},
	} {
		m.tiers(c.tiers...)
		log, err := m.once("/usr/bin/gpufabric_exporter probe "+c.probe+" --even-if-busy --config.file="+site+" "+library, shown, c.line)
		if (err == nil) != (c.says == passed) || !strings.Contains(log, c.says) {
			t.Errorf("%v, probe %s, %q: %v, expected %q:\n%s", c.tiers, c.probe, c.line, err, c.says, log)
		}
		m.clean(c.line)
	}
}

// rails shows the unit RDMA devices: folders of a simulated node, which are mounted over those of sysfs.
func (m on) rails() (mounts string) {
	m.t.Helper()
	scenario, err := simulator.Find("healthy")
	if err != nil {
		m.t.Fatal(err)
	}
	tree, err := scenario.Build().Materialise(m.t.TempDir())
	if err != nil {
		m.t.Fatal(err)
	}
	const node = "/opt/node"
	if out, err := exec.CommandContext(m.t.Context(), "cp", "-r", "-P", tree.Sysfs(), m.Root+node).CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	m.Must("chmod", "-R", "a+rX", node)
	m.t.Cleanup(func() { _, _ = m.Try("rm", "-r", node) })
	return "BindReadOnlyPaths=" + node + "/class:/sys/class " + node + "/devices:/sys/devices " + node + "/bus:/sys/bus"
}

// Ranks of a rail must be able to lock memory. Capabilities of the user namespace of PrivateUsers do not help.
func testMemlock(t *testing.T, m on) {
	m.prober()
	mounts := m.rails()
	const skipped = "not probed (memlock): the limit of locked memory (RLIMIT_MEMLOCK) is 8388608 bytes, expected at least 1073741824"
	for _, c := range []struct {
		tiers []string
		line  string
		short bool
	}{
		{[]string{"gpu", "probes"}, "", !raises(t)},
		{[]string{"gpu", "probes"}, "LimitMEMLOCK=8M", true},
		{[]string{"gpu", "probes"}, "LimitMEMLOCK=8M\nUser=root\nGroup=root\nCapabilityBoundingSet=CAP_IPC_LOCK CAP_SYS_RESOURCE\nSystemCallFilter=capset\nProtectHome=no", true},
	} {
		m.tiers(c.tiers...)
		log, _ := m.once("/usr/bin/gpufabric_exporter probe rail --device=mlx5_0 --even-if-busy --config.file="+site+" "+library,
			shown, mounts, c.line)
		t.Logf("%q:\n%s", c.line, log)
		if strings.Contains(log, skipped) != c.short {
			t.Errorf("%q: skipped for want of locked memory: %v", c.line, !c.short)
		}
		m.clean(c.line)
	}
}

// The exporter probes by itself, after the GPUs were idle for a minute, and serves the result.
func testScheduledProbe(t *testing.T, m on) {
	m.prober()
	m.tiers("gpu", "probes")
	m.dropIn("RestartSec=1", "TimeoutStartSec=30", shown, "ExecStart=", "ExecStart="+m.native()+" "+library)
	m.Must("systemctl", "start", unit)
	const success = "\n" + `gpufabric_probe_success{device="",kind="node",port=""} 1`
	text := ""
	for end := time.Now().Add(8 * time.Minute); !strings.Contains(text, success); time.Sleep(time.Second) {
		if text = m.Scrape(); time.Now().After(end) {
			t.Fatalf("no probe succeeds:%s\n%s\n%s", probeLines(text), m.Must("curl", "-sS", "http://localhost:10791/probes.json"), m.Log())
		}
	}
	t.Log(probeLines(text))
	m.clean("served")
	const state = "/var/lib/gpufabric_exporter/probes.json"
	contains(t, m.Must("cat", state), `"node"`)
	m.Must("systemctl", "restart", unit)
	contains(t, m.Scrape(), "\ngpufabric_probe_state_file_ok 1\n")
	contains(t, m.Must("cat", state), `"node"`)
}

// native installs an exporter for which the first PID namespace of the node is that of the container, and returns its
// path: the gate of probes and the reader of jobs accept no other.
func (m on) native() string {
	m.t.Helper()
	t, pids := m.t, m.Must("readlink", "/proc/self/ns/pid")
	const ofKernel = "pid:[4026531836]"
	dir := t.TempDir()
	replaced := map[string]string{}
	for _, name := range []string{"proc/processes.go", "rank/rank.go"} {
		file, err := filepath.Abs("../../internal/host/" + name)
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(file)
		if err != nil || strings.Count(string(source), ofKernel) != 1 {
			t.Fatalf("%v: expected %s once in %s", err, ofKernel, file)
		}
		replaced[file] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replaced[file], []byte(strings.Replace(string(source), ofKernel, pids, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "exporter")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay="+overlay, "-buildvcs=false", "-trimpath", "-buildmode=pie", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", program, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const installed = "/opt/exporter"
	m.Must("install", "-m", "755", m.Put(program), installed)
	return installed
}

// probeLines are those of metrics that are about probes and not 0.
func probeLines(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "gpufabric_probe") && !strings.HasSuffix(line, " 0\n") {
			lines.WriteString("\n\t" + strings.TrimSpace(line))
		}
	}
	return lines.String()
}
