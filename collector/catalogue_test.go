// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares got with a file, or writes the file under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: make generate writes it", err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s differs from line %d on (make generate)\n got: %s\nwant: %s", path, i+1, at(g, i), at(w, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

func TestMetricsDocument(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDocument(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "../docs/METRICS.md", b.Bytes())
}

func TestCatalogue(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	names := map[string]bool{}
	known := []string{""}
	off := map[string]bool{} // collectors that are off by default
	for _, c := range Collectors() {
		known = append(known, c.Name)
		off[c.Name] = !c.Default
	}
	for _, f := range Catalogue() {
		where := rowFile(t, f) + ": " + f.Name
		switch {
		case !name.MatchString(f.Name) || names[f.Name]:
			t.Errorf("%s: not a snake_case name, or there twice", where)
		case strings.HasPrefix(f.Name, Prefix):
			t.Errorf("%s: the prefix is added by FullName", where)
		case (f.Type == Counter) != strings.HasSuffix(f.Name, "_total"):
			t.Errorf("%s: counters end in _total, nothing else does", where)
		case (f.Type == Info) != strings.HasSuffix(f.Name, "_info"):
			t.Errorf("%s: infos end in _info, nothing else does", where)
		case f.Unit != "" && !strings.HasSuffix(strings.TrimSuffix(f.Name, "_total"), "_"+f.Unit):
			t.Errorf("%s: does not end in its unit %s", where, f.Unit)
		case f.Type == StateSet && (len(f.Labels) == 0 || !slices.Contains([]string{"state", "mode", "transport"}, f.Labels[len(f.Labels)-1])):
			t.Errorf("%s: the last label of a state set is state, mode or transport", where)
		case len(f.Help) < 20 || !strings.HasSuffix(f.Help, "."):
			t.Errorf("%s: the help must be a sentence: %q", where, f.Help)
		case f.Subsystem().Name == "":
			t.Errorf("%s: begins with no subsystem: begin it with one of Subsystems() in collector/names.go", where)
		case slices.ContainsFunc([]string{"job", "instance", "gpu"}, func(l string) bool { return slices.Contains(f.Labels, l) }):
			t.Errorf("%s: has labels %q; job and instance belong to Prometheus, a GPU has a uuid or a pci_address", where, f.Labels)
		case slices.Contains(f.Labels, trainingJob) && slices.Min(f.Labels) == trainingJob && f.Collector != "job": // that always has one
			t.Errorf("%s: %s may be left out and must not be the first label by name", where, trainingJob)
		case f.Stability != Experimental && (slices.Contains(f.Labels, "statistic") || slices.Contains(f.Labels, "parameter") || off[f.Collector]):
			t.Errorf("%s: is %s and shows names that drivers choose, or is off by default", where, f.Stability)
		case f.Source == "" || f.Cadence == "" || f.Stability == "":
			t.Errorf("%s: has no Source, Cadence or Stability: add it to the row", where)
		case !slices.Contains(known, f.Collector):
			t.Errorf("%s: no collector %q", where, f.Collector)
		}
		names[f.Name] = true
	}
}
