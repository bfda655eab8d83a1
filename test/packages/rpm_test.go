// SPDX-License-Identifier: Apache-2.0

//go:build packages

package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rpm runs Debian's rpm in the container. Its database has no glibc, hence --nodeps.
func (c container) rpm(args ...string) (string, error) {
	return c.Try(append([]string{"rpm", "--force-debian", "--nodeps"}, args...)...)
}

// TestRPM is the life of the package, with rpm of Debian.
func TestRPM(t *testing.T) {
	c := booted(t)
	first, second, third := c.Put(shipped(t, "rpm")), c.Put(release(t, "rpm", "90.0.0")), c.Put(release(t, "rpm", "91.0.0"))

	// Presets decide. Debian enables everything, RHEL nothing.
	c.Write("/etc/systemd/system-preset/00-none.preset", "disable *\n")
	out, err := c.rpm("-i", first)
	c.installed(t, out, err)
	if got, _ := c.Try("systemctl", "is-enabled", unit); got != "disabled" || c.PID() != "0" {
		t.Errorf("the service is %s after the installation, PID %s", got, c.PID())
	}
	c.Must("systemctl", "enable", "--now", unit)
	c.serves()
	if out, err := c.Try("rpm", "-V", "--nodeps", "gpufabric-exporter"); err != nil {
		t.Errorf("rpm -V: %s", out)
	}

	before := c.PID()
	out, err = c.rpm("-U", second)
	c.installed(t, out, err)
	if c.serves(); c.PID() == before {
		t.Error("an upgrade does not restart the service")
	}
	if !strings.Contains(c.Read(reference), "# of release 90.0.0") {
		t.Error("an upgrade does not replace the reference")
	}

	c.Write(config, "links: {grafana: https://grafana.example}\n")
	c.Write(state+"/kept", "x")
	out, err = c.rpm("-U", third)
	c.installed(t, out, err)
	c.serves()
	if c.Read(config) != "links: {grafana: https://grafana.example}\n" || !c.Has(state+"/kept") {
		t.Errorf("an upgrade changes the configuration or the state of the site: %s", c.Read(config))
	}

	before = c.PID()
	c.Write(config, "rolls: []\n")
	out, err = c.rpm("-U", "--replacepkgs", third)
	c.installed(t, out, err)
	out, err = c.rpm("-U", "--oldpackage", second)
	c.installed(t, out, err)
	if !strings.Contains(out, "the service is not restarted") || !strings.Contains(out, "rolls") || c.PID() != before {
		t.Errorf("an upgrade with a wrong configuration: PID %s, was %s\n%s", c.PID(), before, out)
	}

	c.Must("mkdir", "-p", "/var/lib/node_exporter")
	c.Write(verdicts, "gpufabric_check_failed 1\n")
	out, err = c.rpm("-e", "gpufabric-exporter")
	c.installed(t, out, err)
	if out, err := c.Try("pgrep", "-f", "^"+program); err == nil || c.Has(program) {
		t.Errorf("the service runs after its removal: %s", out)
	}
	if c.Has(verdicts) {
		t.Error("a removal leaves verdicts that nothing renews")
	}
	if c.Read(config+".rpmsave") != "rolls: []\n" || !c.Has(state+"/kept") {
		t.Error("a removal loses the configuration or state of the site")
	}
	if c.Has("/etc/systemd/system/multi-user.target.wants/" + unit) {
		t.Error("a removal leaves the service enabled")
	}
}

// Without the user nothing is installed.
func TestRPMWithoutUser(t *testing.T) {
	c := unbooted(t)
	if err := os.Remove(filepath.Join(c.Root, "usr/sbin/useradd")); err != nil {
		t.Fatal(err)
	}
	out, err := c.rpm("-i", c.Put(shipped(t, "rpm")))
	if err == nil || !strings.Contains(out, "useradd") {
		t.Errorf("%v\n%s", err, out)
	}
	if left := c.left(); len(left) > 0 {
		t.Errorf("half installed: %v", left)
	}
}
