// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/status"
)

// What the node should have and lacks is drawn, and leads to the finding about it.
func TestMissing(t *testing.T) {
	d := &status.Document{Findings: []status.Finding{{ID: "finding-0", Check: "compute_ports", Severity: "critical"}}}
	d.Node.Missing = []string{"mlx5_5", "mlx5_6", "<script>"}
	got := string(Missing(d))
	for _, want := range []string{`href="#finding-0"`, ">mlx5_5<", ">mlx5_6<", "&lt;script&gt;", ">missing<", "part failed", ">✕<"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s:\n%s", want, got)
		}
	}
	d.Node.Missing = make([]string, 2*maxRows)
	if n := strings.Count(string(Missing(d)), "<a "); n != maxRows {
		t.Errorf("%d boxes, want %d", n, maxRows)
	}
}
