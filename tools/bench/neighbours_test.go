// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/simulator"
)

const neighbours = "../../docs/NEIGHBOURS.md"

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(neighbours)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// samples are what a program serves of a simulated node: values by series.
func samples(t *testing.T, build []string, from string, args ...string) map[string]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), build[0], append(append(build[1:], "-o", binary), from)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, err := start(program{args: append([]string{binary}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			values[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return values
}

// What docs/NEIGHBOURS.md calls the same fact is the same number, by node_exporter and by this exporter on one node.
func TestSameFact(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: node_exporter is built")
	}
	scenario, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := scenario.Build().Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	received := count(t, tree)
	paths := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs()}
	theirs := samples(t, []string{"env", "CGO_ENABLED=0", "go", "build"}, "github.com/prometheus/node_exporter", append(paths, "--collector.disable-defaults", "--collector.infiniband", "--web.disable-exporter-metrics")...)
	ours := samples(t, []string{"go", "build", "-C", "../..", "-trimpath", "-buildmode=pie"}, ".", append(paths, "--path.rootfs="+tree.Rootfs())...)

	const bytes, state = "node_infiniband_port_data_received_bytes_total", "node_infiniband_state_id"
	text := document(t)
	for _, name := range []string{bytes, state, "gpufabric_hca_port_received_data_bytes_total", "gpufabric_hca_port_state"} {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name %s", neighbours, name)
		}
	}
	for series, value := range theirs {
		name, labels, _ := strings.Cut(series, "{")
		port := regexp.MustCompile(`^device="([^"]+)",port="([0-9]+)"}$`).FindStringSubmatch(labels)
		if port == nil {
			continue
		}
		of := `{device="` + port[1] + `",port="` + port[2] + `"`
		switch name {
		case bytes:
			got := ours["gpufabric_hca_port_received_data_bytes_total"+of+"}"]
			if want := received[port[1]+"/"+port[2]]; !is(value, want) || !is(got, want) {
				t.Errorf("%s is %s there, and %q here, want %d", series, value, got, want)
			}
			delete(received, port[1]+"/"+port[2])
		case state:
			if got := ours["gpufabric_hca_port_state"+of+`,state="active"}`]; (got == "1") != (value == "4") {
				t.Errorf("%s is %s there, and active %q here", series, value, got)
			}
		}
	}
	if len(received) > 0 {
		t.Errorf("node_exporter does not show %v: %v", received, theirs)
	}
}

// count has each port of a node count another number of words, and returns how many bytes they are.
func count(t *testing.T, tree *simulator.Tree) map[string]int {
	t.Helper()
	const folder = "class/infiniband"
	files, err := filepath.Glob(filepath.Join(tree.Sysfs(), folder, "*/ports/*/counters/port_rcv_data"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%v: %d ports count", err, len(files))
	}
	bytes := map[string]int{}
	for i, file := range files {
		words := 1<<40 + 1000*i
		path, err := filepath.Rel(filepath.Dir(tree.Sysfs()), file)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Set(path, strconv.Itoa(words)+"\n"); err != nil {
			t.Fatal(err)
		}
		of := strings.Split(path, "/") // sys/class/infiniband/DEVICE/ports/PORT/...
		bytes[of[3]+"/"+of[5]] = 4 * words
	}
	return bytes
}

// is reports whether a sample has this value.
func is(sample string, value int) bool {
	v, err := strconv.ParseFloat(sample, 64)
	return err == nil && v == float64(value)
}

// The query that joins GPUs with dcgm-exporter's gives its values with the labels of both.
func TestJoin(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes half a minute")
	}
	query := regexp.MustCompile(`\n    (gpufabric_gpu_info .*)\n`).FindStringSubmatch(document(t))
	if query == nil {
		t.Fatalf("%s has no query", neighbours)
	}
	out, err := exec.CommandContext(t.Context(), "../../alerts/promtool.sh").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(string(out))
	} else if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "join.yml")
	const test = `
tests:
  - interval: 15s
    input_series:
      - {series: 'gpufabric_gpu_info{cluster="c",instance="n1",job="gpufabric",gpu="0",uuid="GPU-1"}', values: 1}
      - {series: 'gpufabric_gpu_info{cluster="c",instance="n1",job="gpufabric",gpu="1",uuid="GPU-2"}', values: 1}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{cluster="c",instance="n1:9400",job="dcgm",gpu="0",UUID="GPU-1",pod="train"}', values: 61}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{cluster="c",instance="n1:9400",job="dcgm",gpu="1",UUID="GPU-2"}', values: 62}
    promql_expr_test:
      - expr: QUERY
        eval_time: 0s
        exp_samples:
          - {labels: '{cluster="c",instance="n1:9400",job="dcgm",gpu="0",UUID="GPU-1",uuid="GPU-1",pod="train"}', value: 61}
          - {labels: '{cluster="c",instance="n1:9400",job="dcgm",gpu="1",UUID="GPU-2",uuid="GPU-2"}', value: 62}
`
	if err := os.WriteFile(file, []byte(strings.Replace(test, "QUERY", "'"+query[1]+"'", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(out)), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}
