// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/ncclprobe/ncclprobetest"
)

const (
	groups = "/opt/cgroup" // control groups of a node without jobs
	site   = "/etc/gpufabric_exporter/config.yml"

	library = "--gpu.nvml-library=" + nvidia + "/libnvidia-ml.so.1"
	shown   = "BindReadOnlyPaths=" + module + ":/proc/driver " + groups + ":/sys/fs/cgroup" // instead of what the container has
)

// prober gives the machine two idle GPUs, NCCL and CUDA, and control groups. NCCL shares memory and CUDA wants to compile, as the real
// ones do.
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

// clean wants probes to have left neither a process nor shared memory.
func (m on) clean(when string) {
	m.t.Helper()
	if left, err := m.Try("pgrep", "-a", "gpufabric_rank"); err == nil {
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
		m.dropIn("Type=oneshot", "Restart=no", "TimeoutStartSec=60", shown, c.line,
			"ExecStart=", "ExecStart=/usr/bin/gpufabric_exporter probe "+c.probe+" --even-if-busy --config.file="+site+" "+library)
		_, err := m.Try("systemctl", "restart", unit)
		log := m.Must("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_INVOCATION_ID="+m.Property("InvocationID"))
		if (err == nil) != (c.says == passed) || !strings.Contains(log, c.says) {
			t.Errorf("%v, probe %s, %q: %v, expected %q:\n%s", c.tiers, c.probe, c.line, err, c.says, log)
		}
		m.clean(c.line)
	}
}
