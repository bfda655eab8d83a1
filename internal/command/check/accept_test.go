// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/site"
)

// unplugged is a node whose port mlx5_1 had a link by its record, and has none. It returns a function that
// checks it, and a manifest from before.
func unplugged(t *testing.T) (check func(more ...string) (code int, stdout, stderr string), manifest string) {
	t.Helper()
	paths := unstated(t)
	file := record(t, paths, time.Now().Add(-48*time.Hour))
	of := []string{"--path.sysfs=" + paths.Sysfs, "--path.procfs=" + paths.Procfs, "--path.rootfs=" + paths.Rootfs, "--log.level=error"}
	check = func(more ...string) (int, string, string) {
		return commandtest.Run(t, &site.Site{Inventory: file}, New, append(slices.Clone(of), more...)...)
	}
	manifest = filepath.Join(t.TempDir(), "manifest.yml")
	if code, _, errs := check("--write-manifest=" + manifest); code != exitChecked {
		t.Fatal(errs)
	}
	for name, content := range map[string]string{"state": "1: DOWN\n", "phys_state": "3: Disabled\n"} {
		if err := os.WriteFile(filepath.Join(paths.Sysfs, "class/infiniband/mlx5_1/ports/1", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return check, manifest
}

const unpluggedFails = "mlx5_1: The port is not active"

// What check says to do about a port that was unplugged on purpose works, says what was forgotten, and is
// known by who did it.
func TestAccept(t *testing.T) {
	commandtest.Memory(t)
	t.Setenv("SUDO_USER", "alice")
	check, _ := unplugged(t)
	_, out, _ := check("--only=port_active")
	if !strings.Contains(out, unpluggedFails) || !strings.Contains(out, "If it is so on purpose: gpufabric_exporter check --accept=mlx5_1, as the user of the exporter.") {
		t.Fatalf("before: %s", out)
	}
	code, out, errs := check("--accept=mlx5_1")
	if code != exitChecked || errs != "" || !strings.HasPrefix(out, "The record of this node forgot of mlx5_1 (0000:") || !strings.Contains(out, "): port 1 had a link until ") ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if _, out, _ := check(); strings.Contains(out, "FAILED   critical  port_active") {
		t.Errorf("after: %s", out)
	}
	code, out, errs = check("--accept=mlx5_1:1")
	if code != exitChecked || errs != "" || !strings.Contains(out, "nothing that is not there now") {
		t.Errorf("again: exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = check("--accept=mlx5_0", "--accept=mlx5_99")
	if code != exitUnchecked || out != "" || !strings.Contains(errs, `--accept: nothing was changed: nothing is recorded of "mlx5_99"`) {
		t.Errorf("a device that was never there: exit code %d: %s%s", code, out, errs)
	}
}

// The record is one source of several: who else expects the link is said, because the check still fails.
func TestAcceptSaysWhoStillExpects(t *testing.T) {
	commandtest.Memory(t)
	check, manifest := unplugged(t)
	for config, want := range map[string]string{
		"expected: {manifest: " + manifest + "}\n": "(port_active): " + unpluggedFails + ". ",
		"expected: {compute_ports: 8}\n":           "(port_active): " + unpluggedFails + ". Its state is down",
	} {
		code, out, errs := check("--accept=mlx5_1", "--config.file="+commandtest.ConfigFile(t, config))
		if code != exitChecked || errs != "" || !strings.Contains(out, "\nStill expected "+want) {
			t.Errorf("%s: exit code %d: %s%s", config, code, out, errs)
		}
	}
	for _, id := range expecting {
		if diagnose.Find(id) == nil {
			t.Errorf("there is no check %s", id)
		}
	}
}

// A manifest states the same by the flag as by the configuration: docs/ROLES.md knows one source of that name.
func TestManifestOfFlagStates(t *testing.T) {
	commandtest.Memory(t)
	check, manifest := unplugged(t)
	if code, _, errs := check("--accept=mlx5_1"); code != exitChecked { // else the record states the link
		t.Fatal(errs)
	}
	for _, by := range []string{"--manifest=" + manifest, "--config.file=" + commandtest.ConfigFile(t, "expected: {manifest: "+manifest+"}\n")} {
		code, out, errs := check("--only=port_active", by)
		if code != exitFailed || !strings.HasPrefix(out, "judged by: manifest (8 roles, 8 links, 8 rates)") || !strings.Contains(out, "FAILED   critical  port_active  "+unpluggedFails) {
			t.Errorf("%s: exit code %d: %s%s", by, code, out, errs)
		}
	}
}

func TestAcceptRefused(t *testing.T) {
	t.Chdir(t.TempDir()) // where refused calls write that there is no result
	for _, more := range [][]string{
		{"--inside"},
		{"--interval=1s"},
		{"--write-manifest=x"},
		{"--explain=gpus"},
		{"--only=gpus"},
		{"--severity=critical"},
		{"--verbose"},
		{"--textfile=x"},
		{"--scenario=healthy"},
		{"--output=json"},
		{"--accept="},
		{"--accept=a b"},
	} {
		if code, out, errs := checked(t, append(more, "--accept=mlx5_1")...); code != exitUnchecked || out != "" || !strings.Contains(errs, "--accept") {
			t.Errorf("%v: exit code %d: %s%s", more, code, out, errs)
		}
	}
}

// What nobody would notice is said once, and not inside a job, which has nothing to do with the record.
func TestCheckSaysWhatIsUnrecorded(t *testing.T) {
	commandtest.Memory(t)
	paths := unstated(t)
	of := []string{"--path.sysfs=" + paths.Sysfs, "--path.procfs=" + paths.Procfs, "--path.rootfs=" + paths.Rootfs, "--log.level=error"}
	for _, c := range []struct {
		more []string
		want int
	}{{nil, 1}, {[]string{"--output=json"}, 1}, {[]string{"--inside"}, 0}} {
		_, out, _ := commandtest.Run(t, &site.Site{Inventory: filepath.Join(t.TempDir(), "none", "inventory.json")}, New, append(c.more, of...)...)
		if got := strings.Count(out, "is not used, because there is no folder"); got != c.want {
			t.Errorf("%v: %d times: %s", c.more, got, out)
		}
	}
}
