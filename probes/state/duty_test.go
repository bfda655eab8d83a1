// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

func TestDutyIsKept(t *testing.T) {
	d := newDuty(0.001, 10*time.Second)
	d.Open([]string{"a"}, probestest.Origin)
	if w := d.Wait("a", 10*time.Second, probestest.Origin); w < 10000*time.Second || w > 10001*time.Second {
		t.Errorf("10 s are earned in %s, expected 10000 s", w)
	}
	at := probestest.Origin.Add(10000 * time.Second)
	d.Charge("a", 25*time.Second, at)
	if b := d.balance("a", at); b != -15*time.Second {
		t.Errorf("balance is %s, expected -15s", b)
	}
	if b := d.balance("a", at.Add(365*24*time.Hour)); b != d.ceiling || b != 30*time.Second {
		t.Errorf("balance after a year is %s, expected 30s", b)
	}
	if w := d.Wait("a", time.Hour, at.Add(365*24*time.Hour)); w != 0 {
		t.Errorf("what costs more than an account holds would wait for ever (%s)", w)
	}
	if b := d.balance("a", at.Add(-time.Hour)); b != -15*time.Second {
		t.Errorf("time that goes backwards changed the balance to %s", b)
	}
	for i := range 1000 {
		d.Open([]string{fmt.Sprint("gpu", i)}, at)
	}
	if len(d.GPUs) > probes.GPUsMost {
		t.Errorf("%d accounts, expected %d at most", len(d.GPUs), probes.GPUsMost)
	}
}
