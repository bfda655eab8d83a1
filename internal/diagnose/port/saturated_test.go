// SPDX-License-Identifier: Apache-2.0

package port_test

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// TestSaturatedCounters: registers of one port end at different values (PortCounters of the InfiniBand specification,
// 16.1.3.5), so each counter is reported with its own.
func TestSaturatedCounters(t *testing.T) {
	at := time.Unix(0, 0)
	judge := func(values map[string]uint64) verdict.Verdict {
		n := diagnosetest.WithDevices("")
		p := &n.HCAs[0].Ports[0]
		n.HCAs[0].Driver = fabric.Known("mlx5_core", "", at)
		p.Role, p.State = fabric.Known(fabric.RoleCompute, "", at), fabric.Known(fabric.PortActive, "", at)
		var list []fabric.Counter
		for _, name := range []string{"symbol_error", "link_downed", "port_rcv_errors"} {
			list = append(list, fabric.Counter{Name: name, Value: fabric.Known(values[name], "", at)})
		}
		p.Counters.PMA = fabric.Known(list, "", at)
		for _, v := range diagnosetest.Ask(n, "counter_counts") {
			if v.Subject.Device == n.HCAs[0].Name {
				return v
			}
		}
		t.Fatal("no verdict")
		return verdict.Verdict{}
	}
	if v := judge(map[string]uint64{"symbol_error": 65534, "link_downed": 254}); v.Status != verdict.OK {
		t.Errorf("counters below their maximum: %+v", v)
	}
	one := judge(map[string]uint64{"link_downed": 255, "port_rcv_errors": 7})
	if one.Status != verdict.Failed || one.What != "The counter link_downed has reached its maximum" || !strings.Contains(one.Evidence, "link_downed is at 255") {
		t.Errorf("one counter: %+v", one)
	}
	two := judge(map[string]uint64{"symbol_error": 65535, "link_downed": 255})
	if two.Status != verdict.Failed || two.What != "The counters symbol_error, link_downed have reached their maximum" ||
		!strings.Contains(two.Evidence, "symbol_error is at 65535, link_downed is at 255") {
		t.Errorf("two counters: %+v", two)
	}
}
