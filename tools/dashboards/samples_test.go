// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// uncheckedSix are nodes whose checks are switched off, one more than findings names.
var uncheckedSix = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n0"} 1`, `gpufabric_node_info{cluster="c",job="e",instance="n1"} 1`,
	`gpufabric_node_info{cluster="c",job="e",instance="n2"} 1`, `gpufabric_node_info{cluster="c",job="e",instance="n3"} 1`,
	`gpufabric_node_info{cluster="c",job="e",instance="n4"} 1`, `gpufabric_node_info{cluster="c",job="e",instance="n5"} 1`,
}

// onTCP is a node with a job on TCP, and one on RDMA.
var onTCP = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
	`ALERTS{alertname="GpuFabricJobOnTcp",alertstate="firing",cluster="c",job="e",instance="n",severity="critical",training_job="slurm/7"} 1`,
	`ALERTS_FOR_STATE{alertname="GpuFabricJobOnTcp",cluster="c",job="e",instance="n",severity="critical",training_job="slurm/7"} 1700000000`,
	`gpufabric_job_info{cluster="c",job="e",instance="n",training_job="slurm/7",cause="rdma_disabled"} 1`,
	`gpufabric_job_info{cluster="c",job="e",instance="n",training_job="slurm/8"} 1`,
}

// unseenNode is a node with busy GPUs and traffic where no job is seen.
var unseenNode = []string{
	`instance:gpufabric_gpu_utilization_ratio:avg2m{cluster="c",job="e",instance="n"} 0.9`,
	`instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{cluster="c",job="e",instance="n"} 1e9`,
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
}

// manyRails is a node with two active ports of so many rails.
func manyRails(n int) []string {
	all := []string{`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `up{cluster="c",job="e",instance="n"} 1`}
	for i := range n {
		device := fmt.Sprintf("unknown_%d", i)
		switch i {
		case 7:
			device = "mlx5_7"
		case 9:
			device = "rdmap113s0"
		}
		all = append(all, fmt.Sprintf(`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device=%q,rail="%d"} 1`, device, i))
	}
	for _, device := range []string{"mlx5_7", "rdmap113s0"} {
		all = append(all, fmt.Sprintf(`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device=%q,port="1",state="active"} 1`, device))
	}
	return all
}

// halfCabled is a node of two training ports that needs one.
var halfCabled = []string{
	`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="active"} 0`,
	`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="down"} 1`,
	`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1",role="compute"} 1`,
	`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_0",port="1",state="active"} 1`,
	`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_0",port="1",role="compute"} 1`,
	`gpufabric_node_compute_ports_expected{cluster="c",job="e",instance="n"} 1`,
}

// TestShows uses a real Prometheus engine. Series of one value keep it.
func TestShows(t *testing.T) {
	promtool, err := exec.Command("../../alerts/promtool.sh").Output()
	if err != nil {
		t.Skipf("no promtool: %s", promtool)
	}
	all, _ := shipped(t)
	var tests []map[string]any
	for _, c := range slices.Concat(shows, portShows, oncallShows, pingShows) {
		var series []map[string]string
		for _, s := range c.series {
			name, values, _ := strings.Cut(strings.ReplaceAll(s, "} ", "}\x00"), "\x00")
			if !strings.Contains(values, "x") {
				values += "x40"
			}
			series = append(series, map[string]string{"series": name, "values": values})
			if strings.HasPrefix(name, "gpufabric_check_failed{") && !strings.HasPrefix(values, "0") { // as other rules record it
				series = append(series, map[string]string{"series": "check:" + strings.Replace(name, "failed{", "failed:since_timestamp_seconds{", 1), "values": values},
					map[string]string{"series": "check:" + strings.Replace(name, "failed{", "failed:latched{", 1), "values": values})
			}
		}
		expr := everything.Replace(exprOf(t, all, c.panel, c.ref))
		if c.by != "" {
			expr = "max by (" + c.by + ") (" + expr + ")"
		}
		samples := []map[string]any{}
		for s := range strings.SplitSeq(c.want, " | ") {
			if labels, value, ok := strings.Cut(strings.ReplaceAll(s, "} ", "}\x00"), "\x00"); ok {
				samples = append(samples, map[string]any{"labels": labels, "value": json.RawMessage(value)})
			}
		}
		tests = append(tests, map[string]any{
			"name": c.name, "interval": "15s", "input_series": series,
			"promql_expr_test": []map[string]any{{"expr": expr, "eval_time": "5m15s", "exp_samples": samples}},
		})
	}
	rules := filepath.Join(t.TempDir(), "findings.yml")
	if err := os.WriteFile(rules, findingRules(t), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "15s", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shows.yml") // JSON is YAML
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(strings.TrimSpace(string(promtool)), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// exprOf is a query of a panel.
func exprOf(t *testing.T, all []model, panel, ref string) string {
	t.Helper()
	for _, m := range all {
		for _, p := range m.flat() {
			for _, q := range p.Targets {
				if m.name+"/"+p.Title == panel && q.RefID == ref {
					return q.Expr
				}
			}
		}
	}
	t.Fatal(fmt.Errorf("no query %s of %s", ref, panel))
	return ""
}

// findingRules are the rules that record findings. Cases have samples of what other rules record.
func findingRules(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../alerts/dashboards.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, group, found := strings.Cut(string(text), "\n  - name: gpufabric-findings\n")
	if !found {
		t.Fatal("no group gpufabric-findings")
	}
	return []byte("groups:\n  - name: gpufabric-findings\n" + group)
}

// renumbered is a node that lacks mlx5_2: its exporter counts mlx5_3 as rail 2, and the GPU of mlx5_2 has the next
// NIC. The rail of mlx5_1 is not recorded yet.
var renumbered = []string{
	`gpufabric_gpu_nic_distance{cluster="c",job="e",instance="n",pci_address="0000:1b:00.0",device="mlx5_1",rail="1",class="NODE"} 4`,
	`gpufabric_gpu_nic_distance{cluster="c",job="e",instance="n",pci_address="0000:2b:00.0",device="mlx5_3",rail="2",class="PIX"} 1`,
	`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_2",rail="2"} 1`,
	`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_3",rail="3"} 1`,
}
