// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// On call, check judges by what the site expects without a flag that names the file, and prints where it was.
func TestCheckFindsConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yml")
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	host := append(simulatortest.Host(t, "healthy"), "--log.level=error", "--only=compute_ports", "--only=port_active")
	run := func(command string, args ...string) (int, string) {
		t.Helper()
		var out commandtest.Output
		code := run(t, withDefault(file), &out, &out, append(append([]string{command}, host...), args...)...)
		return code, out.String()
	}

	missing := "Configuration: none: " + file + " does not exist, so the node is not compared with expectations of a site\n"
	if code, out := run("check"); code != command.OK || !strings.Contains(out, missing) {
		t.Errorf("without a configuration: exit code %d\n%s", code, out)
	}
	write("config.yml", "expected: {compute_ports: 9}\n")
	if code, out := run("check"); code != command.Failure || !strings.Contains(out, "Configuration: "+file+"\n") || !strings.Contains(out, "8 compute ports where 9 are expected") {
		t.Errorf("with the default one: exit code %d\n%s", code, out)
	}
	code, out := run("check", "--output=json")
	var report struct{ Configuration struct{ File, Text string } }
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != command.Failure || report.Configuration.File != file || report.Configuration.Text != file {
		t.Errorf("as JSON: exit code %d, %v\n%s", code, err, out)
	}
	if code, out := run("check", "--config.file=none"); code != command.OK || !strings.Contains(out, "Configuration: none: the node is not compared") {
		t.Errorf("refused: exit code %d\n%s", code, out)
	}
	other := write("other.yml", "expected: {compute_ports: 8}\n")
	if code, out := run("check", "--config.file="+other); code != command.OK || !strings.Contains(out, "Configuration: "+other+"\n") {
		t.Errorf("another one: exit code %d\n%s", code, out)
	}
	if code, out := run("check", "--config.file="+dir+"/nosuch.yml"); code != command.Usage || !strings.Contains(out, "nosuch.yml\": no such file") {
		t.Errorf("a missing one that was named: exit code %d\n%s", code, out)
	}
	for _, broken := range []string{"expected: {compute_ports: many}\n", "expected: {manifest: " + dir + "/nosuch.yml}\n"} {
		write("config.yml", broken)
		if code, out := run("check"); code != command.Usage || strings.Contains(out, "checks passed") {
			t.Errorf("%s: exit code %d\n%s", broken, code, out)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/nosuch.yml", file); err != nil {
		t.Fatal(err)
	}
	if code, out := run("check"); code != command.Usage {
		t.Errorf("a link that leads nowhere: exit code %d\n%s", code, out)
	}
}

// A folder of the configuration that cannot be one, as after a mount that failed, is no missing configuration.
func TestFolderOfTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		lay  func(folder string) error
		code int
	}{
		"missing":                   {func(string) error { return nil }, 2},
		"empty":                     {func(folder string) error { return os.Mkdir(folder, 0o700) }, 2},
		"a link to a folder":        {func(folder string) error { return os.Symlink(filepath.Dir(folder), folder) }, 2},
		"a link that leads nowhere": {func(folder string) error { return os.Symlink("nosuch", folder) }, command.Usage},
		"a file":                    {func(folder string) error { return os.WriteFile(folder, nil, 0o600) }, command.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "gpufabric_exporter")
			if err := c.lay(folder); err != nil {
				t.Fatal(err)
			}
			sys := t.TempDir()
			args := []string{"check", "--log.level=error", "--path.sysfs=" + sys, "--path.procfs=" + sys, "--path.rootfs=" + sys}
			var out commandtest.Output
			if code := run(t, withDefault(folder+"/config.yml"), &out, &out, args...); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out.String())
			}
		})
	}
}

// Whatever looks at this host reads the same configuration.
func TestCommandsFindConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte("rolls: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		append([]string{"topology"}, simulatortest.Host(t, "healthy")...),
		{"capture", "--file=" + t.TempDir() + "/c.tar.gz"},
		{"--config.check"},
	} {
		var out commandtest.Output
		if code := run(t, withDefault(file), &out, &out, args...); code != command.Usage || !strings.Contains(out.String(), `config.yml:1: unknown key "rolls"`) {
			t.Errorf("%v: exit code %d\n%s", args[0], code, out.String())
		}
	}
}
