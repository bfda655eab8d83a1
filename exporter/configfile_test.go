// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// simulatedHost returns the flags that make a simulated node this host.
func simulatedHost(t *testing.T, scenario string) []string {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(memory(t))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
}

// On call, check judges by what the site expects without being told where that is, and says where it was.
func TestCheckFindsConfiguration(t *testing.T) {
	withoutRace(t)
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
	host := append(simulatedHost(t, "healthy"), "--log.level=error", "--only=compute_ports", "--only=port_active")
	run := func(command string, args ...string) (int, string) {
		t.Helper()
		var out output
		code := Run(t.Context(), append(append([]string{command}, host...), args...), Options{Stdout: &out, Stderr: &out, defaultConfig: file})
		return code, out.String()
	}

	missing := "Configuration: none: " + file + " does not exist, so nothing is compared with what the site expects\n"
	if code, out := run("check"); code != exitChecked || !strings.Contains(out, missing) {
		t.Errorf("without a configuration: exit code %d\n%s", code, out)
	}
	write("config.yml", "expected: {compute_ports: 9}\n")
	if code, out := run("check"); code != exitFailed || !strings.Contains(out, "Configuration: "+file+"\n") || !strings.Contains(out, "8 compute ports where 9 are expected") {
		t.Errorf("with the default one: exit code %d\n%s", code, out)
	}
	code, out := run("check", "--output=json")
	var report struct{ Configuration struct{ File, Text string } }
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitFailed || report.Configuration.File != file || report.Configuration.Text != file {
		t.Errorf("as JSON: exit code %d, %v\n%s", code, err, out)
	}
	if code, out := run("check", "--config.file=none"); code != exitChecked || !strings.Contains(out, "Configuration: none: nothing is compared") {
		t.Errorf("refused: exit code %d\n%s", code, out)
	}
	other := write("other.yml", "expected: {compute_ports: 8}\n")
	if code, out := run("check", "--config.file="+other); code != exitChecked || !strings.Contains(out, "Configuration: "+other+"\n") {
		t.Errorf("another one: exit code %d\n%s", code, out)
	}
	if code, out := run("check", "--config.file="+dir+"/nosuch.yml"); code != exitUsage || !strings.Contains(out, "nosuch.yml\": no such file") {
		t.Errorf("a missing one that was named: exit code %d\n%s", code, out)
	}
	for _, broken := range []string{"expected: {compute_ports: many}\n", "expected: {manifest: " + dir + "/nosuch.yml}\n"} {
		write("config.yml", broken)
		if code, out := run("check"); code != exitUsage || strings.Contains(out, "checks fine") {
			t.Errorf("%s: exit code %d\n%s", broken, code, out)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/nosuch.yml", file); err != nil {
		t.Fatal(err)
	}
	if code, out := run("check"); code != exitUsage {
		t.Errorf("a link that leads nowhere: exit code %d\n%s", code, out)
	}
}

// A folder of the configuration that cannot be one, as after a mount that failed, is no missing configuration.
func TestFolderOfTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		lay  func(folder string) error
		code int
	}{
		"missing":                   {func(string) error { return nil }, exitUndecided},
		"empty":                     {func(folder string) error { return os.Mkdir(folder, 0o700) }, exitUndecided},
		"a link to a folder":        {func(folder string) error { return os.Symlink(filepath.Dir(folder), folder) }, exitUndecided},
		"a link that leads nowhere": {func(folder string) error { return os.Symlink("nosuch", folder) }, exitUsage},
		"a file":                    {func(folder string) error { return os.WriteFile(folder, nil, 0o600) }, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "gpufabric_exporter")
			if err := c.lay(folder); err != nil {
				t.Fatal(err)
			}
			sys := t.TempDir()
			args := []string{"check", "--log.level=error", "--path.sysfs=" + sys, "--path.procfs=" + sys, "--path.rootfs=" + sys}
			var out output
			if code := Run(t.Context(), args, Options{Stdout: &out, Stderr: &out, defaultConfig: folder + "/config.yml"}); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out.String())
			}
		})
	}
}

// The exporter judges by the same configuration: it takes the default file at start or, once it is there, at a reload. One that
// is broken keeps it from starting, and one that goes stays in force.
func TestServeFindsConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	ob := &fakeObserver{node: healthy}
	o := Options{defaultConfig: file, newObserver: func(observer.Options) (nodeObserver, error) { return ob, nil }}
	p := startWith(t, o)
	contains(t, p.stderr.String(), "does not exist, so nothing is compared")
	lacksMetric := func(want bool) {
		t.Helper()
		if _, body, _ := p.get("/metrics"); strings.Contains(body, "gpufabric_node_compute_ports_expected 3\n") == want {
			t.Errorf("node_compute_ports_expected is there: %v", !want)
		}
	}
	lacksMetric(true)
	if err := os.WriteFile(file, []byte("expected: {compute_ports: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := p.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("reload: %d %s", status, body)
	}
	lacksMetric(false)
	_, page, _ := p.get("/")
	contains(t, page, "From "+file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := p.do("POST", "/-/reload"); status != http.StatusInternalServerError || !strings.Contains(body, "does not exist any more") {
		t.Errorf("reload of what is gone: %d %s", status, body)
	}
	lacksMetric(false)
	p.stop()

	if err := os.WriteFile(file, []byte("expected: {compute_ports: many}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr output
	o.Stderr = &stderr
	if code := Run(t.Context(), []string{"--web.listen-address=127.0.0.1:0"}, o); code != exitUsage {
		t.Errorf("a broken one: exit code %d", code)
	}
	contains(t, stderr.String(), "config.yml:1: compute_ports")
}

// Whatever looks at this host reads the same configuration.
func TestCommandsFindConfiguration(t *testing.T) {
	withoutRace(t)
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte("rolls: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		append([]string{"topology"}, simulatedHost(t, "healthy")...),
		{"capture", "--file=" + t.TempDir() + "/c.tar.gz"},
		{"--config.check"},
	} {
		var out output
		if code := Run(t.Context(), args, Options{Stdout: &out, Stderr: &out, defaultConfig: file}); code != exitUsage || !strings.Contains(out.String(), `config.yml:1: unknown key "rolls"`) {
			t.Errorf("%v: exit code %d\n%s", args[0], code, out.String())
		}
	}
}
