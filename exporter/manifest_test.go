// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A node is what it is; one that changed is told by name, and what cannot be read now is no drift.
func TestManifest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	file := filepath.Join(t.TempDir(), "manifest.yml")
	run := func(args ...string) (int, string) {
		var out, errs output
		code := Run(t.Context(), append([]string{"check"}, args...), Options{Stdout: &out, Stderr: &errs})
		return code, out.String() + errs.String()
	}
	if code, said := run("--scenario=healthy", "--write-manifest="+file); code != exitChecked {
		t.Fatalf("%d: %s", code, said)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(data), "version: 1", "mlx5_0:", "port_1_rate: 400 Gb/s", "GPU0:", "gpus: \"8\"")
	same := []string{"--scenario=healthy", "--only=manifest", "--manifest=" + file}
	if code, said := run(same...); code != exitChecked {
		t.Errorf("%d: %s", code, said)
	}
	changed := strings.Replace(string(data), "port_1_rate: 400 Gb/s", "port_1_rate: 200 Gb/s", 1)
	changed = strings.Replace(changed, "devices:\n", "devices:\n  mlx5_99:\n    board: X\n", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	code, said := run(same...)
	if code != exitFailed {
		t.Errorf("%d", code)
	}
	contains(t, said, "Changed since the manifest: port 1 rate", "Port 1 rate is 400 Gb/s, the manifest says 200 Gb/s.", "mlx5_99: The manifest has it, and it is not here")
	for content, says := range map[string]string{
		"version: 2\n": "version 2, expected 1", "version: 1\nother: 3\n": "field other not found", "": "expected a manifest",
		"version: 1\n---\nversion: 1\n": "more than one document", "[": "expected a manifest", strings.Repeat("#", maxConfig+1): "larger than",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, said := run(same...)
		if code != exitUndecided || !strings.Contains(said, says) {
			t.Errorf("%.40q: %d: %s", content, code, said)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("version: 1\nnode: {gpus: \"8\"}\ndevices: {mlx5_0: {board: x}}\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = parseManifest(data) })
}
