// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// hostileValues are values that shells, YAML or Kubernetes would take for more than text, each of which lint
// writes as it is.
var hostileValues = []string{
	"=mlx5_0:1,mlx5_1:1", "^=mlx5_0", "~root", "AWS Libfabric", "$(touch x)", "`touch x`", "$HOME ${HOME}", "a'b", `a"b`, `a\b`, `'"$(touch x)`, "!!", "a;touch x", "a&touch x",
	"a|b", "a#b", "# c", "*", "{a,b}", "<(touch x)", "- a", ": b", "{{ .Values }}", "%h.%p", "é ü", "&anchor", "null", "0x10", "1e3", "yes", "$(HOME)$$",
}

// unwritable are values that some format cannot have, of which none is written.
var unwritable = []string{"a\nexport EVIL=1", "a\rb", "a\x00b", "\x1b[2J", "a\u2028EVIL: 1", "\xff", "\u200b"}

func hostileSuggestions() []Suggestion {
	var list []Suggestion
	for _, v := range append(append([]string{}, hostileValues...), unwritable...) {
		list = append(list, Suggestion{Name: "NCCL_X", Value: v, Reason: "of\nexport EVIL=1 \u2028- name: EVIL\r\x85EVIL=1 " + v, Source: "at\nEVIL=1"})
	}
	return append(list, Suggestion{Name: "NCCL_X=1; touch x; A", Value: "1", Reason: "r"}, Suggestion{Name: "NCCL_X+", Value: "1", Reason: "r"})
}

func written(t *testing.T, format Format, list ...Suggestion) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSuggestions(&b, list, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Real shells read each value as it is, run nothing, and set nothing else.
func TestShellsReadSuggestions(t *testing.T) {
	found := 0
	for _, shell := range []string{"sh", "bash", "dash", "zsh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		found++
		dir := t.TempDir()
		for _, v := range hostileValues {
			script := written(t, FormatShell, Suggestion{Name: "NCCL_X", Value: v, Reason: "of $(touch x)", Source: "`touch x`"}) + "\nprintf %s \"$NCCL_X\"\n"
			if got := output(t, dir, path, script); got != v {
				t.Errorf("%s reads %q of %q:\n%s", shell, got, v, script)
			}
		}
		if got := output(t, dir, path, written(t, FormatShell, hostileSuggestions()...)+"\nprintf %s \"$EVIL\"\n"); got != "" {
			t.Errorf("%s: EVIL=%q is set", shell, got)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 { // the script
			t.Errorf("%s leaves %q: %v", shell, left, err)
		}
	}
	if found == 0 {
		t.Skip("there is no shell here")
	}
}

func output(t *testing.T, dir, shell, script string) string {
	t.Helper()
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), shell, file)
	cmd.Dir, cmd.Env = dir, []string{"HOME=/nowhere", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v:\n%s", shell, err, script)
	}
	return string(out)
}

// A YAML parser reads each value as Kubernetes has to get it, and nothing else.
func TestManifestHasSuggestions(t *testing.T) {
	text := written(t, FormatManifest, hostileSuggestions()...)
	var read struct {
		Env []struct{ Name, Value string }
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&read); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if len(read.Env) != len(hostileValues) {
		t.Fatalf("%d settings, want %d:\n%s", len(read.Env), len(hostileValues), text)
	}
	for i, e := range read.Env {
		if got := strings.ReplaceAll(e.Value, "$$(", "$("); e.Name != "NCCL_X" || got != hostileValues[i] || strings.Contains(strings.ReplaceAll(e.Value, "$$(", ""), "$(") {
			t.Errorf("%s=%q, want %q", e.Name, e.Value, hostileValues[i])
		}
	}
}

// An nccl.conf has each value in a line of its own, and no other setting.
func TestConfHasSuggestions(t *testing.T) {
	var got []string
	for line := range strings.Lines(written(t, FormatConf, hostileSuggestions()...)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			got = append(got, strings.TrimPrefix(line, "NCCL_X="))
		}
	}
	if strings.Join(got, "\n") != strings.Join(hostileValues, "\n") {
		t.Errorf("%q, want %q", got, hostileValues)
	}
}
