// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// TestNearestDegraded counts the time of a GPU as lost by its NIC only for what is known and stated: a port
// whose state is unread is not down, and one that is slower than others may be meant so.
func TestNearestDegraded(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(p *fabric.Port)
		want bool
	}{
		"as it should be": {func(*fabric.Port) {}, false},
		"down":            {func(p *fabric.Port) { p.State.Value = fabric.PortDown }, true},
		"init":            {func(p *fabric.Port) { p.State.Value = fabric.PortInit }, true},
		"state unread":    {func(p *fabric.Port) { p.State = fabric.UnknownFact[fabric.PortState](fabric.ReasonStuck, "", epoch) }, false},
		"slower than it was": {func(p *fabric.Port) {
			p.Rate.Value.BytesPerSecond, p.ExpectedRate.Value, p.RateBy = 25e9, 50e9, fabric.ByRecord
		}, true},
		"slower than others": {func(p *fabric.Port) {
			p.Rate.Value.BytesPerSecond, p.ExpectedRate.Value, p.RateBy = 25e9, 50e9, fabric.ByNobody
		}, false},
		"slower, and for storage": {func(p *fabric.Port) {
			p.Rate.Value.BytesPerSecond, p.RateBy, p.Role.Value = 25e9, fabric.ByRecord, fabric.RoleStorage
		}, false},
	} {
		n := fabrictest.WithBus()
		n.PCI.Rails = []fabric.Rail{{GPU: "0000:19:00.0", NIC: "mlx5_0"}}
		h := n.HCA("mlx5_0")
		n.NetDev(h.Ports[0].NetDev.Value).Speed = fabric.UnknownFact[float64](fabric.ReasonNotRead, "", epoch)
		c.edit(&h.Ports[0])
		if got := nearestDegraded(n, &fabric.GPU{Address: n.PCI.Rails[0].GPU}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
