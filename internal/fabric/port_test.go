// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"fmt"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// TestPortIsKnownOrNot has every question about a port answered for a state and a role that are known, and
// that are not.
func TestPortIsKnownOrNot(t *testing.T) {
	at := fabrictest.Healthy().At
	state := func(s fabric.PortState) fabric.Fact[fabric.PortState] { return fabric.Known(s, "", at) }
	unread := func(r fabric.Reason) fabric.Fact[fabric.PortState] {
		return fabric.UnknownFact[fabric.PortState](r, "", at)
	}
	for name, c := range map[string]struct {
		state         fabric.Fact[fabric.PortState]
		carries, down bool
	}{
		"active": {state(fabric.PortActive), true, false}, "down": {state(fabric.PortDown), false, true},
		"init": {state(fabric.PortInit), false, true}, "armed": {state(fabric.PortArmed), false, true},
		"given by no driver": {unread(fabric.ReasonDriverConstant), true, false}, "hangs": {unread(fabric.ReasonStuck), false, false},
		"in a pod": {unread(fabric.ReasonMoved), false, false}, "never read": {fabric.Fact[fabric.PortState]{}, false, false},
	} {
		n := fabrictest.Healthy()
		p := &n.HCAs[0].Ports[0]
		p.State = c.state
		var active []string
		for h := range n.ActiveCompute {
			active = append(active, h.Name)
		}
		want := map[bool]string{true: "[mlx5_0 mlx5_1]", false: "[mlx5_1]"}[c.carries]
		if p.Carries() != c.carries || p.Down() != c.down || fmt.Sprint(active) != want {
			t.Errorf("%s: carries %v, down %v, active %v", name, p.Carries(), p.Down(), active)
		}
	}
	for name, c := range map[string]struct {
		role                          fabric.Fact[fabric.Role]
		trains, mayTrain, mayBeUnused bool
	}{
		"compute": {fabric.Known(fabric.RoleCompute, "", at), true, true, false}, "storage": {fabric.Known(fabric.RoleStorage, "", at), false, false, false},
		"unknown": {fabric.UnknownFact[fabric.Role](fabric.ReasonNotRead, "", at), false, true, true},
	} {
		p := &fabric.Port{Role: c.role}
		if p.Serves(fabric.RoleCompute) != c.trains || p.MayServe(fabric.RoleCompute) != c.mayTrain || p.MayServe(fabric.RoleUnused) != c.mayBeUnused {
			t.Errorf("%s: %v, %v, %v", name, p.Serves(fabric.RoleCompute), p.MayServe(fabric.RoleCompute), p.MayServe(fabric.RoleUnused))
		}
	}
}

// TestRateIsStated tells who states a rate from who guesses: a number for a role is for no port whose role is a guess.
func TestRateIsStated(t *testing.T) {
	for _, c := range []struct {
		rate, role fabric.Authority
		want       bool
	}{
		{fabric.ByConfiguration, fabric.ByConfiguration, true},
		{fabric.ByConfiguration, fabric.ByNCCL, true},
		{fabric.ByConfiguration, fabric.ByNobody, false},
		{fabric.ByManifest, fabric.ByNobody, true},
		{fabric.ByRecord, fabric.ByNobody, true},
		{fabric.ByNobody, fabric.ByConfiguration, false},
	} {
		p := &fabric.Port{ExpectedRate: fabric.Known(50e9, "", fabrictest.Healthy().At), RateBy: c.rate, RoleBy: c.role}
		if p.RateStated() != c.want {
			t.Errorf("rate by %s, role by %s: %v", c.rate, c.role, p.RateStated())
		}
	}
	if (&fabric.Port{RateBy: fabric.ByRecord}).RateStated() {
		t.Error("a rate that is not known is stated")
	}
}

// TestNeverMetDoesNotBind judges by an expectation only once the node met it.
func TestNeverMetDoesNotBind(t *testing.T) {
	n := fabrictest.Healthy()
	n.Policy.ComputePorts, n.Policy.PortRates = new(3), map[fabric.Role]float64{fabric.RoleCompute: 100e9}
	n.DerivePorts()
	if b := n.Binding(); b != n {
		t.Error("all are met, and it is another node")
	}
	n.NeverMet = n.Policy.Expectations()
	b := n.Binding()
	if p := b.HCAs[0].Ports[0]; b.Policy.ComputePorts != nil || p.ExpectedRate.Or(0) != 50e9 || p.RateBy != fabric.ByRecord || len(b.NeverMet) > 0 {
		t.Errorf("%+v, %v by %s", b.Policy, p.ExpectedRate, p.RateBy)
	}
	if *n.Policy.ComputePorts != 3 || n.HCAs[0].Ports[0].ExpectedRate.Or(0) != 100e9 {
		t.Error("the node itself has changed")
	}
}
