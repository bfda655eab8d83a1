// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
)

func newRules(s *site.Site, _ *logging.Flags) *command.Command { return New(s) }

// written are the files that the command rules writes for a site, by name.
func written(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	code, stdout, stderr := commandtest.Run(t, new(site.Site), newRules, append([]string{"--directory=" + dir}, args...)...)
	if code != command.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, dir)
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
	files := written(t, "--config.file="+commandtest.ConfigFile(t, "links: {runbooks: 'https://wiki.example/gpu', grafana: 'https://grafana.example/x'}"))
	found := 0
	for name, text := range files {
		if strings.Contains(text, alerts.RunbookBase) || strings.Contains(text, "dashboard: /d/") {
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
				if !ok || files["alerts/runbooks/"+page] == "" && !strings.HasPrefix(page, "{{ with query") || !strings.HasPrefix(r.Annotations["dashboard_url"], "https://grafana.example/x/d/gpufabric-") {
					t.Errorf("%s: %v", r.Alert, r.Annotations)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no alert")
	}
	commandtest.Contains(t, files["dashboards/fleet.json"], "https://wiki.example/gpu/${__value.text}.md")
	commandtest.Contains(t, files["operator/rules-hard.yaml"], "runbook_url: https://wiki.example/gpu/GpuFabricPortDown.md")
}

// Without links the files are those that are shipped.
func TestRulesAsShipped(t *testing.T) {
	files := written(t)
	for name, shipped := range map[string]string{"alerts/hard.rules.yml": "../../../alerts/hard.rules.yml", "operator/podmonitor.yaml": "../../../deploy/operator/podmonitor.yaml"} {
		if text, err := os.ReadFile(shipped); err != nil || files[name] != string(text) {
			t.Errorf("%s is not what is shipped (%v)", name, err)
		}
	}
}

func TestRulesRefuses(t *testing.T) {
	file := commandtest.ConfigFile(t, "links: {runbooks: x}")
	for args, want := range map[string]string{
		"": "--directory",
		"--directory=" + t.TempDir() + " --config.file=" + file: file + ":1: runbooks",
		"--directory=" + file + "/below":                        "--directory=",
	} {
		if code, _, stderr := commandtest.Run(t, new(site.Site), newRules, strings.Fields(args)...); code == command.OK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}
}
