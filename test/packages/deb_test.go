// SPDX-License-Identifier: Apache-2.0

//go:build packages

package packages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// release makes a package of another version, whose reference has one more line, and returns its file.
func release(t *testing.T, kind, version string) string {
	t.Helper()
	stage := filepath.Join(t.TempDir(), "stage")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", repository+"/bin/stage-amd64", stage).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.OpenFile(stage+"/reference.yml", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("\n# of release " + version + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return build(t, kind, repository+"/packaging/nfpm.yml", stage, version)
}

// build makes a package of a description and a folder that it names files of, and returns its file.
func build(t *testing.T, kind, description, from, version string) string {
	t.Helper()
	dir := t.TempDir()
	description, err := filepath.Abs(description)
	nfpm, err2 := filepath.Abs(repository + "/bin/nfpm")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), nfpm, "package", "--config", description, "--packager", kind, "--target", dir)
	c.Dir = from
	c.Env = append(os.Environ(), "VERSION="+version, "ARCHITECTURE=amd64")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(dir + "/*." + kind)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

func shipped(t *testing.T, kind string) string {
	t.Helper()
	if kind == "rpm" {
		return packages + "gpufabric-exporter-" + version(t) + "-1.x86_64.rpm"
	}
	return packages + "gpufabric-exporter_" + version(t) + "_amd64.deb"
}

// dpkg installs a package without questions: a configuration that was changed stays.
func (c container) dpkg(file string) (string, error) {
	return c.Try("dpkg", "--force-confold", "-i", file)
}

func (c container) installed(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestDeb is the life of the package on Debian.
func TestDeb(t *testing.T) {
	c := booted(t)
	first, second, third := c.Put(shipped(t, "deb")), c.Put(release(t, "deb", "90.0.0")), c.Put(release(t, "deb", "91.0.0"))

	out, err := c.dpkg(first)
	c.installed(t, out, err)
	c.serves()
	for unit, want := range map[string]string{unit: "enabled", "gpufabric-check.timer": "disabled"} {
		if got, _ := c.Try("systemctl", "is-enabled", unit); got != want {
			t.Errorf("%s is %s after the installation, want %s", unit, got, want)
		}
	}
	c.Must(program, "--config.check")
	c.Must("bash", "-c", "source /usr/share/bash-completion/completions/gpufabric_exporter && complete -p gpufabric_exporter")
	if user := c.Must("stat", "-c", "%U", state); user != "gpufabric_exporter" {
		t.Errorf("%s belongs to %s", state, user)
	}
	c.Must("systemctl", "enable", "--now", "gpufabric-check.timer")

	before := c.PID()
	out, err = c.dpkg(second)
	c.installed(t, out, err)
	if c.serves(); c.PID() == before {
		t.Error("an upgrade does not restart the service")
	}
	if !strings.Contains(c.Read(reference), "# of release 90.0.0") {
		t.Error("an upgrade does not replace the reference")
	}

	c.Write(config, "links: {grafana: https://grafana.example}\n")
	c.Write(options, "ARGS=\"--collector.cm --web.max-requests=7\"\n")
	c.Write(state+"/kept", "x")
	out, err = c.Try("dpkg", "-i", third) // it would ask here, and there is nobody to answer
	c.installed(t, out, err)
	c.serves()
	if c.Read(config) != "links: {grafana: https://grafana.example}\n" {
		t.Errorf("an upgrade changes the configuration of the site: %s", c.Read(config))
	}
	if line := c.Must("cat", "/proc/"+c.PID()+"/cmdline"); !strings.Contains(line, "\x00--web.max-requests=7") {
		t.Errorf("the options of the site are lost: %q", line)
	}
	if !c.Has(state + "/kept") {
		t.Error("an upgrade loses state")
	}

	// What this version refuses does not stop the service that runs.
	before = c.PID()
	for path, wrong := range map[string]string{config: "rolls: []\n", options: "ARGS=\"--no-such-flag\"\n"} {
		right := c.Read(path)
		c.Write(path, wrong)
		out, err = c.dpkg(third)
		c.installed(t, out, err)
		if !strings.Contains(out, "the service is not restarted") || !strings.Contains(out, "rolls") && !strings.Contains(out, "no-such-flag") {
			t.Errorf("an upgrade with %q says\n%s", wrong, out)
		}
		if c.PID() != before {
			t.Errorf("an upgrade with %q stopped the service", wrong)
		}
		c.Write(path, right)
	}

	// Files are read as the service reads them: either may be missing, an option needs no quotes, and its user
	// is not root.
	for prepare, restarts := range map[string]bool{
		"rm " + options: true,
		"rm " + config:  true,
		"printf 'ARGS=--collector.cm --web.max-requests=7\\n' > " + options: true,
		"chmod 600 " + config: false,
	} {
		c.Must("cp", "-a", config, options, "/tmp")
		c.Must("sh", "-c", prepare)
		before = c.PID()
		out, err = c.dpkg(third)
		c.installed(t, out, err)
		c.serves()
		if (c.PID() != before) != restarts || strings.Contains(out, "the service is not restarted") == restarts {
			t.Errorf("an upgrade after %q: PID %s, was %s\n%s", prepare, c.PID(), before, out)
		}
		c.Must("mv", "/tmp/config.yml", config)
		c.Must("mv", "/tmp/gpufabric_exporter", options)
	}

	// What the administrator disabled stays so.
	c.Must("systemctl", "disable", "--now", unit)
	out, err = c.dpkg(third)
	c.installed(t, out, err)
	if got, _ := c.Try("systemctl", "is-enabled", unit); got != "disabled" || c.PID() != "0" {
		t.Errorf("an upgrade starts a service that is disabled: %s, PID %s", got, c.PID())
	}

	c.Must("systemctl", "enable", "--now", unit)
	c.Must("mkdir", "-p", "/var/lib/node_exporter")
	c.Write(verdicts, "gpufabric_check_failed 1\n")
	c.Must("dpkg", "--remove", "gpufabric-exporter")
	if c.Has(verdicts) {
		t.Error("a removal leaves verdicts that nothing renews")
	}
	if out, err := c.Try("pgrep", "-f", "^"+program); err == nil || c.Has(program) {
		t.Errorf("the service runs after its removal: %s", out)
	}
	if !c.Has(config) || !c.Has(state+"/kept") {
		t.Error("a removal loses the configuration or state")
	}
	out, err = c.dpkg(third)
	c.installed(t, out, err)
	c.serves()

	c.Must("dpkg", "--purge", "gpufabric-exporter")
	if left := c.left(); len(left) > 0 {
		t.Errorf("a purge leaves %v", left)
	}
	if out, _ := c.Try("systemctl", "list-units", "--all", "--plain", "--no-legend", "gpufabric*"); out != "" {
		t.Errorf("a purge leaves %s", out)
	}
}

// Without systemd that runs, as while an image is built, the service is enabled and not started.
func TestDebInAnImage(t *testing.T) {
	c := unbooted(t)
	c.Must("groupadd", "--system", "gpufabric_exporter") // of a site that manages groups
	out, err := c.dpkg(c.Put(shipped(t, "deb")))
	c.installed(t, out, err)
	if !c.Has("/etc/systemd/system/multi-user.target.wants/" + unit) {
		t.Error("the service is not enabled")
	}
	c.Must(program, "--config.check")
	if out := c.Must("dpkg", "--verify", "gpufabric-exporter"); out != "" {
		t.Error(out)
	}
}

// A root that is read-only is left as it was, and the script reports it.
func TestDebOnReadOnlyRoot(t *testing.T) {
	for name, readOnly := range map[string]string{"all": "/", "usr": "/usr"} {
		t.Run(name, func(t *testing.T) {
			c := unbooted(t)
			file := c.Put(shipped(t, "deb"))
			script := "mount --bind " + c.Root + " " + c.Root + " && mount --bind " + c.Root + readOnly + " " + c.Root + readOnly +
				" && mount -o remount,ro,bind " + c.Root + readOnly + " && exec chroot " + c.Root + " dpkg --force-confold -i " + file
			out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation=private", "sh", "-c", script).CombinedOutput()
			if err == nil || !strings.Contains(strings.ToLower(string(out)), "read-only file system") {
				t.Errorf("%v\n%s", err, out)
			}
			left := slices.DeleteFunc(c.left(), func(path string) bool { return strings.HasPrefix(path, "/var/lib/dpkg/") })
			if len(left) > 0 {
				t.Errorf("half installed: %v", left)
			}
			if out, _ := c.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "gpufabric-exporter"); strings.Contains(out, "installed") && out != "not-installed" {
				t.Errorf("dpkg takes it for %s", out)
			}
		})
	}
}

// An installation that fails half way is completed by dpkg --configure -a, once its cause is mended.
func TestDebHalfInstalled(t *testing.T) {
	c := unbooted(t)
	useradd := filepath.Join(c.Root, "usr/sbin/useradd")
	if err := os.Rename(useradd, useradd+".away"); err != nil {
		t.Fatal(err)
	}
	out, err := c.dpkg(c.Put(shipped(t, "deb")))
	if err == nil || !strings.Contains(out, "useradd") {
		t.Fatalf("%v\n%s", err, out)
	}
	if c.Has("/etc/systemd/system/multi-user.target.wants/" + unit) {
		t.Error("the service is enabled without its user")
	}
	if err := os.Rename(useradd+".away", useradd); err != nil {
		t.Fatal(err)
	}
	c.Must("dpkg", "--configure", "-a")
	c.Must("getent", "passwd", "gpufabric_exporter")
	if status := c.Must("dpkg-query", "-W", "-f", "${db:Status-Status}", "gpufabric-exporter"); status != "installed" {
		t.Errorf("dpkg takes it for %s", status)
	}
}
