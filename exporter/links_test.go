// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
)

// siteFile is a configuration file with this text.
func siteFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The text, the JSON and the explanation of check name the runbooks of the site.
func TestCheckNamesRunbooksOfTheSite(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"sys/class/infiniband", "proc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const want = "https://wiki.example/gpu/check-node.md"
	site := "--config.file=" + siteFile(t, "expected: {compute_ports: 8}\nlinks: {runbooks: https://wiki.example/gpu}")
	node := []string{"--path.sysfs=" + dir + "/sys", "--path.procfs=" + dir + "/proc", "--path.rootfs=" + dir, "--only=compute_ports", site}
	_, out, errs := checked(t, node...)
	contains(t, out+errs, "Runbook: "+want+"\n")
	_, out, _ = checked(t, append(node, "--output=json")...)
	contains(t, out, `"runbook": "`+want+`"`)
	_, out, _ = checked(t, "--explain=compute_ports", site)
	contains(t, out, want)
	_, out, _ = checked(t, "--explain=compute_ports")
	contains(t, out, alerts.RunbookBase+"check-node.md")
}

// written are the files that the command rules writes for a site, by name.
func written(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	var stdout, stderr output
	if code := Run(t.Context(), append([]string{"rules", "--directory=" + dir}, args...), Options{Stdout: &stdout, Stderr: &stderr}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	contains(t, stdout.String(), dir)
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// For a site, each alert leads to its runbook and dashboard there, and each file is as well formed as before.
func TestRulesForASite(t *testing.T) {
	files := written(t, "--config.file="+siteFile(t, "links: {runbooks: 'https://wiki.example/gpu', grafana: 'https://grafana.example/x'}"))
	found := 0
	for name, text := range files {
		if strings.Contains(text, alerts.RunbookBase) || strings.Contains(text, "dashboard_url: /d/") {
			t.Errorf("%s has an address that is not the site's", name)
		}
		switch {
		case strings.HasSuffix(name, ".json"):
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", name)
			}
		case strings.HasSuffix(name, ".yml"), strings.HasSuffix(name, ".yaml"):
			var any yaml.Node
			if err := yaml.Unmarshal([]byte(text), &any); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !strings.HasSuffix(name, ".rules.yml") {
			continue
		}
		var file struct{ Groups []alerts.Group }
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				found++
				page, ok := strings.CutPrefix(r.Annotations["runbook_url"], "https://wiki.example/gpu/")
				if !ok || files["alerts/runbooks/"+page] == "" || !strings.HasPrefix(r.Annotations["dashboard_url"], "https://grafana.example/x/d/gpufabric-") {
					t.Errorf("%s: %v", r.Alert, r.Annotations)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no alert")
	}
	contains(t, files["dashboards/fleet.json"], "https://wiki.example/gpu/${__value.text}.md")
	contains(t, files["operator/rules-hard.yaml"], "runbook_url: https://wiki.example/gpu/GpuFabricPortDown.md")
}

// Without links the files are those that are shipped.
func TestRulesAsShipped(t *testing.T) {
	files := written(t)
	for name, shipped := range map[string]string{"alerts/hard.rules.yml": "../alerts/hard.rules.yml", "operator/podmonitor.yaml": "../deploy/operator/podmonitor.yaml"} {
		if text, err := os.ReadFile(shipped); err != nil || files[name] != string(text) {
			t.Errorf("%s is not what is shipped (%v)", name, err)
		}
	}
}

func TestRulesRefuses(t *testing.T) {
	file := siteFile(t, "links: {runbooks: x}")
	for args, want := range map[string]string{
		"rules": "--directory",
		"rules --directory=" + t.TempDir() + " --config.file=" + file: file + ":1: runbooks",
		"rules --directory=" + file + "/below":                        "--directory=",
		"rules --directory=x --web.max-requests=3":                    "rules does not take this flag",
	} {
		var stderr output
		if code := Run(t.Context(), strings.Fields(args), Options{Stdout: new(output), Stderr: &stderr}); code == exitOK || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d: %s", args, code, stderr.String())
		}
	}
}

func TestJSONNamesRunbooks(t *testing.T) {
	var b bytes.Buffer
	list := []diagnose.Verdict{{Check: diagnose.Find("port_active"), Status: diagnose.Failed}}
	if err := writeChecksJSON(&b, config.Config{Links: config.Links{Runbooks: "/runbooks"}}, list, ""); err != nil {
		t.Fatal(err)
	}
	contains(t, b.String(), `"runbook": "/runbooks/check-ports.md"`)
}
