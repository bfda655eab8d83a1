// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// TestConfigManifest: the configuration names the file of a manifest, or has the manifest itself.
func TestConfigManifest(t *testing.T) {
	dir := t.TempDir()
	file, manifest := filepath.Join(dir, "config.yml"), filepath.Join(dir, "manifest.yml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const content = "version: 1\nnode: {gpus: 8}\ndevices: {mlx5_0: {board: B1, port_1_pfc: 0x08}}\ngpus: {GPU0: {name: X}}\n"
	want := fabric.Manifest{Node: map[string]string{"gpus": "8"}, Devices: map[string]map[string]string{"mlx5_0": {"board": "B1", "port_1_pfc": "0x08"}}, GPUs: map[string]map[string]string{"GPU0": {"name": "X"}}}
	write(manifest, content)
	for name, text := range map[string]string{
		"file":   "expected: {manifest: " + manifest + "}\n",
		"inline": "expected:\n  manifest:\n    " + strings.ReplaceAll(strings.TrimSuffix(content, "\n"), "\n", "\n    ") + "\n",
	} {
		write(file, text)
		c, err := (File{Path: file}).Read()
		if err != nil || c.Policy.Manifest == nil || !reflect.DeepEqual(*c.Policy.Manifest, want) {
			t.Errorf("%s: %+v, %v", name, c.Policy, err)
		}
	}
	write(manifest, "version: 7\n")
	for text, says := range map[string]string{
		"{manifest: " + manifest + "}":                      "config.yml: expected.manifest: " + manifest + ": version 7, expected 1",
		"{manifest: " + dir + "/nosuch.yml}":                "expected.manifest: open " + dir + "/nosuch.yml: no such file",
		"{manifest: manifest.yml}":                          `manifest: "manifest.yml": expected an absolute path`,
		"{manifest: [1]}":                                   "manifest: expected keys with values",
		"{manifest: {node: {}}}":                            "manifest lacks the key version",
		"{manifest: {version: 2}}":                          "version: 2: expected 1",
		"{manifest: {version: 1, ports: {}}}":               `unknown key "ports"`,
		"{manifest: {version: 1, node: {gpus: [8]}}}":       "gpus: expected a text",
		"{manifest: {version: 1, devices: {a: {}, a: {}}}}": "a: the key is already in line 1",
		"{manifest: {version: 1, devices: {a: b}}}":         "a: expected keys with values",
		"{manifest: {version: 1, gpus: {? [x] : {}}}}":      "gpus: expected keys with values",
		"{manifest: &m {version: 1, node: {gpus: *m}}}":     "gpus: *m is a YAML alias",
	} {
		write(file, "expected: "+text+"\n")
		if _, err := (File{Path: file}).Read(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %s", text, err, says)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("version: 1\nnode: {gpus: \"8\"}\ndevices: {mlx5_0: {board: x}}\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = parseManifest(data) })
}

// TestProfiles: profiles of the site are read from the folder that the configuration names, and one that is
// damaged is no error of the configuration.
func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	const own = "version: 1\nname: rack-a\ntitle: Ours\nmatch: [{product: X13, source: s}]\ncabling: {by: site}\nsources: {s: {title: Our rack, date: \"2026\"}}\n"
	file := filepath.Join(t.TempDir(), "config.yml")
	for name, text := range map[string]string{"a.yaml": own, "b.yaml": "damaged"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("profiles: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := File{Path: file}.Read()
	if err != nil {
		t.Fatal(err)
	}
	is := func(p fabric.Profile) bool { return p.Name == "rack-a" && p.File == filepath.Join(dir, "a.yaml") }
	if !slices.ContainsFunc(c.Policy.Profiles, is) || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Error(), "b.yaml") {
		t.Errorf("%v", c.Problems)
	}
}
