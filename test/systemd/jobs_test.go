// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package systemd_test

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/ncclprobe/ncclprobetest"
)

// rank starts a process of another user that holds a GPU and has NCCL loaded, with one wrong setting in its
// environment and one in nccl.conf, and has the driver list it.
func (m on) rank() {
	m.t.Helper()
	const node, settings = "/dev/nvidia0", "/etc/nccl.conf"
	m.Write(settings, "NCCL_BUFFSIZE=0\n")
	m.Must("mknod", "-m", "666", node, "c", "1", "3")
	m.Must("systemd-run", "--quiet", "--unit=rank", "-p", "User=nobody", "-E", "SLURM_JOB_ID=77", "-E", "NCCL_CROSS_NIC=3",
		"-E", "LD_PRELOAD="+nvidia+"/"+ncclprobetest.NCCL, "sh", "-c", "exec 5<>"+node+"; exec sleep infinity")
	m.t.Cleanup(func() { _, _ = m.Try("sh", "-c", "systemctl stop rank; rm "+node+" "+settings) })
	pid := m.Must("systemctl", "show", "--value", "-p", "MainPID", "rank")
	m.Until("the rank holds its GPU", func() bool { return m.fails("sh", "-c", "ls -l /proc/"+pid+"/fd | grep "+node) == nil })
	m.Must("sh", "-c", "f="+nvidia+"/libnvidia-ml.so.1.machine; grep -v processes $f >$f.new; printf 'processes 1\\nutil 99\\npid "+pid+"\\n' >>$f.new; chmod 644 $f.new; mv $f.new $f")
}

// The tier jobs shows the ranks of others: what they hold, their environment and the nccl.conf that they see.
// Without a line of the tier that is unknown, with the reason.
func testJobs(t *testing.T, m on) {
	m.prober()
	m.rank()
	program := "ExecStart=" + m.native() + " " + library
	const (
		named       = "\n" + `gpufabric_job_ranks{training_job="slurm/77-of-user-65534"} 1`
		unnamed     = "\n" + `gpufabric_job_ranks{training_job="none/sleep-of-user-65534"} 1`
		environment = `rule="setting_misread"` // NCCL_CROSS_NIC
		conf        = `rule="setting_refused"` // NCCL_BUFFSIZE
		reason      = "\n" + `gpufabric_job_transport_unknown{reason=`
		denied      = reason + `"privilege"`
	)
	without := func(capability string) string {
		return "CapabilityBoundingSet=~" + capability + "\nAmbientCapabilities=~" + capability
	}
	for _, c := range []struct {
		what  string
		tiers []string
		line  string
		shows []string
		lost  []string
	}{
		{"tier jobs", []string{"gpu", "jobs"}, "", []string{named, environment, conf, reason + `"no_communicator"`}, []string{unnamed}},
		{"all tiers", []string{"gpu", "bus", "jobs", "probes"}, "", []string{named, environment, conf}, []string{unnamed}},
		{"openat2", []string{"gpu", "jobs"}, "RestrictSUIDSGID=no", []string{named, environment, conf}, []string{unnamed}},
		{"no CAP_SYS_PTRACE", []string{"gpu", "jobs"}, without("CAP_SYS_PTRACE"), []string{unnamed, denied}, []string{environment, conf}},
		{"no CAP_DAC_READ_SEARCH", []string{"gpu", "jobs"}, without("CAP_DAC_READ_SEARCH"), []string{unnamed, conf, denied}, []string{environment}},
		{"PrivateUsers=yes", []string{"gpu", "jobs"}, "PrivateUsers=yes", []string{unnamed, denied}, []string{environment, conf}},
		{"no tier", []string{"gpu"}, "", []string{unnamed, denied}, []string{environment, conf}},
	} {
		m.tiers(c.tiers...)
		m.dropIn("RestartSec=1", "TimeoutStartSec=30", shown, "ExecStart=", program, c.line)
		m.Must("systemctl", "restart", unit)
		text := m.Scrape()
		for range 10 { // a verdict takes two readings, some seconds apart
			if strings.Contains(text, reason) && !strings.Contains(text, reason+`"first_reading"`) {
				break
			}
			time.Sleep(2 * time.Second)
			text = m.Scrape()
		}
		t.Logf("%s:%s", c.what, jobLines(text))
		contains(t, jobLines(text), c.shows...)
		for _, part := range c.lost {
			if strings.Contains(text, part) {
				t.Errorf("%s: still has %s", c.what, part)
			}
		}
	}
}

// jobLines are those of metrics that are about jobs, and not 0.
func jobLines(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "gpufabric_job_") && !strings.HasSuffix(line, " 0\n") {
			lines.WriteString("\n" + strings.TrimSpace(line))
		}
	}
	return lines.String()
}
