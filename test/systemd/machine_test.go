// SPDX-License-Identifier: Apache-2.0

//go:build systemd

// Package systemd_test follows docs/INSTALL.md and starts the units of packaging/systemd under the real systemd.
package systemd_test

import (
	"os/exec"
	"strings"
	"testing"

	"gpufabric_exporter/test/machine"
)

const (
	unit    = "gpufabric_exporter"
	runtime = "/run/systemd/system/" + unit + ".service.d/" // where the tests put drop-ins

	devices = "/run/devices" // what the machine shows as /proc/devices

	// archive is what a release has for hosts without packages; docs/INSTALL.md installs it.
	archive = "gpufabric_exporter-VERSION.linux-amd64"
)

// on is a machine on which the units are installed.
type on struct {
	*machine.Machine
	t *testing.T
}

// boot starts a machine with the archive.
func boot(t *testing.T) *machine.Machine {
	t.Helper()
	m := machine.Booted(t)
	pack := exec.CommandContext(t.Context(), "tar", "-czf", m.Root+"/root/"+archive+".tar.gz", "--transform=s,^,"+archive+"/,", "-C", "../../bin", "gpufabric_exporter", "-C", "../packaging", "config.yml", "reference.yml", "systemd")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// systemd looks up device numbers for DeviceAllow in /proc/devices, which lists the drivers of a node.
	m.Must("sh", "-ec", "sed 's/^Character devices:/&\\n195 nvidia\\n195 nvidiactl\\n231 infiniband_verbs/' /proc/devices >"+devices+"; mount --bind "+devices+" /proc/devices")
	// All of sysfs, read-only, replaces the parts that nspawn shows in a tmpfs: by it the exporter distinguishes this
	// host from a copy.
	m.Must("sh", "-ec", "mkdir /run/cgroup; mount --rbind /sys/fs/cgroup /run/cgroup; mount -t sysfs -o ro sysfs /sys; mount --rbind /run/cgroup /sys/fs/cgroup")
	return m
}

// fails runs a command, and returns why it did not succeed.
func (m on) fails(args ...string) error {
	_, err := m.Try(args...)
	return err
}

// dropIn sets lines of the unit besides those that are installed; none: no others.
func (m on) dropIn(lines ...string) {
	m.t.Helper()
	m.Must("mkdir", "-p", runtime)
	if out, err := m.Run("[Service]\n"+strings.Join(lines, "\n")+"\n", "sh", "-c", "cat >"+runtime+"zz-test.conf"); err != nil {
		m.t.Fatal(err, out)
	}
	m.Must("systemctl", "daemon-reload")
}

// tiers enables tiers and no others, as docs/INSTALL.md says.
func (m on) tiers(names ...string) {
	m.t.Helper()
	m.Must("rm", "-rf", "/etc/systemd/system/"+unit+".service.d")
	m.Must("mkdir", "-p", "/etc/systemd/system/"+unit+".service.d")
	for _, name := range names {
		m.Must("ln", "-s", "/usr/share/gpufabric_exporter/tiers/"+name+".conf", "/etc/systemd/system/"+unit+".service.d/")
	}
	m.Must("systemctl", "daemon-reload")
}

// once has the unit run a command, with lines of the unit besides, and returns what it prints. The journal may lack
// what a process printed that has ended already: its unit is then unknown.
func (m on) once(command string, lines ...string) (string, error) {
	m.t.Helper()
	const file = "/run/once.txt"
	m.dropIn(append(lines, "Type=oneshot", "Restart=no", "TimeoutStartSec=60", "StandardOutput=truncate:"+file, "StandardError=inherit",
		"ExecStart=", "ExecStart="+command)...)
	_, err := m.Try("systemctl", "restart", unit)
	return m.Must("cat", file), err
}

// invocation is what the running service logged since it was started.
func (m on) invocation() string {
	m.t.Helper()
	m.Must("journalctl", "--sync")
	return m.Must("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_INVOCATION_ID="+m.Property("InvocationID"))
}
