// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// The text, the JSON and the explanation of check name the runbooks of the site.
func TestCheckNamesRunbooksOfTheSite(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"sys/class/infiniband", "proc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const want = "https://wiki.example/gpu/check-node.md#compute_ports"
	conf := "--config.file=" + commandtest.ConfigFile(t, "expected: {compute_ports: 8}\nlinks: {runbooks: https://wiki.example/gpu}")
	node := []string{"--path.sysfs=" + dir + "/sys", "--path.procfs=" + dir + "/proc", "--path.rootfs=" + dir, "--only=compute_ports", conf}
	_, out, errs := checked(t, node...)
	commandtest.Contains(t, out+errs, "Runbook: "+want+"\n")
	_, out, _ = checked(t, append(node, "--output=json")...)
	commandtest.Contains(t, out, `"runbook": "`+want+`"`)
	_, out, _ = checked(t, "--explain=compute_ports", conf)
	commandtest.Contains(t, out, want)
	_, out, _ = checked(t, "--explain=compute_ports")
	commandtest.Contains(t, out, alerts.RunbookBase+"check-node.md#compute_ports")
}

func TestJSONNamesRunbooks(t *testing.T) {
	var b bytes.Buffer
	list := []verdict.Verdict{{Check: diagnose.Find("port_active"), Status: verdict.Failed}}
	if err := new(checking).writeJSON(&b, &fabric.Node{Policy: &fabric.Policy{}}, config.Config{Links: config.Links{Runbooks: "/runbooks"}}, list, ""); err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, b.String(), `"runbook": "/runbooks/check-ports.md"`)
}
