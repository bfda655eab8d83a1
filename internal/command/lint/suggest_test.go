// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// suggestions returns what is suggested, and tests that lint finds no fault with it in any format.
func suggestions(t *testing.T, version lint.Version, node *fabric.Node) []string {
	t.Helper()
	list := lint.Suggest(nil, version, node)
	var lines []string
	valuesIn := func(format lint.Format) (lines []string) {
		for _, s := range list {
			if value := s.ValueIn(format); value != "" {
				lines = append(lines, s.Name+"="+value)
			}
		}
		return lines
	}
	for _, s := range list {
		lines = append(lines, s.Name+"="+s.Value)
		if s.Reason == "" || s.Source == "" {
			t.Errorf("%+v: no reason or no source", s)
		}
	}
	for _, format := range lint.Formats()[1:] {
		var b bytes.Buffer
		if err := lint.WriteSuggestions(&b, list, format); err != nil {
			t.Fatal(err)
		}
		in, err := lint.Parse("suggested", b.Bytes(), format)
		if err != nil {
			t.Fatal(err)
		}
		r := lint.Judge([]lint.Input{in}, version, node)
		var read []string
		for _, l := range r.Lines {
			read = append(read, l.Name+"="+l.Value)
			for _, f := range l.Findings {
				if f.Verdict == lint.Undecided && l.Name == "NCCL_NET" {
					continue // a plugin, which only the place of the job has
				}
				if f.Severity.AtLeast(verdict.Warning) || f.Verdict != lint.Works && f.Verdict != lint.Foreign {
					t.Errorf("NCCL %s as %s: %s=%s: %+v", version, format, l.Name, l.Value, f)
				}
			}
		}
		if want := valuesIn(format); !slices.Equal(read, want) {
			t.Errorf("NCCL %s as %s: %q is read of %q:\n%s", version, format, read, want, &b)
		}
	}
	return lines
}

// Lint finds no fault with what it suggests, for each release and each simulated node.
func TestSuggestionsAreClean(t *testing.T) {
	commandtest.Memory(t)
	var versions []lint.Version
	for _, s := range []string{"2.4.8", "2.10.3", "2.18.1", "2.21.5", "2.24", "2.27.7", "2.28.3", "2.29.2", "2.29.3", lint.Newest().String()} {
		v, err := fabric.ParseNCCLVersion(s)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	network := map[string]string{}
	want := map[string]string{
		"healthy": "NCCL_NET=IB", "healthy-ib": "NCCL_NET=IB", "healthy-oci-h100": "NCCL_NET=IB", "healthy-efa": "NCCL_NET=AWS Libfabric", "healthy-mana": "NCCL_NET=",
		"no-rdma": "NCCL_NET=", "nccl-rdma-off": "NCCL_DEBUG=WARN", // the node says so itself
	}
	kinds := simulatortest.Kinds(func(s simulator.Scenario) []string {
		if want[s.Name] != "" {
			return []string{s.Name}
		}
		return simulatortest.Layout(s)
	})
	for _, scenario := range kinds {
		node, _, err := new(site.Site).ObserveOnce(t.Context(), &scenario, collector.CheckWants(), 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			lines := suggestions(t, v, node)
			if v.String() == lint.Newest().String() && len(lines) > 0 {
				network[scenario.Name] = lines[0]
			}
			if t.Failed() {
				t.Fatalf("scenario %s", scenario.Name)
			}
		}
	}
	for scenario, want := range want {
		if network[scenario] != want {
			t.Errorf("%s: %s, want %s", scenario, network[scenario], want)
		}
	}
	for _, v := range versions {
		suggestions(t, v, nil)
	}
}

// inspectorReads are the variables that the plugin reads (getenv in inspector.cc of the tags), by the release
// that has them first.
var inspectorReads = map[string]string{
	"NCCL_INSPECTOR_ENABLE": "2.28.3", "NCCL_INSPECTOR_DUMP_THREAD_ENABLE": "2.28.3", "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "2.28.3",
	"NCCL_INSPECTOR_DUMP_DIR": "2.28.3", "NCCL_INSPECTOR_DUMP_VERBOSE": "2.28.3", "NCCL_INSPECTOR_PROM_DUMP": "2.29.3",
}

// What switches Inspector on is what the plugin of the release reads, and the document has the same.
func TestSuggestInspector(t *testing.T) {
	document, err := os.ReadFile("../../../docs/JOBS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []string{"2.28.3", "2.29.2", "2.29.3", "2.29.7", "2.30.3", "2.30.7"} {
		version, err := fabric.ParseNCCLVersion(release)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, s := range lint.Suggest(nil, version, nil) {
			if s.Name != "NCCL_PROFILER_PLUGIN" && !strings.HasPrefix(s.Name, "NCCL_INSPECTOR_") {
				continue
			}
			found[s.Name] = true
			if first, known := inspectorReads[s.Name]; s.Name != "NCCL_PROFILER_PLUGIN" && (!known || !version.AtLeast(first)) {
				t.Errorf("the plugin of NCCL %s does not read %s", release, s.Name)
			}
			shell, manifest := "export "+s.Name+"="+s.ValueIn(lint.FormatShell), "name: "+s.Name+", value: "+s.ValueIn(lint.FormatManifest)
			if s.Name == "NCCL_PROFILER_PLUGIN" { // the document has a path
				shell, manifest = "export "+s.Name+"=/opt/nccl/lib/"+s.Value, "name: "+s.Name+", value: /opt/nccl/lib/"+s.Value
			}
			for _, line := range []string{shell, manifest} {
				if !strings.Contains(strings.ReplaceAll(string(document), `value: "`, "value: "), line) {
					t.Errorf("docs/JOBS.md lacks %s", line)
				}
			}
		}
		want := 4
		if version.AtLeast("2.29.3") {
			want++
		}
		if len(found) != want {
			t.Errorf("NCCL %s: %v, %d expected", release, found, want)
		}
	}
	_, stdout, _ := commandtest.Run(t, new(site.Site), New, "--suggest=manifest", "--nccl-version=2.30.7")
	commandtest.Contains(t, stdout, "subPathExpr: $(POD_UID)", "  - name: POD_UID\n    valueFrom: {fieldRef: {fieldPath: metadata.uid}}\n  - name: NCCL_INSPECTOR_DUMP_DIR\n    value: \"/run/nccl_inspector\"\n")
}

func TestSuggest(t *testing.T) {
	_, stdout, _ := lintJob(t, "job.sh", "export NCCL_DEBUG=INFO NCCL_PROFILER_PLUGIN=x\n", "--suggest=shell", "--scenario=healthy-efa")
	commandtest.Contains(t, stdout, "# Source: src/nccl_ofi_interface_nvidia.cpp of aws-ofi-nccl 1.19.2\nexport NCCL_NET=\"AWS Libfabric\"\n", "export NCCL_DEBUG_FILE=/var/log/nccl/%h.%p.log\n")
	for _, already := range []string{"NCCL_DEBUG=", "NCCL_PROFILER_PLUGIN", "INSPECTOR"} {
		if strings.Contains(stdout, already) {
			t.Errorf("%s is suggested to a job that has it:\n%s", already, stdout)
		}
	}
	for release, want := range map[string]string{"2.27.7": "0 0", "2.28.3": "1 0", "2.29.3": "1 1"} {
		code, stdout, stderr := commandtest.Run(t, new(site.Site), New, "--suggest=manifest", "--nccl-version="+release)
		if got := fmt.Sprint(strings.Count(stdout, "name: NCCL_INSPECTOR_ENABLE"), strings.Count(stdout, "name: NCCL_INSPECTOR_PROM_DUMP")); code != exitFine || stderr != "" || got != want {
			t.Errorf("NCCL %s: exit code %d, Inspector and its metrics %s, want %s: %s%s", release, code, got, want, stdout, stderr)
		}
		commandtest.Contains(t, stdout, "NCCL_NET=IB for InfiniBand and RoCE", "  - name: NCCL_DEBUG\n    value: \"WARN\"\n")
	}
}
