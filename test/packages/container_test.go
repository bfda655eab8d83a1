// SPDX-License-Identifier: Apache-2.0

//go:build packages

// Package packages tests what make packages and make archive wrote to bin/release: it installs, upgrades and
// removes the packages under the real systemd of Debian 12.
package packages

import (
	"strings"
	"testing"

	"gpufabric_exporter/test/machine"
)

const (
	unit    = machine.Unit
	config  = "/etc/gpufabric_exporter/config.yml"
	options = "/etc/default/gpufabric_exporter"
	// The same with all keys, as comments.
	reference = "/usr/share/doc/gpufabric-exporter/config.yml"
	// What the check writes for node_exporter.
	verdicts = "/var/lib/node_exporter/gpufabric.prom"
	state    = "/var/lib/gpufabric_exporter"
	program  = "/usr/bin/gpufabric_exporter"
)

// container is a machine that packages are installed on.
type container struct {
	*machine.Machine
	t *testing.T
}

func unbooted(t *testing.T) container { return container{machine.Unbooted(t), t} }

func booted(t *testing.T) container { return container{machine.Booted(t), t} }

// serves fails the test unless the service runs without root and answers scrapes.
func (c container) serves() {
	c.t.Helper()
	c.Must("systemctl", "is-active", unit)
	if user := c.Must("stat", "-c", "%U", "/proc/"+c.PID()); user != "root" && user != "gpufabric_exporter" { // root: undumpable
		c.t.Errorf("/proc of the service belongs to %s", user)
	}
	if status := c.Must("grep", "-E", "^(Uid|CapEff)", "/proc/"+c.PID()+"/status"); strings.Contains(status, "Uid:\t0") || !strings.Contains(status, "CapEff:\t0000000000000000") {
		c.t.Errorf("the service is privileged: %s", status)
	}
	if !strings.Contains(c.Scrape(), "\ngpufabric_exporter_build_info{") {
		c.t.Error("the service does not answer scrapes")
	}
}

// left returns the files of the product that are in the container, but for those that were put there.
func (c container) left() []string {
	c.t.Helper()
	out := c.Must("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/root", "-o", "-path", "/run", ")", "-prune", "-o", "-iname", "*gpufabric*", "-print")
	return strings.Fields(out)
}
