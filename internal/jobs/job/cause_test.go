// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// A job that names no device of the node has its own cause; one that names a device that is excluded or elsewhere has not.
func TestCauseNotNamed(t *testing.T) {
	for _, c := range []struct {
		hca  string
		edit func(n *fabric.Node)
		want Cause
	}{
		{"mlx5_7", nil, CauseNotNamed},
		{"=mlx5", nil, CauseNotNamed},
		{"mlx5_0:2", nil, CauseNotNamed},
		{"^mlx5", nil, CauseNotNamed},
		{"eth0", nil, CauseNotNamed}, // an interface is no device
		{"mlx5_0:1", nil, CauseNone},
		{"mlx5_7,mlx5", nil, CauseNone},
		{"", nil, CauseNone},
		{"mlx5_7", func(n *fabric.Node) { n.Excluded = []string{"mlx5_7"} }, CauseNone},
		{"mlx5_7", func(n *fabric.Node) { n.HCAs[0].Moved = true }, CauseNone},
		{"mlx5_7", func(n *fabric.Node) { n.Ranks.Value[0].Settings.Value[0].Masked = true }, CauseNone},
		{"mlx5_7", func(n *fabric.Node) { n.Ranks.Value[0].Maps.Value.Verbs = false }, CauseNoLibrary},
	} {
		var tr Tracker
		var last Job
		for i := range 3 {
			r := rankOf(100, uint64(i)*5e9, uint64(i)*5e9)
			r.Settings.Value = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: c.hca}}
			n := nodeOf(epoch.Add(time.Duration(i)*10*time.Second), r)
			n.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Number: 1, Counters: fabric.PortCounters{
				PMA: fabric.Known([]fabric.Counter{{Name: "port_xmit_data", Value: fabric.Known(uint64(1), "", epoch)}}, "", epoch),
			}}}}}
			if c.edit != nil {
				c.edit(n)
			}
			last = tr.Update(n).List[0]
		}
		if last.Verdict.Transport != TCP || last.Verdict.Cause != c.want {
			t.Errorf("%s: %s %q, expected tcp %q", c.hca, last.Verdict.Transport, last.Verdict.Cause, c.want)
		}
	}
}
