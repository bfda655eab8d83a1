// SPDX-License-Identifier: Apache-2.0

// Package stability compares the names that users depend on with the promises of docs/SUPPORT.md: testdata/promises.txt
// has a line for each, and none of them disappears or changes before the next major version.
package stability

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/program"
)

var update = flag.Bool("update", false, "add what is new to testdata/promises.txt")

const (
	root     = "../.."
	promises = "testdata/promises.txt"
)

// TestPromises compares the names of this tree with the promises. -update adds what is new, and never removes
// or changes a line.
func TestPromises(t *testing.T) {
	now := names(t)
	text, err := os.ReadFile(promises)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, line := range lines {
		if n := name(line); now[n] != line {
			t.Errorf("promised: %s\nnow:      %s\nThis stays the same until the next major version (docs/SUPPORT.md): keep it, and deprecate it if something new replaces it. "+
				"At a major version, change the line in test/stability/%s and add the old name to CHANGELOG.md.", line, cmp.Or(now[n], "not there, or not stable"), promises)
		}
		delete(now, name(line))
	}
	for _, line := range slices.Sorted(maps.Values(now)) {
		if lines = append(lines, line); !*update {
			t.Errorf("new, and not promised yet: %s: make docs adds it to test/stability/%s", line, promises)
		}
	}
	if *update && !t.Failed() {
		slices.Sort(lines)
		if err := os.WriteFile(promises, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// name is the subject of a line: its kind and name, without the properties after a colon.
func name(line string) string {
	before, _, _ := strings.Cut(line, ": ")
	return before
}

// names are the lines that hold for this tree, by name.
func names(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(kind, name, properties string) {
		line := kind + " " + name
		if properties != "" {
			line += ": " + properties
		}
		all[kind+" "+name] = line
	}
	for _, f := range collector.Catalogue() {
		if f.Stability == collector.Stable {
			add("metric", f.FullName(), strings.TrimSpace(string(f.Type)+" "+cmp.Or(f.Unit, "-")+" "+strings.Join(f.Labels, ",")))
		}
	}
	for _, c := range diagnose.Catalogue() {
		add("check", c.ID, "")
	}
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				add("alert", r.Alert, "")
			}
		}
	}
	for _, uid := range dashboards(t) {
		add("dashboard", uid, "")
	}
	for _, k := range keys(t) {
		add("key", k, "")
	}
	for _, f := range flags(t) {
		add("flag", f, "")
	}
	for field, kind := range jsonFields(t) {
		add("json", field, kind)
	}
	for _, v := range chartValues(t) {
		add("value", v, "")
	}
	return all
}

func dashboards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(root + "/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: no dashboards", err)
	}
	var all []string
	for _, f := range files {
		var d struct{ UID string }
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &d); err != nil || d.UID == "" {
			t.Fatalf("%s: %v, uid %q", f, err, d.UID)
		}
		all = append(all, d.UID)
	}
	return all
}

// chartValues are the keys of the chart; of what Kubernetes defines, the outermost.
func chartValues(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	var all []string
	var walk func(prefix string, values map[string]any)
	walk = func(prefix string, values map[string]any) {
		for k, v := range values {
			all = append(all, prefix+k)
			if nested, ok := v.(map[string]any); ok && prefix+k != "updateStrategy" {
				walk(prefix+k+".", nested)
			}
		}
	}
	walk("", values)
	if len(all) < 30 {
		t.Fatalf("values.yaml has the keys %q", all)
	}
	return all
}

var key = regexp.MustCompile("(?m)^\\| `([a-z][a-z_.\\[\\]]*)` \\|")

// keys are those of the configuration, whose document is written from the parser.
func keys(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("\n## Keys\n"))
	var all []string
	for _, m := range key.FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	if len(all) < 20 {
		t.Fatalf("docs/CONFIGURATION.md has the keys %q", all)
	}
	return all
}

var (
	option = regexp.MustCompile(`^(?:-\w, )?--(?:\[no-\])?([a-z0-9._-]+)`)
	roff   = strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-")
)

// flags are the commands, and the flags with the command that they belong to, as the manual page has them.
func flags(t *testing.T) []string {
	t.Helper()
	var page bytes.Buffer
	line := program.New(&program.Options{})
	if code := line.Run(t.Context(), []string{"--help-man"}, &page, io.Discard); code != command.OK {
		t.Fatalf("--help-man ends with %d", code)
	}
	var all []string
	of := ""
	for l := range strings.Lines(page.String()) {
		l = roff.Replace(strings.TrimSuffix(l, "\n"))
		if c, ok := strings.CutPrefix(l, ".SS "); ok {
			of = c + " "
			all = append(all, c)
		} else if strings.HasPrefix(l, ".SH ") {
			of = ""
		} else if m := option.FindStringSubmatch(l); m != nil {
			all = append(all, of+"--"+m[1])
		}
	}
	if len(all) < 50 {
		t.Fatalf("the manual page has the flags %q", all)
	}
	return all
}

// A command line can be read by all users of the node: secrets are in files that it names.
func TestNoFlagTakesASecret(t *testing.T) {
	secret := regexp.MustCompile(`(?i)passw|secret|token|credential|api.?key|private.?key`)
	for _, f := range flags(t) {
		if secret.MatchString(f) && !strings.HasSuffix(f, "-file") {
			t.Errorf("%s: expected a flag that names a file", f)
		}
	}
}
