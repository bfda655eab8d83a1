// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// An unchanged node passes; what changed is reported by name, and what cannot be read now is no drift.
func TestManifest(t *testing.T) {
	file := filepath.Join(commandtest.Memory(t), "manifest.yml")
	run := func(args ...string) (int, string) {
		code, out, errs := commandtest.Run(t, new(site.Site), New, args...)
		return code, out + errs
	}
	if code, said := run("--scenario=healthy", "--write-manifest="+file); code != exitChecked {
		t.Fatalf("%d: %s", code, said)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, string(data), "version: 1", "mlx5_0:", "port_1_rate: 400 Gb/s", "GPU0:", "gpus: \"8\"", "memlock_slurmd: any amount, at most any amount",
		"port_1_dscp_applications: 0-7:0 8-15:1", "port_1_ecn_notify: 0,1,2", "port_1_ecn_react: 0,1,2", "port_1_buffer_of_priority: 0-2:0 3:1 4-7:0",
		"port_1_buffer_bytes: 0:", "port_1_class_bandwidth: ", "port_1_cnp_dscp: \"48\"", "port_1_global_pause: rx false, tx false", "port_1_pfc_of_enp41s0f0np0: ")
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || len(left) > 0 {
		t.Errorf("leaves %v beside it: %v", left, err)
	}
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
	commandtest.Contains(t, said, "Changed since the manifest: port 1 rate", "Port 1 rate is 400 Gb/s, the manifest has 200 Gb/s.", "mlx5_99: The manifest lists it, but the node does not have it")
	// Each setting of a class that changed is reported by name, and nothing else.
	if code, said := run("--scenario=healthy", "--write-manifest="+file); code != exitChecked {
		t.Fatalf("%d: %s", code, said)
	}
	for scenario, says := range map[string][]string{
		"pfc-off":               {"mlx5_2: Changed since the manifest: port 1 buffer bytes, port 1 buffer of priority, port 1 pfc\n", "; port 1 pfc is 0x00, the manifest has 0x08."},
		"dscp-map-wrong":        {"mlx5_6: Changed since the manifest: port 1 dscp applications\n", "24-25:3 26:2 27-31:3 32-39:4", ", the manifest has 0-7:0 8-15:1 16-23:2 24-31:3 "},
		"ecn-np-off":            {"mlx5_1: Changed since the manifest: port 1 ecn notify\n"},
		"buffer-shared":         {"mlx5_6: Changed since the manifest: port 1 buffer bytes, port 1 buffer of priority\n"},
		"ets-starved":           {"mlx5_1: Changed since the manifest: port 1 class bandwidth\n"},
		"memlock-of-containers": {"node: Changed since the manifest: memlock slurmd\n"},
	} {
		code, said := run("--scenario="+scenario, "--only=manifest", "--manifest="+file)
		if code != exitFailed {
			t.Errorf("%s: %d: %s", scenario, code, said)
		}
		commandtest.Contains(t, said, append(says, "1 failed, 0 unknown")...)
	}
	for content, says := range map[string]string{
		"version: 2\n": "version 2, expected 1", "version: 1\nother: 3\n": "field other not found", "": "expected a manifest",
		"version: 1\n---\nversion: 1\n": "more than one document", "[": "expected a manifest", strings.Repeat("#", 1<<20+1): "longer than",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, said := run(same...)
		if code != exitUnchecked || !strings.Contains(said, says) {
			t.Errorf("%.40q: %d: %s", content, code, said)
		}
	}
}

// TestDriftIsOneVerdict: a setting that is not what the manifest says fails one check of the device, also for
// the exporter.
func TestDriftIsOneVerdict(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	n := simulatortest.Watch(t, s, 0)[0]
	m := node.NewManifest(n)
	m.Devices["mlx5_3"]["firmware"] = "28.0.0"
	failed := verdict.Failures(diagnose.Run(withManifest(n, m), nil))
	if len(failed) != 1 || failed[0].Check.ID != "manifest" || failed[0].Subject.Device != "mlx5_3" || failed[0].What != "Changed since the manifest: firmware" {
		t.Errorf("got %+v", failed)
	}
}
